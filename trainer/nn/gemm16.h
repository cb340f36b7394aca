/* Matrix products of fp32 arrays whose elements are rounded to bf16 when they are multiplied; sums
 * are fp32. The same bits from run to run. Own loops where a CPU has avx512_bf16, because oneDNN's
 * (2.6 and 3.2) reach half of its speed where one side of a product is long (docs/decisions/0003).
 *
 * Operands are packed block by block: rounded, and laid down as a tile of the result reads them
 * (Goto and van de Geijn 2008, ACM TOMS 34(3)). */
#ifndef TG_NN_GEMM16_H
#define TG_NN_GEMM16_H

#include "telegrad/base.h"

/* Where operands are packed. Threads: one at a time. */
typedef struct gemm16 gemm16;

/* native: the CPU has avx512_bf16; else plain loops. Errors TG_E_NOMEM */
TG_NODISCARD tg_status gemm16_create(bool native, gemm16 **g_p);
void gemm16_destroy(gemm16 *g); /* NULL is fine */

/* As gemm (gemm.h), and
 * k     1 and more
 * beta  0 or 1
 * row   (n) added to each row of the result, with beta 0; NULL: none */
void gemm16_run(gemm16 *g, char transa, char transb, size_t m, size_t n, size_t k, const float *a,
                size_t lda, const float *b, size_t ldb, int beta, const float *row, float *c,
                size_t ldc);

#endif
