/* AdaComp: G = r + g; send the elements with |G + g| >= max |G| of their bin, each as its sign
 * times the tensor's mean magnitude; r = G - sent. */
#include "codec/sparse/level_frame.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_BIN, TG__KEY_INDEX, TG__KEY_RESCALE("no"), TG__KEY_EXCHANGE_TWOWAY, {.name = NULL},
};

const tg__method_def tg__method_adacomp = {
    .entry = {"adacomp", "the elements that this gradient lifts to the maximum of their bin",
              "Chen et al. 2018, arXiv:1712.02679", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "sparsification",
             .sends = "index and sign of the chosen elements, one magnitude per tensor",
             .bits = "0.3 to 0.6 in bins of 50, 0.1 to 0.15 in bins of 500, depending on the data",
             .keeps = "1 vector: the residual",
             .cost = "2 passes; 1 round, 1 delay",
             .use = "layers of different kinds, with no density to tune",
             .limit = "none; sent + residual = sum of gradients"},
    .program = &tg__default_program,
    .codec = "adacomp",
    .feedback = "residual",
};
