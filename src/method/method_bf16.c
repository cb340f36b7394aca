/* bf16: half the bytes. Every element is sent as bfloat16; sums are f32. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_FEEDBACK_OF_ROUNDING,
    TG__KEY_RESCALE("no"),
    TG__KEY_EXCHANGE(TG__SUMS_CODED | TG__SUMS_ROUNDED | TG__SUMS_REROUNDED | TG__SUMS_TWOWAY,
                     "allgather"),
    {.name = NULL},
};

const tg__method_def tg__method_bf16 = {
    .entry = {"bf16", "every element as bfloat16, summed in f32", "", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "quantisation",
             .sends = "every element as bfloat16, the upper half of its f32",
             .bits = "16",
             .keeps = "nothing; with feedback=residual 1 vector",
             .cost = "1 pass; allgather: 1 round, 1 delay, 2 n (P-1) bytes; reducescatter: 2 "
                     "delays, 4 n (P-1)/P bytes, and sums are rounded, too",
             .use = "as fp16, also for gradients outside its range of 6e-8 to 65,504",
             .limit = "exact for values of 8 significant bits; sums are f32"},
    .program = &tg__default_program,
    .codec = "bf16",
    .feedback = "none",
};
