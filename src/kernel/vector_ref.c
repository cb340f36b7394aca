/* Plain vector arithmetic, the specification. */
#include "kernel/variants.h"

static void add(float *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = dst[i] + src[i];
}

static void axpy(float *dst, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = dst[i] + a * x[i];
}

static void scale(float *dst, float a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = dst[i] * a;
}

static void sub(float *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = dst[i] - src[i];
}

void tg__vector_ref(tg__kernels *table)
{
    table->add = add;
    table->axpy = axpy;
    table->scale = scale;
    table->sub = sub;
}
