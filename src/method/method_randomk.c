/* Random-k: all ranks send the same k random elements, which are summed without indices. The rest
 * stays in r; without feedback, the sum is scaled by n/k. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_DENSITY("0.01"),
    TG__KEY_WARMUP("0"),
    TG__CHOICE("values", "f32", "f32|fp16",
               "format of the values that ranks send to where they are summed"),
    TG__CHOICE("feedback", "residual", "none|residual",
               "none: nothing is remembered, and the sum is scaled by n/k (unbiased)"),
    TG__KEY_EXCHANGE_DENSE,
    {.name = NULL},
};

const tg__method_def tg__method_randomk = {
    .entry = {"randomk", "the same random elements on all ranks, summed densely",
              "Wangni et al. 2018, arXiv:1710.09854; Stich et al. 2018, arXiv:1809.07599", keys},
    .card =
        {
            .struct_size = sizeof(tg_method_card),
            .family = "sparsification",
            .sends = "k values at random places, the same on all ranks",
            .bits = "32 density: 0.32 at 1 %",
            .keeps = "1 vector: the residual (feedback=none: nothing)",
            .cost = "r += g, k draws, a gather; 2 rounds, 2 delays, 8 k (P-1)/P bytes",
            .use = "many ranks, because bytes do not grow with P; a baseline for topk",
            .limit = "density=1: synchronous SGD, exactly",
        },
    .rate =
        &(const tg_rate_hint){
            .struct_size = sizeof(tg_rate_hint), .factor = 1, .low = 0.1, .high = 4, .plain = true},
    .program = &tg__shared_support_program,
    .codec = "f32",
    .feedback = "residual",
    .properties = TG__SPARSIFIES,
};
