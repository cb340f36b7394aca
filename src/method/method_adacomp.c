/* AdaComp: G = r + g; send, as the tensor's mean magnitude with their sign, the elements with
 * |G + g| >= max |G| of their bin; r = G - sent. */
#include "codec/sparse/level_frame.h"
#include "method/default_program.h"
#include "method/method_keys.h"
#include "telegrad/spec.h"

static const tg_key keys[] = {
    TG__KEY_BIN, TG__KEY_INDEX, TG__KEY_RESCALE("no"), TG__KEY_EXCHANGE_CODED, {.name = NULL},
};

const tg__method_def tg__method_adacomp = {
    .entry = {"adacomp", "the elements that the gradient would lift to their bin's maximum",
              "Chen et al. 2018, arXiv:1712.02679", keys},
    .card = {.family = "sparsification",
             .sends = "index and sign of the chosen elements, one magnitude a tensor",
             .bits = "0.3-0.6 in bins of 50, 0.1-0.15 of 500: as many elements as the data ask for",
             .keeps = "1 (residual)",
             .cost = "2 passes; 1 round, 1 delay",
             .use = "layers of different kinds without a density to tune",
             .limit = "none; sent + residual = sum of gradients"},
    .program = &tg__default_program,
    .codec = "adacomp",
    .feedback = "residual",
};
