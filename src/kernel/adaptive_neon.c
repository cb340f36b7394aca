/* Steps of Adam and LARS, NEON. */
#include "kernel/simd_neon.h"
#include "kernel/variants.h"

#include "kernel/adaptive_simd.h"

void tg__adaptive_neon(tg__kernels *table)
{
    fill(table);
}
