/* The loops of norm.c over a few adjacent rows of channels, in one variant for each instruction set
 * (norm_ref.c, norm_avx2.c, norm_avx512.c). All give the same bits: 16 channels side by side, and
 * rows distributed over four partial sums. */
#ifndef TG_NN_NORM_KERNELS_H
#define TG_NN_NORM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

/* Values for each channel, (width) */
typedef struct norm_channels {
    const float *mean;
    const float *scale; /* gamma / sqrt(variance + epsilon) */
    const float *shift; /* beta */
    const float *dmean, *dslope;
} norm_channels;

typedef struct norm_kernels {
    /* mean and m2 (width): the mean of x (rows, width), and the sum of squared differences from
     * it */
    void (*moments)(size_t rows, size_t width, const float *x, float *mean, float *m2);

    /* y = (x - mean) * scale + shift; then + shortcut unless NULL; with relu, then max(., 0) */
    void (*apply)(size_t rows, size_t width, const norm_channels *c, bool relu, const float *x,
                  const float *shortcut, float *y);

    /* g = dy + dy2 where the relu passed, else 0; dy2 NULL counts as 0
     * sum, slope (width): sums of g and of g * (x - mean)
     * y   NULL: the relu's output is computed from x
     * dz  NULL, or set to g */
    void (*reduce)(size_t rows, size_t width, const norm_channels *c, bool relu, const float *x,
                   const float *y, const float *dy, const float *dy2, float *dz, float *sum,
                   float *slope);

    /* dx = scale * (g - dmean - (x - mean) * dslope), g as above from dy alone */
    void (*spread)(size_t rows, size_t width, const norm_channels *c, bool relu, const float *x,
                   const float *dy, float *dx);
} norm_kernels;

extern const norm_kernels norm_kernels_ref;
#if defined(__x86_64__)
extern const norm_kernels norm_kernels_avx2, norm_kernels_avx512;
#endif

#endif
