/* Arithmetic of strategies other than the optimizers' steps, AVX-512. */
#include "kernel/simd_mask_avx512.h"
#include "kernel/variants.h"

#include "kernel/steps_simd.h"

void tg__steps_avx512(tg__kernels *table)
{
    fill(table);
}
