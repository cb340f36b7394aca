/* PowerSGD: send each matrix as a product of two skinny ones, found by one step of a warm-started
 * power iteration. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY(INT, "rank", "4", 1, 65536,
            "columns of the factors; a matrix no larger than its factors is sent dense"),
    TG__FLAG("warm", "yes",
             "start from the factor of the last step; no: from random numbers in every step"),
    TG__KEY(REAL, "min_ratio", "2", 1, 1e9,
            "send matrices dense that would become less than this many times smaller"),
    TG__KEY(DURATION, "start", "0", 0, 1e9, "dense steps or epochs (1ep) at the start"),
    TG__KEY_EXCHANGE_DENSE,
    {.name = NULL},
};

const tg__method_def tg__method_powersgd = {
    .entry = {"powersgd", "each matrix as a product of two thin ones; the rest stays in a residual",
              "Vogels et al. 2019, arXiv:1905.13727", keys},
    .card =
        {
            .struct_size = sizeof(tg_method_card),
            .family = "low rank",
            .sends = "two factors of each matrix, of rank columns each, as f32; vectors dense",
            .bits = "32 rank (1 / rows + 1 / cols) of a matrix",
            .keeps = "the residual, and three factors of each matrix",
            .cost = "3 passes and 8 rank operations per element; 2 rounds of dense exchanges "
                    "(direct: 4 delays, allgather: 2)",
            .use = "large matrices: bytes do not grow with P, and sums need no decoding; the "
                   "optimizer's momentum follows the mean, as in the paper",
            .limit = "rank >= min(rows, cols): sent dense, synchronous SGD; the first steps are "
                     "those of one rank with the mean gradient",
        },
    .program = &tg__powersgd_program,
};
