/* Template of optim_avx2.c and optim_avx512.c: optim_ref.c in vectors. */

static void sgd_to(float *dst, const float *w, const float *g, size_t n, float eta, float wd)
{
    const vec veta = vec_splat(eta), vwd = vec_splat(wd);
    EACH_VEC(n, {
        vec x = vec_get(w + i, left);
        vec d = vec_add(vec_get(g + i, left), vec_mul(vwd, x));
        vec_put(dst + i, left, vec_sub(x, vec_mul(veta, d)));
    });
}

static void sgd(float *w, const float *g, size_t n, float eta, float wd)
{
    sgd_to(w, w, g, n, eta, wd);
}

static void sgd_momentum(float *w, float *u, const float *g, size_t n, float eta, float m, float wd,
                         bool nesterov)
{
    const vec veta = vec_splat(eta), vm = vec_splat(m), vwd = vec_splat(wd);
    EACH_VEC(n, {
        vec x = vec_get(w + i, left);
        vec d = vec_add(vec_get(g + i, left), vec_mul(vwd, x));
        vec velocity = vec_add(vec_mul(vm, vec_get(u + i, left)), d);
        vec_put(u + i, left, velocity);
        if (nesterov)
            velocity = vec_add(d, vec_mul(vm, velocity));
        vec_put(w + i, left, vec_sub(x, vec_mul(veta, velocity)));
    });
}

static void sgd_preview_to(float *dst, const float *w, const float *u, const float *g, size_t n,
                           float eta, float m, float wd, bool nesterov)
{
    const vec veta = vec_splat(eta), vm = vec_splat(m), vwd = vec_splat(wd);
    EACH_VEC(n, {
        vec x = vec_get(w + i, left);
        vec d = vec_add(vec_get(g + i, left), vec_mul(vwd, x));
        vec velocity = vec_add(vec_mul(vm, vec_get(u + i, left)), d);
        if (nesterov)
            velocity = vec_add(d, vec_mul(vm, velocity));
        vec_put(dst + i, left, vec_sub(x, vec_mul(veta, velocity)));
    });
}

static void fill(tg__kernels *table)
{
    table->sgd = sgd;
    table->sgd_momentum = sgd_momentum;
    table->sgd_to = sgd_to;
    table->sgd_preview_to = sgd_preview_to;
}
