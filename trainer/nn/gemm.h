/* Matrix products and sums of rows, for the layers in this folder. */
#ifndef TG_NN_GEMM_H
#define TG_NN_GEMM_H

#include "telegrad/base.h"

/* c (m, n) = op(a) (m, k) op(b) (k, n) + beta c, all row-major. op transposes where trans* is 'T',
 * not 'N'. lda, ldb, ldc: strides between the rows as stored. The caller holds signals (dnnl_op.h).
 * Errors TG_E_NOMEM */
TG_NODISCARD tg_status gemm(char transa, char transb, size_t m, size_t n, size_t k, const float *a,
                            size_t lda, const float *b, size_t ldb, float beta, float *c,
                            size_t ldc);

/* sum (n) = the sum of the rows of x (rows, n), whose stride is `stride` */
void sum_rows(size_t rows, size_t n, const float *x, size_t stride, float *sum);

#endif
