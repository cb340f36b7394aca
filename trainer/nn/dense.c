/* Matrix products and dense layers. */
#include "trainer/nn/dnnl_op.h"
#include "trainer/nn/gemm.h"
#include "trainer/nn/row_kernels.h"
#include <string.h>

tg_status gemm(char transa, char transb, size_t m, size_t n, size_t k, const float *a, size_t lda,
               const float *b, size_t ldb, float beta, float *c, size_t ldc)
{
    DNNL_TRY("a matrix product",
             dnnl_sgemm(transa, transb, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1, a,
                        (dnnl_dim_t)lda, b, (dnnl_dim_t)ldb, beta, c, (dnnl_dim_t)ldc));
    return TG_OK;
}

/* Number of outputs computed at once, so that the next operation finds them in the cache. */
#define STRIP 2048

static tg_status forward(size_t batch, size_t in, size_t out, const float *src,
                         const float *weights, const float *bias, float *dst)
{
    const row_kernels *rows = row_kernels_of(tg_cpu_level());
    for (size_t at = 0; at < out; at += STRIP) {
        const size_t width = out - at < STRIP ? out - at : STRIP;
        TG_TRY(gemm('N', 'T', batch, width, in, src, in, weights + at * in, in, 0, dst + at, out));
        for (size_t i = 0; bias && i < batch; i++)
            rows->add(width, bias + at, dst + i * out + at);
    }
    return TG_OK;
}

tg_status nn_dense_forward(size_t batch, size_t in, size_t out, const float *src,
                           const float *weights, const float *bias, float *dst)
{
    sigset_t old;
    op_hold_signals(&old);
    const tg_status status = forward(batch, in, out, src, weights, bias, dst);
    op_let_signals(&old);
    return status;
}

void sum_rows(size_t rows, size_t n, const float *x, size_t stride, float *sum)
{
    const row_kernels *kernels = row_kernels_of(tg_cpu_level());
    memset(sum, 0, n * sizeof *sum);
    for (size_t i = 0; i < rows; i++)
        kernels->add(n, x + i * stride, sum);
}

static tg_status backward_weights(size_t batch, size_t in, size_t out, const float *src,
                                  const float *ddst, float *dweights, float *dbias)
{
    for (size_t at = 0; at < out; at += STRIP) {
        const size_t width = out - at < STRIP ? out - at : STRIP;
        TG_TRY(
            gemm('T', 'N', width, in, batch, ddst + at, out, src, in, 0, dweights + at * in, in));
        if (dbias)
            sum_rows(batch, width, ddst + at, out, dbias + at);
    }
    return TG_OK;
}

tg_status nn_dense_backward_weights(size_t batch, size_t in, size_t out, const float *src,
                                    const float *ddst, float *dweights, float *dbias)
{
    sigset_t old;
    op_hold_signals(&old);
    const tg_status status = backward_weights(batch, in, out, src, ddst, dweights, dbias);
    op_let_signals(&old);
    return status;
}

tg_status nn_dense_backward_data(size_t batch, size_t in, size_t out, const float *ddst,
                                 const float *weights, float *dsrc)
{
    sigset_t old;
    op_hold_signals(&old);
    const tg_status status = gemm('N', 'N', batch, in, out, ddst, out, weights, in, 0, dsrc, in);
    op_let_signals(&old);
    return status;
}
