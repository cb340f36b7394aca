/* Gradient dropping: r += g; send the k elements with the largest |r + lookahead * g|, keep the
 * rest in r. */
#include "codec/lookahead.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_DENSITY("0.01"),
    TG__KEY_WARMUP("0"),
    TG__KEY_SCOPE,
    TG__KEY_VALUES("fp16"), /* close to the paper, which sends full values */
    TG__KEY_INDEX,
    TG__CHOICE(
        "select", "exact", "exact|trimmed",
        "exact: the k largest; trimmed: RedSync's selection, k to 2 k elements that reach a "
        "threshold found by a search between the mean and the largest magnitude (Fang et al. "
        "2019, arXiv:1802.04799)"),
    TG__KEY_LOOKAHEAD,
    TG__CHOICE("feedback", "residual", "none|residual",
               "none: naive pruning, which diverges at high sparsity"),
    TG__KEY_RESCALE("no"),
    TG__KEY_EXCHANGE(TG__SUMS_CODED | TG__SUMS_SELECTED | TG__SUMS_TWOWAY, "allgather"),
    {.name = NULL},
};

const tg__method_def tg__method_topk = {
    .entry = {"topk", "the largest elements; the rest stays in a residual",
              "Aji and Heafield 2017, arXiv:1704.05021", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "sparsification",
             .sends = "k = density * n values and their indices",
             .bits = "0.24 (density=0.01: 16 bits per value, 8.1 per index)",
             .keeps = "1 vector: the residual",
             .cost = "1 pass (r += g, select); 1 round, 1 delay; reducescatter: 2 delays, and "
                     "bytes that do not grow with P",
             .use = "slow links and few ranks. With strategy ssgd it has no momentum correction; "
                    "updates, the default with momentum, has",
             .limit = "density=1,values=f32: synchronous SGD, bit for bit"},
    .program = &tg__default_program,
    .codec = "topk",
    .feedback = "residual",
    .properties = TG__SPARSIFIES,
};
