/* Arithmetic of layers for one rank: fp32 (or see nn_use_bf16), one compute thread, the same bits
 * in every run whatever other ranks of the process do.
 *
 * Activations are nhwc (batch, height, width, channels). Convolution weights are (out, in, kh, kw),
 * dense weights (out, in), biases (out). Parameters and gradients have these canonical layouts; the
 * library underneath reorders them to its own formats. All arrays belong to the caller and do not
 * overlap unless stated; outputs are overwritten.
 *
 * Blocked activations are (batch, channels / 16, height, width, 16), the layout in which the
 * library is fastest with 512-bit vectors. With 16 channels, or a single place, both layouts are
 * the same.
 *
 * Errors   of every fallible function: TG_E_NOMEM; TG_E_UNSUPPORTED if the library refuses a shape
 * Threads  an nn and everything created with it belong to the thread that created it
 * Signals  to the thread that arrive while a layer computes are delayed until the layer is done,
 *          except those for its own faults */
#ifndef TG_NN_H
#define TG_NN_H

#include "telegrad/base.h"

typedef struct nn nn;

/* Also limits OpenMP to one thread on the calling thread. */
TG_NODISCARD tg_status nn_create(nn **nn_p);
/* Destroy it after everything created with it. NULL is fine, as in all destroy functions here. */
void nn_destroy(nn *n);

/* From now on, what is created with n (convolutions, nn_dense16, layers that take it for this
 * purpose) rounds the operands of products to bf16 and sums in fp32. Inputs and outputs stay fp32.
 * Errors TG_E_UNSUPPORTED: the CPU, TG_CPU or ONEDNN_MAX_CPU_ISA has neither avx512_bf16 nor AMX */
TG_NODISCARD tg_status nn_use_bf16(nn *n);

/* Bytes that what was created with n allocates when it first computes, and not before. Memory of
 * what has been destroyed is counted, too. */
double nn_bytes(const nn *n);

/* ---- convolution: square kernel, zero padding on all sides ----------------------------------- */

#define NN_BLOCK 16

/* Whether a convolution with that many output channels should produce blocked activations. */
bool nn_blocks(size_t channels);

typedef struct nn_conv_shape {
    size_t batch, height, width, in; /* src (batch, height, width, in) */
    size_t out, kernel, stride,
        pad;   /* dst (batch, oh, ow, out), oh = (height + 2 pad - kernel) / stride + 1 */
    bool bias; /* false: bias and dbias below are ignored */
    bool src_blocked, dst_blocked;
} nn_conv_shape;

typedef struct nn_conv nn_conv;

/* Kernels of 3 x 3 over at least 32 blocked channels use Winograd's minimal filtering if the
 * library can. It rounds differently, usually by about 1e-5 of the largest output.
 * Source  Lavin and Gray 2016, arXiv:1509.09308, F(4x4, 3x3) */
TG_NODISCARD tg_status nn_conv_create(nn *n, const nn_conv_shape *shape, nn_conv **c_p);
void nn_conv_destroy(nn_conv *c);
TG_NODISCARD tg_status nn_conv_forward(nn_conv *c, const float *src, const float *weights,
                                       const float *bias, float *dst);
TG_NODISCARD tg_status nn_conv_backward_weights(nn_conv *c, const float *src, const float *ddst,
                                                float *dweights, float *dbias);
TG_NODISCARD tg_status nn_conv_backward_data(nn_conv *c, const float *ddst, const float *weights,
                                             float *dsrc);

/* ---- maximum over windows that do not overlap ------------------------------------------------ */

typedef struct nn_pool nn_pool;

/* src (batch, height, width, channels) to dst (batch, height / window, width / window,
 * channels). */
TG_NODISCARD tg_status nn_pool_create(nn *n, size_t batch, size_t height, size_t width,
                                      size_t channels, size_t window, bool blocked, nn_pool **p_p);
void nn_pool_destroy(nn_pool *p);
/* Remembers which element was the largest (the first one of equals) until the next forward pass. */
TG_NODISCARD tg_status nn_pool_forward(nn_pool *p, const float *src, float *dst);
TG_NODISCARD tg_status nn_pool_backward(nn_pool *p, const float *ddst, float *dsrc);

/* ---- activations, element by element --------------------------------------------------------- */

typedef enum nn_act_kind { NN_TANH = 0, NN_RELU = 1 } nn_act_kind;

typedef struct nn_act nn_act;

TG_NODISCARD tg_status nn_act_create(nn *n, nn_act_kind kind, size_t count, nn_act **a_p);
void nn_act_destroy(nn_act *a);
/* dst may be src. */
TG_NODISCARD tg_status nn_act_forward(nn_act *a, const float *src, float *dst);
/* dst: the result of forward. dsrc may be ddst. */
TG_NODISCARD tg_status nn_act_backward(nn_act *a, const float *dst, const float *ddst, float *dsrc);

/* ---- dense ----------------------------------------------------------------------------------- */

/* dst (batch, out) = src (batch, in) weights^T (in, out) + bias (out). bias and dbias may be NULL:
 * none */
TG_NODISCARD tg_status nn_dense_forward(size_t batch, size_t in, size_t out, const float *src,
                                        const float *weights, const float *bias, float *dst);
TG_NODISCARD tg_status nn_dense_backward_weights(size_t batch, size_t in, size_t out,
                                                 const float *src, const float *ddst,
                                                 float *dweights, float *dbias);
TG_NODISCARD tg_status nn_dense_backward_data(size_t batch, size_t in, size_t out,
                                              const float *ddst, const float *weights, float *dsrc);

/* The same, created for one shape; products in bf16 require it. If the nn does not use bf16,
 * products are in fp32. */
typedef struct nn_dense16 nn_dense16;

TG_NODISCARD tg_status nn_dense16_create(nn *n, size_t batch, size_t in, size_t out,
                                         nn_dense16 **d_p);
void nn_dense16_destroy(nn_dense16 *d);
/* bias, dbias: NULL for none */
TG_NODISCARD tg_status nn_dense16_forward(nn_dense16 *d, const float *src, const float *weights,
                                          const float *bias, float *dst);
TG_NODISCARD tg_status nn_dense16_backward_weights(nn_dense16 *d, const float *src,
                                                   const float *ddst, float *dweights,
                                                   float *dbias);
TG_NODISCARD tg_status nn_dense16_backward_data(nn_dense16 *d, const float *ddst,
                                                const float *weights, float *dsrc);

/* ---- softmax and cross-entropy --------------------------------------------------------------- */

/* For the first `count` rows of logits (rows, classes): *loss_sum_p = sum of -log softmax[label],
 * *correct_p = number of rows whose largest logit (the first one of equals) is the label's.
 * dlogits  (rows, classes) = d(loss sum / total) / d logits; rows from count on are 0; NULL: not
 *          needed. It may be logits.
 * labels   (count), each < classes; negative: the row does not count, and its dlogits are 0
 * total    at least 1 */
void nn_softmax_loss(size_t rows, size_t count, size_t classes, const float *logits,
                     const int32_t *labels, size_t total, float *dlogits, double *loss_sum_p,
                     size_t *correct_p);

/* dst = a + b, (n) each. dst may be a or b. */
void nn_add(size_t n, const float *a, const float *b, float *dst);

#endif
