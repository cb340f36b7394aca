/* Streaming DiLoCo: fragments of the parameters take turns, and training continues while their
 * average is in flight. (Few bits per value are the method's choice, e.g. qsgd:bits=4.) */
#include "strategy/nesterov.h"
#include "strategy/outer.h"

static const tg_key keys[] = {
    TG__OUTER_EVERY,
    TG__KEY(INT, "fragments", "2", 1, 1e6,
            "parts of the parameters, whose rounds end one after the other; at most as many as "
            "there are buckets (the default adapts)"),
    TG__KEY(
        INT, "overlap", "1", 0, 1e9,
        "steps that an average may take; it is applied before the local step of the last of them"),
    TG__KEY(REAL, "alpha", "0", 0, 1,
            "share of the own parameters that stays when the average arrives"),
    TG__OUTER_NESTEROV,
    TG__OUTER_GROWS,
    {.name = NULL}};

const tg__strategy_ops tg__strategy_streaming = {
    .entry = {"streaming",
              "like diloco, one fragment after the other, in parallel with local steps",
              "Douillard et al. 2025, arXiv:2501.18512", keys},
    .tested = "every=4,overlap=2",
    .init = tg__outer_init,
    TG__OUTER_OPS,
};
