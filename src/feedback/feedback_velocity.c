/* DGC's momentum correction and momentum factor masking:
 *
 *     u = m*u + g;  v = v + u         (Nesterov: u = m*(u + g);  v = (v + u) + g)
 *     send v[M], M the largest |v|
 *     v[M] -= decoded;  u[M] = 0      (without masking, u is unchanged)
 *
 * With Nesterov momentum, u is m times the velocity of PyTorch's SGD, so u + g is the direction of
 * its step: a dense step (bypass) sends this.
 *
 * Source: Lin et al. 2018, arXiv:1712.01887, sec. 3.2, 3.3 and alg. 4 */
#include "feedback/feedback.h"
#include "base/mem.h"
#include "kernel/parallel.h"

enum { U, V, BLOCK = 4096 };

/* Uses the fused kernel with an empty selection, so that both paths share one arithmetic. */
static bool compensate(tg__feedback *f, const float *g, size_t n, float *scratch, const float **p_p)
{
    (void)scratch;
    *p_p = f->vec[V];
    return tg__parallel_dgc(f->pool, f->vec[U], f->vec[V], g, n, (float)f->params.momentum,
                            f->params.nesterov);
}

static void sent(tg__feedback *f, const float *p, size_t n, const uint32_t *idx, const float *val,
                 size_t k)
{
    (void)p; /* p is v */
    float *u = f->vec[U], *v = f->vec[V];
    bool masking = f->params.masking;
    if (idx) {
        for (size_t i = 0; i < k; i++) {
            v[idx[i]] -= val[i];
            if (masking)
                u[idx[i]] = 0;
        }
        return;
    }
    tg__parallel_sub(f->pool, v, val, n);
    for (size_t i = 0; masking && i < n; i++)
        if (val[i] != 0) /* a dense view is 0 where nothing was sent */
            u[i] = 0;
}

/* Works block by block, so that each pass finds the previous one's data in the cache. */
static bool bypass(tg__feedback *f, const float *g, size_t n, float *scratch, const float **p_p)
{
    const tg__kernels *k = tg__kernel();
    const float m = (float)f->params.momentum;
    float *u = f->vec[U], *out = f->params.nesterov ? scratch : u;
    bool finite = true;
    for (size_t lo = 0, left; lo < n; lo += left) {
        left = TG__MIN(n - lo, (size_t)BLOCK);
        if (f->params.nesterov) {
            k->add(u + lo, g + lo, left);
            k->scale(u + lo, m, left);
            for (size_t i = lo; i < lo + left; i++)
                scratch[i] = u[i] + g[i];
        } else {
            k->scale(u + lo, m, left);
            k->add(u + lo, g + lo, left);
        }
        finite = k->all_finite(out + lo, left) && finite;
    }
    *p_p = out;
    return finite;
}

static const tg_key keys[] = {
    TG__KEY(REAL, "momentum", "0.9", 0, 1, "of the velocity; takes the place of the optimizer's"),
    TG__FLAG("nesterov", "no", "Nesterov momentum"),
    TG__FLAG("masking", "yes", "momentum factor masking: clear u where v was sent"),
    TG__KEY(REAL, "clip", "0", 0, 1e30,
            "scale each tensor's gradient to norm <= clip/sqrt(P); 0: off"),
    {.name = NULL},
};

const tg__feedback_ops tg__feedback_velocity = {
    .entry = {"velocity", "DGC: momentum is accumulated before selection, and masked after it",
              "Lin et al. 2018, arXiv:1712.01887, sec. 3", keys},
    .vectors = 2,
    .names = {"velocity", "accumulated"},
    .pending = V,
    .owns_momentum = true,
    .forms = TG__FORMS_VELOCITY,
    .compensate = compensate,
    .sent = sent,
    .bypass = bypass,
};
