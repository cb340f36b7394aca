/* Plain vector arithmetic, AVX-512. */
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

#include "kernel/vector_simd.h"

void tg__vector_avx512(tg__kernels *table)
{
    fill(table);
}
