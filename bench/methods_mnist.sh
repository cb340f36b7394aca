#!/bin/sh
# Every method on LeNet-5 / MNIST: 4 workers, 3 epochs, three seeds; accuracy beside dense in one table.
# Rates were chosen with --holdout 10000 (the last tenth of the training set), never on the test set.
#   bench/methods_mnist.sh OUT_DIR [ROW...]      needs MNIST (TELEGRAD_DATA or data/); about a minute a run on two cores
set -eu
here=$(dirname "$0")
out=${1:?usage: bench/methods_mnist.sh OUT_DIR [ROW...]}
shift
rows=$*
telegrad=${TELEGRAD:-$here/../build/release/telegrad}
mkdir -p "$out"

run() { # row, method, lr
    case " ${rows:-$1} " in *" $1 "*) ;; *) return 0 ;; esac
    for seed in ${SEEDS:-1 2 3}; do
        file=$out/$1-$seed.jsonl
        [ -f "$file" ] || "$telegrad" train --data mnist --workers 4 --batch 32 --epochs 3 --lr-schedule cosine \
            --seed $seed --method "$2" --optimizer "sgd:lr=${LR:-$3},momentum=0.9" --log-every 100 ${HOLDOUT:+--holdout $HOLDOUT} \
            --out "$file" >/dev/null || echo "$1, seed $seed: stopped" >&2
    done
}

run dense dense 0.1
run fp16 fp16 0.1
run bf16 bf16 0.1
run topk topk:density=0.01 0.1
run naive topk:density=0.001,feedback=none 0.1
[ -n "${QUIET:-}" ] || python3 "$here/summarise.py" "$out"/*.jsonl
