#!/bin/sh
# What delay and rounds of own steps cost in accuracy: docs/results/delays.md.
#   bench/delays.sh OUT_DIR [ROW...]       needs the data sets (TELEGRAD_DATA or data/); hours
#   SEEDS="1 2" EPOCHS=10 PRECISION=bf16 bench/delays.sh OUT_DIR dga5 dga5-plain
#                                          EPOCHS is for images (fedavg8-*: 4 by default) and digits; texts have 12
# Four workers where a row does not say x2. The rows ssgd, bit, cd2, cd5, cd10 of ResNet-20 with four are those of bench/compression.sh
# (resnet20-dense, ...), which has the same settings.
. "$(dirname "$0")/rows.sh"

images() { # row, workers, batch of each, options
    row=$1 workers=$2 batch=$3
    shift 3
    run "$row" --workers "$workers" --log-every 100 --model resnet20 --data cifar10:train=1-4,test=5 --batch "$batch" --epochs "${EPOCHS:-10}" \
        --lr-schedule cosine:warmup=1ep --optimizer sgd:lr=0.1,momentum=0.9,weight_decay=0.0005 "$@"
}

digits() { # row, workers, options
    row=$1 workers=$2
    shift 2
    run "$row" --workers "$workers" --log-every 100 --model lenet5 --data mnist --batch 32 --epochs "${EPOCHS:-10}" \
        --optimizer sgd:lr=0.1,momentum=0 --lr-schedule constant "$@"
}

text() { # row, options
    row=$1
    shift
    run "$row" --workers 4 --log-every 50 --model gpt --data shakespeare --batch 8 --context 128 --epochs 12 \
        --optimizer adamw:lr=0.002,weight_decay=0.1,exempt=1d --lr-schedule cosine:warmup=100 "$@"
}

# Delayed gradient averaging, with and without the own steps.
for delay in 5 10 15 20; do
    images "dga$delay" 4 32 --strategy dga:delay=$delay
    images "dga$delay-plain" 4 32 --strategy dga:delay=$delay,correct=no
    digits "lenet5-dga$delay" 4 --strategy dga:delay=$delay
    digits "lenet5-dga$delay-plain" 4 --strategy dga:delay=$delay,correct=no
done

# Federated averaging and delayed averages of rounds, on data alike and of each worker's own kind.
for shard in iid dirichlet:alpha=0.5; do
    kind=${shard%%:*}
    [ $kind = iid ] || images "ssgd-$kind" 4 32 --shard $shard
    for every in 5 10 20; do
        images "fedavg$every-$kind" 4 32 --strategy fedavg:every=$every,momentum=reset --shard $shard
    done
    images "dga20-5-$kind" 4 32 --strategy dga:delay=20,every=5 --shard $shard
done
for state in keep reset; do # 4 epochs, as in defaults.sh
    (EPOCHS=${EPOCHS:-4} && images "fedavg8-$state-dirichlet" 4 32 --strategy fedavg:every=8,momentum=$state --shard dirichlet:alpha=0.5)
done
for every in 5 10 20; do
    digits "lenet5-fedavg$every" 4 --strategy fedavg:every=$every
done
digits lenet5-dga20-5 4 --strategy dga:delay=20,every=5
for shard in iid contiguous; do
    [ $shard = iid ] || text "gpt-ssgd-$shard" --shard $shard
    for every in 5 10 20; do
        text "gpt-fedavg$every-$shard" --strategy fedavg:every=$every,momentum=reset --shard $shard
    done
    text "gpt-dga20-5-$shard" --strategy dga:delay=20,every=5 --shard $shard
done

# CD-SGD and what it is made of.
images od 4 32 --strategy od:warmup=1ep,local=sgd
images cd20 4 32 --method 2bit:lookahead=0 --strategy cd:k=20,warmup=1ep,local=sgd
images x2-ssgd 2 64
images x2-od 2 64 --strategy od:warmup=1ep,local=sgd
images x2-bit 2 64 --method 2bit:lookahead=0 --strategy ssgd
for k in 2 5 10 20; do
    images "x2-cd$k" 2 64 --method 2bit:lookahead=0 --strategy cd:k=$k,warmup=1ep,local=sgd
    images "x2-cd$k-preview" 2 64 --method 2bit:lookahead=0 --strategy cd:k=$k,warmup=1ep,local=preview,average=gradients
done
for workers in 2 4; do
    digits "lenet5-x$workers-ssgd" $workers
    digits "lenet5-x$workers-od" $workers --strategy od:warmup=200
    digits "lenet5-x$workers-bit" $workers --method 2bit:lookahead=0
    for k in 2 5 10 20; do
        digits "lenet5-x$workers-cd$k" $workers --method 2bit:lookahead=0 --strategy cd:k=$k,warmup=200
    done
done

# Rounds of a language model.
text gpt-ssgd
text gpt-local --strategy local:every=30
text gpt-diloco --strategy diloco:every=30,warmup=0,rescale=no
text gpt-streaming --fusion 256K --strategy streaming:every=30,fragments=3,overlap=3,warmup=0,rescale=no --method qsgd:bits=4
text gpt-sparseloco --strategy sparseloco:every=30 --method blocktopk
run gpt-demo --workers 4 --log-every 50 --model gpt --data shakespeare --batch 8 --context 128 --epochs 12 \
    --optimizer sgd:lr=0.001,weight_decay=0.1 --lr-schedule cosine:warmup=100 --strategy demo --method dct
