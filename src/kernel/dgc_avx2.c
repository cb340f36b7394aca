/* DGC's momentum correction with the L1 norm of the accumulated velocity, AVX2. */
#include "kernel/dgc_lanes.h"
#include "kernel/simd_mask_avx2.h"
#include "kernel/variants.h"

#include "kernel/dgc_simd.h"

void tg__dgc_avx2(tg__kernels *table)
{
    fill(table);
}
