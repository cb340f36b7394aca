/* Arithmetic of layers for one rank: fp32 (or nn_use_bf16), one compute thread, the same bits from
 * run to run whatever other ranks of the process do.
 *
 * Activations are nhwc (batch, height, width, channels). Convolution weights are (out, in, kh, kw),
 * dense weights (out, in), biases (out): these canonical layouts are what parameters and gradients
 * have; the library underneath reorders to formats of its own. All arrays are the caller's, do not
 * overlap unless said, and outputs are overwritten.
 *
 * Blocked activations are (batch, channels / 16, height, width, 16): the layout in which the
 * library is fastest where it has 512-bit vectors. Of 16 channels, or one place, both layouts are
 * the same.
 *
 * Errors   of every fallible function: TG_E_NOMEM; TG_E_UNSUPPORTED if the library refuses a shape
 * Threads  an nn and everything made with it belong to the thread that made it
 * Signals  that come to the thread while a layer computes wait until the layer is done, except its
 *          own faults */
#ifndef TG_NN_H
#define TG_NN_H

#include "telegrad/base.h"

typedef struct nn nn;

/* Also limits this thread's OpenMP parallelism to one thread. */
TG_NODISCARD tg_status nn_create(nn **nn_p);
/* After everything made with it. NULL is fine, as for all destroy functions here. */
void nn_destroy(nn *n);

/* From now on what is made with n (convolutions, nn_dense16, layers that are given it for that)
 * reads what it multiplies rounded to bf16, and sums in fp32; what it is given and gives stays
 * fp32.
 * Errors TG_E_UNSUPPORTED: the CPU, TG_CPU or ONEDNN_MAX_CPU_ISA has neither avx512_bf16 nor AMX */
TG_NODISCARD tg_status nn_use_bf16(nn *n);

/* ---- convolution: square kernel, zero padding on all sides ----------------------------------- */

#define NN_BLOCK 16

/* Whether a convolution had better give that many channels blocked. */
bool nn_blocks(size_t channels);

typedef struct nn_conv_shape {
    size_t batch, height, width, in; /* src (batch, height, width, in) */
    size_t out, kernel, stride,
        pad;   /* dst (batch, oh, ow, out), oh = (height + 2 pad - kernel) / stride + 1 */
    bool bias; /* false: bias and dbias below are not looked at */
    bool src_blocked, dst_blocked;
} nn_conv_shape;

typedef struct nn_conv nn_conv;

/* Kernels of 3 over 32 blocked channels and more are computed by Winograd's minimal filtering where
 * the library can, which rounds differently: 1e-5 of the largest output is usual.
 * Source  Lavin and Gray 2016, arXiv:1509.09308, F(4x4, 3x3) */
TG_NODISCARD tg_status nn_conv_create(nn *n, const nn_conv_shape *shape, nn_conv **c_p);
void nn_conv_destroy(nn_conv *c);
TG_NODISCARD tg_status nn_conv_forward(nn_conv *c, const float *src, const float *weights,
                                       const float *bias, float *dst);
TG_NODISCARD tg_status nn_conv_backward_weights(nn_conv *c, const float *src, const float *ddst,
                                                float *dweights, float *dbias);
TG_NODISCARD tg_status nn_conv_backward_data(nn_conv *c, const float *ddst, const float *weights,
                                             float *dsrc);

/* ---- maximum over windows that do not overlap
 * ----------------------------------------------------- */

typedef struct nn_pool nn_pool;

/* src (batch, height, width, channels) to dst (batch, height / window, width / window, channels).
 */
TG_NODISCARD tg_status nn_pool_create(nn *n, size_t batch, size_t height, size_t width,
                                      size_t channels, size_t window, bool blocked, nn_pool **p_p);
void nn_pool_destroy(nn_pool *p);
/* Remembers which element was the largest (the first one of equals) until the next forward. */
TG_NODISCARD tg_status nn_pool_forward(nn_pool *p, const float *src, float *dst);
TG_NODISCARD tg_status nn_pool_backward(nn_pool *p, const float *ddst, float *dsrc);

/* ---- activations, element by element
 * -------------------------------------------------------------- */

typedef enum nn_act_kind { NN_TANH = 0, NN_RELU = 1 } nn_act_kind;

typedef struct nn_act nn_act;

TG_NODISCARD tg_status nn_act_create(nn *n, nn_act_kind kind, size_t count, nn_act **a_p);
void nn_act_destroy(nn_act *a);
/* dst may be src. */
TG_NODISCARD tg_status nn_act_forward(nn_act *a, const float *src, float *dst);
/* dst: what forward gave. dsrc may be ddst. */
TG_NODISCARD tg_status nn_act_backward(nn_act *a, const float *dst, const float *ddst, float *dsrc);

/* ---- dense
 * ----------------------------------------------------------------------------------------- */

/* dst (batch, out) = src (batch, in) weights^T (in, out) + bias (out). bias and dbias may be NULL:
 * none
 */
TG_NODISCARD tg_status nn_dense_forward(size_t batch, size_t in, size_t out, const float *src,
                                        const float *weights, const float *bias, float *dst);
TG_NODISCARD tg_status nn_dense_backward_weights(size_t batch, size_t in, size_t out,
                                                 const float *src, const float *ddst,
                                                 float *dweights, float *dbias);
TG_NODISCARD tg_status nn_dense_backward_data(size_t batch, size_t in, size_t out,
                                              const float *ddst, const float *weights, float *dsrc);

/* The same made for one shape, which products in bf16 need; of an nn that does not use bf16 they
 * are in fp32. */
typedef struct nn_dense16 nn_dense16;

TG_NODISCARD tg_status nn_dense16_create(nn *n, size_t batch, size_t in, size_t out,
                                         nn_dense16 **d_p);
void nn_dense16_destroy(nn_dense16 *d);
/* bias, dbias: NULL, none */
TG_NODISCARD tg_status nn_dense16_forward(nn_dense16 *d, const float *src, const float *weights,
                                          const float *bias, float *dst);
TG_NODISCARD tg_status nn_dense16_backward_weights(nn_dense16 *d, const float *src,
                                                   const float *ddst, float *dweights,
                                                   float *dbias);
TG_NODISCARD tg_status nn_dense16_backward_data(nn_dense16 *d, const float *ddst,
                                                const float *weights, float *dsrc);

/* ---- softmax and cross-entropy
 * --------------------------------------------------------------------- */

/* For the first `count` of the rows of logits (rows, classes): *loss_sum_p = sum of -log
 * softmax[label], *correct_p = rows whose largest logit (the first one of equals) is the label's.
 * dlogits  (rows, classes) = d(loss sum / total) / d logits, rows from count on are 0; NULL: not
 *          wanted. It may be logits.
 * labels   (count), each < classes; negative: the row does not count, its dlogits are 0
 * total    1 and more */
void nn_softmax_loss(size_t rows, size_t count, size_t classes, const float *logits,
                     const int32_t *labels, size_t total, float *dlogits, double *loss_sum_p,
                     size_t *correct_p);

/* dst = a + b, (n) each. dst may be a or b. */
void nn_add(size_t n, const float *a, const float *b, float *dst);

#endif
