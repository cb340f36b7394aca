/* Threshold and compact, AVX-512: selected lanes are compressed in a register, because compressing
 * into memory is microcoded on some processors. */
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

typedef __mmask16 lanes;
#define any_lane(any) ((any) != 0)

typedef struct wide_range {
    __m512i low, span;
} wide_range;

static inline wide_range widen(float threshold)
{
    tg__range range = tg__select_range(threshold);
    return (wide_range){_mm512_set1_epi32((int)range.low), _mm512_set1_epi32((int)range.span)};
}

static inline lanes selected(wide_range range, vec x)
{
    return _mm512_cmple_epu32_mask(_mm512_sub_epi32(vec_magnitude(x), range.low), range.span);
}

/* When the room is used up, everything is written to the slack after it. */
static inline void pick(tg__picked *to, lanes mask, size_t i, vec x)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t at = TG__MIN(to->count, to->cap);
    __m512i index = _mm512_add_epi32(lane, _mm512_set1_epi32((int)(uint32_t)i));
    _mm512_storeu_si512(to->idx + at, _mm512_maskz_compress_epi32(mask, index));
    _mm512_storeu_ps(to->val + at, _mm512_maskz_compress_ps(mask, x));
    to->count += (unsigned)_mm_popcnt_u32(mask_bits(mask));
}

#include "kernel/select_simd.h"

void tg__select_avx512(tg__kernels *table)
{
    fill(table);
}
