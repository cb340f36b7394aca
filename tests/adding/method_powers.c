/* Powers of two, with a residual. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_EXCHANGE_CODED,
    {.name = NULL},
};

const tg__method_def tg__method_powers = {
    .entry = {"powers", "powers of two; with residual", "", keys},
    .card = {.family = "quantised",
             .sends = "sign and exponent of each element",
             .bits = "8",
             .keeps = "1 vector: the residual",
             .cost = "1 pass; 1 round, 1 delay",
             .use = "never: a test",
             .limit = "exact for powers of two"},
    .program = &tg__default_program,
    .codec = "powers",
    .feedback = "residual",
};
