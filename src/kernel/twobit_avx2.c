/* 2-bit codes, AVX2: the sign bits of comparisons are gathered into the bit planes; the decoder
 * shifts each element's bit back into a sign bit. */
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

static inline vec sign_mask(void)
{
    return vec_splat(-0.0f);
}

/* Put the codes of one vector into eighth j of the planes. Returns tau * code. */
static inline vec compare(vec p, vec tau, size_t j, uint64_t plane[2])
{
    vec plus = _mm256_cmp_ps(p, tau, _CMP_GE_OQ);
    vec minus = _mm256_cmp_ps(p, _mm256_xor_ps(tau, sign_mask()), _CMP_LE_OQ);
    plane[0] |= (uint64_t)(unsigned)_mm256_movemask_ps(plus) << 8 * j;
    plane[1] |= (uint64_t)(unsigned)_mm256_movemask_ps(minus) << 8 * j;
    vec signed_tau = _mm256_xor_ps(tau, _mm256_and_ps(minus, sign_mask()));
    return _mm256_and_ps(_mm256_or_ps(plus, minus), signed_tau);
}

/* Each block function works on m <= 64 elements; m = 64 is a constant in the main loops. */

static inline void encode_block(const float *p, size_t m, vec tau, uint8_t *bytes)
{
    uint64_t plane[2] = {0, 0};
    for (size_t j = 0; 8 * j < m; j++) /* missing lanes are 0 < tau */
        (void)compare(vec_get(p + 8 * j, m - 8 * j), tau, j, plane);
    tg__twobit_put(bytes, m, plane[0], plane[1]);
}

static void twobit_encode(const float *p, size_t n, float tau, uint8_t *bytes)
{
    const vec vtau = vec_splat(tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        encode_block(p + i, 64, vtau, bytes);
    if (i < n)
        encode_block(p + i, n - i, vtau, bytes);
}

static inline void add_encode_block(float *r, const float *g, size_t m, vec tau, uint8_t *bytes)
{
    uint64_t plane[2] = {0, 0};
    for (size_t j = 0; 8 * j < m; j++) {
        size_t left = m - 8 * j;
        vec p = vec_add(vec_get(r + 8 * j, left), vec_get(g + 8 * j, left));
        vec_put(r + 8 * j, left, vec_sub(p, compare(p, tau, j, plane))); /* x - +0 is x */
    }
    tg__twobit_put(bytes, m, plane[0], plane[1]);
}

static void twobit_add_encode(float *r, const float *g, size_t n, float tau, uint8_t *bytes)
{
    const vec vtau = vec_splat(tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        add_encode_block(r + i, g + i, 64, vtau, bytes);
    if (i < n)
        add_encode_block(r + i, g + i, n - i, vtau, bytes);
}

/* Spread eighth j of a plane over 8 lanes: their sign bits are the plane's bits. */
static inline vec spread(uint64_t plane, size_t j)
{
    const __m256i to_sign = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    __m256i bits = _mm256_set1_epi32((int)(uint32_t)(plane >> 8 * j & 0xff));
    return _mm256_castsi256_ps(_mm256_sllv_epi32(bits, to_sign));
}

static inline void decode_add_block(float *dst, const uint8_t *bytes, size_t m, vec tau)
{
    uint64_t plane[2];
    tg__twobit_codes(bytes, m, &plane[0], &plane[1]);
    for (size_t j = 0; 8 * j < m; j++) {
        size_t left = m - 8 * j;
        vec x = vec_get(dst + 8 * j, left), minus = spread(plane[1], j);
        vec signed_tau = _mm256_xor_ps(tau, _mm256_and_ps(minus, sign_mask()));
        vec used = _mm256_or_ps(spread(plane[0], j), minus);
        vec_put(dst + 8 * j, left, _mm256_blendv_ps(x, vec_add(x, signed_tau), used));
    }
}

static void twobit_decode_add(float *dst, const uint8_t *bytes, size_t n, float tau)
{
    const vec vtau = vec_splat(tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        decode_add_block(dst + i, bytes, 64, vtau);
    if (i < n)
        decode_add_block(dst + i, bytes, n - i, vtau);
}

static inline void decode_block(float *dst, const uint8_t *bytes, size_t m, vec tau)
{
    uint64_t plane[2];
    tg__twobit_codes(bytes, m, &plane[0], &plane[1]);
    for (size_t j = 0; 8 * j < m; j++) {
        vec minus = spread(plane[1], j);
        vec x = _mm256_blendv_ps(_mm256_setzero_ps(), tau, spread(plane[0], j));
        x = _mm256_blendv_ps(x, _mm256_xor_ps(tau, sign_mask()), minus);
        vec_put(dst + 8 * j, m - 8 * j, x);
    }
}

static void twobit_decode(float *dst, const uint8_t *bytes, size_t n, float tau)
{
    const vec vtau = vec_splat(tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        decode_block(dst + i, bytes, 64, vtau);
    if (i < n)
        decode_block(dst + i, bytes, n - i, vtau);
}

static bool twobit_valid(const uint8_t *bytes, size_t n)
{
    __m256i wrong = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 128 <= n; i += 128, bytes += 32) {
        __m256i planes = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
        __m256i swapped = _mm256_shuffle_epi32(planes, _MM_SHUFFLE(1, 0, 3, 2));
        wrong = _mm256_or_si256(wrong, _mm256_and_si256(planes, swapped));
    }
    uint64_t rest = 0;
    for (; i < n; i += 64, bytes += 16) {
        size_t m = TG__MIN(n - i, (size_t)64);
        uint64_t plus, minus;
        tg__twobit_get(bytes, m, &plus, &minus);
        rest |= plus & minus;
        if (m < 64)
            rest |= (plus | minus) >> m;
    }
    return rest == 0 && _mm256_testz_si256(wrong, wrong);
}

void tg__twobit_avx2(tg__kernels *table)
{
    table->twobit_encode = twobit_encode;
    table->twobit_add_encode = twobit_add_encode;
    table->twobit_decode_add = twobit_decode_add;
    table->twobit_decode = twobit_decode;
    table->twobit_valid = twobit_valid;
}
