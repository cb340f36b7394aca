/* Signum's momentum: m = beta*m + (1 - beta)*g; m is sent in every step. Nothing waits to be sent:
 * what the codec loses of m is compensated by later steps, because m decays slowly.
 *
 * A dense step (bypass) sends m as well, and updates it first. A dropped step stays in m: its
 * gradient was finite, and half of it has decayed after log 2 / (1 - beta) steps.
 *
 * Source: Bernstein et al. 2018, arXiv:1802.04434, alg. 2 */
#include "feedback/feedback.h"
#include "base/mem.h"
#include "kernel/kernel.h"

enum { M, BLOCK = 4096 };

static bool compensate(tg__feedback *f, const float *g, size_t n, float *scratch, const float **p_p)
{
    (void)scratch;
    const tg__kernels *k = tg__kernel();
    float *m = f->vec[M], beta = (float)f->params.beta, rest = (float)(1 - f->params.beta);
    bool finite = true;
    for (size_t i = 0, left; i < n; i += left) {
        left = TG__MIN(n - i, (size_t)BLOCK);
        k->scale(m + i, beta, left);
        k->axpy(m + i, rest, g + i, left);
        finite = k->all_finite(m + i, left) && finite;
    }
    *p_p = m;
    return finite;
}

static const tg_key keys[] = {
    TG__KEY(REAL, "beta", "0.9", 0, 0.999999, "share of the old average that stays in a step"),
    {.name = NULL},
};

const tg__feedback_ops tg__feedback_momentum = {
    .entry = {"momentum", "Signum: the moving average of the gradients is sent",
              "Bernstein et al. 2018, arXiv:1802.04434, alg. 2", keys},
    .vectors = 1,
    .names = {"signum"},             /* an optimizer may use the name "momentum" */
    .pending = TG__FEEDBACK_VECTORS, /* none */
    .compensate = compensate,
    .bypass = compensate,
};
