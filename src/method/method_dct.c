/* DeMo's compression: the largest coefficients of each block's cosine transform are sent and leave
 * the accumulated gradient, which decays like a momentum.
 *
 * With rescale=yes, the default, eta times the residual is what DeMo accumulates: delta = decay *
 * delta + eta * g. The residual here is delta / eta; when eta changes it is rescaled. It requires
 * an all-gather, because blocks belong to whole tensors. */
#include "codec/block/block_grid.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY(INT, "keep", "32", 1, TG__BLOCK_MAX,
            "coefficients sent per block; all of a block that has no more"),
    TG__CHOICE("values", "f32", "f32|fp16", "format of the coefficients"),
    TG__KEY_DECAY("0.999"),
    TG__KEY_RESCALE("yes"),
    TG__KEY_EXCHANGE(TG__SUMS_WHOLE, "allgather"),
    {.name = NULL},
};

const tg__method_def tg__method_dct = {
    .entry = {"dct", "the largest coefficients of each block's cosine transform",
              "Peng et al. 2024, arXiv:2411.19870", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "sparsification",
             .sends = "the 32 largest coefficients of each block of 64 x 64, and their indices. A "
                      "dimension with no divisor from 16 to 64 is cut into blocks of 64",
             .bits = "0.34 of a matrix, 19 of a vector",
             .keeps = "1 vector: the residual, which decays",
             .cost = "128 products per element to encode, 40 to 128 to decode the sum of all "
                     "frames; 1 round, 1 delay",
             .use = "slow links and updates by signs (strategy demo)",
             .limit = "keep=4096,decay=1: synchronous SGD, bit for bit (sent untransformed)"},
    .program = &tg__default_program,
    .codec = "dct",
    .feedback = "residual",
    .combine = &tg__combine_dct,
};
