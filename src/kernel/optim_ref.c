/* Steps of gradient descent, the specification. Every product and sum is rounded separately. */
#include "kernel/variants.h"

static void sgd_to(float *dst, const float *w, const float *g, size_t n, float eta, float wd)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = w[i] - eta * (g[i] + wd * w[i]);
}

static void sgd(float *w, const float *g, size_t n, float eta, float wd)
{
    sgd_to(w, w, g, n, eta, wd);
}

static void sgd_momentum(float *w, float *u, const float *g, size_t n, float eta, float m, float wd,
                         bool nesterov)
{
    for (size_t i = 0; i < n; i++) {
        float d = g[i] + wd * w[i];
        u[i] = m * u[i] + d;
        w[i] = w[i] - eta * (nesterov ? d + m * u[i] : u[i]);
    }
}

static void sgd_preview_to(float *dst, const float *w, const float *u, const float *g, size_t n,
                           float eta, float m, float wd, bool nesterov)
{
    for (size_t i = 0; i < n; i++) {
        float d = g[i] + wd * w[i];
        float velocity = m * u[i] + d;
        dst[i] = w[i] - eta * (nesterov ? d + m * velocity : velocity);
    }
}

void tg__optim_ref(tg__kernels *table)
{
    table->sgd = sgd;
    table->sgd_momentum = sgd_momentum;
    table->sgd_to = sgd_to;
    table->sgd_preview_to = sgd_preview_to;
}
