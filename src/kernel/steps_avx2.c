/* Arithmetic of strategies other than the optimizers' steps, AVX2. */
#include "kernel/simd_mask_avx2.h"
#include "kernel/variants.h"

#include "kernel/steps_simd.h"

void tg__steps_avx2(tg__kernels *table)
{
    fill(table);
}
