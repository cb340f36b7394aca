#!/bin/sh
# What overlap hides: ResNet-18 (11.17 M parameters), dense, 2 and 4 workers, 200 Mbit/s, beside what a step must take:
# the longer of computing (as many workers on the same cores, no link) and of the bytes over the rate.
#   bench/overlap.sh [STEPS [BATCH]]
set -eu
steps=${1:-10}
batch=${2:-8}
telegrad=$(dirname "$0")/../build/release/telegrad
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

run() { # name, options
    name=$1
    shift
    "$telegrad" train --model resnet18 --data glyphs:train=4096,test=100 --batch "$batch" --steps "$steps" --no-eval \
        --log-every 1 --out "$dir/$name.jsonl" "$@" >/dev/null
}

for workers in 2 4; do
    run $workers-alone --workers $workers --method dense:exchange=none
    for overlap in none backward full; do
        run $workers-$overlap --workers $workers --link 200mbit --fusion 1M --overlap $overlap
    done
    run $workers-auto --workers $workers --link 200mbit --fusion auto
    run $workers-again --workers $workers --method dense:exchange=none
done
python3 - "$dir" <<'PY'
import json, statistics, sys

def records(name):
    return [json.loads(line) for line in open(f"{sys.argv[1]}/{name}.jsonl")]

def median(name, field):  # without the first two steps, which are slower
    return statistics.median([r[field] for r in records(name) if r["type"] == "step"][2:])

for workers in (2, 4):
    alone = statistics.mean([median(f"{workers}-{name}", "compute_ms") for name in ("alone", "again")])
    hashes = set()
    print(f"{workers} workers: computing alone {alone:.0f} ms")
    for name in ("none", "backward", "full", "auto"):
        end = records(f"{workers}-{name}")[-1]
        wire = end["bytes_per_step"] * 8 / 200e6 * 1e3 if name == "none" else wire
        step, compute = (median(f"{workers}-{name}", field) for field in ("step_ms", "compute_ms"))
        print(f"  {name:9} step {step:6.0f} ms, of which computing {compute:6.0f}, waiting {median(f'{workers}-{name}', 'wait_ms'):6.0f}; "
              f"wire {wire:5.0f}; step / max(alone, wire) = {step / max(alone, wire):.2f}, / max(compute, wire) = {step / max(compute, wire):.2f}")
        hashes.add(end["params_hash"])
    assert len(hashes) == 1, hashes
PY
