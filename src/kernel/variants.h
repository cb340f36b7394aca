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

/* The groups whose templates need nothing but the vectors of a level: see templates.h */
void tg__templates_ref(tg__kernels *table);
void tg__templates_avx2(tg__kernels *table);
void tg__templates_avx512(tg__kernels *table);
void tg__templates_neon(tg__kernels *table);

/* select ahead_select add_select dgc_select scatter_add */
void tg__select_ref(tg__kernels *table);
void tg__select_avx2(tg__kernels *table);
void tg__select_avx512(tg__kernels *table);
void tg__select_neon(tg__kernels *table);

/* twobit_* */
void tg__twobit_ref(tg__kernels *table);
void tg__twobit_avx2(tg__kernels *table);
void tg__twobit_avx512(tg__kernels *table);
void tg__twobit_neon(tg__kernels *table);

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

/* skinny_* */
void tg__skinny_ref(tg__kernels *table);

/* crc32c */
void tg__crc_ref(tg__kernels *table);
void tg__crc_avx2(tg__kernels *table);

#endif
