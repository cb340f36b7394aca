/* Steps of gradient descent, AVX-512. */
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

#include "kernel/optim_simd.h"

void tg__optim_avx512(tg__kernels *table)
{
    fill(table);
}
