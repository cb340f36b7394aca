#!/bin/sh
# What compression and delay cost in accuracy: ResNet-20 on CIFAR-10 and an LSTM on WikiText-2 with four workers.
#   bench/compression.sh OUT_DIR [ROW...]       needs the data sets (TELEGRAD_DATA or data/); hours
#   SEEDS="1 2 3" EPOCHS=30 bench/compression.sh OUT_DIR resnet20-dense resnet20-dgc
# All rows of a model have the settings of its first one. Complete runs are left alone.
. "$(dirname "$0")/rows.sh"

resnet20() { # row, options
    row=resnet20-$1
    shift
    run "$row" --workers 4 --log-every 100 --model resnet20 --data cifar10:train=1-4,test=5 --batch 32 --epochs "${EPOCHS:-15}" --lr-schedule cosine:warmup=1ep \
        --optimizer sgd:lr=0.1,momentum=0.9,weight_decay=0.0005 "$@"
}

lstm() {
    row=lstm-$1
    shift
    run "$row" --workers 4 --log-every 100 --model lstm:dropout=0.2 --data wikitext-2 --batch 5 --context 35 --epochs "${EPOCHS:-3}" --lr-schedule cosine "$@"
}

resnet20 dense --method dense
resnet20 dgc --method dgc:density=0.001,warmup=2ep,lookahead=0
resnet20 dgc-nowarmup --method dgc:density=0.001,warmup=0,lookahead=0
resnet20 topk --method topk:density=0.001,lookahead=0 --strategy ssgd
resnet20 topk-warmup --method topk:density=0.001,warmup=2ep,lookahead=0 --strategy ssgd
resnet20 naive --method topk:density=0.001,feedback=none
resnet20 bit --method 2bit:lookahead=0 --strategy ssgd
resnet20 cd2 --method 2bit:lookahead=0 --strategy cd:k=2,warmup=1ep,local=sgd
resnet20 cd5 --method 2bit:lookahead=0 --strategy cd:k=5,warmup=1ep,local=sgd
resnet20 cd10 --method 2bit:lookahead=0 --strategy cd:k=10,warmup=1ep,local=sgd
for method in topk:density=0.01,lookahead=0 2bit:lookahead=0 1bit:weights=no adacomp efsign; do # momentum after and before the exchange; EPOCHS=4
    resnet20 "${method%%:*}-ssgd" --method $method --strategy ssgd
    resnet20 "${method%%:*}-updates" --method $method --strategy updates
done
for method in topk 2bit dgc; do # EPOCHS=4
    resnet20 $method-ahead --method $method
done
resnet20 topk-ahead-ssgd --method topk --strategy ssgd # EPOCHS=4
resnet20 1bit-weights-ssgd --method 1bit --strategy ssgd # EPOCHS=4
for average in gradients updates; do
    resnet20 cd5-$average --method 2bit:lookahead=0 --strategy cd:k=5,average=$average
done
resnet20 dga4-2bit --method 2bit:lookahead=0 --strategy dga:delay=4
resnet20 2bit-target --method 2bit:target=0.3,lookahead=0 --strategy ssgd
lstm dense --optimizer sgd:lr=20,momentum=0,clip=0.25
lstm dgc --optimizer sgd:lr=20,momentum=0 --method dgc:density=0.001,warmup=3000,momentum=0,clip=0.5,lookahead=0
