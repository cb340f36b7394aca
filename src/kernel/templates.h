/* The templates that need nothing but the vectors of simd_ref.h, simd_avx2.h or simd_avx512.h. */
#include "kernel/adacomp_simd.h"
#include "kernel/adaptive_simd.h"
#include "kernel/bits_simd.h"
#include "kernel/dgc_simd.h"
#include "kernel/onebit_simd.h"
#include "kernel/optim_simd.h"
#include "kernel/sign_simd.h"
#include "kernel/stats_simd.h"
#include "kernel/steps_simd.h"
#include "kernel/vector_simd.h"

static void fill(tg__kernels *table)
{
    fill_adacomp(table);
    fill_adaptive(table);
    fill_bits(table);
    fill_dgc(table);
    fill_onebit(table);
    fill_optim(table);
    fill_sign(table);
    fill_stats(table);
    fill_steps(table);
    fill_vector(table);
}
