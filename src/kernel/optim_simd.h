/* Template: steps of gradient descent. Every product and sum is rounded separately. */

static void sgd_to(float *dst, const float *w, const float *g, size_t n, float eta, float wd)
{
    EACH_VEC(n, {
        const vec x = GET(w);
        PUT(dst, x - eta * (GET(g) + wd * x));
    });
}

static void sgd(float *w, const float *g, size_t n, float eta, float wd)
{
    sgd_to(w, w, g, n, eta, wd);
}

static inline vec momentum_step(vec w, vec *u, vec g, float eta, float m, float wd, bool nesterov)
{
    const vec d = g + wd * w;
    vec step = *u = m * *u + d;
    if (nesterov)
        step = d + m * *u;
    return w - eta * step;
}

static void sgd_momentum(float *w, float *u, const float *g, size_t n, float eta, float m, float wd,
                         bool nesterov)
{
    EACH_VEC(n, {
        vec velocity = GET(u);
        PUT(w, momentum_step(GET(w), &velocity, GET(g), eta, m, wd, nesterov));
        PUT(u, velocity);
    });
}

static void sgd_preview_to(float *dst, const float *w, const float *u, const float *g, size_t n,
                           float eta, float m, float wd, bool nesterov)
{
    EACH_VEC(n, {
        vec velocity = GET(u);
        PUT(dst, momentum_step(GET(w), &velocity, GET(g), eta, m, wd, nesterov));
    });
}

static void fill_optim(tg__kernels *table)
{
    table->sgd = sgd;
    table->sgd_momentum = sgd_momentum;
    table->sgd_to = sgd_to;
    table->sgd_preview_to = sgd_preview_to;
}
