/* Arithmetic of strategies other than the optimizers' steps, NEON. */
#include "kernel/simd_neon.h"
#include "kernel/variants.h"

#include "kernel/steps_simd.h"

void tg__steps_neon(tg__kernels *table)
{
    fill(table);
}
