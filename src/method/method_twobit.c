/* 2-bit quantisation with residual: r += g; s = r + lookahead * g; send +tau where s >= tau, -tau
 * where s <= -tau, else 0; r -= sent. */
#include "codec/quant/threshold_auto.h"
#include "codec/lookahead.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_THRESHOLD("auto"), TG__KEY_START,           TG__KEY_TARGET, TG__KEY_LOOKAHEAD_THRESHOLD,
    TG__KEY_RESCALE("no"),     TG__KEY_EXCHANGE_TWOWAY, {.name = NULL},
};

const tg__method_def tg__method_twobit = {
    .entry = {"2bit", "three levels: -threshold, 0, threshold; with residual",
              "MXNet kvstore two-bit compression; BIT-SGD in CD-SGD (Yu et al. 2021)", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "quantisation",
             .sends = "two bit masks per 64 elements: above threshold, below -threshold",
             .bits = "2",
             .keeps = "1 vector: the residual; with threshold=auto also 2 floats per tensor",
             .cost = "1 pass; 1 round, 1 delay",
             .use = "a sixteenth of the bytes at the speed of an addition; with strategy cd",
             .limit = "none; sent + residual = sum of gradients"},
    .program = &tg__default_program,
    .codec = "2bit",
    .feedback = "residual",
};
