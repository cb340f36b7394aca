/* Threshold and compact, AVX2: selected lanes move by a permutation looked up by the mask. */
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

/* Entry m lists the set bits of m, lowest first. */
static uint8_t front[256][8];

typedef __m256i lanes;
#define any_lane(any) (!_mm256_testz_si256(any, any))

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

static inline lanes selected(wide_range range, vec x)
{
    return _mm256_cmpgt_epi32(range.limit, int_add(vec_magnitude(x), range.add));
}

/* When the room is used up, everything is written to the slack after it. */
static inline void pick(tg__picked *to, lanes chosen, size_t i, vec x)
{
    const uint32_t mask = mask_bits(_mm256_castsi256_ps(chosen));
    size_t at = TG__MIN(to->count, to->cap);
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)front[mask]);
    __m256i order = _mm256_cvtepu8_epi32(bytes);
    __m256i index = _mm256_add_epi32(order, _mm256_set1_epi32((int)(uint32_t)i));
    _mm256_storeu_si256((__m256i *)(void *)(to->idx + at), index);
    _mm256_storeu_ps(to->val + at, _mm256_permutevar8x32_ps(x, order));
    to->count += (unsigned)_mm_popcnt_u32(mask);
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
