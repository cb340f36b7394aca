/* EF-signSGD: p = g + r; send mean |p| * sign(p); r = p - sent.
 *
 * The paper keeps its residual in units of the update: p' = eta*g + r', w -= sent'. Here it is in
 * units of the gradient, as in every method, so that any strategy and optimizer can follow. r is
 * multiplied by eta_old / eta_new when the learning rate changes, so that eta*r equals the paper's
 * r' up to rounding. rescale=no leaves r as it is. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__CHOICE(
        "scale", "row", "tensor|row",
        "mean |p| of each row of a matrix (rows of zeros stay zero; vectors are sent as they "
        "are, if they are at most a 32nd of the bucket's elements), or of each tensor, as in "
        "the paper"),
    TG__KEY_RESCALE("yes"),
    TG__KEY_EXCHANGE_TWOWAY,
    {.name = NULL},
};

const tg__method_def tg__method_efsign = {
    .entry = {"efsign", "signs times their mean magnitude; with residual",
              "Karimireddy et al. 2019, arXiv:1901.09847, alg. 1", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "signs",
             .sends =
                 "the sign of each element, and the mean magnitude of each row; few vectors as "
                 "they are",
             .bits = "1 + 32 / row length",
             .keeps = "1 vector: the residual",
             .cost = "1 pass; 1 round, 1 delay",
             .use =
                 "1 bit per element where signsgd loses accuracy; learns with SGD's learning rate",
             .limit = "exact for rows of one magnitude; sum of eta * sent + eta * r = sum of eta * "
                      "g, to rounding"},
    .program = &tg__default_program,
    .codec = "sign",
    .feedback = "residual",
};
