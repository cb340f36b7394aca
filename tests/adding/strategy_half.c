/* Synchronous SGD with half the learning rate. */
#include "strategy/ssgd.h"

static tg_status init(tg__strategy *s)
{
    return tg__strategy_add_optimizer(s, TG__ROLE_REPLICATED);
}

static void ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out)
{
    (void)s;
    tg__actions_add(out, bucket, true, t);
}

static void half_result(tg__strategy *s, const tg__result *r)
{
    tg__result half = *r;
    half.lr /= 2;
    tg__ssgd_result(s, &half);
}

const tg__strategy_ops tg__strategy_half = {
    .entry = {"half", "ssgd with half of the learning rate", "", NULL},
    .init = init,
    .ready = ready,
    .fini = tg__ssgd_nothing,
    .begin = tg__ssgd_nothing,
    .result = half_result,
    .step = tg__ssgd_step,
    .drained = tg__ssgd_drained,
    .global = tg__ssgd_global,
    .by_bucket = true,
};
