#include "trainer/nn/conv16.h"
#include "trainer/nn/conv16_kernels.h"
#include "telegrad/tools.h"
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
    uint16_t *padded;  /* (channels / 16, height + 2, width + 1, 16) and a few more: zeros around */
    uint16_t *weights; /* (to / 16, from / 16, 9, 8, 16, 2) */
    float *sums;       /* (3, in, 3, out): kernel rows, and columns */
};

/* Channels of both sides, and elements of a sample, up to which these loops are faster: a sample's
 * rounded input in the L1 cache, the sums in L2. */
#define CHANNELS 64
#define SAMPLE 16384

bool conv16_has(const nn_conv_shape *s)
{
    return s->kernel == 3 && s->stride == 1 && s->pad == 1 && !s->bias && s->in % NN_BLOCK == 0 &&
           s->out % NN_BLOCK == 0 && s->in <= CHANNELS && s->out <= CHANNELS && s->height >= 8 &&
           s->width >= 8 && s->in * s->height * s->width <= SAMPLE;
}

tg_status conv16_create(const nn_conv_shape *shape, bool native, conv16 **c_p)
{
    conv16 *c;
    TG_TRY(tg_alloc(1, sizeof *c, &c));
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
    tg_status status = tg_alloc(c->group * left, sizeof *c->left, &c->left);
    if (status == TG_OK)
        status = tg_alloc(c->group * right, sizeof *c->right, &c->right);
    const size_t most = shape->in > shape->out ? shape->in : shape->out;
    if (status == TG_OK)
        status = tg_alloc((shape->height + 2) * pitch * most + 2 * CONV16_MANY * NN_BLOCK,
                          sizeof *c->padded, &c->padded);
    if (status == TG_OK)
        status = tg_alloc(shape->in * shape->out, 9 * sizeof *c->weights, &c->weights);
    if (status == TG_OK)
        status = tg_alloc(shape->in * shape->out, 9 * sizeof *c->sums, &c->sums);
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
    free(c->padded);
    free(c->weights);
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

/* ---- forward, and backwards to the input: the same with turned kernels
 * ---------------------------
 */

typedef struct side {
    size_t channels;
    bool blocked;
} side;

/* A sample, from block b of the output's channels on, of the planes that are padded already. */
static void rows_of(const conv16 *c, const side *from, const side *to, float *dst, size_t sample,
                    size_t b)
{
    const size_t places = c->s.height * c->s.width, pitch = (c->s.width + 1) * NN_BLOCK;
    const size_t kernels = from->channels * 9 * NN_BLOCK; /* of 16 channels of the output */
    const bool two = b + 1 < to->channels / NN_BLOCK;
    const size_t most = two ? CONV16_FEW : CONV16_MANY;
    float *first = dst + (size_t)(plane_of(c, dst, to->channels, to->blocked, sample, b).x - dst);
    conv16_row r = {
        .blocks = from->channels / NN_BLOCK,
        .pitch = pitch,
        .next = (c->s.height + 2) * pitch,
        .weights = {c->weights + b * kernels, two ? c->weights + (b + 1) * kernels : NULL},
        .pixel = to->blocked ? NN_BLOCK : to->channels};
    for (size_t y = 0; y < c->s.height; y++) {
        for (size_t x = 0; x < c->s.width; x += most) {
            r.padded = c->padded + y * pitch + x * NN_BLOCK;
            r.places = c->s.width - x < most ? c->s.width - x : most;
            r.dst[0] = first + (y * c->s.width + x) * r.pixel;
            r.dst[1] = two ? r.dst[0] + NN_BLOCK * (to->blocked ? places : 1) : NULL;
            c->kernels->row(&r);
        }
    }
}

/* w[o * out_next + i * in_next + k]: o of the channels of `to`, i of those of `from` */
static void convolve(conv16 *c, const side *from, const side *to, const float *src, const float *w,
                     size_t out_next, size_t in_next, bool turned, float *dst)
{
    const size_t pitch = c->s.width + 1, plane = (c->s.height + 2) * pitch * NN_BLOCK;
    const size_t kernel = 9 * NN_BLOCK * NN_BLOCK, blocks = from->channels / NN_BLOCK;
    for (size_t o = 0; o < to->channels / NN_BLOCK; o++) {
        for (size_t i = 0; i < blocks; i++)
            c->kernels->weights(w + o * NN_BLOCK * out_next + i * NN_BLOCK * in_next, out_next,
                                in_next, turned, c->weights + (o * blocks + i) * kernel);
    }
    for (size_t n = 0; n < c->s.batch; n++) {
        for (size_t b = 0; b < blocks; b++) {
            const conv16_plane p = plane_of(c, src, from->channels, from->blocked, n, b);
            c->kernels->places(&p, c->padded + b * plane + (pitch + 1) * NN_BLOCK);
        }
        for (size_t b = 0; b < to->channels / NN_BLOCK; b += 2)
            rows_of(c, from, to, dst, n, b);
    }
}

void conv16_forward(conv16 *c, const float *src, const float *weights, float *dst)
{
    const side in = {c->s.in, c->s.src_blocked}, out = {c->s.out, c->s.dst_blocked};
    convolve(c, &in, &out, src, weights, c->s.in * 9, 9, false, dst);
}

void conv16_backward_data(conv16 *c, const float *ddst, const float *weights, float *dsrc)
{
    const side in = {c->s.in, c->s.src_blocked}, out = {c->s.out, c->s.dst_blocked};
    convolve(c, &out, &in, ddst, weights, 9, c->s.in * 9, true, dsrc);
}

/* ---- the gradient of the weights ----------------------------------------------------------------
 */

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
