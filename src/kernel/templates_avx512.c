/* Kernels that are templates, AVX-512. */
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

#include "kernel/skinny_simd.h"
#include "kernel/templates.h"

void tg__templates_avx512(tg__kernels *table)
{
    fill(table);
    fill_skinny(table);
}
