/* ATOMO: send about `rank` singular vectors of each matrix, drawn at random and scaled to be
 * unbiased. */
#include "method/default_program.h"
#include "method/method_keys.h"
#include "telegrad/spec.h"

static const tg_key keys[] = {
    {.name = "rank",
     .type = TG_KEY_INT,
     .def = "3",
     .min = 1,
     .max = 65536,
     .help = "atoms kept per matrix, on average; s in the paper"},
    {.name = "exchange",
     .type = TG_KEY_CHOICE,
     .def = "allgather",
     .choices = "allgather|auto|none",
     .help =
         "allgather, also with auto, because atoms belong to whole matrices; " TG__EXCHANGE_NONE},
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
