/* Template: arithmetic of strategies other than the optimizers' steps. Every operation is rounded
 * separately. */

static void sub_to(float *dst, const float *a, const float *b, size_t n)
{
    EACH_VEC(n, PUT(dst, GET(a) - GET(b)););
}

static void settle(float *w, const float *a, float *p, float *u, size_t n)
{
    EACH_VEC(n, {
        const vec pending = GET(p) - GET(u);
        PUT(p, pending);
        PUT(u, vec_splat(0));
        PUT(w, GET(a) - pending);
    });
}

static void go_on(float *p, float *u, const float *from, const float *w, size_t n)
{
    EACH_VEC(n, {
        const vec d = GET(from) - GET(w);
        PUT(p, GET(p) + d);
        PUT(u, GET(u) + d);
    });
}

static void mix(float *w, const float *a, size_t n, float keep, float rest)
{
    EACH_VEC(n, PUT(w, keep * GET(w) + rest * GET(a)););
}

static void nesterov(float *a, float *v, const float *mean, size_t n, float lr, float m)
{
    EACH_VEC(n, {
        const vec x = GET(mean), velocity = m * GET(v) + x;
        PUT(v, velocity);
        PUT(a, GET(a) - lr * (x + m * velocity));
    });
}

static void dcasgd(float *w, const float *global, const float *g, size_t n, const tg__dcasgd *step)
{
    const tg__dcasgd d = *step;
    EACH_VEC(n, {
        const vec own = d.share * GET(g), a = GET(global);
        const vec compensation = d.lambda * own * own * (a - GET(w));
        PUT(w, a - d.eta * ((own + d.wd * a) + compensation));
    });
}

static void sign_step(float *w, const float *x, size_t n, float keep, float eta)
{
    EACH_VEC(n, PUT(w, GET(w) * keep - eta * vec_sign(GET(x))););
}

static void fill_steps(tg__kernels *table)
{
    table->sub_to = sub_to;
    table->settle = settle;
    table->go_on = go_on;
    table->mix = mix;
    table->nesterov = nesterov;
    table->dcasgd = dcasgd;
    table->sign_step = sign_step;
}
