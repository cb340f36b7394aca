/* "Vectors" of one float for the templates *_simd.h: so compiled, these are the specification, in
 * plain C. Same names as simd_avx2.h. */
#ifndef TG_KERNEL_SIMD_REF_H
#define TG_KERNEL_SIMD_REF_H

#include "kernel/element.h"
#include <math.h>

#define WIDTH 1

typedef float vec;
typedef uint32_t vint;
typedef bool vmask;
typedef double wide;

static inline vec vec_get(const void *p, size_t left)
{
    (void)left;
    vec x;
    memcpy(&x, p, sizeof(x)); /* at any alignment */
    return x;
}

#define vec_put(p, left, x) ((void)(left), (void)(*(p) = (x)))
#define vec_splat(a) ((vec)(a))
#define vec_sqrt(a) sqrtf(a)
#define vec_abs(x) fabsf(x)
#define vec_less(a, b) ((a) < (b))
#define vec_at_least(a, b) ((a) >= (b))

/* Without a branch, which random signs would mispredict half of the time. */
static inline vec vec_pick(vmask m, vec yes, vec no)
{
    const uint32_t all = 0 - (uint32_t)m;
    return tg__f32_from((tg__f32_bits(yes) & all) | (tg__f32_bits(no) & ~all));
}

#define vec_largest(x) (x)
#define vec_magnitude tg__f32_magnitude

/* b if one of both is NaN. */
static inline vec vec_min(vec a, vec b)
{
    return a < b ? a : b;
}

static inline vec vec_max(vec a, vec b)
{
    return a > b ? a : b;
}

#define mask_bits(m) ((uint32_t)(m))
#define mask_and(a, b) ((a) && (b))
#define mask_get(bits, i, left) ((void)(left), tg__bit(bits, i))

static inline void mask_put(uint8_t *bits, size_t i, size_t left, vmask m)
{
    (void)left;
    bits[i / 8] = (uint8_t)((i % 8 ? bits[i / 8] : 0) | m << i % 8);
}

#define int_zero() 0u
#define int_add(a, b) ((a) + (b))
#define int_max(a, b) TG__MAX(a, b)
#define int_get(p) tg__get32((const void *)(p))
#define int_put(p, x) tg__put32((void *)(p), x)
#define int_any_above(x, limit) ((x) > (vint)(limit))
#define int_count(count, m) ((count) + (m))

#define wide_zero() 0.0
#define wide_from(x) ((wide)(x))
#define wide_get(p, left, missing) ((void)(left), (void)(missing), (wide) * (p))
#define wide_minus(x, y) ((x) - (y))
#define wide_times(x, y) ((x) * (y))
#define wide_add_wide(sum, x) (*(sum) += (x))
#define wide_add(sum, x) (*(sum) += (wide)(x))
#define wide_add_product(sum, x, y) (*(sum) += (x) * (y))
#define wide_put(dst, x) (*(dst) = (x))
#define wide_put_sum(dst, x) (*(dst) += (x))

/* low += x where m, high += x elsewhere: sums are never -0, so +0 may be added. */
static inline void wide_split(wide *low, wide *high, vmask m, vec x)
{
    *low += (wide)vec_pick(m, x, 0);
    *high += (wide)vec_pick(m, 0, x);
}

#include "kernel/simd_each.h"

#endif
