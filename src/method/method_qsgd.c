/* QSGD: values are rounded to a few levels of each bucket's norm, at random and without bias, so
 * that no error feedback is needed. Sums are f32. */
#include "codec/quant/codec_qsgd.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__QSGD_KEYS,
    TG__KEY_FEEDBACK_OF_ROUNDING,
    TG__KEY_RESCALE("no"),
    TG__KEY_EXCHANGE(TG__SUMS_CODED | TG__SUMS_ROUNDED | TG__SUMS_TWOWAY, "allgather"),
    {.name = NULL},
};

const tg__method_def tg__method_qsgd = {
    .entry = {"qsgd", "a few levels of each bucket's norm, rounded at random without bias",
              "Alistarh et al. 2017, arXiv:1610.02132", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "quantisation",
             .sends = "4-bit levels, and a bf16 unit per 512 elements",
             .bits = "4.03",
             .keeps = "nothing; with feedback=residual 1 vector",
             .cost =
                 "1 pass; allgather: 1 round, 1 delay, n (P-1) / 2 bytes; reducescatter: 2 delays, "
                 "n (P-1)/P bytes, and sums are rounded, too",
             .use = "8 times fewer bytes between two ranks, and with exchange=reducescatter among "
                    "any number; without state, with a proof of convergence",
             .limit = "exact for levels of a power-of-two unit; E[decoded] = gradient"},
    .program = &tg__default_program,
    .codec = "qsgd",
    .feedback = "none",
};
