/* One element at a time: the arithmetic that the *_ref.c loops repeat, and that the other variants
 * use for the remainder after their last full vector. */
#ifndef TG_KERNEL_ELEMENT_H
#define TG_KERNEL_ELEMENT_H

#include "base/mem.h"
#include "kernel/kernel.h"
#include <string.h>

#define TG__F32_SIGN UINT32_C(0x80000000)
#define TG__F32_MAGNITUDE UINT32_C(0x7fffffff)
#define TG__F32_INF UINT32_C(0x7f800000)
#define TG__F32_NAN UINT32_C(0x7fc00000)

static inline uint32_t tg__f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float tg__f32_from(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* ---- selection ------------------------------------------------------------------------------- */

/* |x| >= threshold, x not 0, not NaN, as one unsigned comparison of bit patterns: the magnitude
 * must be in low .. low + span. Integers are used so that a caller's flush-to-zero mode does not
 * select zeros. */
typedef struct tg__range {
    uint32_t low, span;
} tg__range;

static inline tg__range tg__select_range(float threshold)
{
    uint32_t low = tg__f32_bits(threshold);
    if ((low & TG__F32_MAGNITUDE) > TG__F32_INF)
        return (tg__range){UINT32_MAX, 0}; /* NaN: nothing */
    if (low == 0 || low >= TG__F32_SIGN)
        low = 1;
    return (tg__range){low, TG__F32_INF - low};
}

static inline bool tg__selected(tg__range range, float x)
{
    return (tg__f32_bits(x) & TG__F32_MAGNITUDE) - range.low <= range.span;
}

/* The destination of selected elements. */
typedef struct tg__picked {
    uint32_t *idx;
    float *val;
    size_t cap, count;
} tg__picked;

static inline void tg__pick_one(tg__picked *picked, size_t i, float x)
{
    if (picked->count < picked->cap) {
        picked->idx[picked->count] = (uint32_t)i;
        picked->val[picked->count] = x;
    }
    picked->count++;
}

static inline void tg__pick(tg__picked *picked, tg__range range, size_t i, float x)
{
    if (tg__selected(range, x))
        tg__pick_one(picked, i, x);
}

/* Add the maximum of a bin. */
static inline void tg__bins_add(tg__bins *bins, float max)
{
    bins->sum += (double)max;
    bins->count += max > 0;
}

/* DGC's momentum correction of one element; returns the new v. */
static inline float tg__dgc_step(float *u, float *v, float g, float m, bool nesterov)
{
    if (nesterov) {
        *u = m * (*u + g);
        *v = (*v + *u) + g;
    } else {
        *u = m * *u + g;
        *v = *v + *u;
    }
    return *v;
}

/* ---- 2-bit codes ----------------------------------------------------------------------------- */

/* The masks of a block of m <= 64 elements, ceil(m / 8) bytes each. */
static inline void tg__twobit_put(uint8_t *bytes, size_t m, uint64_t plus, uint64_t minus)
{
    if (m >= 64) {
        tg__put64(bytes, plus);
        tg__put64(bytes + 8, minus);
        return;
    }
    size_t size = (m + 7) / 8;
    for (size_t j = 0; j < size; j++) {
        bytes[j] = (uint8_t)(plus >> 8 * j);
        bytes[size + j] = (uint8_t)(minus >> 8 * j);
    }
}

static inline void tg__twobit_get(const uint8_t *bytes, size_t m, uint64_t *plus, uint64_t *minus)
{
    if (m >= 64) {
        *plus = tg__get64(bytes);
        *minus = tg__get64(bytes + 8);
        return;
    }
    size_t size = (m + 7) / 8;
    *plus = *minus = 0;
    for (size_t j = 0; j < size; j++) {
        *plus |= (uint64_t)bytes[j] << 8 * j;
        *minus |= (uint64_t)bytes[size + j] << 8 * j;
    }
}

/* The masks without the bits that are set in both. */
static inline void tg__twobit_codes(const uint8_t *bytes, size_t m, uint64_t *plus, uint64_t *minus)
{
    tg__twobit_get(bytes, m, plus, minus);
    uint64_t both = *plus & *minus;
    *plus ^= both;
    *minus ^= both;
}

/* ---- 16-bit floats --------------------------------------------------------------------------- */

/* The magnitude bits of |x|, prepared for narrowing: finite ones are limited to `largest`, all NaNs
 * become the same one. */
static inline uint32_t tg__narrow_clamp(uint32_t magnitude, uint32_t largest)
{
    if (magnitude > TG__F32_INF)
        return TG__F32_NAN;
    return magnitude < TG__F32_INF && magnitude > largest ? largest : magnitude;
}

#define TG__F16_LARGEST UINT32_C(0x477fe000)  /* 65504 */
#define TG__BF16_LARGEST UINT32_C(0x7f7f0000) /* 3.3895e38 */

static inline uint16_t tg__f16_from_f32(float x)
{
    uint32_t bits = tg__f32_bits(x), sign = bits >> 16 & 0x8000;
    uint32_t a = tg__narrow_clamp(bits & TG__F32_MAGNITUDE, TG__F16_LARGEST);
    if (a >= TG__F32_INF)
        return (uint16_t)(sign | (a == TG__F32_INF ? 0x7c00 : 0x7e00));
    uint32_t exponent = a >> 23;
    if (exponent < 102) /* below half of the smallest subnormal 2^-24 */
        return (uint16_t)sign;
    /* The significand, with `drop` bits to be removed; a carry out of the fraction increments the
     * exponent. */
    uint32_t significand = (a & 0x7fffff) | 0x800000, base = 0, drop = 13;
    if (exponent < 113)
        drop = 126 - exponent;
    else
        base = (exponent - 113) << 10; /* the hidden bit adds the missing 1 */
    uint32_t kept = significand >> drop, lost = significand & ((UINT32_C(1) << drop) - 1);
    uint32_t half = UINT32_C(1) << (drop - 1);
    kept += lost > half || (lost == half && (kept & 1));
    return (uint16_t)(sign | (base + kept));
}

static inline float tg__f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31)
        return tg__f32_from(sign | (fraction ? TG__F32_NAN | fraction << 13 : TG__F32_INF));
    if (exponent == 0) {
        if (fraction == 0)
            return tg__f32_from(sign);
        uint32_t shift = 0;
        for (; !(fraction & 0x400); shift++)
            fraction <<= 1;
        return tg__f32_from(sign | (113 - shift) << 23 | (fraction & 0x3ff) << 13);
    }
    return tg__f32_from(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline uint16_t tg__bf16_from_f32(float x)
{
    uint32_t bits = tg__f32_bits(x);
    uint32_t a = tg__narrow_clamp(bits & TG__F32_MAGNITUDE, TG__BF16_LARGEST);
    return (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)((a + 0x7fff + (a >> 16 & 1)) >> 16);
}

static inline float tg__bf16_to_f32(uint16_t h)
{
    return tg__f32_from((uint32_t)h << 16);
}

#endif
