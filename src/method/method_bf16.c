/* Half the bytes: every element as bfloat16, sums in f32. */
#include "method/default_program.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    {.name = "feedback",
     .type = TG_KEY_CHOICE,
     .def = "none",
     .choices = "none|residual",
     .help = "residual: remember the rounding and send it later"},
    TG__KEY_EXCHANGE_CODED,
    {.name = NULL},
};

const tg__method_def tg__method_bf16 = {
    .entry = {"bf16", "every element as bfloat16, summed in f32", "", keys},
    .program = &tg__default_program,
    .codec = "bf16",
    .feedback = "none",
    .exchange = "allgather",
};
