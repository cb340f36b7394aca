/* Template of adaptive_avx2.c and adaptive_avx512.c: adaptive_ref.c in vectors. */

typedef struct adam_vecs {
    vec keep, wd, b1, c1, b2, c2, eta, root, eps;
} adam_vecs;

static inline adam_vecs adam_splat(const tg__adam *a)
{
    return (adam_vecs){vec_splat(a->keep), vec_splat(a->wd),   vec_splat(a->b1),
                       vec_splat(a->c1),   vec_splat(a->b2),   vec_splat(a->c2),
                       vec_splat(a->eta),  vec_splat(a->root), vec_splat(a->eps)};
}

static inline vec adam_one(vec w, vec g, vec *m, vec *v, const adam_vecs *a)
{
    vec d = vec_add(g, vec_mul(a->wd, w));
    *m = vec_add(vec_mul(a->b1, *m), vec_mul(a->c1, d));
    *v = vec_add(vec_mul(a->b2, *v), vec_mul(a->c2, vec_mul(d, d)));
    vec below = vec_add(vec_mul(a->root, vec_sqrt(*v)), a->eps);
    return vec_sub(vec_mul(a->keep, w), vec_div(vec_mul(a->eta, *m), below));
}

static void adam(float *w, float *m, float *v, const float *g, size_t n, const tg__adam *a)
{
    const adam_vecs vecs = adam_splat(a);
    EACH_VEC(n, {
        vec first = vec_get(m + i, left), second = vec_get(v + i, left);
        vec x = adam_one(vec_get(w + i, left), vec_get(g + i, left), &first, &second, &vecs);
        vec_put(m + i, left, first);
        vec_put(v + i, left, second);
        vec_put(w + i, left, x);
    });
}

static void adam_preview_to(float *dst, const float *w, const float *m, const float *v,
                            const float *g, size_t n, const tg__adam *a)
{
    const adam_vecs vecs = adam_splat(a);
    EACH_VEC(n, {
        vec first = vec_get(m + i, left), second = vec_get(v + i, left);
        vec_put(dst + i, left,
                adam_one(vec_get(w + i, left), vec_get(g + i, left), &first, &second, &vecs));
    });
}

/* m*u + eta*(g + wd*w) */
static inline vec lars_velocity(vec w, vec u, vec g, vec eta, vec m, vec wd)
{
    return vec_add(vec_mul(m, u), vec_mul(eta, vec_add(g, vec_mul(wd, w))));
}

static void lars(float *w, float *u, const float *g, size_t n, float eta, float m, float wd)
{
    const vec veta = vec_splat(eta), vm = vec_splat(m), vwd = vec_splat(wd);
    EACH_VEC(n, {
        vec x = vec_get(w + i, left);
        vec velocity = lars_velocity(x, vec_get(u + i, left), vec_get(g + i, left), veta, vm, vwd);
        vec_put(u + i, left, velocity);
        vec_put(w + i, left, vec_sub(x, velocity));
    });
}

static void lars_preview_to(float *dst, const float *w, const float *u, const float *g, size_t n,
                            float eta, float m, float wd)
{
    const vec veta = vec_splat(eta), vm = vec_splat(m), vwd = vec_splat(wd);
    EACH_VEC(n, {
        vec x = vec_get(w + i, left);
        vec_put(dst + i, left,
                vec_sub(x, lars_velocity(x, vec_get(u + i, left), vec_get(g + i, left), veta, vm,
                                         vwd)));
    });
}

static void fill(tg__kernels *table)
{
    table->adam = adam;
    table->adam_preview_to = adam_preview_to;
    table->lars = lars;
    table->lars_preview_to = lars_preview_to;
}
