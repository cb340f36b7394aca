/* Plain vector arithmetic, AVX2. */
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

#include "kernel/vector_simd.h"

void tg__vector_avx2(tg__kernels *table)
{
    fill(table);
}
