/* How the table of a level is built: every kernel file overrides its own entries. A level starts as
 * a copy of the level below it, so a variant file holds only the functions that it improves.
 *
 * Called once, before any table is returned (cpu.c); tables of constants are built at that time as
 * well. The suffix of a file names its level and determines the compiler's flags
 * (cmake/rooms.cmake), so no code of *_avx2.c or *_avx512.c may run before the CPU has been
 * queried. */
#ifndef TG_KERNEL_VARIANTS_H
#define TG_KERNEL_VARIANTS_H

#include "kernel/kernel.h"

/* add axpy scale sub */
void tg__vector_ref(tg__kernels *table);
void tg__vector_avx2(tg__kernels *table);
void tg__vector_avx512(tg__kernels *table);
void tg__vector_neon(tg__kernels *table);

/* abs_max all_finite copy_stats moments histogram */
void tg__stats_ref(tg__kernels *table);
void tg__stats_avx2(tg__kernels *table);
void tg__stats_avx512(tg__kernels *table);

/* select add_select dgc_select scatter_add */
void tg__select_ref(tg__kernels *table);
void tg__select_avx2(tg__kernels *table);
void tg__select_avx512(tg__kernels *table);
void tg__select_neon(tg__kernels *table);

/* dgc_sum_abs */
void tg__dgc_ref(tg__kernels *table);
void tg__dgc_avx2(tg__kernels *table);
void tg__dgc_avx512(tg__kernels *table);
void tg__dgc_neon(tg__kernels *table);

/* adacomp_select */
void tg__adacomp_ref(tg__kernels *table);
void tg__adacomp_avx2(tg__kernels *table);
void tg__adacomp_avx512(tg__kernels *table);

/* twobit_* */
void tg__twobit_ref(tg__kernels *table);
void tg__twobit_avx2(tg__kernels *table);
void tg__twobit_avx512(tg__kernels *table);
void tg__twobit_neon(tg__kernels *table);

/* count_bits */
void tg__bits_ref(tg__kernels *table);
void tg__bits_avx2(tg__kernels *table);
/* sign_* vote */
void tg__sign_ref(tg__kernels *table);
void tg__sign_avx2(tg__kernels *table);
void tg__sign_avx512(tg__kernels *table);

/* split_sums column_* */
void tg__onebit_ref(tg__kernels *table);
void tg__onebit_avx2(tg__kernels *table);
void tg__onebit_avx512(tg__kernels *table);

/* f16_* bf16_* */
void tg__half_ref(tg__kernels *table);
void tg__half_avx2(tg__kernels *table);
void tg__half_avx512(tg__kernels *table);
void tg__half_neon(tg__kernels *table);

/* quant_* clamp */
void tg__quant_ref(tg__kernels *table);
void tg__quant_avx2(tg__kernels *table);
void tg__quant_avx512(tg__kernels *table);

/* pack unpack */
void tg__pack_ref(tg__kernels *table);
void tg__pack_avx2(tg__kernels *table);

/* sgd sgd_momentum sgd_to sgd_preview_to */
void tg__optim_ref(tg__kernels *table);
void tg__optim_avx2(tg__kernels *table);
void tg__optim_avx512(tg__kernels *table);
void tg__optim_neon(tg__kernels *table);

/* adam adam_preview_to lars lars_preview_to */
void tg__adaptive_ref(tg__kernels *table);
void tg__adaptive_avx2(tg__kernels *table);
void tg__adaptive_avx512(tg__kernels *table);
void tg__adaptive_neon(tg__kernels *table);

/* sub_to settle go_on mix nesterov dcasgd sign_step */
void tg__steps_ref(tg__kernels *table);
void tg__steps_avx2(tg__kernels *table);
void tg__steps_avx512(tg__kernels *table);
void tg__steps_neon(tg__kernels *table);

/* skinny_* dot */
void tg__skinny_ref(tg__kernels *table);
void tg__skinny_avx2(tg__kernels *table);
void tg__skinny_avx512(tg__kernels *table);

/* crc32c */
void tg__crc_ref(tg__kernels *table);
void tg__crc_avx2(tg__kernels *table);

#endif
