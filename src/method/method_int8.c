/* A quarter of the bytes: every element as an 8-bit integer with a scale for 512, sums in f32. */
#include "method/default_program.h"
#include "method/method_keys.h"
#include "telegrad/spec.h"

static const tg_key keys[] = {
    TG__KEY_FEEDBACK_OF_ROUNDING,
    TG__KEY_RESCALE("no"),
    TG__KEY_EXCHANGE_ROUNDED_OR_RING,
    {.name = NULL},
};

const tg__method_def tg__method_int8 = {
    .entry = {"int8", "every element as an 8-bit integer, one scale for 512, summed in f32", "",
              keys},
    .card = {.family = "quantisation",
             .sends = "8-bit integers, a bf16 scale for every 512",
             .bits = "8.03",
             .keeps = "nothing; feedback=residual: 1 residual",
             .cost = "1 pass, 1 round, 1 delay",
             .use = "a quarter of the bytes without a thought; the error is at most 0.4 % of the "
                    "largest in 512 (512 below 1e-28 are sent as 0)",
             .limit = "exact on multiples of a power of two up to 127 of it, if 127 occurs"},
    .program = &tg__default_program,
    .codec = "int8",
    .feedback = "none",
};
