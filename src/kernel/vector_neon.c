/* Plain vector arithmetic, NEON. */
#include "kernel/simd_neon.h"
#include "kernel/variants.h"

#include "kernel/vector_simd.h"

void tg__vector_neon(tg__kernels *table)
{
    fill(table);
}
