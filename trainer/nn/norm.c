#include "trainer/nn/norm.h"
#include "trainer/nn/norm_kernels.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Floats per call of a kernel: half of the smallest L1 cache in use. */
#define CHUNK 4096

struct nn_norm {
    const norm_kernels *kernels;
    nn_norm_shape shape;
    size_t width, chunk; /* channels in a row; rows per call of a kernel */
    bool shortcut;       /* whether the last forward pass had a shortcut */
    float *floats;       /* memory of the arrays below, (channels) each: */
    float *mean, *inverse, *scale, *shift, *dmean, *dslope; /* inverse: 1 / standard deviation */
    float *part[2];                                         /* results of a chunk */
    double *total[2];                                       /* (channels) sums over all chunks */
};

static const norm_kernels *kernels_of(const char *level)
{
#if defined(__x86_64__)
    if (strcmp(level, "avx512") == 0)
        return &norm_kernels_avx512;
    if (strcmp(level, "avx2") == 0)
        return &norm_kernels_avx2;
#endif
    (void)level;
    return &norm_kernels_ref;
}

tg_status nn_norm_create(const nn_norm_shape *shape, nn_norm **s_p)
{
    nn_norm *s;
    TG_TRY(tg_alloc(1, sizeof *s, &s));
    const size_t channels = shape->channels;
    s->kernels = kernels_of(tg_cpu_level());
    s->shape = *shape;
    s->width = shape->blocked ? NN_BLOCK : channels;
    s->chunk = s->width < CHUNK ? CHUNK / s->width : 1;
    float **const floats[] = {&s->mean,  &s->inverse, &s->scale,   &s->shift,
                              &s->dmean, &s->dslope,  &s->part[0], &s->part[1]};
    tg_status status = tg_alloc(TG_COUNT(floats) * channels, sizeof(float), &s->floats);
    if (status == TG_OK)
        status = tg_alloc(2 * channels, sizeof(double), &s->total[0]);
    if (status != TG_OK) {
        nn_norm_destroy(s);
        return status;
    }
    for (size_t i = 0; i < TG_COUNT(floats); i++)
        *floats[i] = s->floats + i * channels;
    s->total[1] = s->total[0] + channels;
    *s_p = s;
    return TG_OK;
}

