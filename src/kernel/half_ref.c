/* 16-bit floats, the specification. Words are in the host's byte order, which is also that of
 * frames (base/mem.h). */
#include "kernel/element.h"
#include "kernel/variants.h"

static void f16_encode(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = tg__f16_from_f32(src[i]);
}

static void f16_decode(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = tg__f16_to_f32(src[i]);
}

static void f16_decode_add(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = dst[i] + tg__f16_to_f32(src[i]);
}

static void bf16_encode(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = tg__bf16_from_f32(src[i]);
}

static void bf16_decode(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = tg__bf16_to_f32(src[i]);
}

static void bf16_decode_add(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = dst[i] + tg__bf16_to_f32(src[i]);
}

void tg__half_ref(tg__kernels *table)
{
    table->f16_encode = f16_encode;
    table->f16_decode = f16_decode;
    table->f16_decode_add = f16_decode_add;
    table->bf16_encode = bf16_encode;
    table->bf16_decode = bf16_decode;
    table->bf16_decode_add = bf16_decode_add;
}
