/* mean = (back(y[0] + y[1] + ... + y[P-1]) + x[q] + ...) * (1 / P), in f32. The coefficients y of
 * frames that hold coefficients are added in rank order and transformed back once. Then the vectors
 * x of the other frames are added in rank order. */
#include "exchange/exchange.h"
#include "codec/block/codec_dct.h"

static void add(float *acc, size_t n, const uint8_t *frame, size_t len, tg__pool *pool)
{
    (void)n;
    if (!tg__dct_add(acc, frame, len))
        tg__frame_decode_add(frame, len, acc, pool);
}

static void all(const tg__exchange *x, float *acc, const uint8_t **frames, const size_t *lens)
{
    tg__combine_begin(x, acc, x->n);
    for (int q = 0; q < x->size; q++)
        if (tg__dct_add(acc, frames[q], lens[q]))
            frames[q] = NULL;
    tg__dct_finish(acc, x->segments, x->nsegments, x->pool);
    for (int q = 0; q < x->size; q++)
        if (frames[q] != NULL)
            tg__frame_decode_add(frames[q], lens[q], acc, x->pool);
    tg__combine_finish(x, acc, x->n);
}

const tg__combine tg__combine_dct = {
    .name = "dct",
    .add = add,
    .finish = tg__mean_finish,
    .all = all,
};