void nn_norm_destroy(nn_norm *s)
{
    if (!s)
        return;
    free(s->floats);
    free(s->total[0]);
    free(s);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Rows of the same channels that are adjacent in memory. */
typedef struct chunk {
    size_t rows, channel; /* channel: the first of `width` channels */
    size_t at;            /* index of its first element in the arrays */
    size_t plane, row;    /* where the next chunk begins */
} chunk;

/* Go to the next chunk of the first `count` samples, in memory order. Returns false after the last
 * one. Start from an all-zero chunk. */
static bool chunk_next(const nn_norm *s, size_t count, chunk *c)
{
    const size_t groups = s->shape.channels / s->width;
    const size_t planes = s->shape.blocked ? count * groups : 1;
    const size_t rows = s->shape.blocked ? s->shape.places : count * s->shape.places;
    if (c->row == rows) {
        c->row = 0;
        c->plane++;
    }
    if (c->plane == planes)
        return false;
    const size_t left = rows - c->row;
    c->rows = left < s->chunk ? left : s->chunk;
    c->channel = c->plane % groups * s->width;
    c->at = (c->plane * rows + c->row) * s->width;
    c->row += c->rows;
    return true;
}

static norm_channels channels_of(const nn_norm *s, size_t channel)
{
    return (norm_channels){.mean = s->mean + channel,
                           .scale = s->scale + channel,
                           .shift = s->shift + channel,
                           .dmean = s->dmean + channel,
                           .dslope = s->dslope + channel};
}

static const float *from(const float *array, size_t at)
{
    return array ? array + at : NULL;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Combine a chunk's mean and sum of squares with those of the `before` rows before it. */
static void join(nn_norm *s, const chunk *c, double before)
{
    const double rows = (double)c->rows, weight = rows / (before + rows);
    double *mean = s->total[0] + c->channel, *m2 = s->total[1] + c->channel;
    for (size_t i = 0; i < s->width; i++) {
        const double delta = (double)s->part[0][i] - mean[i];
        mean[i] += delta * weight;
        m2[i] += (double)s->part[1][i] + delta * delta * before * weight;
    }
}

void nn_norm_statistics(nn_norm *s, size_t count, const float *x, float *mean, float *variance)
{
    const size_t channels = s->shape.channels, per_plane = s->shape.places;
    memset(s->total[0], 0, 2 * channels * sizeof(double));
    for (chunk c = {0}; chunk_next(s, count, &c);) {
        const size_t row = c.row - c.rows;
        const size_t before =
            s->shape.blocked ? c.plane / (channels / s->width) * per_plane + row : row;
        s->kernels->moments(c.rows, s->width, x + c.at, s->part[0], s->part[1]);
        join(s, &c, (double)before);
    }
    const double n = (double)(count * s->shape.places);
    for (size_t i = 0; i < channels; i++) {
        mean[i] = (float)s->total[0][i];
        variance[i] = (float)(s->total[1][i] / n);
    }
}

void nn_norm_forward(nn_norm *s, const float *x, const float *shortcut, const float *mean,
                     const float *variance, const float *gamma, const float *beta, float *y)
{
    for (size_t i = 0; i < s->shape.channels; i++) {
        const double inverse = 1 / sqrt((double)variance[i] + NN_NORM_EPSILON);
        s->mean[i] = mean[i];
        s->inverse[i] = (float)inverse;
        s->scale[i] = (float)((double)gamma[i] * inverse);
        s->shift[i] = beta[i];
    }
    s->shortcut = shortcut != NULL;
    for (chunk c = {0}; chunk_next(s, s->shape.batch, &c);) {
        const norm_channels channels = channels_of(s, c.channel);
        s->kernels->apply(c.rows, s->width, &channels, s->shape.relu, x + c.at,
                          from(shortcut, c.at), y + c.at);
    }
}

/* ---- backward -----------------------------------------------------------------------------------
 * With d = x - mean, n rows and g the gradient before the relu:
 *     dbeta = sum g, dgamma = sum g d / deviation
 *     dx = scale (g - dbeta / n - d sum(g d) / (n deviation^2)) */

void nn_norm_backward_weights(nn_norm *s, size_t count, const float *x, const float *y,
                              const float *dy, const float *dy2, float *dz, float *dgamma,
                              float *dbeta)
{
    const size_t channels = s->shape.channels;
    memset(s->total[0], 0, 2 * channels * sizeof(double));
    for (chunk c = {0}; chunk_next(s, count, &c);) {
        const norm_channels of = channels_of(s, c.channel);
        s->kernels->reduce(c.rows, s->width, &of, s->shape.relu || s->shortcut, x + c.at,
                           s->shortcut ? y + c.at : NULL, dy + c.at, from(dy2, c.at),
                           dz ? dz + c.at : NULL, s->part[0], s->part[1]);
        for (size_t i = 0; i < s->width; i++) {
            s->total[0][c.channel + i] += (double)s->part[0][i];
            s->total[1][c.channel + i] += (double)s->part[1][i];
        }
    }
    const size_t each = s->shape.places * channels;
    if (dz)
        memset(dz + count * each, 0, (s->shape.batch - count) * each * sizeof *dz);
    const double n = (double)(count * s->shape.places);
    for (size_t i = 0; i < channels; i++) {
        const double inverse = (double)s->inverse[i];
        dbeta[i] = (float)s->total[0][i];
        dgamma[i] = (float)(s->total[1][i] * inverse);
        s->dmean[i] = (float)(s->total[0][i] / n);
        s->dslope[i] = (float)(s->total[1][i] * inverse * inverse / n);
    }
}

void nn_norm_backward_data(nn_norm *s, size_t count, const float *x, const float *dz,
                           const float *dy, float *dx)
{
    const float *g = dz ? dz : dy;
    for (chunk c = {0}; chunk_next(s, count, &c);) {
        const norm_channels of = channels_of(s, c.channel);
        s->kernels->spread(c.rows, s->width, &of, s->shape.relu && !dz, x + c.at, g + c.at,
                           dx + c.at);
    }
    const size_t each = s->shape.places * s->shape.channels;
    memset(dx + count * each, 0, (s->shape.batch - count) * each * sizeof *dx);
}
