/* d = g + wd*w      (AdamW: w = (1 - lr*wd)*w first, then d = g)
 * m = b1*m + (1 - b1)*d;  v = b2*v + (1 - b2)*d*d
 * w = w - lr/(1 - b1^t) * m / (sqrt(v)/sqrt(1 - b2^t) + eps)      t = 1, 2, ...
 *
 * in the order of PyTorch's Adam (eps outside the corrected root). Powers are computed by
 * multiplication, because pow can differ between machines' libraries.
 *
 * Source: Kingma and Ba 2015, arXiv:1412.6980, alg. 1; AdamW: Loshchilov and Hutter 2019,
 * arXiv:1711.05101, alg. 2 */
#include "strategy/optimizers.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include <math.h>

tg_status tg__adam_init(tg_optimizer *o)
{
    tg__optimizer_common(o);
    o->beta1 = tg_spec_real(o->spec, "beta1");
    o->beta2 = tg_spec_real(o->spec, "beta2");
    o->eps = tg_spec_real(o->spec, "eps");
    o->slots = 2;
    return TG_OK;
}

static tg__adam numbers(const tg_optimizer *o, const tg_update *u)
{
    return (tg__adam){
        .keep = tg__optimizer_keep(o, u),
        .wd = o->decoupled ? 0 : (float)tg__optimizer_decay(o, u->ndim),
        .b1 = (float)o->beta1,
        .c1 = (float)(1 - o->beta1),
        .b2 = (float)o->beta2,
        .c2 = (float)(1 - o->beta2),
        .eta = (float)(u->lr / (1 - tg__real_power(o->beta1, u->number))),
        .root = (float)(1 / sqrt(1 - tg__real_power(o->beta2, u->number))),
        .eps = (float)o->eps,
    };
}

void tg__adam_step(const tg_optimizer *o, const tg_update *u, float *dst, const float *w,
                   const float *g, size_t n, float *const *slot)
{
    const tg__adam a = numbers(o, u);
    if (dst == w)
        tg__kernel()->adam(dst, slot[0], slot[1], g, n, &a);
    else
        tg__kernel()->adam_preview_to(dst, w, slot[0], slot[1], g, n, &a);
}

static const tg_key keys[] = {
    TG__OPTIMIZER_KEY_LR("0.001"),
    TG__ADAM_KEYS,
    TG__OPTIMIZER_KEY_DECAY("0", "coupled: wd*w is added to the averaged gradient"),
    TG__OPTIMIZER_KEYS_LAST("none", "1d: no weight decay for biases and norms"),
};

const tg__optimizer_ops tg__optimizer_adam = {
    .entry = {"adam", "steps of the first moment over the root of the second",
              "Kingma and Ba 2015, arXiv:1412.6980, alg. 1", keys},
    .slot_names = {"first_moment", "second_moment"},
    .init = tg__adam_init,
    .step = tg__adam_step,
    .counts = true,
    .adaptive = true,
};
