/* CSC, coarse-grained sparse communication: the chunks of the bucket with the largest accumulated
 * velocity over all ranks are summed densely. */
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY(INT, "chunk", "auto", 1, 1e9,
            "elements that are sent or kept together; auto: the largest power of two, 64 to "
            "32768, that makes at least 64 chunks and sends at least 4",
            .choices = "auto"),
    TG__KEY(REAL, "density", "0.1", 0, 1, "fraction of the bucket's chunks to send, at least one",
            .min_open = true),
    TG__KEY(DURATION, "warmup", "1ep", 0, 1e9,
            "dense steps or epochs (1ep) at the start, with momentum; the default is at most a "
            "fifth of the run",
            .share = 0.2),
    TG__KEYS_VELOCITY,
    TG__KEY_EXCHANGE_DENSE,
    {.name = NULL},
};

const tg__method_def tg__method_csc = {
    .entry = {"csc", "the chunks of largest norm over all ranks, with DGC's momentum correction",
              "Sun et al. 2019 (GradientFlow), arXiv:1902.06855", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "sparsification",
             .sends = "the chunks of largest norm over all ranks, as f32; one norm per chunk",
             .bits = "32 density + 32 / chunk: 3.2 + 0.001 to 0.5",
             .keeps = "2 vectors: the velocity, and its accumulated sum",
             .cost = "1 pass (u, v, norms), and another over the chunks sent; 2 rounds, 3 delays, "
                     "8 density n (P-1)/P bytes",
             .use = "links that are too slow for dense: sums need neither indices nor decoding, "
                    "and bytes do not grow with P",
             .limit = "density=1 or chunk >= n with masking=yes: plain SGD, bit for bit; with "
                      "masking=no: momentum SGD, bit for bit on one rank"},
    .program = &tg__csc_program,
    .feedback = "velocity",
    .properties = TG__SPARSIFIES | TG__OWNS_MOMENTUM,
};
