/* Steps of Adam and LARS, the specification. Every operation is rounded separately. */
#include "kernel/variants.h"
#include <math.h>

/* One element: *m and *v are its moments. */
static inline float adam_one(float w, float g, float *m, float *v, const tg__adam *a)
{
    float d = g + a->wd * w;
    *m = a->b1 * *m + a->c1 * d;
    *v = a->b2 * *v + a->c2 * (d * d);
    return a->keep * w - a->eta * *m / (a->root * sqrtf(*v) + a->eps);
}

static void adam(float *w, float *m, float *v, const float *g, size_t n, const tg__adam *a)
{
    for (size_t i = 0; i < n; i++)
        w[i] = adam_one(w[i], g[i], &m[i], &v[i], a);
}

static void adam_preview_to(float *dst, const float *w, const float *m, const float *v,
                            const float *g, size_t n, const tg__adam *a)
{
    for (size_t i = 0; i < n; i++) {
        float first = m[i], second = v[i];
        dst[i] = adam_one(w[i], g[i], &first, &second, a);
    }
}

static void lars(float *w, float *u, const float *g, size_t n, float eta, float m, float wd)
{
    for (size_t i = 0; i < n; i++) {
        u[i] = m * u[i] + eta * (g[i] + wd * w[i]);
        w[i] = w[i] - u[i];
    }
}

static void lars_preview_to(float *dst, const float *w, const float *u, const float *g, size_t n,
                            float eta, float m, float wd)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = w[i] - (m * u[i] + eta * (g[i] + wd * w[i]));
}

void tg__adaptive_ref(tg__kernels *table)
{
    table->adam = adam;
    table->adam_preview_to = adam_preview_to;
    table->lars = lars;
    table->lars_preview_to = lars_preview_to;
}
