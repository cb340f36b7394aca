/* 2-bit codes, AVX2: the sign bits of comparisons are gathered into the bit planes; the decoder
 * shifts each element's bit back into a sign bit. */
#include "kernel/simd_avx2.h"
#include "kernel/twobit_planes.h"
#include "kernel/variants.h"

/* Where m, -tau; elsewhere tau. */
static inline vec signed_tau(vec tau, vec m)
{
    return _mm256_xor_ps(tau, _mm256_and_ps(m, vec_splat(-0.0f)));
}

static inline vec code(vec s, vec p, vec tau, size_t j, planes *to)
{
    const vec plus = vec_at_least(s, tau);
    const vec minus = vec_at_least(-tau, s);
    to->plus |= (uint64_t)mask_bits(plus) << 8 * j;
    to->minus |= (uint64_t)mask_bits(minus) << 8 * j;
    const vec used = _mm256_or_ps(plus, minus);
    return p - _mm256_and_ps(used, signed_tau(tau, minus)); /* x - +0 is x */
}

/* Spread eighth j of a plane over 8 lanes: their sign bits are the plane's bits. */
static inline vec spread(uint64_t plane, size_t j)
{
    return mask_from((uint32_t)(plane >> 8 * j & 0xff));
}

static inline vec decode_add_vec(vec x, vec tau, size_t j, uint64_t plus, uint64_t minus)
{
    const vec down = spread(minus, j);
    return vec_pick(_mm256_or_ps(spread(plus, j), down), x + signed_tau(tau, down), x);
}

static inline vec decode_vec(vec tau, size_t j, uint64_t plus, uint64_t minus)
{
    const vec x = vec_pick(spread(plus, j), tau, vec_splat(0));
    return vec_pick(spread(minus, j), -tau, x);
}

#include "kernel/twobit_simd.h"

static bool twobit_valid(const uint8_t *bytes, size_t n)
{
    vint wrong = int_zero();
    size_t i = 0;
    for (; i + 128 <= n; i += 128, bytes += 32) {
        const vint two = int_get(bytes); /* blocks */
        const vint swapped = _mm256_shuffle_epi32(two, _MM_SHUFFLE(1, 0, 3, 2));
        wrong |= two & swapped;
    }
    bool rest = false;
    for (; i < n; i += 64, bytes += 16)
        rest |= tg__twobit_wrong(bytes, TG__MIN(n - i, (size_t)64));
    return !rest && _mm256_testz_si256(wrong, wrong);
}

void tg__twobit_avx2(tg__kernels *table)
{
    fill(table);
    table->twobit_valid = twobit_valid;
}
