/* signSGD with majority vote: every rank sends the signs of its gradient; the result is the
 * majority's sign, or 0 if it is a tie. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_EXCHANGE_CODED,
    {.name = NULL},
};

const tg__method_def tg__method_signsgd = {
    .entry = {"signsgd", "signs, aggregated by majority vote",
              "Bernstein et al. 2018, arXiv:1802.04434, alg. 3", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "signs",
             .sends = "the sign of each element",
             .bits = "1",
             .keeps = "nothing",
             .cost = "1 pass; 1 round, 1 delay; votes are counted as bits",
             .use = "large batches; needs a small learning rate of its own, because the result is "
                    "-1, 0 or 1 (in dense steps of strategies od and cd it is the mean gradient)",
             .limit = "one rank: w -= eta * sign(g)"},
    .rate =
        &(const tg_rate_hint){
            .struct_size = sizeof(tg_rate_hint), .factor = 0.02, .low = 0.005, .high = 0.1},
    .program = &tg__default_program,
    .codec = "sign",
    .feedback = "none",
    .combine = &tg__combine_vote,
};
