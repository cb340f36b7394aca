/* Signs as bits, AVX-512. */
#include "kernel/signs.h"
#include "kernel/simd_mask_avx512.h"
#include "kernel/variants.h"

#include "kernel/sign_simd.h"

void tg__sign_avx512(tg__kernels *table)
{
    fill(table);
}
