#!/bin/sh
# docs/results/delays.svg from the records in docs/results: what delay and rounds cost, against epochs, bytes and seconds over a link.
#   bench/delays_picture.sh [OUT.svg]      needs matplotlib and tiny Shakespeare (TELEGRAD_DATA or data/)
# Seconds: 43 ms a step for computing, which is what a core of an AMD Zen 4 takes in bf16, and none for coding.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
results=$here/../docs/results
link=20mbit,20ms
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

files() { # prefix, ending, rows: names with commas between
    prefix=$1 ending=$2 list=
    shift 2
    for row; do list=$list,$prefix$row$ending; done
    echo "${list#,}"
}

gpt="ssgd streaming diloco local demo sparseloco"
# shellcheck disable=SC2086 # rows are words
records=$(files "$results/delays/gpt-" -1.jsonl.gz $gpt)
# shellcheck disable=SC2046
"$python" "$here/over_links.py" --tau 43ms --write "$folder" at=$link -- $(echo "$records" | tr , ' ')
# shellcheck disable=SC2086
"$python" "$here/curves.py" "${1:-$results/delays.svg}" "GPT, tiny Shakespeare:test_loss=$records" "GPT, tiny Shakespeare:test_loss@bytes=$records" \
    "GPT over $link:test_loss@seconds=$(files "$folder/at/gpt-" -1.jsonl $gpt)" \
    "ResNet-20, CIFAR-10:test_accuracy=$results/compression/resnet20-dense-fp32-1.jsonl.gz,$(files "$results/delays/dga" -1.jsonl.gz 5 10 15 20 5-plain 20-plain)"
