/* Matrix products and dense layers. */
#include "train/nn/dnnl_op.h"
#include "train/nn/gemm.h"
#include "train/nn/row_kernels.h"
#include <string.h>

tg_status gemm(char transa, char transb, size_t m, size_t n, size_t k, const float *a, size_t lda,
               const float *b, size_t ldb, float beta, float *c, size_t ldc)
{
    DNNL_TRY("a matrix product",
             dnnl_sgemm(transa, transb, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1, a,
                        (dnnl_dim_t)lda, b, (dnnl_dim_t)ldb, beta, c, (dnnl_dim_t)ldc));
    return TG_OK;
}

/* One product, with signals held. */
static tg_status product(char transa, char transb, size_t m, size_t n, size_t k, const float *a,
                         size_t lda, const float *b, size_t ldb, float *c)
{
    sigset_t old;
    op_hold_signals(&old);
    const tg_status status = gemm(transa, transb, m, n, k, a, lda, b, ldb, 0, c, n);
    op_let_signals(&old);
    return status;
}

tg_status nn_dense_forward(size_t batch, size_t in, size_t out, const float *src,
                           const float *weights, const float *bias, float *dst)
{
    TG_TRY(product('N', 'T', batch, out, in, src, in, weights, in, dst));
    const row_kernels *rows = row_kernels_of(tg_cpu_level());
    for (size_t i = 0; bias && i < batch; i++)
        rows->add(out, bias, dst + i * out);
    return TG_OK;
}

void sum_rows(size_t rows, size_t n, const float *x, float *sum)
{
    enum { STRIP = 2048 }; /* of the sum, to stay in the L1 cache */
    const row_kernels *kernels = row_kernels_of(tg_cpu_level());
    memset(sum, 0, n * sizeof *sum);
    for (size_t at = 0; at < n; at += STRIP) {
        const size_t width = n - at < STRIP ? n - at : STRIP;
        for (size_t i = 0; i < rows; i++)
            kernels->add(width, x + i * n + at, sum + at);
    }
}

tg_status nn_dense_backward_weights(size_t batch, size_t in, size_t out, const float *src,
                                    const float *ddst, float *dweights, float *dbias)
{
    TG_TRY(product('T', 'N', out, in, batch, ddst, out, src, in, dweights));
    if (dbias)
        sum_rows(batch, out, ddst, dbias);
    return TG_OK;
}

tg_status nn_dense_backward_data(size_t batch, size_t in, size_t out, const float *ddst,
                                 const float *weights, float *dsrc)
{
    return product('N', 'N', batch, in, out, ddst, out, weights, in, dsrc);
}
