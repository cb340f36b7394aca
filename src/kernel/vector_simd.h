/* Template: plain vector arithmetic. */

static void add(float *dst, const float *src, size_t n)
{
    EACH_VEC(n, PUT(dst, GET(dst) + GET(src)););
}

static void axpy(float *dst, float a, const float *x, size_t n)
{
    EACH_VEC(n, PUT(dst, GET(dst) + a * GET(x)););
}

static void scale(float *dst, float a, size_t n)
{
    EACH_VEC(n, PUT(dst, GET(dst) * a););
}

static void sub(float *dst, const float *src, size_t n)
{
    EACH_VEC(n, PUT(dst, GET(dst) - GET(src)););
}

static void fill_vector(tg__kernels *table)
{
    table->add = add;
    table->axpy = axpy;
    table->scale = scale;
    table->sub = sub;
}
