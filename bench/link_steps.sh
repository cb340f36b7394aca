#!/bin/sh
# What a step costs over an emulated link, beside what it must cost: LeNet-5, 4 workers, 20 Mbit/s, 10 ms one way.
#   bench/link_steps.sh [STEPS]
set -eu
steps=${1:-300}
telegrad=$(dirname "$0")/../build/release/telegrad
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
data=glyphs:train=6000,test=100 # what is learnt does not matter here

run() { # name, options
    name=$1
    shift
    "$telegrad" train --data "$data" --workers 4 --steps "$steps" --no-eval --out "$dir/$name.jsonl" "$@" >/dev/null
}

run none --method dgc:density=0.001,warmup=0,exchange=none
run dgc --method dgc:density=0.001,warmup=0 --link 20mbit,10ms
run cd --method 2bit:threshold=0.005 --strategy cd:k=5,warmup=0 --link 20mbit,10ms
run bit --method 2bit:threshold=0.005 --link 20mbit,10ms
run none2 --method dgc:density=0.001,warmup=0,exchange=none
python3 - "$dir" <<'PY'
import json, sys
end = {n: json.loads(open(f"{sys.argv[1]}/{n}.jsonl").readlines()[-1]) for n in ("none", "dgc", "cd", "bit", "none2")}
none = (end["none"]["step_ms_median"] + end["none2"]["step_ms_median"]) / 2
wire = end["dgc"]["bytes_per_step"] * 8 / 20e6 * 1e3
bound = none + 10 + wire
dgc = end["dgc"]["step_ms_median"]
print(f"step without exchange          {none:7.2f} ms (before and after: {end['none']['step_ms_median']:.2f}, {end['none2']['step_ms_median']:.2f})")
print(f"+ one delay + coded bytes/rate {bound:7.2f} ms ({end['dgc']['bytes_per_step']:.0f} bytes)")
print(f"DGC 0.1 %                      {dgc:7.2f} ms = {dgc / bound:.3f} of that")
cd = end["cd"]
most = max(cd["compute_ms_median"], cd["exchange_ms_median"])
print(f"CD-SGD, coded steps            {cd['step_coded_ms_median']:7.2f} ms = {cd['step_coded_ms_median'] / most:.3f} of "
      f"max(compute {cd['compute_ms_median']:.2f}, exchange {cd['exchange_ms_median']:.2f})")
print(f"BIT-SGD                        {end['bit']['step_ms_median']:7.2f} ms")
PY
