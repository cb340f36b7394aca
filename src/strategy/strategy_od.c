/* OD-SGD: one-step delay with local update, never compressed. */
#include "strategy/delayed.h"

static const tg_key keys[] = {TG__DELAYED_KEYS("200"), {.name = NULL}};

static tg_status init(tg__strategy *s)
{
    return tg__delayed_init(s, 1);
}

const tg__strategy_ops tg__strategy_od = {
    .entry = {"od", "exchange while the next step computes with locally updated parameters",
              "Xu et al. 2020, arXiv:2005.06728", keys},
    .rate =
        &(const tg_rate_hint){.struct_size = sizeof(tg_rate_hint),
                              .dense =
                                  "cd, which codes, and exchanges dense gradients in some steps"},
    .tested = "warmup=2",
    .init = init,
    TG__DELAYED_OPS,
};
