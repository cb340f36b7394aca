/* Gradient dropping: send the k largest |g + r|, keep the rest in r. */
#include "method/default_program.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_DENSITY("0.01"),
    TG__KEY_WARMUP("0"),
    TG__KEY_VALUES,
    TG__KEY_INDEX,
    {.name = "feedback",
     .type = TG_KEY_CHOICE,
     .def = "residual",
     .choices = "none|residual",
     .help = "none: naive pruning, which diverges at high sparsity"},
    TG__KEY_RESCALE("no"),
    TG__KEY_EXCHANGE_CODED,
    {.name = NULL},
};

const tg__method_def tg__method_topk = {
    .entry = {"topk", "the largest elements, the rest stays in a residual",
              "Aji and Heafield 2017, arXiv:1704.05021", keys},
    .program = &tg__default_program,
    .codec = "topk",
    .feedback = "residual",
    .exchange = "allgather",
    .properties = TG__SPARSIFIES,
};
