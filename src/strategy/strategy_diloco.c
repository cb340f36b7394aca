/* DiLoCo: many own steps, then an outer step with Nesterov momentum along the mean change. */
#include "strategy/nesterov.h"
#include "strategy/outer.h"

static const tg_key keys[] = {TG__OUTER_EVERY, TG__OUTER_NESTEROV, TG__OUTER_GROWS, {.name = NULL}};

const tg__strategy_ops tg__strategy_diloco = {
    .entry = {"diloco", "many local steps, then a Nesterov step along the average of their changes",
              "Douillard et al. 2023, arXiv:2311.08105", keys},
    .tested = "every=3",
    .init = tg__outer_init,
    TG__OUTER_OPS,
};
