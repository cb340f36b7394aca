/* The two means of 1-bit SGD, AVX-512. */
#include "kernel/signs.h"
#include "kernel/simd_mask_avx512.h"
#include "kernel/variants.h"

#include "kernel/onebit_simd.h"

void tg__onebit_avx512(tg__kernels *table)
{
    fill(table);
}
