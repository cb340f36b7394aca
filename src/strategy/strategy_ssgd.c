/* Synchronous SGD: w = optimizer(w, mean over ranks of g). The exchange of a bucket starts as soon
 * as its gradient is complete, while the backward pass continues. (With method 2bit this is
 * "bit-sgd".) */
#include "strategy/ssgd.h"

static tg_status init(tg__strategy *s)
{
    return tg__strategy_add_optimizer(s, TG__ROLE_REPLICATED);
}

void tg__ssgd_nothing(tg__strategy *s)
{
    (void)s;
}

static void ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out)
{
    (void)s;
    tg__actions_add(out, bucket, true, t);
}

void tg__ssgd_result(tg__strategy *s, const tg__result *r)
{
    for (size_t i = 0; r->agg && i < s->ntensors; i++) {
        const tg__wtensor *x = &s->tensor[i];
        if (x->bucket == r->bucket)
            tg__strategy_update(s, 0, i, r->lr, x->w, r->agg + x->offset);
    }
}

void tg__ssgd_step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out)
{
    (void)s;
    (void)t;
    (void)finite;
    (void)lr;
    (void)out;
}

void tg__ssgd_drained(tg__strategy *s, uint64_t t, tg__actions *out)
{
    (void)s;
    (void)t;
    (void)out;
}

const float *tg__ssgd_global(const tg__strategy *s, size_t i)
{
    return s->tensor[i].w;
}

const tg__strategy_ops tg__strategy_ssgd = {
    .entry = {"ssgd", "synchronous: exchange in every step, wait for the average, then update",
              "Das et al. 2016, arXiv:1602.06709", NULL},
    .init = init,
    .ready = ready,
    TG__SSGD_OPS,
    .by_bucket = true,
};
