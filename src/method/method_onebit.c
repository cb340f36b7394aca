/* 1-bit SGD: r += g; send each element as one of two means of its column; r -= sent. twoway: the
 * owners of the blocks quantise the mean again, with a residual of their own, so that both
 * directions use 1 bit. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__CHOICE("threshold", "zero", "zero|mean",
               "what elements are compared with: 0, or the mean of their column"),
    TG__FLAG("weights", "yes",
             "with threshold=zero: means are multiplied by a weight for each row, and vectors, if "
             "they are at most a 32nd of the elements, are sent as they are; no: as in the paper"),
    TG__FLAG("twoway", "no",
             "exchange=direct, where the owner of each block quantises the mean, too"),
    TG__KEY_RESCALE("no"),
    TG__KEY_EXCHANGE_TWOWAY,
    {.name = NULL},
};

const tg__method_def tg__method_onebit = {
    .entry = {"1bit", "one bit per element, two means per column; with residual",
              "Seide et al. 2014, 1-bit stochastic gradient descent, Interspeech", keys},
    .card =
        {.struct_size = sizeof(tg_method_card),
         .family = "quantisation",
         .sends = "a bit per element, which selects one of two means of its column; a "
                  "weight for each row; few vectors as they are",
         .bits = "1 + 64 / column length + 32 / row length",
         .keeps = "1 vector: the residual; twoway=yes: also 2/P of a vector, for the owner's block",
         .cost = "2 passes; 1 round, 1 delay; twoway: 2 rounds, 2 delays, 2 n/8 bytes for any P",
         .use = "large dense layers; twoway from 4 ranks on",
         .limit = "exact for magnitudes of rank one; weights=no: for columns of two values with "
                  "opposite signs"},
    .program = &tg__default_program,
    .codec = "1bit",
    .feedback = "residual",
};
