/* Signs as bits, AVX2. */
#include "kernel/signs.h"
#include "kernel/simd_mask_avx2.h"
#include "kernel/variants.h"

#include "kernel/sign_simd.h"

void tg__sign_avx2(tg__kernels *table)
{
    fill(table);
}
