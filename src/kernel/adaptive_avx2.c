/* Steps of Adam and LARS, AVX2. */
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

#include "kernel/adaptive_simd.h"

void tg__adaptive_avx2(tg__kernels *table)
{
    fill(table);
}
