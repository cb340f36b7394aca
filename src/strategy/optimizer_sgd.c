/* d = g + wd*w;  u = m*u + d;  w = w - lr*u      (Nesterov: w = w - lr*(d + m*u))
 * Without momentum: w = w - lr*d
 * Decoupled decay: w = (1 - lr*wd)*w first, then d = g
 *
 * Source: Sutskever et al. 2013, in the form of PyTorch's SGD (the learning rate is outside u, so a
 * change of rate takes effect at once); decoupled: SGDW of Loshchilov and Hutter 2019,
 * arXiv:1711.05101, with the schedule's rate times wd, as in PyTorch's AdamW */
#include "strategy/optimizers.h"
#include "kernel/kernel.h"
#include <string.h>

static tg_status init(tg_optimizer *o)
{
    tg__optimizer_common(o);
    o->momentum = tg_spec_real(o->spec, "momentum");
    o->nesterov = tg_spec_flag(o->spec, "nesterov");
    o->decoupled = tg_spec_flag(o->spec, "decoupled");
    o->slots = o->momentum > 0;
    if (o->nesterov && !(o->momentum > 0))
        return tg_fail(TG_E_SPEC, "optimizer \"sgd\": nesterov=yes with momentum=0: allowed: "
                                  "momentum > 0, or nesterov=no");
    return TG_OK;
}

static void step(const tg_optimizer *o, const tg_update *u, float *dst, const float *w,
                 const float *g, size_t n, float *const *slot)
{
    const tg__kernels *k = tg__kernel();
    const float eta = (float)u->lr, m = (float)o->momentum, keep = tg__optimizer_keep(o, u);
    const float wd = o->decoupled ? 0 : (float)tg__optimizer_decay(o, u->ndim);
    const bool preview = dst != w;
    if (keep != 1) {
        if (preview)
            memcpy(dst, w, n * sizeof *dst);
        k->scale(dst, keep, n);
        w = dst;
    }
    if (!o->slots)
        k->sgd_to(dst, w, g, n, eta, wd);
    else if (preview)
        k->sgd_preview_to(dst, w, slot[0], g, n, eta, m, wd, o->nesterov);
    else
        k->sgd_momentum(dst, slot[0], g, n, eta, m, wd, o->nesterov);
}

static const tg_key keys[] = {
    TG__OPTIMIZER_KEY_LR("0.01"),
    TG__KEY(REAL, "momentum", "0", 0, 1, "0: none"),
    TG__OPTIMIZER_KEY_DECAY("0", "wd*w is added to the averaged gradient, unless decoupled"),
    TG__FLAG("nesterov", "no", "Nesterov momentum; needs momentum > 0"),
    TG__FLAG("decoupled", "no", "SGDW: weight decay subtracts lr*wd*w from w, without momentum"),
    TG__OPTIMIZER_KEYS_LAST("none", "1d: no weight decay for biases and norms"),
};

const tg__optimizer_ops tg__optimizer_sgd = {
    .entry = {"sgd", "stochastic gradient descent, with momentum and weight decay",
              "Sutskever et al. 2013, ICML, sec. 2", keys},
    .slot_names = {"momentum"},
    .init = init,
    .step = step,
};
