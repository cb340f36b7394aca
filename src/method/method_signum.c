/* Signum: m = beta*m + (1 - beta)*g on every rank; majority vote over the signs of m. A dense step
 * sends m. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY(
        REAL, "beta", "0.9", 0, 0.999999,
        "share of the old average that stays in each step; the optimizer then needs no momentum"),
    TG__KEY_EXCHANGE_CODED,
    {.name = NULL},
};

const tg__method_def tg__method_signum = {
    .entry = {"signum", "signs of each rank's momentum, aggregated by majority vote",
              "Bernstein et al. 2018, arXiv:1802.04434, alg. 2 and 3", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "signs",
             .sends = "the sign of each element of the momentum",
             .bits = "1",
             .keeps = "1 vector: the momentum",
             .cost = "2 passes; 1 round, 1 delay; votes are counted as bits",
             .use = "as signsgd, for noisier gradients",
             .limit = "beta=0: signsgd"},
    .rate = &(const tg_rate_hint){.struct_size = sizeof(tg_rate_hint),
                                  .factor = 0.02,
                                  .low = 0.005,
                                  .high = 0.1,
                                  .plain = true},
    .program = &tg__default_program,
    .codec = "sign",
    .feedback = "momentum",
    .combine = &tg__combine_vote,
};
