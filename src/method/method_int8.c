/* int8: a quarter of the bytes. Every element is sent as an 8-bit integer with one scale per 512
 * elements; sums are f32. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_FEEDBACK_OF_ROUNDING,
    TG__KEY_RESCALE("no"),
    TG__KEY_EXCHANGE(TG__SUMS_CODED | TG__SUMS_ROUNDED | TG__SUMS_REROUNDED | TG__SUMS_TWOWAY,
                     "allgather"),
    {.name = NULL},
};

const tg__method_def tg__method_int8 = {
    .entry = {"int8", "8-bit integers with one scale per 512 elements, summed in f32", "", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "quantisation",
             .sends = "8-bit integers, and a bf16 scale per 512 elements",
             .bits = "8.03",
             .keeps = "nothing; with feedback=residual 1 vector",
             .cost = "1 pass; allgather: 1 round, 1 delay, n (P-1) bytes; reducescatter: 2 delays, "
                     "2 n (P-1)/P bytes, and sums are rounded, too",
             .use = "a quarter of the bytes, as fp16; the error is at most 0.4 % of "
                    "the largest of 512 elements (512 that are all below 1e-28 are sent as 0)",
             .limit = "exact for integer multiples of a power of two, if the largest is 127"},
    .program = &tg__default_program,
    .codec = "int8",
    .feedback = "none",
};
