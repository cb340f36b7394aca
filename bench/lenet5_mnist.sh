#!/bin/sh
# LeNet-5 on MNIST, 4 workers, 5 epochs, three seeds: accuracy of compressed and delayed training beside dense.
# Rates and the threshold were chosen with --holdout 10000 (the last tenth of the training set), never on the test set.
#   bench/lenet5_mnist.sh OUT_DIR        needs MNIST (TELEGRAD_DATA or data/); about 8 minutes on two cores
set -eu
out=${1:?usage: bench/lenet5_mnist.sh OUT_DIR}
telegrad=$(dirname "$0")/../build/release/telegrad
mkdir -p "$out"

run() { # name, method, strategy, lr
    for seed in 1 2 3; do
        file=$out/$1-$seed.jsonl
        [ -f "$file" ] || "$telegrad" train --data mnist --workers 4 --batch 32 --epochs 5 --lr-schedule cosine \
            --seed $seed --method "$2" --strategy "$3" --optimizer "sgd:lr=$4,momentum=0.9" --log-every 100 \
            --out "$file" >/dev/null
    done
}

run dense dense ssgd 0.1
run dgc dgc:density=0.001,warmup=1ep,values=fp16,lookahead=0 ssgd 0.1
run cd-k2 2bit:threshold=0.005,lookahead=0 cd:k=2,warmup=1ep,local=sgd 0.05
run bit-sgd 2bit:threshold=0.005,lookahead=0 ssgd 0.05
python3 "$(dirname "$0")/summarise.py" "$out"/*.jsonl
