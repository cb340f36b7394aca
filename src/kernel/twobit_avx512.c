/* 2-bit codes, AVX-512: comparisons give the bit planes; the decoder uses bit planes as masks. */
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

static inline __mmask16 quarter(uint64_t plane, size_t j)
{
    return (__mmask16)(plane >> 16 * j & 0xffff);
}

/* Put the codes of one vector into quarter j of the planes. */
static inline void compare(vec p, vec tau, vec minus_tau, size_t j, __mmask16 mask[2],
                           uint64_t plane[2])
{
    mask[0] = _mm512_cmp_ps_mask(p, tau, _CMP_GE_OQ);
    mask[1] = _mm512_cmp_ps_mask(p, minus_tau, _CMP_LE_OQ);
    plane[0] |= (uint64_t)vec_bits(mask[0]) << 16 * j;
    plane[1] |= (uint64_t)vec_bits(mask[1]) << 16 * j;
}

/* Each block function works on m <= 64 elements; m = 64 is a constant in the main loops. */

static inline void encode_block(const float *p, size_t m, vec tau, vec minus_tau, uint8_t *bytes)
{
    uint64_t plane[2] = {0, 0};
    __mmask16 mask[2];
    for (size_t j = 0; 16 * j < m; j++) /* missing lanes are 0 < tau */
        compare(vec_get(p + 16 * j, m - 16 * j), tau, minus_tau, j, mask, plane);
    tg__twobit_put(bytes, m, plane[0], plane[1]);
}

static void twobit_encode(const float *p, size_t n, float tau, uint8_t *bytes)
{
    const vec plus = vec_splat(tau), minus = vec_splat(-tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        encode_block(p + i, 64, plus, minus, bytes);
    if (i < n)
        encode_block(p + i, n - i, plus, minus, bytes);
}

static inline void add_encode_block(float *r, const float *g, size_t m, vec tau, vec minus_tau,
                                    uint8_t *bytes)
{
    uint64_t plane[2] = {0, 0};
    __mmask16 mask[2];
    for (size_t j = 0; 16 * j < m; j++) {
        size_t left = m - 16 * j;
        vec p = vec_add(vec_get(r + 16 * j, left), vec_get(g + 16 * j, left));
        compare(p, tau, minus_tau, j, mask, plane);
        p = _mm512_mask_sub_ps(p, mask[0], p, tau);
        p = _mm512_mask_add_ps(p, mask[1], p, tau);
        vec_put(r + 16 * j, left, p);
    }
    tg__twobit_put(bytes, m, plane[0], plane[1]);
}

static void twobit_add_encode(float *r, const float *g, size_t n, float tau, uint8_t *bytes)
{
    const vec plus = vec_splat(tau), minus = vec_splat(-tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        add_encode_block(r + i, g + i, 64, plus, minus, bytes);
    if (i < n)
        add_encode_block(r + i, g + i, n - i, plus, minus, bytes);
}

static inline void decode_add_block(float *dst, const uint8_t *bytes, size_t m, vec tau)
{
    uint64_t plane[2];
    tg__twobit_codes(bytes, m, &plane[0], &plane[1]);
    for (size_t j = 0; 16 * j < m; j++) {
        size_t left = m - 16 * j;
        vec x = vec_get(dst + 16 * j, left);
        x = _mm512_mask_add_ps(x, quarter(plane[0], j), x, tau);
        x = _mm512_mask_sub_ps(x, quarter(plane[1], j), x, tau);
        vec_put(dst + 16 * j, left, x);
    }
}

static void twobit_decode_add(float *dst, const uint8_t *bytes, size_t n, float tau)
{
    const vec plus = vec_splat(tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        decode_add_block(dst + i, bytes, 64, plus);
    if (i < n)
        decode_add_block(dst + i, bytes, n - i, plus);
}

static inline void decode_block(float *dst, const uint8_t *bytes, size_t m, vec tau, vec minus_tau)
{
    uint64_t plane[2];
    tg__twobit_codes(bytes, m, &plane[0], &plane[1]);
    for (size_t j = 0; 16 * j < m; j++) {
        vec x = _mm512_maskz_mov_ps(quarter(plane[0], j), tau);
        x = _mm512_mask_mov_ps(x, quarter(plane[1], j), minus_tau);
        vec_put(dst + 16 * j, m - 16 * j, x);
    }
}

static void twobit_decode(float *dst, const uint8_t *bytes, size_t n, float tau)
{
    const vec plus = vec_splat(tau), minus = vec_splat(-tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        decode_block(dst + i, bytes, 64, plus, minus);
    if (i < n)
        decode_block(dst + i, bytes, n - i, plus, minus);
}

void tg__twobit_avx512(tg__kernels *table)
{
    table->twobit_encode = twobit_encode;
    table->twobit_add_encode = twobit_add_encode;
    table->twobit_decode_add = twobit_decode_add;
    table->twobit_decode = twobit_decode;
}
