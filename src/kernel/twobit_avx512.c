/* 2-bit codes, AVX-512: comparisons give the bit planes; the decoder uses bit planes as masks. */
#include "kernel/simd_avx512.h"
#include "kernel/twobit_planes.h"
#include "kernel/variants.h"

static inline vec code(vec s, vec p, vec tau, size_t j, planes *to)
{
    const vmask plus = vec_at_least(s, tau);
    const vmask minus = vec_at_least(-tau, s);
    to->plus |= (uint64_t)mask_bits(plus) << 16 * j;
    to->minus |= (uint64_t)mask_bits(minus) << 16 * j;
    p = _mm512_mask_sub_ps(p, plus, p, tau);
    return _mm512_mask_add_ps(p, minus, p, tau);
}

static inline vmask quarter(uint64_t plane, size_t j)
{
    return (vmask)(plane >> 16 * j & 0xffff);
}

static inline vec decode_add_vec(vec x, vec tau, size_t j, uint64_t plus, uint64_t minus)
{
    x = _mm512_mask_add_ps(x, quarter(plus, j), x, tau);
    return _mm512_mask_sub_ps(x, quarter(minus, j), x, tau);
}

static inline vec decode_vec(vec tau, size_t j, uint64_t plus, uint64_t minus)
{
    const vec x = _mm512_maskz_mov_ps(quarter(plus, j), tau);
    return _mm512_mask_mov_ps(x, quarter(minus, j), -tau);
}

#include "kernel/twobit_simd.h"

void tg__twobit_avx512(tg__kernels *table)
{
    fill(table);
}
