/* TernGrad: send -s, 0 or s, unbiased, where the ranks agree on s. */
#include "codec/quant/codec_terngrad.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__TERNGRAD_KEYS,
    TG__CHOICE(
        "scaler", "shared", "shared|local",
        "shared: the largest of all ranks, from a round before the codes; local: each rank's "
        "own, without that round"),
    TG__KEY_EXCHANGE_CODED,
    {.name = NULL},
};

const tg__method_def tg__method_terngrad = {
    .entry = {"terngrad", "-s, 0 or s at random, with one s per tensor for all ranks",
              "Wen et al. 2017, arXiv:1705.07878", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "quantisation",
             .sends = "a ternary code per element; before that, an f32 scaler per tensor",
             .bits = "2",
             .keeps = "nothing",
             .cost = "2 passes; 2 rounds, 2 delays (scaler=local: 1 round, 1 delay)",
             .use = "16 times fewer bytes without state; noisy if few elements are large",
             .limit =
                 "exact for elements -s, 0, s without clipping; E[decoded] = clipped gradient"},
    .program = &tg__shared_scale_program,
    .codec = "terngrad",
};
