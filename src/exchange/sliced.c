/* Slice i holds elements [begin(i), begin(i + 1)) and has number i in tags and envelopes. Wishes
 * carry id = inner id * TG__SLICES + i. */
#include "exchange/sliced.h"
#include "base/mem.h"
#include "exchange/message.h"

typedef struct sliced {
    /* the name and cost of the inner exchange, and the functions of this file */
    tg__exchange_ops ops;
    tg__exchange **slice; /* (count) */
    uint32_t count;
    uint32_t from, to; /* slices below `from` are finished; [from, to) are in flight */
    /* the slice whose wishes did not all fit; the next call continues there, so that the row is
     * unbroken */
    uint32_t cut;
} sliced;

uint32_t tg__slice_count(int size, size_t n, double frame, unsigned rounds)
{
    const double block = 4.0 * (double)n / size;
    if (size < 2 || rounds > 64 || frame < 4.0 * (double)n || block <= (double)TG__SLICE_BYTES)
        return 1;
    const double count = block / (double)TG__SLICE_BYTES;
    return count < TG__SLICES ? (uint32_t)count + 1 : TG__SLICES;
}

static size_t begin_of(const tg__exchange *x, uint32_t i)
{
    const sliced *s = x->impl;
    return tg__block_begin(x->n, (int)s->count, (int)i);
}

static void open_slices(sliced *s)
{
    while (s->from < s->count && s->slice[s->from]->ops->finished(s->slice[s->from]))
        s->from++;
    s->to = TG__MIN(s->count, s->from + TG__SLICES_OPEN);
}

static tg_status sliced_start(tg__exchange *x)
{
    sliced *s = x->impl;
    const size_t each = x->nparts / s->count;
    for (uint32_t i = 0; i < s->count; i++) {
        tg__exchange *inner = s->slice[i];
        inner->pool = x->pool;
        inner->into = x->into == NULL ? NULL : x->into + begin_of(x, i);
        for (size_t q = 0; q < each; q++)
            inner->parts[q].len = x->parts[i * each + q].len;
        inner->overflow = false;
        TG_TRY(inner->ops->start(inner));
        x->overflow |= inner->overflow;
    }
    s->from = s->cut = 0;
    open_slices(s);
    return TG_OK;
}

static size_t ask(sliced *s, uint32_t i, tg__wish *wish, size_t max)
{
    size_t count = s->slice[i]->ops->wants(s->slice[i], wish, max);
    for (size_t k = 0; k < count; k++) {
        wish[k].slice = i;
        wish[k].id = wish[k].id * TG__SLICES + i;
    }
    if (count == max)
        s->cut = i;
    return count;
}

static size_t sliced_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    sliced *s = x->impl;
    size_t count = 0;
    if (s->cut >= s->from && s->cut < s->to)
        count = ask(s, s->cut, wish, max);
    for (uint32_t i = s->from; i < s->to && count < max; i++)
        count += ask(s, i, wish + count, max - count);
    return count;
}

static tg_status sliced_done(tg__exchange *x, uint32_t id, size_t len)
{
    sliced *s = x->impl;
    tg__exchange *inner = s->slice[id % TG__SLICES];
    TG_TRY(inner->ops->done(inner, id / TG__SLICES, len));
    x->overflow |= inner->overflow;
    open_slices(s);
    return TG_OK;
}

static bool sliced_finished(const tg__exchange *x)
{
    const sliced *s = x->impl;
    return s->from == s->count;
}

static void sliced_result(tg__exchange *x, float *dst)
{
    sliced *s = x->impl;
    for (uint32_t i = 0; i < s->count; i++) {
        s->slice[i]->ops->result(s->slice[i], dst + begin_of(x, i));
        x->overflow |= s->slice[i]->overflow;
    }
}

/* Collect the parts of all slices, slice by slice; together they cover the vector in order. */
static tg_status gather_parts(tg__exchange *x)
{
    const sliced *s = x->impl;
    const size_t each = s->slice[0]->nparts;
    TG_TRY(tg__owned_alloc(&x->owned, each * s->count, sizeof *x->parts, &x->parts));
    x->nparts = each * s->count;
    for (uint32_t i = 0; i < s->count; i++)
        for (size_t q = 0; q < each; q++) {
            tg__part *part = &x->parts[i * each + q];
            *part = s->slice[i]->parts[q];
            part->lo += begin_of(x, i);
            part->hi += begin_of(x, i);
        }
    return TG_OK;
}

static void release_slice(void *x)
{
    tg__exchange_destroy(x);
}

tg_status tg__sliced_init(tg__exchange *x, uint32_t count)
{
    const tg__exchange_ops *ops = x->ops;
    sliced *s;
    TG_TRY(tg__owned_alloc(&x->owned, 1, sizeof *s, &s));
    TG_TRY(tg__owned_alloc(&x->owned, count, sizeof *s->slice, &s->slice));
    x->impl = s;
    x->open_slices = TG__SLICES_OPEN;
    s->ops = (tg__exchange_ops){.entry = ops->entry,
                                .start = sliced_start,
                                .wants = sliced_wants,
                                .done = sliced_done,
                                .finished = sliced_finished,
                                .result = sliced_result,
                                .cost = ops->cost,
                                .decodes_own = ops->decodes_own};
    x->ops = &s->ops;
    s->count = count;
    for (uint32_t i = 0; i < count; i++) {
        TG_TRY(tg__slices_create(ops, x->rank, x->size, x->servers,
                                 begin_of(x, i + 1) - begin_of(x, i), x->codec, x->combine, 1,
                                 &s->slice[i]));
        TG_TRY(tg__owned_add(&x->owned, s->slice[i], release_slice));
    }
    return gather_parts(x);
}
