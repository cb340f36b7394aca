/* Servers keep the parameters and the optimizer (telegrad/server.h, modes sync and async): each
 * bucket's gradient is sent to them, and what comes back are its parameters. */
#include "strategy/strategy.h"
#include "strategy/optimizers.h"

#include <string.h>

static tg_status init(tg__strategy *s)
{
    if (s->external)
        return tg_fail(TG_E_UNSUPPORTED,
                       "strategy \"server\": the servers have the optimizer: with "
                       "your own, use another strategy");
    for (size_t i = 0; i < s->ntensors; i++) {
        const tg_optimizer *o = tg__strategy_optimizer(s, i);
        if (o->ops->whole || o->needs_all || o->exempt_1d)
            return tg_fail(TG_E_UNSUPPORTED,
                           "strategy \"server\" with optimizer \"%s\": servers update element by "
                           "element: allowed: sgd, adam, adamw, without clip and exempt=1d",
                           tg_spec_text(tg_optimizer_spec(o)));
    }
    return TG_OK;
}

static void result(tg__strategy *s, const tg__result *r)
{
    if (r->agg == NULL)
        return;
    for (size_t i = s->first[r->bucket]; i < s->ntensors; i++) {
        const tg__wtensor *x = &s->tensor[i];
        if (x->bucket == r->bucket)
            memcpy(x->w, r->agg + x->offset, x->n * sizeof *x->w);
    }
}

const tg__strategy_ops tg__strategy_server = {
    .entry = {"server", "servers keep the parameters and the optimizer; ranks send gradients",
              "Li et al. 2014, OSDI; Ho et al. 2013, NIPS", NULL},
    .init = init,
    .result = result,
    .by_bucket = true,
    .served = true,
};
