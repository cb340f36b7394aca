/* FetchSGD: sum count sketches of the gradients; momentum, error feedback and the choice of the
 * largest elements work on the sum, in the sketch. */
#include "method/method_keys.h"
#include "method/sketch.h"

static const tg_key keys[] = {
    TG__KEY(INT, "rows", "3", 1, TG__SKETCH_ROWS,
            "rows of the sketch; an element's estimate is the median over them"),
    TG__KEY(REAL, "ratio", "10", 1, 1e6,
            "elements of the bucket per cell of the sketch; a row has at least 64 cells, and a "
            "sketch that would not be smaller than the bucket is the bucket itself"),
    TG__KEY(REAL, "density", "0.002", 0, 1,
            "fraction of the bucket's elements to extract and apply in a step, at least one",
            .min_open = true),
    TG__KEY(REAL, "momentum", "0.9", 0, 0.999999,
            "in the sketch; the default is the optimizer's, if that sets one"),
    TG__FLAG("nesterov", "no", "Nesterov momentum"),
    TG__FLAG("masking", "yes", "momentum factor masking: clear the cells of what was extracted"),
    TG__CHOICE("extract", "zero", "zero|subtract",
               "the cells of what was extracted become 0 in the sketch of the error, as in the "
               "authors' code; subtract: it is subtracted, as in the paper's algorithm, which "
               "diverges if the sketch is small"),
    TG__KEY_EXCHANGE_DENSE,
    {.name = NULL},
};

const tg__method_def tg__method_fetchsgd = {
    .entry = {"fetchsgd", "count sketches, summed densely; all ranks extract the largest elements",
              "Rothchild et al. 2020, arXiv:2007.07682", keys},
    .card =
        {
            .struct_size = sizeof(tg_method_card),
            .family = "sparsification",
            .sends = "a count sketch of rows x columns cells, as f32",
            .bits = "32 / ratio: 3.2",
            .keeps = "4 sketches, the same on all ranks: momentum and error, and a copy of each "
                     "within a step",
            .cost = "rows sums per element to sketch, rows look-ups and a median to estimate; 1 "
                    "round of a dense exchange (direct: 2 delays), 8 n (P-1)/P / ratio bytes",
            .use = "ranks that keep no memory of their own; bytes do not grow with P, and the "
                   "largest elements are those of the mean",
            .limit = "ratio=1: no collisions, so with density=1 and masking=yes plain SGD, with "
                     "masking=no momentum SGD, bit for bit",
        },
    .program = &tg__fetchsgd_program,
    .properties = TG__OWNS_MOMENTUM,
};
