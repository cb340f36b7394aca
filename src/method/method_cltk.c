/* CLT-k: the ranks take turns choosing the k elements with the largest |r + g + lookahead * g|; all
 * ranks send their values of these. They are summed without indices; the rest stays in r.
 * ScaleCom's low-pass filter of r: r = (1 - beta) r + beta (r + g - sent). */
#include "codec/lookahead.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_DENSITY("0.01"),
    TG__KEY_WARMUP("0"),
    TG__KEY(REAL, "beta", "1", 0, 1,
            "low-pass filter of the residual: the share of what was not sent that enters it in a "
            "step; 1: all; with Adam try 0.1, the value of ScaleCom",
            .min_open = true),
    TG__KEY_LOOKAHEAD_LEADER,
    TG__CHOICE("values", "f32", "f32|fp16",
               "format of the values that ranks send to where they are summed"),
    TG__KEY_EXCHANGE_DENSE,
    {.name = NULL},
};

const tg__method_def tg__method_cltk = {
    .entry = {"cltk", "the largest elements of one rank, in turn, of all ranks; summed densely",
              "Chen et al. 2020 (ScaleCom), arXiv:2104.11125", keys},
    .card =
        {
            .struct_size = sizeof(tg_method_card),
            .family = "sparsification",
            .sends = "the leader, a different rank each step: k indices; all ranks: k values at "
                     "these places",
            .bits = "32 density, and 9 density at the leader: 0.41 at 1 %",
            .keeps = "1 vector: the residual (beta below 1: another one within a step)",
            .cost = "r += g, the leader's selection, a gather; 3 rounds, 3 delays (4 from 9 ranks "
                    "on), 8 k (P-1)/P bytes and the coded indices",
            .use = "many ranks with similar gradients: bytes do not grow with P, and the choice is "
                   "not random as in randomk",
            .limit = "density=1: synchronous SGD, exactly; beta=1 is common error feedback: on one "
                     "rank topk:values=f32",
        },
    .program = &tg__leader_support_program,
    .codec = "f32",
    .feedback = "residual",
    .properties = TG__SPARSIFIES,
};
