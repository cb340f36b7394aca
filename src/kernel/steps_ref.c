/* Arithmetic of strategies other than the optimizers' steps, the specification. Every operation is
 * rounded separately. */
#include "kernel/variants.h"

static void sub_to(float *dst, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = a[i] - b[i];
}

static void settle(float *w, const float *a, float *p, float *u, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = p[i] - u[i];
        u[i] = 0;
        w[i] = a[i] - p[i];
    }
}

static void go_on(float *p, float *u, const float *from, const float *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float d = from[i] - w[i];
        p[i] = p[i] + d;
        u[i] = u[i] + d;
    }
}

static void mix(float *w, const float *a, size_t n, float keep, float rest)
{
    for (size_t i = 0; i < n; i++)
        w[i] = keep * w[i] + rest * a[i];
}

static void nesterov(float *a, float *v, const float *mean, size_t n, float lr, float m)
{
    for (size_t i = 0; i < n; i++) {
        v[i] = m * v[i] + mean[i];
        a[i] = a[i] - lr * (mean[i] + m * v[i]);
    }
}

static void dcasgd(float *w, const float *global, const float *g, size_t n, const tg__dcasgd *d)
{
    for (size_t i = 0; i < n; i++) {
        float own = d->share * g[i], a = global[i];
        float compensation = d->lambda * own * own * (a - w[i]);
        w[i] = a - d->eta * ((own + d->wd * a) + compensation);
    }
}

static void sign_step(float *w, const float *x, size_t n, float keep, float eta)
{
    for (size_t i = 0; i < n; i++) {
        float sign = (float)((x[i] > 0) - (x[i] < 0));
        w[i] = w[i] * keep - eta * sign;
    }
}

void tg__steps_ref(tg__kernels *table)
{
    table->sub_to = sub_to;
    table->settle = settle;
    table->go_on = go_on;
    table->mix = mix;
    table->nesterov = nesterov;
    table->dcasgd = dcasgd;
    table->sign_step = sign_step;
}
