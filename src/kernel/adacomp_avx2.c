/* AdaComp's selection, AVX2. */
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

static inline vec magnitude(vec x)
{
    return _mm256_andnot_ps(vec_splat(-0.0f), x);
}

/* max returns its second operand if one is a NaN. */
static inline vec larger(vec x, vec max)
{
    return _mm256_max_ps(magnitude(x), max);
}

static inline float largest(vec max)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(max), _mm256_extractf128_ps(max, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static inline uint32_t lifted(vec x, vec sum, vec limit)
{
    vec high = _mm256_cmp_ps(magnitude(sum), limit, _CMP_GE_OQ);
    vec nonzero = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    return (uint32_t)_mm256_movemask_ps(_mm256_and_ps(high, nonzero));
}

#include "kernel/adacomp_simd.h"

void tg__adacomp_avx2(tg__kernels *table)
{
    table->adacomp_select = adacomp_select;
}
