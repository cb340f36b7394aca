/* Strom's method: r += g; s = r + lookahead * g; send sign(s) * threshold where |s| >= threshold;
 * r -= sent. An element sends at most the threshold per step, so r grows without bound while |g|
 * stays above it. */
#include "codec/quant/threshold_auto.h"
#include "codec/lookahead.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_THRESHOLD("auto"),   TG__KEY_START,  TG__KEY_TARGET,
    TG__KEY_LOOKAHEAD_THRESHOLD, TG__KEY_INDEX,  TG__KEY_RESCALE("no"),
    TG__KEY_EXCHANGE_TWOWAY,     {.name = NULL},
};

const tg__method_def tg__method_strom = {
    .entry = {"strom", "elements beyond a threshold, sent as the threshold with a sign",
              "Strom 2015, Interspeech", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "sparsification",
             .sends = "index and sign of each element beyond the threshold",
             .bits = "0.58 (target=0.1: 4.8 bits per gap, 1 per sign); target=0.01: 0.09",
             .keeps = "1 vector: the residual; with threshold=auto also 2 floats per tensor",
             .cost = "1 pass; 1 round, 1 delay",
             .use = "few elements carry the gradient; the cheapest sparse method, because it does "
                    "not select",
             .limit = "none; sent + residual = sum of gradients"},
    .program = &tg__default_program,
    .codec = "strom",
    .feedback = "residual",
};
