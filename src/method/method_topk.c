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
    TG__KEY_EXCHANGE_CODED,
    {.name = NULL},
};

const tg__method_def tg__method_topk = {
    .entry = {"topk", "the largest elements, the rest stays in a residual",
              "Aji and Heafield 2017, arXiv:1704.05021", keys},
    .card = {.sends =
                 "the density * n elements of largest magnitude: fp16 values, Rice-coded indices",
             .bits = "0.24 (density 1 %)",
             .keeps = "1 vector: the residual",
             .cost = "1 pass; allgather: 1 round, 1 delay, (P-1) frames sent",
             .use = "on slow networks, where the optimizer keeps its momentum",
             .limit = "density 1 with values=f32 is synchronous SGD, bit for bit"},
    .program = &tg__default_program,
    .codec = "topk",
    .feedback = "residual",
    .exchange = "allgather",
    .properties = TG__SPARSIFIES,
};
