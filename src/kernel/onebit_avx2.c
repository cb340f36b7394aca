/* The two means of 1-bit SGD, AVX2. */
#include "kernel/signs.h"
#include "kernel/simd_mask_avx2.h"
#include "kernel/variants.h"

#include "kernel/onebit_simd.h"

void tg__onebit_avx2(tg__kernels *table)
{
    fill(table);
}
