#!/bin/sh
# Predicted steps beside measured ones over emulated links: docs/results/advise.md.
#   bench/advise.sh            prints the table; some minutes, needs cores to itself
#   MODEL=resnet20 STEPS=30 REPEATS=3 bench/advise.sh
# Computing is measured as a step without exchange, all workers at once; all else is predicted.
set -eu
here=$(dirname "$0")
telegrad=${TELEGRAD:-$here/../build/release/telegrad}
python=${PYTHON:-python3}
steps=${STEPS:-40}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
job="train --model ${MODEL:-lenet5} --workers 2 --steps $steps --no-eval --log-every 1"

run() { # record, options: seconds of a run over its steps, in ms
    file=$folder/$1
    shift
    # shellcheck disable=SC2086 # options without spaces
    "$telegrad" $job "$@" --out "$file" >"$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }
    tail -n 1 "$file" | "$python" -c 'import json, sys; r = json.load(sys.stdin); print(1000 * r["seconds"] / r["steps"])'
}

echo '| link | strategy, method | computing | predicted | measured (all) | error |'
echo '|---|---|---|---|---|---|'
for link in 1gbit,5ms 100mbit,20ms 20mbit,50ms; do
    for way in 'ssgd 2bit' 'cd:k=5,warmup=0 2bit'; do
        strategy=${way% *}
        method=${way#* }
        : >"$folder/tau"
        : >"$folder/steps"
        for _ in $(seq "${REPEATS:-3}"); do # in turn, so that both see the same machine
            run tau.jsonl --method dense:exchange=none >>"$folder/tau"
            run run.jsonl --strategy "$strategy" --method "$method" --link "$link" >>"$folder/steps"
        done
        tau=$(sort -g "$folder/tau" | head -n 1)
        predicted=$(run sim.jsonl --strategy "$strategy" --method "$method" --link "$link" \
            --clock virtual --sim-only --tau "${tau}ms")
        "$python" - "$link" "$strategy, $method" "$tau" "$predicted" "$folder/steps" <<'PYTHON'
import sys
link, way, tau, predicted, steps = sys.argv[1:]
tau, predicted = float(tau), float(predicted)
steps = sorted(float(line) for line in open(steps))
print(f"| {link} | {way.replace(',warmup=0', '')} | {tau:.1f} | {predicted:.1f} | "
      f"{steps[0]:.1f} ({', '.join(f'{s:.1f}' for s in steps)}) | {100 * (predicted / steps[0] - 1):+.1f} % |")
PYTHON
    done
done
