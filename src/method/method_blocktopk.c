/* SparseLoCo's compression: the largest elements of each block with two-bit values, a residual that
 * decays, and a mean with norms clipped to their median. It requires an all-gather: clipping
 * applies to whole tensors of single ranks, and sums must not be selected again, because blocks
 * cross the cuts of other exchanges. */
#include "codec/block/block_frame.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__BLOCK_KEY_KEEP("64"),
    TG__CHOICE("values", "2bit", "2bit|fp16|f32", "2bit: one of four levels per tensor"),
    TG__KEY_DECAY("0.95"),
    TG__CHOICE("clip", "median", "median|no",
               "median: scale each rank's part of a tensor down to the median of the ranks' norms"),
    TG__KEY_RESCALE("no"),
    TG__KEY_EXCHANGE(TG__SUMS_WHOLE, "allgather"),
    {.name = NULL},
};

const tg__method_def tg__method_blocktopk = {
    .entry = {"blocktopk", "the largest elements of each block of 64 x 64, two bits per value",
              "Sarfi et al. 2025, arXiv:2508.15706", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "sparsification",
             .sends = "the 64 largest elements of each block, with 12 bits per index and 2 per "
                      "value; all values of a vector. A dimension with no divisor from 16 to 64 is "
                      "cut into blocks of 64",
             .bits = "0.22 of a matrix, 2 to 3 of a vector",
             .keeps = "1 vector: the residual, which decays; with clip=median 1 more for each "
                      "exchange under way",
             .cost = "2 passes; 1 round, 1 delay; clip=median decodes every frame twice",
             .use = "the change of many local steps, over very slow links (strategy sparseloco)",
             .limit = "keep=4096,values=f32,decay=1,clip=no: synchronous SGD, bit for bit"},
    .program = &tg__default_program,
    .codec = "blocktopk",
    .feedback = "residual",
    .combine = &tg__combine_clipped,
};
