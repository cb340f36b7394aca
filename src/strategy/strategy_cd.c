/* CD-SGD: OD-SGD with compressed exchanges, except every k-th. */
#include "strategy/delayed.h"

static const tg_key keys[] = {
    TG__KEY(INT, "k", "5", 0, 1e15,
            "every k-th exchange is dense and uncompressed; 0: none, 1: all"),
    TG__DELAYED_KEYS("1000"),
    TG__CHOICE("average", "auto", "auto|gradients|updates",
               "what is averaged: gradients, as published, or what each rank's optimizer makes of "
               "its own (updates, which requires local=preview); auto: updates where the strategy "
               "updates is the default, unless k=1, local, scaled or eta_loc exclude it"),
    {.name = NULL}};

static tg_status init(tg__strategy *s)
{
    return tg__delayed_init(s, (uint64_t)tg_spec_int(s->spec, "k"));
}

const tg__strategy_ops tg__strategy_cd = {
    .entry = {"cd", "like od, but compressed; every k-th exchange is dense",
              "Yu et al. 2021, arXiv:2106.10796", keys},
    .method = "2bit",
    .rate = &(const tg_rate_hint){.struct_size = sizeof(tg_rate_hint),
                                  .methods = true,
                                  .dense = "k=2 or more, or k=0, with which it codes",
                                  .dense_if = "k=1"},
    .tested = "k=2,warmup=2",
    .init = init,
    TG__DELAYED_OPS,
};
