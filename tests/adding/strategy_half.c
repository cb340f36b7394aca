/* Synchronous SGD with half the learning rate. */
#include "strategy/strategy.h"

static tg_status init(tg__strategy *s)
{
    return tg__strategy_add_optimizer(s, TG__ROLE_REPLICATED);
}

static void half_result(tg__strategy *s, const tg__result *r)
{
    tg__result half = *r;
    half.lr /= 2;
    tg__strategy_apply(s, &half);
}

const tg__strategy_ops tg__strategy_half = {
    .entry = {"half", "ssgd with half of the learning rate", "", NULL},
    .init = init,
    .result = half_result,
    .by_bucket = true,
};
