#!/bin/sh
# Adam with methods that keep a residual: averages of gradients and of updates (docs/results/updates.md).
#   bench/updates.sh OUT_DIR [ROW...]       needs tiny Shakespeare (TELEGRAD_DATA or data/); about four minutes a row on two cores, 12 epochs
#                                           ten to sixteen
. "$(dirname "$0")/rows.sh"

rate=0.004
text() { # row, epochs, options
    row=$1 epochs=$2
    shift 2
    run "$row" --workers 4 --log-every 50 --model gpt --data shakespeare --batch 8 --context 128 --epochs "$epochs" \
        --optimizer adamw:lr=$rate,weight_decay=0.1,exempt=1d --lr-schedule cosine:warmup=100 "$@"
}

for strategy in ssgd updates; do
    for method in dense 1bit:weights=no 2bit:lookahead=0 efsign topk:lookahead=0 powersgd; do
        text "$strategy-${method%%:*}" 4 --method $method --strategy $strategy
    done
done
for method in dense 1bit:weights=no topk:lookahead=0; do
    text "local1-${method%%:*}" 4 --method $method --strategy local:every=1
done
text updates-topk-warmup 4 --method topk:warmup=196,lookahead=0
text updates-topk-warmup98 4 --method topk:warmup=98,lookahead=0
text updates-2bit-target 4 --method 2bit:target=0.3,lookahead=0
text updates-topk025 4 --method topk:density=0.025,lookahead=0
text updates-topk-tensor 4 --method topk:scope=tensor,lookahead=0
text updates-topk-ahead 4 --method topk
text updates-2bit-ahead 4 --method 2bit
text updates-topk-ahead-1bit 4 --method topk:values=1bit
text updates-blocktopk 4 --method blocktopk:keep=41,values=fp16,decay=1,clip=no
text dga4 4 --strategy dga:delay=4
text od 4 --strategy od
text local8 4 --strategy local:every=8
text diloco20 4 --strategy diloco:every=20
for average in gradients updates; do
    text cd5-$average 4 --method 2bit:lookahead=0 --strategy cd:k=5,average=$average
done
text cd5-ahead 4 --strategy cd
text ssgd12-dense 12
text updates12-1bit 12 --method 1bit:weights=no
text updates12-topk 12 --method topk:warmup=588,lookahead=0
text updates12-topk-ahead 12 --method topk
text updates12-2bit-ahead 12 --method 2bit
text updates12-adacomp 12 --method adacomp
text cd12 12 --method 2bit:lookahead=0 --strategy cd
rate=0.008
text updates12-1bit-rate008 12 --method 1bit:weights=no
text updates-1bit-rate008 4 --method 1bit:weights=no
text cd5-updates-rate008 4 --method 2bit:lookahead=0 --strategy cd:k=5,average=updates
text local8-rate008 4 --strategy local:every=8
text updates-topk-rate008 4 --method topk:lookahead=0
