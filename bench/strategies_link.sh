#!/bin/sh
# What strategies that hide a link cost beside no exchange: ResNet-18, 4 workers in this process, batch 2, DGC 0.1 %,
# 20 Mbit/s and 50 ms one way. Runs take turns, so that a busy machine is busy for all; medians over the rounds.
#   bench/strategies_link.sh [ROUNDS [STEPS [TELEGRAD]]]
set -eu
rounds=${1:-5}
steps=${2:-12}
telegrad=${3:-$(dirname "$0")/../build/release/telegrad}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
data=glyphs:train=512,test=100 # what is learnt does not matter here

run() { # file, strategy, keys of the method, options
    file=$1 strategy=$2 keys=$3
    shift 3
    "$telegrad" train --model resnet18 --data "$data" --workers 4 --batch 2 --steps "$steps" --no-eval \
        --strategy "$strategy" --method "dgc:density=0.001,warmup=0$keys" --out "$dir/$file.jsonl" "$@" >/dev/null
}

for round in $(seq "$rounds"); do
    for strategy in ssgd pipe:width=4 cd:k=0,warmup=0 dga:delay=4; do
        run "$round-none-$strategy" "$strategy" ,exchange=none
        run "$round-link-$strategy" "$strategy" "" --link 20mbit,50ms
    done
done
python3 - "$dir" "$rounds" <<'PY'
import json, statistics, sys
where, rounds = sys.argv[1], range(1, int(sys.argv[2]) + 1)
print("strategy            none, ms  link, ms  link / none  waited: none, ms  link, ms  bytes a step")
for strategy in ("ssgd", "pipe:width=4", "cd:k=0,warmup=0", "dga:delay=4"):
    end = {kind: [json.loads(open(f"{where}/{r}-{kind}-{strategy}.jsonl").readlines()[-1]) for r in rounds]
           for kind in ("none", "link")}
    ms = {kind: [e["step_ms_median"] for e in ends] for kind, ends in end.items()}
    ratio = statistics.median(link / none for link, none in zip(ms["link"], ms["none"]))
    waited = {kind: statistics.median(e["wait_ms_mean"] for e in ends) for kind, ends in end.items()}
    print(f"{strategy:18s}  {statistics.median(ms['none']):8.0f}  {statistics.median(ms['link']):8.0f}  {ratio:11.2f}"
          f"  {waited['none']:16.0f}  {waited['link']:8.0f}  {end['link'][0]['bytes_per_step']:12,.0f}")
PY
