/* Deep Gradient Compression: u = m*u + g; v += u; send the k elements with the largest
 * |v + lookahead * u|; v[sent] = u[sent] = 0. */
#include "codec/lookahead.h"
#include "method/method_keys.h"

static const tg_key keys[] = {
    TG__KEY_DENSITY("0.001"),
    TG__KEY_WARMUP("4ep"),
    TG__KEYS_VELOCITY, /* momentum, nesterov, masking, clip */
    TG__KEY_SCOPE,
    TG__KEY_VALUES("int8"),
    TG__KEY_INDEX,
    TG__KEY_LOOKAHEAD_DGC,
    TG__KEY_EXCHANGE(TG__SUMS_CODED | TG__SUMS_SELECTED | TG__SUMS_TWOWAY, "allgather"),
    {.name = NULL},
};

const tg__method_def tg__method_dgc = {
    .entry = {"dgc", "top-k with momentum correction, factor masking and warm-up",
              "Lin et al. 2018, arXiv:1712.01887", keys},
    .card = {.struct_size = sizeof(tg_method_card),
             .family = "sparsification",
             .sends = "k = density * n values and their indices",
             .bits = "0.0195 (density=0.001: 8.1 bits per value, 11.4 per index)",
             .keeps = "2 vectors: the velocity, and its accumulated sum",
             .cost = "1 pass (u, v, select); 1 round, 1 delay; reducescatter: 2 delays, and bytes "
                     "that do not grow with P",
             .use = "very slow links: about a thousand times fewer bytes. The paper reports no "
                    "loss; here it lost 5.2 points in 4 epochs of ResNet-20",
             .limit = "density=1,values=f32 with masking=yes: plain SGD, bit for bit; with "
                      "masking=no: momentum SGD, bit for bit on one rank"},
    .program = &tg__default_program,
    .codec = "topk",
    .feedback = "velocity",
    .properties = TG__SPARSIFIES | TG__OWNS_MOMENTUM,
};
