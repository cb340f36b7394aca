/* Synchronous SGD: the exact mean of the gradients. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_EXCHANGE_DENSE,
    {.name = NULL},
};

const tg__method_def tg__method_dense = {
    .entry = {"dense", "the exact mean in f32", "", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "dense",
             .sends = "every element as f32",
             .bits = "32",
             .keeps = "nothing",
             .cost = "no encoding; 2 rounds, 2 one-way delays, 8 n (P-1)/P bytes (exchange=direct)",
             .use = "fast networks; the baseline for comparisons",
             .limit = "synchronous SGD: the exact mean, summed in rank order"},
    .program = &tg__default_program,
    .codec = "f32",
    .feedback = "none",
    .properties = TG__DENSE,
};
