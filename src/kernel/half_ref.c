/* 16-bit floats, the specification. Words are in the host's byte order, which is also that of
 * frames (base/mem.h). */
#include "kernel/simd_ref.h"
#include "kernel/variants.h"

typedef uint16_t vec16;

/* Finite magnitudes are limited to `largest`, NaNs become a single one; signs are kept. */
static inline vec narrow_clamp(vec x, uint32_t largest)
{
    const uint32_t a = vec_magnitude(x), sign = tg__f32_bits(x) ^ a;
    const uint32_t finite = TG__MIN(a, largest), other = a > TG__F32_INF ? TG__F32_NAN : a;
    return tg__f32_from(sign | (a < TG__F32_INF ? finite : other));
}

static inline vec16 f16_from(vec x)
{
    const uint32_t a = vec_magnitude(x), sign = tg__f32_bits(x) >> 16 & 0x8000;
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

static inline vec f16_get(const tg__word *p, size_t left)
{
    (void)left;
    const uint32_t sign = (uint32_t)(*p & 0x8000) << 16, exponent = *p >> 10 & 31;
    uint32_t fraction = *p & 0x3ff, shift = 0;
    if (exponent == 31)
        return tg__f32_from(sign | (fraction ? TG__F32_NAN | fraction << 13 : TG__F32_INF));
    if (exponent > 0)
        return tg__f32_from(sign | (exponent + 112) << 23 | fraction << 13);
    if (fraction == 0)
        return tg__f32_from(sign);
    for (; !(fraction & 0x400); shift++)
        fraction <<= 1;
    return tg__f32_from(sign | (113 - shift) << 23 | (fraction & 0x3ff) << 13);
}

static inline vec16 bf16_from(vec x)
{
    const uint32_t bits = tg__f32_bits(x);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define bf16_get(p, left) ((void)(left), tg__f32_from((uint32_t) * (p) << 16))
#define put16(p, left, h) ((void)(left), (void)(*(p) = (h)))
#define stream16(p, h) (*(p) = (h))
#define stream_end()
#define all_within(x, largest) false

#include "kernel/half_simd.h"

void tg__half_ref(tg__kernels *table)
{
    fill(table);
}
