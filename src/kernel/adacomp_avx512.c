/* AdaComp's selection, AVX-512. */
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

/* max returns its second operand if one is a NaN. */
static inline vec larger(vec x, vec max)
{
    return _mm512_max_ps(_mm512_abs_ps(x), max);
}

static inline float largest(vec max)
{
    return _mm512_reduce_max_ps(max);
}

static inline uint32_t lifted(vec x, vec sum, vec limit)
{
    __mmask16 high = _mm512_cmp_ps_mask(_mm512_abs_ps(sum), limit, _CMP_GE_OQ);
    return vec_bits(_mm512_mask_cmp_ps_mask(high, x, _mm512_setzero_ps(), _CMP_NEQ_UQ));
}

#include "kernel/adacomp_simd.h"

void tg__adacomp_avx512(tg__kernels *table)
{
    table->adacomp_select = adacomp_select;
}
