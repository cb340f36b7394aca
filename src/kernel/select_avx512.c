/* Threshold and compact, AVX-512.
 *
 * One branch for 64 elements, taken if at least one is selected. Selected lanes are compressed in a
 * register and stored as a whole vector, for which TG__SELECT_SLACK gives room: compressing into
 * memory is microcoded on some processors. */
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

typedef struct wide_range {
    __m512i low, span;
} wide_range;

static inline wide_range widen(float threshold)
{
    tg__range range = tg__select_range(threshold);
    return (wide_range){_mm512_set1_epi32((int)range.low), _mm512_set1_epi32((int)range.span)};
}

static inline __mmask16 selected(wide_range range, vec x)
{
    __m512i a = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32((int)TG__F32_MAGNITUDE));
    return _mm512_cmple_epu32_mask(_mm512_sub_epi32(a, range.low), range.span);
}

/* When the room is used up, everything is written to the slack after it. */
static inline void pick(tg__picked *to, __mmask16 mask, size_t i, vec x)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t at = TG__MIN(to->count, to->cap);
    __m512i index = _mm512_add_epi32(lane, _mm512_set1_epi32((int)(uint32_t)i));
    _mm512_storeu_si512(to->idx + at, _mm512_maskz_compress_epi32(mask, index));
    _mm512_storeu_ps(to->val + at, _mm512_maskz_compress_ps(mask, x));
    to->count += (unsigned)_mm_popcnt_u32(vec_bits(mask));
}

static inline void pick64(tg__picked *to, wide_range range, size_t i, const vec x[4])
{
    __mmask16 mask[4];
    for (size_t j = 0; j < 4; j++)
        mask[j] = selected(range, x[j]);
    if (!(mask[0] | mask[1] | mask[2] | mask[3]))
        return;
    for (size_t j = 0; j < 4; j++)
        pick(to, mask[j], i + 16 * j, x[j]);
}

#include "kernel/select_simd.h"

void tg__select_avx512(tg__kernels *table)
{
    fill(table);
}
