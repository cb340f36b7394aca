#!/bin/sh
# Train a GPT, ResNet-20 and LSTMs with ten methods and seven strategies at their defaults, at the rate of dense training.
#   bench/defaults.sh OUT_DIR [ROW...]      rows gpt-topk, resnet20-cd, charlstm-dense, lstm-1bit, ...; hours
#   EPOCHS=4 bench/defaults.sh OUT_DIR      4 epochs each, in place of 12 (gpt), 30 (resnet20), 3 (charlstm) and 6 (lstm)
# Needs tiny Shakespeare, CIFAR-10 and WikiText-2 (TELEGRAD_DATA or data/). Complete runs are left alone.
. "$(dirname "$0")/rows.sh"

gpt() { # row, options
    row=gpt-$1
    shift
    run "$row" --workers 4 --log-every 50 --model gpt --data shakespeare --batch 8 --context 128 --epochs "${EPOCHS:-12}" \
        --optimizer adamw:lr=0.004,weight_decay=0.1,exempt=1d --lr-schedule cosine:warmup=100 "$@"
}

resnet20() {
    row=resnet20-$1
    shift
    run "$row" --workers 4 --log-every 100 --model resnet20 --data cifar10:train=1-4,test=5 --batch 32 --epochs "${EPOCHS:-30}" \
        --optimizer sgd:lr=0.1,momentum=0.9,weight_decay=0.0005 --lr-schedule cosine:warmup=1ep "$@"
}

schedule=cosine
charlstm() { # characters in place of words: its epochs are short
    row=charlstm-$1
    shift
    run "$row" --workers 4 --log-every 50 --model lstm:dropout=0.2 --data shakespeare --batch 8 --context 64 --epochs "${EPOCHS:-3}" \
        --optimizer sgd:lr=4,momentum=0.9,clip=0.25 --lr-schedule "$schedule" "$@"
}

lstm() {
    row=lstm-$1
    shift
    run "$row" --workers 4 --log-every 100 --model lstm:dropout=0.2 --data wikitext-2 --batch 5 --context 35 --epochs "${EPOCHS:-6}" \
        --optimizer sgd:lr=20,momentum=0,clip=0.25 --lr-schedule cosine "$@"
}

for model in gpt resnet20 charlstm lstm; do
    case $model in gpt) epochs=12 ;; resnet20) epochs=30 ;; charlstm) epochs=3 ;; lstm) epochs=6 ;; esac
    for method in dense topk dgc 2bit 1bit efsign qsgd powersgd adacomp cltk; do
        case $model-$method in
        gpt-dgc) continue ;;   # dgc has momentum of its own, which adamw refuses
        *lstm-dgc) continue ;; # dgc refuses the optimizer's clip
        esac
        $model $method --method $method
    done
    case $model in gpt | charlstm) $model cltk-filter --method cltk:beta=0.1 ;; esac
    if [ $model = gpt ]; then
        gpt cltk-density --method cltk:density=0.04
        gpt powersgd-rank --method powersgd:rank=16
        gpt sparseloco --strategy sparseloco
        gpt sparseloco15 --strategy sparseloco:every=15
        gpt sparseloco-decay1 --strategy sparseloco --method blocktopk:decay=1
    fi
    case $model in gpt | resnet20) $model local8-reset --strategy local:every=8,momentum=reset ;; esac
    if [ $model = charlstm ]; then # powersgd with steps; 1bit as in the paper, and the same with vectors as they are
        charlstm powersgd-updates --method powersgd --strategy updates
        charlstm 1bit-paper --method 1bit:weights=no
        charlstm 1bit-vectors --method 1bit:weights=no --rule '*bias*=f32'
        charlstm dense-updates --strategy updates # clips each worker's gradient in place of their average
        charlstm topk-ssgd --method topk --strategy ssgd
        schedule=cosine:warmup=0.3ep
        charlstm dense-warm
        charlstm topk-warm --method topk
        schedule=cosine
    fi
    $model post-local --strategy "local:every=8,after=$(echo "${EPOCHS:-$epochs}" | awk '{ print $1 / 2 }')ep"
    for strategy in od cd dga:delay=4 local:every=8 diloco streaming; do
        $model "$(echo $strategy | sed 's/:[a-z]*=//')" --strategy $strategy
    done
done
