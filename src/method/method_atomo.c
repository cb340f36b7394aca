/* ATOMO: send about `rank` singular vectors of each matrix, drawn at random and scaled to be
 * unbiased. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY(INT, "rank", "3", 1, 65536, "atoms kept per matrix, on average; s in the paper"),
    TG__KEY_EXCHANGE(TG__SUMS_WHOLE, "allgather"),
    {.name = NULL},
};

const tg__method_def tg__method_atomo = {
    .entry = {"atomo", "random singular vectors of each matrix; unbiased, without memory",
              "Wang et al. 2018, arXiv:1806.04090", keys},
    .card =
        {
            .struct_size = sizeof(tg_method_card),
            .family = "low rank",
            .sends = "atoms u v^T of each matrix, rank of them on average, as f32; vectors dense",
            .bits = "96 (rows + cols) / (rows cols) of a matrix, at rank=3",
            .keeps = "nothing",
            .cost = "a singular value decomposition of each matrix, O(n min(rows, cols)); 1 round, "
                    "1 delay",
            .use = "few large matrices and a slow link, if updates must be unbiased",
            .limit = "matrices that are no larger than their atoms are sent dense: synchronous SGD",
        },
    .program = &tg__default_program,
    .codec = "atomo",
    .feedback = "none",
};
