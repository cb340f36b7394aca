/* Matrix products and a sum, for the layers here. */
#ifndef TG_NN_GEMM_H
#define TG_NN_GEMM_H

#include "trainer/nn/gemm16.h"

/* c (m, n) = op(a) (m, k) op(b) (k, n) + beta c, all row-major; op transposes where trans* is 'T',
 * not 'N'. lda, ldb, ldc: from row to row as stored. The caller holds signals (dnnl_op.h).
 * Errors TG_E_NOMEM */
TG_NODISCARD tg_status gemm(char transa, char transb, size_t m, size_t n, size_t k, const float *a,
                            size_t lda, const float *b, size_t ldb, float beta, float *c,
                            size_t ldc);

/* The same in bf16 by `half`; NULL: in fp32. beta 0 or 1 */
TG_NODISCARD tg_status product(gemm16 *half, char transa, char transb, size_t m, size_t n, size_t k,
                               const float *a, size_t lda, const float *b, size_t ldb, int beta,
                               float *c, size_t ldc);

/* Dense layers as nn.h has them, their products by `half`; NULL: in fp32. The caller holds
 * signals. */
TG_NODISCARD tg_status dense_forward(gemm16 *half, size_t batch, size_t in, size_t out,
                                     const float *src, const float *weights, const float *bias,
                                     float *dst);
TG_NODISCARD tg_status dense_backward_weights(gemm16 *half, size_t batch, size_t in, size_t out,
                                              const float *src, const float *ddst, float *dweights,
                                              float *dbias);
TG_NODISCARD tg_status dense_backward_data(gemm16 *half, size_t batch, size_t in, size_t out,
                                           const float *ddst, const float *weights, float *dsrc);

/* sum (n) of the rows of x (rows, n), which begin `stride` apart */
void sum_rows(size_t rows, size_t n, const float *x, size_t stride, float *sum);

#endif
