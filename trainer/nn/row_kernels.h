/* Loops over rows of activations, in one variant for each instruction set (row_ref.c, row_avx2.c,
 * row_avx512.c), all from row_template.h. All give the same bits: sums use 16 partial sums, and
 * element i belongs to number i mod 16. Arrays do not overlap unless stated. */
#ifndef TG_NN_ROW_KERNELS_H
#define TG_NN_ROW_KERNELS_H

#include <stddef.h>

typedef struct row_lstm {
    const float *bias; /* (4n) */
    const float *c0;   /* (n) the previous cell */
    float *gates;      /* (4n) i, f, g, o: without bias and functions; overwritten by the gates */
    float *c, *h;      /* (n) */
} row_lstm;

typedef struct row_lstm_backward {
    const float *c0, *c; /* (n) as in the forward pass */
    const float *dy;     /* (n) the gradient of h from this step's output ... */
    const float *dh;     /* (n) ... and from the next step */
    float *gates;        /* (4n) the result of forward; overwritten by gradients of its input */
    float *dc;           /* (n) gradient of c from the next step; overwritten by that of c0 */
} row_lstm_backward;

typedef struct row_kernels {
    /* The largest of n >= 1 elements. */
    float (*max)(size_t n, const float *x);
    /* Returns the sum of exp(x - max); dst receives the terms: it may be x, or NULL. */
    double (*exp_sum)(size_t n, const float *x, float max, float *dst);
    void (*scale)(size_t n, float factor, float *x);
    void (*add)(size_t n, const float *x, float *sum); /* sum += x */

    /* x = softmax(scale x), n >= 1 */
    void (*softmax)(size_t n, float scale, float *x);
    /* p: the result of softmax; d: its gradient, overwritten by that of the softmax's input */
    void (*softmax_backward)(size_t n, float scale, const float *p, float *d);

    /* Gaussian error linear units, in the tanh approximation; dx may be dy. */
    void (*gelu)(size_t n, const float *x, float *y);
    void (*gelu_backward)(size_t n, const float *x, const float *dy, float *dx);

    /* The element-wise part of one step of one sample: see recurrent.c. */
    void (*lstm)(size_t n, const row_lstm *r);
    void (*lstm_backward)(size_t n, const row_lstm_backward *r);

    /* y = (x - mean) / sqrt(variance + epsilon) * gamma + beta for each row; mean and inverse
     * (rows); inverse: 1 / standard deviation */
    void (*layernorm)(size_t rows, size_t n, float epsilon, const float *x, const float *gamma,
                      const float *beta, float *y, float *mean, float *inverse);
    /* Adds to dgamma and dbeta. */
    void (*layernorm_weights)(size_t rows, size_t n, const float *x, const float *mean,
                              const float *inverse, const float *dy, float *dgamma, float *dbeta);
    /* dx may be dy. */
    void (*layernorm_data)(size_t rows, size_t n, const float *x, const float *gamma,
                           const float *mean, const float *inverse, const float *dy, float *dx);
} row_kernels;

/* The kernels for a level of tg_cpu_level(). */
const row_kernels *row_kernels_of(const char *level);

extern const row_kernels row_kernels_ref;
#if defined(__x86_64__)
extern const row_kernels row_kernels_avx2, row_kernels_avx512;
#endif

#endif
