/* The largest elements of each block of a tensor, a fixed number per block. The selection is spread
 * over the tensor, indices are short, and values take two bits.
 *
 * Source: Sarfi et al. 2025, "Communication efficient LLM pre-training with SparseLoCo",
 * arXiv:2508.15706, sec. 3, in the form of the authors' code */
#include "base/mem.h"
#include "codec/block/block_frame.h"
#include "telegrad/spec.h"
#include <string.h>

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    (void)n;
    const tg__block_coder *own = c->impl;
    TG_TRY(tg__block_encode(c, ctx, x, parts, nparts));
    if (view_p != NULL)
        *view_p = (tg__view){.sparse = true, .idx = own->idx, .val = own->val, .k = own->count};
    return TG_OK;
}

static void put_block(void *arg, const tg__block_place *p)
{
    const tg__block_target *t = arg;
    float *first = t->dst + tg__block_first(p);
    for (size_t j = 0; j < p->b->keep; j++) {
        float *to = first + tg__block_offset(p, j);
        *to = t->add ? *to + p->val[j] : p->val[j];
    }
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    tg__block_target t = {dst, add};
    (void)lo; /* 0 and n, because of TG__WHOLE */
    (void)hi;
    if (!add)
        memset(dst, 0, f->n * sizeof *dst);
    tg__block_each(f, NULL, put_block, &t);
}

static const tg_key keys[] = {
    TG__BLOCK_KEY_KEEP("64"),
    TG__CHOICE("values", "2bit", "2bit|fp16|f32", "2bit: one of four levels per tensor"),
    {.name = NULL},
};

static const char *const settings[] = {"keep=3", "keep=1,values=f32", "keep=9,values=fp16", NULL};

const tg__codec_ops tg__codec_blocktopk = {
    .entry = {"blocktopk", "the largest elements of each block of 64 x 64",
              "Sarfi et al. 2025, arXiv:2508.15706", keys},
    .wire_id = TG__ID_blocktopk,
    .properties = TG__SPARSE | TG__WHOLE | TG__CUTS | TG__TO_ZERO,
    .promise = {.relative = 1, .share = 1, .settings = settings},
    .impl_bytes = sizeof(tg__block_coder),
    .init = tg__block_init,
    .encode = encode,
    .check = tg__block_check,
    .decode = decode,
};
