/* Threshold and compact, AVX2.
 *
 * One branch for 64 elements, taken if at least one is selected. Selected lanes move to the front
 * by a permutation looked up by the mask, then the whole vector is stored, for which
 * TG__SELECT_SLACK gives room. */
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

/* Entry m lists the set bits of m, lowest first. */
static uint8_t front[256][8];

typedef struct wide_range {
    __m256i add, limit;
} wide_range;

/* low <= a <= low + span as ONE signed comparison: shift the range to start at INT32_MIN. */
static inline wide_range widen(float threshold)
{
    tg__range range = tg__select_range(threshold);
    return (wide_range){_mm256_set1_epi32((int)(TG__F32_SIGN - range.low)),
                        _mm256_set1_epi32((int)(TG__F32_SIGN + range.span + 1))};
}

static inline __m256i selected(wide_range range, vec x)
{
    __m256i a = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32((int)TG__F32_MAGNITUDE));
    return _mm256_cmpgt_epi32(range.limit, _mm256_add_epi32(a, range.add));
}

/* When the room is used up, everything is written to the slack after it. */
static inline void pick(tg__picked *to, __m256i lanes, size_t i, vec x)
{
    unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(lanes));
    size_t at = TG__MIN(to->count, to->cap);
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)front[mask]);
    __m256i order = _mm256_cvtepu8_epi32(bytes);
    __m256i index = _mm256_add_epi32(order, _mm256_set1_epi32((int)(uint32_t)i));
    _mm256_storeu_si256((__m256i *)(void *)(to->idx + at), index);
    _mm256_storeu_ps(to->val + at, _mm256_permutevar8x32_ps(x, order));
    to->count += (unsigned)_mm_popcnt_u32(mask);
}

static inline void pick64(tg__picked *to, wide_range range, size_t i, const vec x[8])
{
    __m256i lanes[8], any = _mm256_setzero_si256();
    for (size_t j = 0; j < 8; j++) {
        lanes[j] = selected(range, x[j]);
        any = _mm256_or_si256(any, lanes[j]);
    }
    if (_mm256_testz_si256(any, any))
        return;
    for (size_t j = 0; j < 8; j++)
        pick(to, lanes[j], i + 8 * j, x[j]);
}

#include "kernel/select_simd.h"

void tg__select_avx2(tg__kernels *table)
{
    for (unsigned mask = 0; mask < 256; mask++) {
        unsigned count = 0;
        for (uint8_t lane = 0; lane < 8; lane++)
            if (mask >> lane & 1)
                front[mask][count++] = lane;
    }
    fill(table);
}
