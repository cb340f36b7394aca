/* Steps of gradient descent, AVX2. */
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

#include "kernel/optim_simd.h"

void tg__optim_avx2(tg__kernels *table)
{
    fill(table);
}
