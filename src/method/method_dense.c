/* Synchronous SGD: the exact mean of the gradients. */
#include "method/default_program.h"

static const tg_key keys[] = {
    {.name = "exchange",
     .type = TG_KEY_CHOICE,
     .def = "auto",
     .choices = "auto|direct|ring|allgather|none",
     .help = "auto: direct reduce-scatter + all-gather, summed in rank order"},
    {.name = NULL},
};

const tg__method_def tg__method_dense = {
    .entry = {"dense", "exact mean in f32", "", keys},
    .program = &tg__default_program,
    .codec = "f32",
    .feedback = "none",
    .exchange = "direct",
    .properties = TG__DENSE,
};
