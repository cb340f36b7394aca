/* d = g + wd*w;  u = m*u + d;  w = w - lr*u      (Nesterov: w = w - lr*(d + m*u))
 * Without momentum: w = w - lr*d
 *
 * Source: Sutskever et al. 2013, in the form of PyTorch's SGD (the learning rate stays outside u,
 * so that a change of it acts at once) */
#include "strategy/optimizers.h"
#include "kernel/kernel.h"

static tg_status init(tg_optimizer *o)
{
    o->lr = tg_spec_real(o->spec, "lr");
    o->momentum = tg_spec_real(o->spec, "momentum");
    o->weight_decay = tg_spec_real(o->spec, "weight_decay");
    o->nesterov = tg_spec_flag(o->spec, "nesterov");
    o->slots = o->momentum > 0;
    if (o->nesterov && !(o->momentum > 0))
        return tg_fail(TG_E_SPEC, "optimizer \"sgd\": nesterov=yes with momentum=0: allowed: "
                                  "momentum > 0, or nesterov=no");
    return TG_OK;
}

static void step(const tg_optimizer *o, double lr, float *w, const float *g, size_t n,
                 float *const *slot)
{
    const tg__kernels *k = tg__kernel();
    if (o->slots)
        k->sgd_momentum(w, slot[0], g, n, (float)lr, (float)o->momentum, (float)o->weight_decay,
                        o->nesterov);
    else
        k->sgd(w, g, n, (float)lr, (float)o->weight_decay);
}

static void preview(const tg_optimizer *o, double lr, float *dst, const float *w, const float *g,
                    size_t n, float *const *slot)
{
    const float eta = (float)lr, m = (float)o->momentum, wd = (float)o->weight_decay;
    if (o->slots > 0)
        tg__kernel()->sgd_preview_to(dst, w, slot[0], g, n, eta, m, wd, o->nesterov);
    else
        tg__kernel()->sgd_to(dst, w, g, n, eta, wd);
}

static const tg_key keys[] = {
    {.name = "lr",
     .type = TG_KEY_REAL,
     .def = "0.01",
     .min = 0,
     .max = 1e30,
     .help = "learning rate before its schedule"},
    {.name = "momentum", .type = TG_KEY_REAL, .def = "0", .min = 0, .max = 1, .help = "0: none"},
    {.name = "weight_decay",
     .type = TG_KEY_REAL,
     .def = "0",
     .min = 0,
     .max = 1e30,
     .help = "coupled: wd*w is added to the averaged gradient"},
    {.name = "nesterov",
     .type = TG_KEY_FLAG,
     .def = "no",
     .help = "Nesterov momentum; needs momentum > 0"},
    {.name = NULL},
};

const tg__optimizer_ops tg__optimizer_sgd = {
    .entry = {"sgd", "stochastic gradient descent, with momentum and weight decay",
              "Sutskever et al. 2013, ICML, sec. 2", keys},
    .slot_names = {"momentum"},
    .init = init,
    .step = step,
    .preview = preview,
};
