/* DeMo: synchronous; each rank has its own momentum, and only the sign of the mean is applied:
 *
 *     w = w (1 - eta * wd) - eta * sign(mean)          sign(0) = 0
 *
 * The momentum is the residual of the method (dct, whose decay is the momentum's): it keeps what
 * was not sent. eta and wd are those of sgd; decay is always decoupled. Signs do not depend on the
 * scale of the mean, so the learning rate enters the residual by the method's key rescale: the
 * residual is multiplied by eta_old / eta_new when the rate changes, so that eta times it is DeMo's
 * delta = decay * delta + eta * g.
 *
 * Source: Peng, Quesnelle, Kingma 2024, arXiv:2411.19870, alg. 1 */
#include "kernel/kernel.h"
#include "strategy/strategy.h"

static tg_status refuse(const tg_optimizer *o, const char *why)
{
    return tg_fail(
        TG_E_SPEC,
        "strategy \"demo\" with optimizer \"%s\": %s: allowed: sgd with lr, weight_decay "
        "and exempt",
        tg_spec_text(tg_optimizer_spec(o)), why);
}

static tg_status check(const tg_optimizer *o)
{
    if (o->ops->adaptive)
        return refuse(o,
                      "its steps are signs of the mean, and signs carry no magnitude to adapt to");
    if (o->momentum > 0)
        return refuse(o, "the method's residual is the momentum");
    if (o->clip > 0)
        return refuse(o, "clipping the mean does not change its signs");
    return TG_OK;
}

static tg_status init(tg__strategy *s)
{
    s->decays_apart = true;
    if (s->external)
        return tg_fail(TG_E_SPEC, "strategy \"demo\" has no step that an external optimizer could "
                                  "make: its momentum is the method's memory, and its step is the "
                                  "sign of the mean: use optimizer sgd, or strategy sparseloco");
    TG_TRY(check(s->optimizer));
    for (size_t i = 0; i < s->ntensors; i++)
        TG_TRY(check(tg__strategy_optimizer(s, i)));
    return TG_OK;
}

static void result(tg__strategy *s, const tg__result *r)
{
    for (size_t i = 0; r->agg != NULL && i < s->ntensors; i++) {
        const tg__wtensor *x = &s->tensor[i];
        if (x->bucket != r->bucket)
            continue;
        const double wd = tg__optimizer_decay(tg__strategy_optimizer(s, i), x->ndim);
        tg__kernel()->sign_step(x->w, r->agg + x->offset, x->n, (float)(1 - r->lr * wd),
                                (float)r->lr);
    }
}

const tg__strategy_ops tg__strategy_demo = {
    .entry = {"demo", "synchronous; the update is the sign of the average",
              "Peng et al. 2024, arXiv:2411.19870", NULL},
    .method = "dct",
    .optimizer = "sgd:lr=0.001",
    .init = init,
    .result = result,
    .by_bucket = true,
};
