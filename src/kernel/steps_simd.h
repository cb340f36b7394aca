/* Template of steps_avx2.c and steps_avx512.c: steps_ref.c in vectors. */

static void sub_to(float *dst, const float *a, const float *b, size_t n)
{
    EACH_VEC(n, vec_put(dst + i, left, vec_sub(vec_get(a + i, left), vec_get(b + i, left))););
}

static void settle(float *w, const float *a, float *p, float *u, size_t n)
{
    const vec zero = vec_splat(0);
    EACH_VEC(n, {
        vec pending = vec_sub(vec_get(p + i, left), vec_get(u + i, left));
        vec_put(p + i, left, pending);
        vec_put(u + i, left, zero);
        vec_put(w + i, left, vec_sub(vec_get(a + i, left), pending));
    });
}

static void go_on(float *p, float *u, const float *from, const float *w, size_t n)
{
    EACH_VEC(n, {
        vec d = vec_sub(vec_get(from + i, left), vec_get(w + i, left));
        vec_put(p + i, left, vec_add(vec_get(p + i, left), d));
        vec_put(u + i, left, vec_add(vec_get(u + i, left), d));
    });
}

static void mix(float *w, const float *a, size_t n, float keep, float rest)
{
    const vec vkeep = vec_splat(keep), vrest = vec_splat(rest);
    EACH_VEC(n, {
        vec own = vec_mul(vkeep, vec_get(w + i, left));
        vec_put(w + i, left, vec_add(own, vec_mul(vrest, vec_get(a + i, left))));
    });
}

static void nesterov(float *a, float *v, const float *mean, size_t n, float lr, float m)
{
    const vec vlr = vec_splat(lr), vm = vec_splat(m);
    EACH_VEC(n, {
        vec x = vec_get(mean + i, left);
        vec velocity = vec_add(vec_mul(vm, vec_get(v + i, left)), x);
        vec_put(v + i, left, velocity);
        vec d = vec_mul(vlr, vec_add(x, vec_mul(vm, velocity)));
        vec_put(a + i, left, vec_sub(vec_get(a + i, left), d));
    });
}

static void dcasgd(float *w, const float *global, const float *g, size_t n, const tg__dcasgd *d)
{
    const vec share = vec_splat(d->share), lambda = vec_splat(d->lambda);
    const vec eta = vec_splat(d->eta), wd = vec_splat(d->wd);
    EACH_VEC(n, {
        vec own = vec_mul(share, vec_get(g + i, left)), a = vec_get(global + i, left);
        vec square = vec_mul(vec_mul(lambda, own), own);
        vec compensation = vec_mul(square, vec_sub(a, vec_get(w + i, left)));
        vec sum = vec_add(vec_add(own, vec_mul(wd, a)), compensation);
        vec_put(w + i, left, vec_sub(a, vec_mul(eta, sum)));
    });
}

static void sign_step(float *w, const float *x, size_t n, float keep, float eta)
{
    const vec zero = vec_splat(0), one = vec_splat(1), minus = vec_splat(-1);
    const vec vkeep = vec_splat(keep), veta = vec_splat(eta);
    EACH_VEC(n, {
        vec mean = vec_get(x + i, left);
        vec sign = vec_pick(vec_less(zero, mean), one, zero);
        sign = vec_pick(vec_less(mean, zero), minus, sign);
        vec kept = vec_mul(vec_get(w + i, left), vkeep);
        vec_put(w + i, left, vec_sub(kept, vec_mul(veta, sign)));
    });
}

static void fill(tg__kernels *table)
{
    table->sub_to = sub_to;
    table->settle = settle;
    table->go_on = go_on;
    table->mix = mix;
    table->nesterov = nesterov;
    table->dcasgd = dcasgd;
    table->sign_step = sign_step;
}
