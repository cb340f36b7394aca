#include "trainer/nn/spatial.h"
#include <string.h>

/* Number of adjacent channels. */
static size_t width_of(nn_image i)
{
    return i.blocked ? NN_BLOCK : i.channels;
}

/* Index of channel c at a place (row * width + column) of a sample. */
static size_t element(nn_image i, size_t sample, size_t place, size_t c)
{
    const size_t width = width_of(i), places = i.height * i.width;
    return ((sample * (i.channels / width) + c / width) * places + place) * width + c % width;
}

/* ---- global average -------------------------------------------------------------------------- */

void nn_avgpool_forward(size_t batch, nn_image in, const float *x, float *y)
{
    const size_t width = width_of(in), places = in.height * in.width;
    const size_t planes = batch * (in.channels / width);
    memset(y, 0, batch * in.channels * sizeof *y);
    for (size_t p = 0; p < planes; p++) {
        float *sum = y + p * width;
        for (size_t i = 0; i < places; i++) {
            for (size_t c = 0; c < width; c++)
                sum[c] += x[(p * places + i) * width + c];
        }
        for (size_t c = 0; c < width; c++)
            sum[c] /= (float)places;
    }
}

void nn_avgpool_backward(size_t batch, nn_image in, const float *dy, float *dx)
{
    const size_t width = width_of(in), places = in.height * in.width;
    const size_t planes = batch * (in.channels / width);
    for (size_t p = 0; p < planes; p++) {
        for (size_t i = 0; i < places; i++) {
            for (size_t c = 0; c < width; c++)
                dx[(p * places + i) * width + c] = dy[p * width + c] / (float)places;
        }
    }
}

/* ---- option A shortcut ----------------------------------------------------------------------- */

typedef struct shortcut {
    nn_image in, out;
    size_t before; /* number of zero channels before the others */
} shortcut;

/* Number of channels from c on that are adjacent in both arrays. */
static size_t run_of(const shortcut *s, size_t c)
{
    const size_t in = width_of(s->in) - c % width_of(s->in),
                 out = width_of(s->out) - (c + s->before) % width_of(s->out);
    return in < out ? in : out;
}

static shortcut shortcut_of(nn_image in, nn_image out)
{
    return (shortcut){in, out, (out.channels - in.channels) / 2};
}

/* Copy the elements that the shortcut connects: from a (in) to b (out), or back. */
static void shortcut_copy(size_t batch, const shortcut *s, const float *a, float *b, bool back)
{
    const nn_image out = s->out;
    for (size_t n = 0; n < batch; n++) {
        for (size_t place = 0; place < out.height * out.width; place++) {
            const size_t row = place / out.width * 2, column = place % out.width * 2;
            for (size_t c = 0, run; c < s->in.channels; c += run) {
                run = run_of(s, c);
                const size_t i = element(s->in, n, row * s->in.width + column, c);
                const size_t o = element(out, n, place, c + s->before);
                memcpy(b + (back ? i : o), a + (back ? o : i), run * sizeof *b);
            }
        }
    }
}

void nn_shortcut_forward(size_t batch, nn_image in, nn_image out, const float *x, float *y)
{
    const shortcut s = shortcut_of(in, out);
    memset(y, 0, batch * out.height * out.width * out.channels * sizeof *y);
    shortcut_copy(batch, &s, x, y, false);
}

void nn_shortcut_backward(size_t batch, nn_image in, nn_image out, const float *dy, float *dx)
{
    const shortcut s = shortcut_of(in, out);
    memset(dx, 0, batch * in.height * in.width * in.channels * sizeof *dx);
    shortcut_copy(batch, &s, dy, dx, true);
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* Copy in another layout: to differs from `from` in `blocked` only. */
static void copy_blocks(size_t batch, nn_image from, nn_image to, const float *x, float *y)
{
    for (size_t n = 0; n < batch; n++) {
        for (size_t place = 0; place < from.height * from.width; place++) {
            for (size_t c = 0; c < from.channels; c += NN_BLOCK)
                memcpy(y + element(to, n, place, c), x + element(from, n, place, c),
                       NN_BLOCK * sizeof *y);
        }
    }
}

void nn_unblock(size_t batch, nn_image in, const float *x, float *y)
{
    const nn_image plain = {in.height, in.width, in.channels, false};
    copy_blocks(batch, in, plain, x, y);
}

void nn_block(size_t batch, nn_image out, const float *x, float *y)
{
    const nn_image plain = {out.height, out.width, out.channels, false};
    copy_blocks(batch, plain, out, x, y);
}
