#!/bin/sh
# Every method on LeNet-5 / MNIST: 4 workers, 3 epochs, three seeds; accuracy beside dense in one table.
# Rates were chosen with HOLDOUT=10000 (the last tenth of the training set), never on the test set.
#   bench/methods_mnist.sh OUT_DIR [ROW...]      needs MNIST (TELEGRAD_DATA or data/); about a minute a run on two cores
#   STRATEGY=updates bench/methods_mnist.sh OTHER_DIR topk      momentum before the exchange
#   SEEDS="1" HOLDOUT=10000 LR=0.05 bench/methods_mnist.sh OUT_DIR topk      how a rate was tried
set -eu
here=$(dirname "$0")
out=${1:?usage: bench/methods_mnist.sh OUT_DIR [ROW...]}
shift
rows=$*
telegrad=${TELEGRAD:-$here/../build/release/telegrad}
files=
mkdir -p "$out"

run() { # row, method, lr, momentum
    case " ${rows:-$1} " in *" $1 "*) ;; *) return 0 ;; esac
    for seed in ${SEEDS:-1 2 3}; do
        file=$out/$1${LR:+@$LR}-$seed.jsonl
        [ -f "$file" ] || { "$telegrad" train --data mnist --workers 4 --batch 32 --epochs 3 --lr-schedule cosine \
            --strategy "${STRATEGY:-ssgd}" --seed "$seed" --method "$2" --optimizer "sgd:lr=${LR:-$3},momentum=$4" --log-every 100 \
            ${HOLDOUT:+--holdout $HOLDOUT} --out "$file.part" >/dev/null && mv "$file.part" "$file"; } || echo "$1, seed $seed: stopped" >&2
        [ ! -f "$file" ] || files="$files $file"
    done
}

run dense dense 0.1 0.9
run fp16 fp16 0.1 0.9
run bf16 bf16 0.1 0.9
run int8 int8 0.1 0.9
run qsgd qsgd 0.1 0.9
run terngrad terngrad 0.1 0.9
run 2bit 2bit:lookahead=0 0.05 0.9
run 1bit 1bit:weights=no 0.1 0.9
run 1bit-twoway 1bit:weights=no,twoway=yes 0.1 0.9
run signsgd signsgd 0.001 0
run signum signum 0.001 0
run efsign efsign 0.1 0.9
run topk topk:lookahead=0 0.05 0.9
run topk-1bit topk:values=1bit,lookahead=0 0.05 0.9
run randomk randomk:density=0.1 0.01 0.9
run strom strom:lookahead=0 0.05 0.9
run adacomp adacomp 0.1 0.9
run dgc dgc:warmup=1ep,lookahead=0 0.1 0.9
run dgc-0.01% dgc:density=0.0001,warmup=1ep,lookahead=0 0.1 0.9
# DGC's parts, each row with one more, at the rate of dense: residual, momentum correction, clipping, masking, warm-up.
# (residual-0.01% is topk-0.01%.)
run residual-0.1% topk:density=0.001,lookahead=0 0.1 0.9
for share in 0.1 0.01; do
    density=density=$(echo $share | awk '{ print $1 / 100 }')
    run correct-$share% dgc:$density,lookahead=0,warmup=0,masking=no 0.1 0.9
    run clip-$share% dgc:$density,lookahead=0,warmup=0,masking=no,clip=1 0.1 0.9
    run mask-$share% dgc:$density,lookahead=0,warmup=0,clip=1 0.1 0.9
    run warm-$share% dgc:$density,lookahead=0,warmup=1ep,clip=1 0.1 0.9
done
for rank in 1 2 4; do
    run powersgd-$rank powersgd:rank=$rank 0.1 0.9
done
run csc csc:warmup=1ep 0.05 0.9
run csc-1% csc:density=0.01,warmup=1ep 0.05 0.9
run atomo atomo 0.1 0.9
run topk-0.1% topk:density=0.001,lookahead=0 0.02 0.9
run naive-0.1% topk:density=0.001,feedback=none 0.1 0.9
run topk-0.01% topk:density=0.0001,lookahead=0 0.1 0.9
run naive-0.01% topk:density=0.0001,feedback=none 0.1 0.9
run dense-fast dense 0.3 0.9
run dgc-fast dgc:warmup=1ep,lookahead=0 0.3 0.9
run naive-fast topk:density=0.001,feedback=none 0.3 0.9
[ -n "${QUIET:-}" ] || python3 "$here/summarise.py" $files
