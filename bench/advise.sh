#!/bin/sh
# Predicted steps beside measured ones over emulated links: docs/results/advise.md.
#   bench/advise.sh            prints the table; some minutes, needs cores to itself
#   bench/advise.sh virtual    the simulation beside the virtual clock instead, which computes; any machine
#   MODEL=resnet20 STEPS=30 REPEATS=3 bench/advise.sh
# Measured: the median of each run's five steps in a row. Computing is what it was in them; coding is timed
# alone; all else is predicted. The row is the median run.
set -eu
here=$(dirname "$0")
telegrad=${TELEGRAD:-$here/../build/release/telegrad}
python=${PYTHON:-python3}
steps=${STEPS:-40}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
job="train --model ${MODEL:-lenet5} --steps $steps --no-eval --log-every 1"

run() { # record, options: seconds of a run over its steps, in ms
    file=$folder/$1
    shift
    # shellcheck disable=SC2086 # options without spaces
    "$telegrad" $job "$@" --out "$file" >"$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }
    tail -n 1 "$file" | "$python" -c 'import json, sys; r = json.load(sys.stdin); print(1000 * r["seconds"] / r["steps"])'
}

beside_virtual() { # link strategy method: both by the times that the virtual clock measured
    settings="--workers 4 --link $1 --strategy $2 --method $3 --clock virtual"
    # shellcheck disable=SC2086
    clock=$(run clock.jsonl $settings)
    # shellcheck disable=SC2086
    sim=$(run sim.jsonl $settings --sim-only --tau "$folder/clock.jsonl")
    "$python" -c 'import sys
link, strategy, method, clock, sim = sys.argv[1:]
way = strategy.replace(":warmup=0", "").replace(",warmup=0", "") + ", " + method.replace(":warmup=0", "")
print(f"| {link} | {way} | {float(clock):.1f} | {float(sim):.1f} | {100 * (float(sim) / float(clock) - 1):+.1f} % |")' \
        "$1" "$2" "$3" "$clock" "$sim"
}

if [ "${1:-}" = virtual ]; then
    echo '| link | strategy, method | virtual clock | simulated | difference |'
    echo '|---|---|---|---|---|'
    for link in 1gbit,5ms 100mbit,20ms 20mbit,50ms; do
        for way in 'ssgd dense' 'ssgd dgc:warmup=0' 'ssgd powersgd' 'od:warmup=0 dense' 'dga:delay=3 dense' \
            'cd:k=5,warmup=0 2bit:threshold=0.005' 'local:every=5 topk:density=0.01'; do
            beside_virtual "$link" "${way% *}" "${way#* }"
        done
    done
    exit
fi
echo '| link | strategy, method | computing | predicted | measured | error | of all runs |'
echo '|---|---|---|---|---|---|---|'
for link in 1gbit,5ms 100mbit,20ms 20mbit,50ms; do
    for way in 'ssgd 2bit:threshold=0.005' 'cd:k=5,warmup=0 2bit:threshold=0.005'; do
        strategy=${way% *}
        method=${way#* }
        : >"$folder/rows"
        run times.jsonl --workers 2 --steps 1 --method "$method" --clock virtual >/dev/null # coding, alone
        for _ in $(seq "${REPEATS:-3}"); do
            run run.jsonl --workers 2 --strategy "$strategy" --method "$method" --link "$link" >/dev/null
            # Five steps in a row: what a step of them took, and computing in it.
            block=$("$python" - "$folder/run.jsonl" <<'PYTHON'
import json, sys
steps = [r for r in map(json.loads, open(sys.argv[1])) if r["type"] == "step"][5:]
blocks = [steps[i:i + 5] for i in range(0, len(steps) - 4, 5)]
mean = lambda block, what: sum(r[what] for r in block) / 5
typical = sorted(blocks, key=lambda block: mean(block, "step_ms"))[len(blocks) // 2]
print(mean(typical, "compute_ms"), mean(typical, "step_ms"))
PYTHON
)
            pace=$("$python" -c 'import json, sys
print(float(sys.argv[2]) / json.loads(open(sys.argv[1]).readline())["tau_ms"])' "$folder/times.jsonl" "${block% *}")
            predicted=$(run sim.jsonl --workers 2 --strategy "$strategy" --method "$method" --link "$link" \
                --clock virtual --sim-only --tau "$folder/times.jsonl" --slow "0:${pace}x" --slow "1:${pace}x")
            echo "$block $predicted" >>"$folder/rows"
        done
        "$python" - "$link" "$strategy, $method" "$folder/rows" <<'PYTHON'
import sys
link, way, rows = sys.argv[1:]
rows = sorted([float(x) for x in line.split()] for line in open(rows))
errors = sorted(100 * (p / s - 1) for _, s, p in rows)
tau, step, predicted = sorted(rows, key=lambda r: r[1])[len(rows) // 2]
print(f"| {link} | {way.replace(',warmup=0', '')} | {tau:.1f} | {predicted:.1f} | {step:.1f} | "
      f"{100 * (predicted / step - 1):+.1f} % | {errors[0]:+.1f} to {errors[-1]:+.1f} % |")
PYTHON
    done
done
