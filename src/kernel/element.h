/* One element, or one block, at a time: what several variants use. */
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

/* The bits of |x|: in the order of magnitudes, NaN above infinity. */
static inline uint32_t tg__f32_magnitude(float x)
{
    return tg__f32_bits(x) & TG__F32_MAGNITUDE;
}

/* The sum of the lanes, in order. */
static inline double tg__lanes_sum(const double lanes[TG__LANES])
{
    double sum = 0;
    for (size_t lane = 0; lane < TG__LANES; lane++)
        sum += lanes[lane];
    return sum;
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
    return tg__f32_magnitude(x) - range.low <= range.span;
}

/* The destination of selected elements. */
typedef struct tg__picked {
    uint32_t *idx;
    float *val;
    size_t cap, count;
} tg__picked;

static inline void tg__pick(tg__picked *picked, size_t i, float x)
{
    if (picked->count < picked->cap) {
        picked->idx[picked->count] = (uint32_t)i;
        picked->val[picked->count] = x;
    }
    picked->count++;
}

/* ---- bits ------------------------------------------------------------------------------------ */

static inline bool tg__bit(const uint8_t *bits, size_t i)
{
    return bits[i / 8] >> i % 8 & 1;
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

/* True if a bit is set in both masks, or beyond the m elements. */
static inline bool tg__twobit_wrong(const uint8_t *bytes, size_t m)
{
    uint64_t plus, minus;
    tg__twobit_get(bytes, m, &plus, &minus);
    return (plus & minus) != 0 || (m < 64 && (plus | minus) >> m != 0);
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

typedef uint16_t tg__word __attribute__((aligned(1), may_alias)); /* at any address */

#define TG__F16_LARGEST UINT32_C(0x477fe000)  /* 65504 */
#define TG__BF16_LARGEST UINT32_C(0x7f7f0000) /* 3.3895e38 */

#endif
