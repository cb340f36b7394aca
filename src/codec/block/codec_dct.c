/* The largest coefficients of each block's cosine transform. What varies slowly over a tensor is
 * sent first; these are the fast components that DeMo extracts from the accumulated gradient.
 *
 * Source: Peng, Quesnelle, Kingma 2024, "DeMo: decoupled momentum optimization", arXiv:2411.19870,
 * sec. 3.2 */
#include "codec/block/codec_dct.h"
#include "base/mem.h"
#include "codec/block/block_frame.h"
#include "codec/block/dct.h"
#include "kernel/kernel.h"
#include "telegrad/spec.h"
#include <string.h>

static tg_status init(tg_codec *c)
{
    ((tg__block_coder *)c->impl)->forward = tg__dct;
    return tg__block_init(c);
}

static void put_block(void *arg, const tg__block_place *p)
{
    const tg__block_target *t = arg;
    const tg__block *b = p->b;
    float x[TG__BLOCK_MAX], *first = t->dst + tg__block_first(p);
    tg__dct_back(p->place, p->val, b->keep, b->height, b->width, x);
    for (size_t i = 0; i < b->height; i++) {
        float *to = first + i * p->cols;
        if (t->add)
            tg__kernel()->add(to, x + i * b->width, b->width);
        else
            memcpy(to, x + i * b->width, b->width * sizeof *to);
    }
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    tg__block_target t = {dst, add};
    (void)lo; /* 0 and n, because of TG__WHOLE */
    (void)hi;
    tg__block_each(f, NULL, put_block, &t);
}

static tg_status encode_part(tg_codec *c, const tg_encode_context *ctx, const float *x,
                             tg__part *part, float *decoded)
{
    tg__frame f;
    tg__block_target t = {.dst = decoded};
    TG_TRY(tg__block_encode(c, ctx, x, part, 1));
    if (decoded == NULL)
        return TG_OK;
    TG_TRY(tg__frame_split(part->dst, part->len, part->hi - part->lo, &f));
    if (f.form == TG__FORM_CODED)
        tg__block_each(&f, c->pool, put_block, &t);
    else
        tg__frame_decode(part->dst, part->len, decoded, c->pool);
    return TG_OK;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void add_block(void *arg, const tg__block_place *p)
{
    float *first = (float *)arg + tg__block_first(p);
    for (size_t j = 0; j < p->b->keep; j++)
        first[tg__block_offset(p, j)] += p->val[j];
}

bool tg__dct_add(float *y, const uint8_t *frame, size_t len)
{
    tg__frame f;
    const size_t n = tg__get32(frame + 4);
    if (tg__frame_split(frame, len, n, &f) != TG_OK || f.form != TG__FORM_CODED)
        return false;
    tg__block_each(&f, NULL, add_block, y);
    return true;
}

/* Transform a block with rows `cols` apart. */
static void finish_block(float *first, size_t cols, const tg__block *b)
{
    uint16_t place[TG__BLOCK_MAX];
    float val[TG__BLOCK_MAX], x[TG__BLOCK_MAX];
    size_t count = 0;
    for (size_t i = 0; i < b->height; i++)
        for (size_t j = 0; j < b->width; j++) {
            const float y = first[i * cols + j];
            place[count] = (uint16_t)(i * b->width + j);
            val[count] = y;
            count += y != 0;
        }
    if (count == 0)
        return;
    tg__dct_back(place, val, count, b->height, b->width, x);
    for (size_t i = 0; i < b->height; i++)
        memcpy(first + i * cols, x + i * b->width, b->width * sizeof *x);
}

typedef struct matrix {
    tg__grid grid;
    float *y;
} matrix;

static void finish_blocks(void *arg, size_t lo, size_t hi)
{
    const matrix *m = arg;
    for (size_t i = lo; i < hi; i++) {
        const tg__block b = tg__grid_block(&m->grid, i);
        finish_block(m->y + b.row * m->grid.cols + b.col, m->grid.cols, &b);
    }
}

void tg__dct_finish(float *y, const tg_segment *tensors, size_t count, tg__pool *pool)
{
    enum { TOGETHER = 4 }; /* the fewest blocks for one core */
    for (size_t t = 0; t < count; t++) {
        if (tensors[t].n == 0)
            continue;
        matrix m = {.grid = tg__grid_make(tensors[t].rows, tensors[t].cols, 1),
                    .y = y + tensors[t].begin};
        tg__pool_chunks(pool, tg__grid_blocks(&m.grid), TOGETHER, finish_blocks, &m);
    }
}

static const tg_key keys[] = {
    TG__BLOCK_KEY_KEEP("32"),
    TG__CHOICE("values", "f32", "f32|fp16", "format of the coefficients"),
    {.name = NULL},
};

static const char *const settings[] = {"keep=4", "keep=9,values=fp16", NULL};

const tg__codec_ops tg__codec_dct = {
    .entry = {"dct", "the largest coefficients of each block's cosine transform",
              "Peng et al. 2024, arXiv:2411.19870", keys},
    .wire_id = TG__ID_dct,
    .properties = TG__WHOLE | TG__CUTS,
    .promise = {.share = 1e-5, .settings = settings},
    .impl_bytes = sizeof(tg__block_coder),
    .init = init,
    .encode_part = encode_part,
    .check = tg__block_check,
    .decode = decode,
};
