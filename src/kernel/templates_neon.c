/* Kernels that are templates, NEON. */
#include "kernel/simd_neon.h"
#include "kernel/variants.h"

#include "kernel/adaptive_simd.h"
#include "kernel/bits_simd.h"
#include "kernel/dgc_simd.h"
#include "kernel/optim_simd.h"
#include "kernel/steps_simd.h"
#include "kernel/vector_simd.h"

void tg__templates_neon(tg__kernels *table)
{
    fill_adaptive(table);
    fill_bits(table);
    fill_dgc(table);
    fill_optim(table);
    fill_steps(table);
    fill_vector(table);
}
