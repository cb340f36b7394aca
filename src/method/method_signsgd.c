/* signSGD with majority vote: every rank sends the signs of its gradient, the result is the sign
 * that most ranks have, 0 where they are equally many. */
#include "method/default_program.h"
#include "method/method_keys.h"
#include "telegrad/spec.h"

static const tg_key keys[] = {
    TG__KEY_EXCHANGE_CODED,
    {.name = NULL},
};

const tg__method_def tg__method_signsgd = {
    .entry = {"signsgd", "signs, majority vote", "Bernstein et al. 2018, arXiv:1802.04434, alg. 3",
              keys},
    .card = {.family = "signs",
             .sends = "the sign of each element",
             .bits = "1",
             .keeps = "nothing",
             .cost = "1 pass; 1 round, 1 delay; votes are counted as bits",
             .use = "large batches; needs its own, small learning rate: the result is -1, 0 or 1, "
                    "but a mean gradient in dense steps (strategies od, cd)",
             .limit = "one rank: w -= eta * sign(g)"},
    .rate = &(const tg_rate_hint){.factor = 0.02, .low = 0.005, .high = 0.1},
    .program = &tg__default_program,
    .codec = "sign",
    .feedback = "none",
    .combine = &tg__combine_vote,
};
