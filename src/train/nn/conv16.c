#include "train/nn/conv16.h"
#include "train/nn/conv16_kernels.h"
#include "train/train_util.h"
#include <stdlib.h>
#include <string.h>

#define CACHED \
    (512 * 1024) /* bytes of rounded planes that are worked on at once: half an L2 cache */

struct conv16 {
    const conv16_kernels *kernels;
    nn_conv_shape s;
    size_t group;           /* samples that are rounded at once */
    size_t line, pairs;     /* elements of a channel of src; pairs of places of ddst */
    uint16_t *left, *right; /* (group, in, line); (out / 16, group, pairs, 16, 2) */
    float *sums;            /* (3, in, 3, out): kernel rows, and columns */
};

bool conv16_has(const nn_conv_shape *s)
{
    return s->kernel == 3 && s->stride == 1 && s->pad == 1 && !s->bias && s->in % NN_BLOCK == 0 &&
           s->out % NN_BLOCK == 0 && s->height >= 8 && s->width >= 8;
}

tg_status conv16_create(const nn_conv_shape *shape, bool native, conv16 **c_p)
{
    conv16 *c;
    TG_TRY(train_alloc(1, sizeof *c, &c));
    c->kernels = &conv16_kernels_ref;
#if defined(__x86_64__)
    if (native)
        c->kernels = &conv16_kernels_avx512bf16;
#else
    (void)native;
#endif
    c->s = *shape;
    const size_t pitch = shape->width + 1;
    c->line = ((shape->height + 2) * pitch + 3 + 31) / 32 * 32; /* to the last place's neighbours */
    c->pairs = (shape->height * pitch + 1) / 2;
    const size_t left = shape->in * c->line, right = shape->out * c->pairs * 2;
    c->group = CACHED / sizeof(uint16_t) / (left + right);
    c->group = c->group < 1 ? 1 : c->group > shape->batch ? shape->batch : c->group;
    tg_status status = train_alloc(c->group * left, sizeof *c->left, &c->left);
    if (status == TG_OK)
        status = train_alloc(c->group * right, sizeof *c->right, &c->right);
    if (status == TG_OK)
        status = train_alloc(shape->in * shape->out, 9 * sizeof *c->sums, &c->sums);
    if (status != TG_OK) {
        conv16_destroy(c);
        return status;
    }
    *c_p = c;
    return TG_OK;
}

void conv16_destroy(conv16 *c)
{
    if (!c)
        return;
    free(c->left);
    free(c->right);
    free(c->sums);
    free(c);
}

/* Block b of 16 channels of a sample. */
static conv16_plane plane_of(const conv16 *c, const float *x, size_t channels, bool blocked,
                             size_t sample, size_t b)
{
    const size_t places = c->s.height * c->s.width;
    return (conv16_plane){.x = x + sample * places * channels +
                               b * NN_BLOCK * (blocked ? places : 1),
                          .height = c->s.height,
                          .width = c->s.width,
                          .pixel = blocked ? NN_BLOCK : channels};
}

/* Samples [from, from + n) into left and right. */
static void round_group(conv16 *c, size_t from, size_t n, const float *src, const float *ddst)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t b = 0; b < c->s.in / NN_BLOCK; b++) {
            const conv16_plane p = plane_of(c, src, c->s.in, c->s.src_blocked, from + i, b);
            c->kernels->lines(&p, c->line, c->left + (i * c->s.in + b * NN_BLOCK) * c->line);
        }
        for (size_t b = 0; b < c->s.out / NN_BLOCK; b++) {
            const conv16_plane p = plane_of(c, ddst, c->s.out, c->s.dst_blocked, from + i, b);
            c->kernels->pairs(&p, c->right + (b * c->group + i) * c->pairs * 2 * NN_BLOCK);
        }
    }
}

/* Block b, or from b on two of the output's channels. */
static void sum_columns(conv16 *c, size_t n, size_t b, bool two)
{
    const size_t in = c->s.in, out = c->s.out, right = c->pairs * 2 * NN_BLOCK;
    const uint16_t *first = c->right + b * c->group * right;
    for (size_t y = 0; y < 3; y++) {
        for (size_t i = 0; i < in; i += two ? CONV16_FEWER : CONV16_MOST)
            c->kernels->sum(&(conv16_sum){.samples = n,
                                          .pairs = c->pairs,
                                          .left = c->left + i * c->line + y * (c->s.width + 1),
                                          .line = c->line,
                                          .left_next = in * c->line,
                                          .right = {first, two ? first + c->group * right : NULL},
                                          .right_next = right,
                                          .sums = c->sums + (y * in + i) * 3 * out + b * NN_BLOCK,
                                          .columns = out});
    }
}

void conv16_backward_weights(conv16 *c, const float *src, const float *ddst, float *dweights)
{
    const size_t in = c->s.in, out = c->s.out, blocks = out / NN_BLOCK;
    memset(c->sums, 0, 9 * in * out * sizeof *c->sums);
    for (size_t from = 0; from < c->s.batch; from += c->group) {
        const size_t left = c->s.batch - from, n = left < c->group ? left : c->group;
        round_group(c, from, n, src, ddst);
        for (size_t b = 0; b < blocks; b += 2)
            sum_columns(c, n, b, b + 1 < blocks);
    }
    for (size_t o = 0; o < out; o++) {
        for (size_t i = 0; i < in; i++) {
            for (size_t k = 0; k < 9; k++)
                dweights[(o * in + i) * 9 + k] = c->sums[((k / 3 * in + i) * 3 + k % 3) * out + o];
        }
    }
}
