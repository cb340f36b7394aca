/* Steps of Adam and LARS, AVX-512. */
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

#include "kernel/adaptive_simd.h"

void tg__adaptive_avx512(tg__kernels *table)
{
    fill(table);
}
