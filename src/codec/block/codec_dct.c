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
#include <stdlib.h>
#include <string.h>

typedef struct dct {
    tg__block_coder coder;
    float *decoded;
    size_t decoded_cap;
} dct;

static tg_status init(tg_codec *c)
{
    dct *own;
    TG_TRY(tg_alloc(1, sizeof *own, &own));
    tg__block_coder_init(&own->coder, c->spec, TG__ID_dct);
    own->coder.forward = tg__dct;
    c->impl = own;
    return TG_OK;
}

static void fini(tg_codec *c)
{
    dct *own = c->impl;
    if (own == NULL)
        return;
    tg__block_coder_free(&own->coder);
    free(own->decoded);
    free(own);
}

static size_t bound(const tg_codec *c, size_t n)
{
    (void)c;
    return tg__block_bound(n);
}

typedef struct target {
    float *dst;
    bool add;
} target;

static void put_block(void *arg, const tg__block_place *p)
{
    const target *t = arg;
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
    target t = {dst, add};
    (void)lo; /* 0 and n, because of TG__WHOLE */
    (void)hi;
    tg__block_each(f, NULL, put_block, &t);
}

/* Decode a frame that this codec has just written. */
static void look(const tg__part *part, float *dst, tg__pool *pool)
{
    tg__frame f;
    target t = {.dst = dst};
    if (tg__frame_split(part->dst, part->len, part->hi - part->lo, &f) == TG_OK &&
        f.form == TG__FORM_CODED)
        tg__block_each(&f, pool, put_block, &t);
    else
        tg__frame_decode(part->dst, part->len, dst, pool);
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    dct *own = c->impl;
    own->coder.pool = c->pool;
    TG_TRY(tg__block_encode(&own->coder, ctx, x, n, parts, nparts));
    if (view_p == NULL)
        return TG_OK;
    TG_TRY(tg__scratch(&own->decoded, &own->decoded_cap, n, sizeof *own->decoded));
    for (size_t i = 0; i < nparts; i++)
        look(&parts[i], own->decoded + parts[i].lo, c->pool);
    *view_p = (tg__view){.sparse = false, .dense = own->decoded, .k = n};
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
    {.name = "values",
     .type = TG_KEY_CHOICE,
     .def = "f32",
     .choices = "f32|fp16",
     .help = "format of the coefficients"},
    {.name = NULL},
};

const tg__codec_ops tg__codec_dct = {
    .entry = {"dct", "the largest coefficients of each block's cosine transform",
              "Peng et al. 2024, arXiv:2411.19870", keys},
    .wire_id = TG__ID_dct,
    .properties = TG__WHOLE | TG__CUTS,
    .init = init,
    .fini = fini,
    .bound = bound,
    .encode = encode,
    .check = tg__block_check,
    .decode = decode,
};
