/* Template of vector_avx2.c and vector_avx512.c: vector_ref.c in vectors. */

static void add(float *dst, const float *src, size_t n)
{
    EACH_VEC(n, vec_put(dst + i, left, vec_add(vec_get(dst + i, left), vec_get(src + i, left))););
}

static void axpy(float *dst, float a, const float *x, size_t n)
{
    const vec va = vec_splat(a);
    EACH_VEC(n, {
        vec product = vec_mul(va, vec_get(x + i, left));
        vec_put(dst + i, left, vec_add(vec_get(dst + i, left), product));
    });
}

static void scale(float *dst, float a, size_t n)
{
    const vec va = vec_splat(a);
    EACH_VEC(n, vec_put(dst + i, left, vec_mul(vec_get(dst + i, left), va)););
}

static void sub(float *dst, const float *src, size_t n)
{
    EACH_VEC(n, vec_put(dst + i, left, vec_sub(vec_get(dst + i, left), vec_get(src + i, left))););
}

static void fill(tg__kernels *table)
{
    table->add = add;
    table->axpy = axpy;
    table->scale = scale;
    table->sub = sub;
}
