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

/* Decay that is added to the gradient. */
static float coupled(const tg_optimizer *o, const tg_update *u)
{
    return o->decoupled ? 0 : (float)tg__optimizer_decay(o, u->ndim);
}

static void step(const tg_optimizer *o, const tg_update *u, float *w, const float *g, size_t n,
                 float *const *slot)
{
    const tg__kernels *k = tg__kernel();
    const float eta = (float)u->lr, wd = coupled(o, u), keep = tg__optimizer_keep(o, u);
    if (keep != 1)
        k->scale(w, keep, n);
    if (o->slots)
        k->sgd_momentum(w, slot[0], g, n, eta, (float)o->momentum, wd, o->nesterov);
    else
        k->sgd(w, g, n, eta, wd);
}

static void preview(const tg_optimizer *o, const tg_update *u, float *dst, const float *w,
                    const float *g, size_t n, float *const *slot)
{
    const tg__kernels *k = tg__kernel();
    const float eta = (float)u->lr, wd = coupled(o, u), keep = tg__optimizer_keep(o, u);
    if (keep != 1) {
        memcpy(dst, w, n * sizeof *dst);
        k->scale(dst, keep, n);
        w = dst;
    }
    if (o->slots > 0)
        k->sgd_preview_to(dst, w, slot[0], g, n, eta, (float)o->momentum, wd, o->nesterov);
    else
        k->sgd_to(dst, w, g, n, eta, wd);
}

static const tg_key keys[] = {
    TG__OPTIMIZER_KEY_LR("0.01"),
    {.name = "momentum", .type = TG_KEY_REAL, .def = "0", .min = 0, .max = 1, .help = "0: none"},
    TG__OPTIMIZER_KEY_DECAY("0", "wd*w is added to the averaged gradient, unless decoupled"),
    {.name = "nesterov",
     .type = TG_KEY_FLAG,
     .def = "no",
     .help = "Nesterov momentum; needs momentum > 0"},
    {.name = "decoupled",
     .type = TG_KEY_FLAG,
     .def = "no",
     .help = "SGDW: weight decay subtracts lr*wd*w from w, without momentum"},
    TG__OPTIMIZER_KEYS_LAST("none", "1d: no weight decay for biases and norms"),
};

const tg__optimizer_ops tg__optimizer_sgd = {
    .entry = {"sgd", "stochastic gradient descent, with momentum and weight decay",
              "Sutskever et al. 2013, ICML, sec. 2", keys},
    .slot_names = {"momentum"},
    .init = init,
    .step = step,
    .preview = preview,
};
