/* fp16: half the bytes. Every element is sent as IEEE binary16; sums are f32. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_FEEDBACK_OF_ROUNDING,
    TG__KEY_RESCALE("no"),
    TG__KEY_EXCHANGE(TG__SUMS_CODED | TG__SUMS_ROUNDED | TG__SUMS_REROUNDED | TG__SUMS_TWOWAY,
                     "allgather"),
    {.name = NULL},
};

const tg__method_def tg__method_fp16 = {
    .entry = {"fp16", "every element as IEEE binary16, summed in f32", "", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "quantisation",
             .sends = "every element as binary16",
             .bits = "16",
             .keeps = "nothing; with feedback=residual 1 vector",
             .cost = "1 pass; allgather: 1 round, 1 delay, 2 n (P-1) bytes; reducescatter: 2 "
                     "delays, 4 n (P-1)/P bytes, and sums are rounded, too",
             .use = "half the bytes, with nothing to tune: between two ranks, and with "
                    "exchange=reducescatter among any number",
             .limit = "exact for values that binary16 can hold; sums are f32"},
    .program = &tg__default_program,
    .codec = "fp16",
    .feedback = "none",
};
