/* The largest elements of each block of a tensor, a fixed number per block. The selection is spread
 * over the tensor, indices are short, and values take two bits.
 *
 * Source: Sarfi et al. 2025, "Communication efficient LLM pre-training with SparseLoCo",
 * arXiv:2508.15706, sec. 3, in the form of the authors' code */
#include "base/mem.h"
#include "codec/block/block_frame.h"
#include "telegrad/spec.h"
#include <stdlib.h>
#include <string.h>

static tg_status init(tg_codec *c)
{
    TG_TRY(tg_alloc(1, sizeof(tg__block_coder), &c->impl));
    tg__block_coder_init(c->impl, c->spec, TG__ID_blocktopk);
    return TG_OK;
}

static void fini(tg_codec *c)
{
    if (c->impl == NULL)
        return;
    tg__block_coder_free(c->impl);
    free(c->impl);
}

static size_t bound(const tg_codec *c, size_t n)
{
    (void)c;
    return tg__block_bound(n);
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    tg__block_coder *own = c->impl;
    own->pool = c->pool;
    TG_TRY(tg__block_encode(own, ctx, x, n, parts, nparts));
    if (view_p != NULL)
        *view_p = (tg__view){.sparse = true, .idx = own->idx, .val = own->val, .k = own->count};
    return TG_OK;
}

typedef struct target {
    float *dst;
    bool add;
} target;

static void put_block(void *arg, const tg__block_place *p)
{
    const target *t = arg;
    float *first = t->dst + tg__block_first(p);
    for (size_t j = 0; j < p->b->keep; j++) {
        float *to = first + tg__block_offset(p, j);
        *to = t->add ? *to + p->val[j] : p->val[j];
    }
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    target t = {dst, add};
    (void)lo; /* 0 and n, because of TG__WHOLE */
    (void)hi;
    if (!add)
        memset(dst, 0, f->n * sizeof *dst);
    tg__block_each(f, NULL, put_block, &t);
}

static const tg_key keys[] = {
    TG__BLOCK_KEY_KEEP("64"),
    {.name = "values",
     .type = TG_KEY_CHOICE,
     .def = "2bit",
     .choices = "2bit|fp16|f32",
     .help = "2bit: one of four levels per tensor"},
    {.name = NULL},
};

const tg__codec_ops tg__codec_blocktopk = {
    .entry = {"blocktopk", "the largest elements of each block of 64 x 64",
              "Sarfi et al. 2025, arXiv:2508.15706", keys},
    .wire_id = TG__ID_blocktopk,
    .properties = TG__SPARSE | TG__WHOLE | TG__CUTS,
    .init = init,
    .fini = fini,
    .bound = bound,
    .encode = encode,
    .check = tg__block_check,
    .decode = decode,
};
