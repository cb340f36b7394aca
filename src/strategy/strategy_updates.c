/* Averages of updates: each rank's optimizer acts before the exchange, not after it. See
 * directions.h.
 *
 * With clip, the norm of all of the rank's gradients is needed first, so exchanges begin in step();
 * otherwise as soon as a bucket is complete. */
#include "base/mem.h"
#include "strategy/directions.h"

static tg_status init(tg__strategy *s)
{
    tg__directions *d;
    if (s->external)
        return tg_fail(TG_E_SPEC,
                       "strategy \"updates\" needs an optimizer of the library, whose step it can "
                       "take apart: with an external one use local:every=1");
    TG_TRY(tg__owned_alloc(&s->owned, 1, sizeof *d, &d));
    s->impl = d;
    return tg__directions_init(s, d, "strategy ssgd");
}

static void exchange(tg__strategy *s, uint64_t t, uint32_t bucket, bool finite, tg__actions *out)
{
    tg__directions_make_bucket(s, s->impl, bucket, finite);
    tg__actions_add(out, bucket, true, t)->buffer = tg__directions_of_bucket(s->impl, bucket);
}

static void ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out)
{
    if (!s->optimizer->needs_all)
        exchange(s, t, bucket, s->finite, out);
}

static void step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out)
{
    (void)lr;
    for (uint32_t b = 0; s->optimizer->needs_all && b < s->nbuckets; b++)
        exchange(s, t, b, finite, out);
}

const tg__strategy_ops tg__strategy_updates = {
    .entry =
        {"updates",
         "like ssgd, but each rank's optimizer acts first: updates are averaged, not gradients",
         "Chen et al. 2020, arXiv:2004.14180", NULL},
    .rate = &(const tg_rate_hint){.struct_size = sizeof(tg_rate_hint), .methods = true},
    .init = init,
    .ready = ready,
    .result = tg__directions_result,
    .step = step,
    .by_bucket = true,
};
