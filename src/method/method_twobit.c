/* 2-bit quantisation with residual: r += g; send +tau where r >= tau, -tau where r <= -tau, else 0;
 * r -= sent. */
#include "method/default_program.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    {.name = "threshold",
     .type = TG_KEY_REAL,
     .def = "0.5",
     .min = 0,
     .max = 1e30,
     .min_open = true,
     .help = "what is sent, in units of the gradient (mean over the batch; MXNet's is of the sum)"},
    TG__KEY_EXCHANGE_CODED,
    {.name = NULL},
};

const tg__method_def tg__method_twobit = {
    .entry = {"2bit", "three levels -threshold, 0, threshold with residual",
              "MXNet kvstore two-bit compression; BIT-SGD in CD-SGD (Yu et al. 2021)", keys},
    .card = {.sends = "-threshold, 0 or +threshold for each element",
             .bits = "2",
             .keeps = "1 vector: the residual",
             .cost = "1 pass; allgather: 1 round, 1 delay, n (P-1)/4 bytes sent",
             .use = "when the bytes must be known beforehand and a threshold can be tuned",
             .limit = "none; all that was sent and the residual add up to the gradients"},
    .program = &tg__default_program,
    .codec = "2bit",
    .feedback = "residual",
    .exchange = "allgather",
};
