#!/bin/sh
# On a machine with a GPU: the tests that need one, and the records of docs/results/gpu.md.
#
#     [ONLY="STEP..."] bench/cuda/all.sh OUT_DIR [TESTS_DIR [BENCH_DIR]]
#
# TESTS_DIR (build/dev) has the tests and BENCH_DIR (build/release) the benchmarks; they may be built on another machine
# (bench/cuda/pack.sh). PYTHON (python3) runs what needs PyTorch, which is left out without it. The tests run at the same time. A step
# that fails or takes more than LIMIT seconds (420) is named, and the others go on. ONLY names the steps to take. Writes OUT_DIR/*.log
# of tests and OUT_DIR/*.jsonl; ends with status 1 if a step failed.
set -u
[ $# -ge 1 ] && [ $# -le 3 ] || { sed -n '4,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/../.." || exit 1
out=$1 tests=${2:-build/dev} bench=${3:-build/release} python=${PYTHON:-python3} limit=${LIMIT:-420}
mkdir -p "$out" && rm -f "$out/failed" "$out/taken" || exit 1
export PYTHONPATH="$PWD/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
export LD_LIBRARY_PATH="$(realpath "$tests")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# step NAME FILE COMMAND...: status 77 says that something is missing
step() {
    case " ${ONLY:-$1} " in *" $1 "*) ;; *) return ;; esac
    name=$1 file=$2 begin=$(date +%s)
    echo "$name" >>"$out/taken"
    shift 2
    timeout "$limit" "$@" >"$out/$file" 2>"$out/$name.err"
    status=$?
    case $status in
    0) word=passed ;;
    77) word="skipped: $(cat "$out/$file" "$out/$name.err" | head -n 1 | sed 's/^SKIP: //')" ;;
    *)
        word="FAILED, status $status: $(tail -n 1 "$out/$name.err")"
        echo "$name" >>"$out/failed"
        ;;
    esac
    [ -s "$out/$name.err" ] || rm -f "$out/$name.err"
    echo "$name: $word ($(($(date +%s) - begin)) s)"
}

for name in coder decode device_codec device_reducer matrices topk; do
    step "$name" "$name.log" "$tests/${name}_gpu_test" &
done
TELEGRAD_LIBRARY_DIR=$(realpath "$tests")
export TELEGRAD_LIBRARY_DIR
step ddp ddp.log "$python" tests/python/ddp_gpu_test.py
wait
TELEGRAD_LIBRARY_DIR=$(realpath "$bench")
step bench-coders coders.jsonl "$bench/bench_coders" 25600000 50 --json
step bench-coders-gpt2 coders-gpt2.jsonl "$bench/bench_coders" 124439808 20 --json
step bench-reducers reducers.jsonl "$bench/bench_reducers"
step bench-reducers-gpt2 reducers-gpt2.jsonl "$bench/bench_reducers" --elements 124439808 --ranks 2 --steps 5
if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    step compare-torch compare-torch.jsonl "$python" bench/cuda/compare_torch.py 25600000 20
    step ddp-resnet50 ddp-resnet50.jsonl "$python" bench/cuda/ddp_steps.py --model resnet50 --steps 15
    step ddp-gpt2 ddp-gpt2.jsonl "$python" bench/cuda/ddp_steps.py --model gpt2 --steps 15
else
    echo "compare-torch, ddp-resnet50, ddp-gpt2: skipped: $python has no PyTorch with a GPU"
fi
[ ! -s "$out/failed" ] || exit 1
[ -e "$out/taken" ] || { echo "all.sh: ONLY=\"$ONLY\" names no step" >&2; exit 2; }
