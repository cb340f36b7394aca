/* Template: steps of Adam and LARS. Every operation is rounded separately. */

static inline vec adam_step(vec w, vec g, vec *m, vec *v, const tg__adam *a)
{
    const vec d = g + a->wd * w;
    *m = a->b1 * *m + a->c1 * d;
    *v = a->b2 * *v + a->c2 * (d * d);
    return a->keep * w - a->eta * *m / (a->root * vec_sqrt(*v) + a->eps);
}

static void adam(float *w, float *m, float *v, const float *g, size_t n, const tg__adam *step)
{
    const tg__adam a = *step;
    EACH_VEC(n, {
        vec first = GET(m), second = GET(v);
        PUT(w, adam_step(GET(w), GET(g), &first, &second, &a));
        PUT(m, first);
        PUT(v, second);
    });
}

static void adam_preview_to(float *dst, const float *w, const float *m, const float *v,
                            const float *g, size_t n, const tg__adam *step)
{
    const tg__adam a = *step;
    EACH_VEC(n, {
        vec first = GET(m), second = GET(v);
        PUT(dst, adam_step(GET(w), GET(g), &first, &second, &a));
    });
}

static inline vec lars_velocity(vec w, vec u, vec g, float eta, float m, float wd)
{
    return m * u + eta * (g + wd * w);
}

static void lars(float *w, float *u, const float *g, size_t n, float eta, float m, float wd)
{
    EACH_VEC(n, {
        const vec x = GET(w), velocity = lars_velocity(x, GET(u), GET(g), eta, m, wd);
        PUT(u, velocity);
        PUT(w, x - velocity);
    });
}

static void lars_preview_to(float *dst, const float *w, const float *u, const float *g, size_t n,
                            float eta, float m, float wd)
{
    EACH_VEC(n, {
        const vec x = GET(w);
        PUT(dst, x - lars_velocity(x, GET(u), GET(g), eta, m, wd));
    });
}

static void fill_adaptive(tg__kernels *table)
{
    table->adam = adam;
    table->adam_preview_to = adam_preview_to;
    table->lars = lars;
    table->lars_preview_to = lars_preview_to;
}
