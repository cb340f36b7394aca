/* Kernels that are templates, AVX2. */
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

#include "kernel/skinny_simd.h"
#include "kernel/templates.h"

void tg__templates_avx2(tg__kernels *table)
{
    fill(table);
    fill_skinny(table);
}
