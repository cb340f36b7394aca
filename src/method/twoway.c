/* The owner's side of two-way 1-bit SGD: p = mean + o; send C(p); o = p - D(C(p)).
 *
 * Source: Seide et al. 2014, 1-bit stochastic gradient descent, Interspeech, sec. 3.2 */
#include "method/twoway.h"
#include "base/mem.h"
#include "codec/sign/strips.h"
#include "kernel/parallel.h"
#include <string.h>

struct tg__twoway {
    tg_codec *codec;
    size_t lo, n;         /* the block */
    float *owner;         /* (n) the slot */
    float *before;        /* (n) its values before the last step */
    bool rests;           /* the owner sends zeros in this step */
    tg_segment *segments; /* (nsegments) the tensors as cut by the block */
    size_t nsegments;
};

static tg_status recode(tg__exchange *x, const float *mean, uint8_t *frame, size_t cap,
                        size_t *len_p)
{
    tg__twoway *t = x->recode_arg;
    tg_encode_context ctx = {
        .struct_size = sizeof ctx, .segments = t->segments, .nsegments = t->nsegments};
    tg__part part = {.dst = frame, .cap = cap, .lo = 0, .hi = t->n};
    tg__view view = {0};
    if (t->n > 0)
        memcpy(t->before, t->owner, t->n * sizeof *t->owner);
    bool zeros = t->rests;
    if (!zeros && !tg__parallel_add_finite(NULL, t->owner, mean, t->n))
        x->overflow = zeros = true;
    if (zeros) {
        tg__part_zero(&part, t->codec->ops->wire_id);
    } else {
        TG_TRY(tg__codec_encode(t->codec, &ctx, t->owner, t->n, &part, 1, &view));
        tg__kernel()->sub(t->owner, view.dense, t->n);
    }
    *len_p = part.len;
    return TG_OK;
}

/* Cut the tensors to the block. Pieces of a row are matrices of one row. */
static tg_status cut_segments(tg__method *m, tg__twoway *t)
{
    const tg_encode_context ctx = {
        .struct_size = sizeof ctx, .segments = m->segments, .nsegments = m->setup.count};
    tg__part block = {.lo = t->lo, .hi = t->lo + t->n};
    tg__strip strip;
    size_t n = 0;
    for (tg__strips s = tg__strips_of(&ctx, &block, 2, false); tg__strips_next(&s, &strip);)
        n++;
    TG_TRY(tg__method_alloc(m, n, sizeof *t->segments, &t->segments));
    for (tg__strips s = tg__strips_of(&ctx, &block, 2, false); tg__strips_next(&s, &strip);) {
        const bool vector = s.run.of.cols == 1;
        t->segments[t->nsegments++] = (tg_segment){.begin = strip.lo - t->lo,
                                                   .n = strip.rows * strip.cols,
                                                   .rows = vector ? strip.cols : strip.rows,
                                                   .cols = vector ? 1 : strip.cols};
    }
    return TG_OK;
}

/* Create a slot for each tensor that overlaps the block. */
static tg_status make_slot(tg__method *m, tg__twoway *t)
{
    const tg__method_setup *setup = &m->setup;
    const char **name;
    size_t *len, *at, count = 0;
    TG_TRY(tg__method_alloc(m, setup->count, sizeof *name, &name));
    TG_TRY(tg__method_alloc(m, setup->count, sizeof *len, &len));
    TG_TRY(tg__method_alloc(m, setup->count, sizeof *at, &at));
    for (size_t i = 0; i < setup->count; i++) {
        const tg_segment *s = &m->segments[i];
        size_t lo = TG__MAX(s->begin, t->lo), hi = TG__MIN(s->begin + s->n, t->lo + t->n);
        if (lo < hi) {
            name[count] = setup->tensor[i];
            at[count] = lo - s->begin;
            len[count++] = hi - lo;
        }
    }
    if (count == 0)
        return TG_OK;
    TG_TRY(tg__state_block(setup->state, TG__ROLE_OWNER, TG__RESCALE_COPY, "owner residual", name,
                           len, count, &t->owner));
    tg__state_pieces(setup->state, at, count);
    return TG_OK;
}

tg_status tg__twoway_create(tg__method *m, tg_codec *codec, const tg__exchange *x, tg__twoway **t_p)
{
    const tg__method_setup *setup = &m->setup;
    const tg__part *own = &x->parts[x->rank];
    const size_t lanes = setup->coded_lanes != 0 ? setup->coded_lanes : setup->lanes;
    if (lanes > 1)
        return tg_fail(TG_E_UNSUPPORTED,
                       "twoway=yes allows one exchange in flight, not %zu: use twoway=no for more",
                       lanes);
    tg__twoway *t;
    TG_TRY(tg__method_alloc(m, 1, sizeof *t, &t));
    t->codec = codec;
    t->lo = own->lo;
    t->n = own->hi - own->lo;
    TG_TRY(cut_segments(m, t));
    TG_TRY(tg__method_alloc(m, t->n, sizeof *t->before, &t->before));
    TG_TRY(make_slot(m, t));
    *t_p = t;
    return TG_OK;
}

void tg__twoway_hook(tg__twoway *t, tg__exchange *x)
{
    x->recode = recode;
    x->recode_arg = t;
}

void tg__twoway_rest(tg__twoway *t, bool rests)
{
    if (t)
        t->rests = rests;
}

float *tg__twoway_memory(tg__twoway *t, size_t *n_p)
{
    *n_p = t ? t->n : 0;
    return t ? t->owner : NULL;
}

void tg__twoway_undo(tg__twoway *t)
{
    if (t && t->n > 0)
        memcpy(t->owner, t->before, t->n * sizeof *t->owner);
}

void tg__twoway_scale(tg__twoway *t, float factor)
{
    if (t && t->n > 0)
        tg__kernel()->scale(t->owner, factor, t->n);
}
