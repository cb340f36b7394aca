/* DGC's momentum correction with the L1 norm of the accumulated velocity, NEON. */
#include "kernel/dgc_lanes.h"
#include "kernel/simd_neon.h"
#include "kernel/variants.h"

#include "kernel/dgc_simd.h"

void tg__dgc_neon(tg__kernels *table)
{
    fill(table);
}
