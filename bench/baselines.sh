#!/bin/sh
# What telegrad's models learn on real data by themselves (one worker), and the same in PyTorch: docs/results/baselines.md.
#   bench/baselines.sh OUT_DIR [ROW...]       needs the data sets (TELEGRAD_DATA or data/); hours on one core
#   SEEDS="1 2 3" bench/baselines.sh OUT_DIR lenet5 lenet5-torch
#   PRECISION=bf16 bench/baselines.sh OUT_DIR lstm       telegrad's side in bf16
# A run that was stopped goes on from its last checkpoint when it is called again; one that is complete is left alone.
. "$(dirname "$0")/rows.sh"
python=${PYTHON:-python3}

# The same options in PyTorch: ROW-torch.
both() { # row, options without spaces
    run "$@"
    row=$1-torch
    shift
    wanted "$row" || return 0
    for seed in ${SEEDS:-1}; do
        file=$out/$row-$seed.jsonl
        [ ! -f "$file" ] || continue
        "$python" "$here/torch/train.py" "$@" --seed "$seed" --checkpoint "$out/$row-$seed.pt" >>"$file.part"
        mv "$file.part" "$file"
    done
}

both lenet5 --model lenet5 --data mnist --batch 32 --epochs 10 --log-every 500 \
    --optimizer sgd:lr=0.01,momentum=0.9,weight_decay=0.0005 --lr-schedule cosine
both lenet5-relu --model lenet5:act=relu --data mnist --batch 32 --epochs 10 --log-every 500 \
    --optimizer sgd:lr=0.01,momentum=0.9,weight_decay=0.0005 --lr-schedule cosine
both resnet20 --model resnet20 --data cifar10:train=1-4,test=5 --batch 128 --epochs 30 --log-every 100 \
    --optimizer sgd:lr=0.1,momentum=0.9,weight_decay=0.0005 --lr-schedule cosine:warmup=1ep
both lstm --model lstm:dropout=0.2 --data wikitext-2 --batch 20 --context 35 --epochs 10 --log-every 500 \
    --optimizer sgd:lr=20,momentum=0,clip=0.25 --lr-schedule cosine
both gpt --model gpt --data shakespeare --batch 32 --context 128 --epochs 12 --log-every 100 \
    --optimizer adamw:lr=0.002,weight_decay=0.1,exempt=1d --lr-schedule cosine:warmup=100
