#!/bin/sh
# Adam from averages of gradients and of updates, which methods with a residual have sent: docs/results/updates.md.
#   bench/updates.sh OUT_DIR [ROW...]       rows: ssgd-METHOD, updates-METHOD; about five minutes each on two cores
#   EPOCHS=12 bench/updates.sh OUT_DIR updates-1bit
. "$(dirname "$0")/rows.sh"

for strategy in ssgd updates; do
    for method in dense 1bit 2bit efsign topk powersgd; do
        run "$strategy-$method" --workers 4 --log-every 50 --model gpt --data shakespeare --batch 8 --context 128 \
            --epochs "${EPOCHS:-4}" --optimizer adamw:lr=0.004,weight_decay=0.1,exempt=1d --lr-schedule cosine:warmup=100 \
            --method $method --strategy $strategy
    done
done
