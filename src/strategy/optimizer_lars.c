/* Layer-wise adaptive rates, for each tensor:
 *
 *   ratio = trust * |w| / (|g| + wd*|w| + eps)     1 if |w| or |g| is 0
 *   u = m*u + lr*ratio * (g + wd*w);  w = w - u
 *
 * The rate is inside u, as in the paper: a change of rate affects new gradients only. An exempt
 * tensor has ratio 1 and wd 0. Norms are f64 sums in the kernels' fixed order, so all ranks compute
 * the same.
 *
 * Source: You et al. 2017, arXiv:1708.03888, alg. 1 */
#include "strategy/optimizers.h"
#include "kernel/kernel.h"
#include <math.h>

static tg_status init(tg_optimizer *o)
{
    tg__optimizer_common(o);
    o->momentum = tg_spec_real(o->spec, "momentum");
    o->trust = tg_spec_real(o->spec, "trust");
    o->eps = tg_spec_real(o->spec, "eps");
    o->slots = o->momentum > 0;
    return TG_OK;
}

static double norm(const float *x, size_t n)
{
    return sqrt(tg__kernel()->dot(x, x, n));
}

/* lr * ratio */
static float rate(const tg_optimizer *o, const tg_update *u, const float *w, const float *g,
                  size_t n)
{
    if (o->exempt_1d && u->ndim < 2)
        return (float)u->lr;
    const double w_norm = norm(w, n), g_norm = norm(g, n);
    if (w_norm == 0 || g_norm == 0)
        return (float)u->lr;
    return (float)(u->lr * (o->trust * w_norm / (g_norm + o->weight_decay * w_norm + o->eps)));
}

static void step(const tg_optimizer *o, const tg_update *u, float *dst, const float *w,
                 const float *g, size_t n, float *const *slot)
{
    const float eta = rate(o, u, w, g, n), wd = (float)tg__optimizer_decay(o, u->ndim);
    if (!o->slots)
        tg__kernel()->sgd_to(dst, w, g, n, eta, wd);
    else if (dst == w)
        tg__kernel()->lars(dst, slot[0], g, n, eta, (float)o->momentum, wd);
    else
        tg__kernel()->lars_preview_to(dst, w, slot[0], g, n, eta, (float)o->momentum, wd);
}

static const tg_key keys[] = {
    TG__OPTIMIZER_KEY_LR("0.1"),
    TG__KEY(REAL, "momentum", "0.9", 0, 1, "0: none"),
    /* the paper's 0.001 needs learning rates that are too large for exempt tensors */
    TG__KEY(REAL, "trust", "0.02", 0, 1e30,
            "trust coefficient: norm of a tensor's step divided by the tensor's norm, at lr=1",
            .min_open = true),
    TG__KEY(REAL, "eps", "1e-08", 0, 1e30, "added to the gradient's norm"),
    TG__OPTIMIZER_KEY_DECAY("0.0005", "coupled: wd*w is added to the averaged gradient"),
    TG__OPTIMIZER_KEYS_LAST("1d", "1d: biases and norms use lr alone, without weight decay"),
};

const tg__optimizer_ops tg__optimizer_lars = {
    .entry = {"lars", "a learning rate per tensor, from its norm and that of its gradient",
              "You et al. 2017, arXiv:1708.03888, alg. 1", keys},
    .slot_names = {"momentum"},
    .init = init,
    .step = step,
    .adaptive = true,
    .whole = true,
};
