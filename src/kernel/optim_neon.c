/* Steps of gradient descent, NEON. */
#include "kernel/simd_neon.h"
#include "kernel/variants.h"

#include "kernel/optim_simd.h"

void tg__optim_neon(tg__kernels *table)
{
    fill(table);
}
