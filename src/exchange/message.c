#include "exchange/message.h"
#include "base/mem.h"
#include <stdlib.h>

/* A sum accumulates at this offset in a message. */
_Static_assert((TG__ENVELOPE_BYTES + TG__FRAME_HEAD) % sizeof(float) == 0, "values are aligned");

tg_status tg__messages_alloc(tg__exchange *x, tg__messages *m, size_t count, size_t cap)
{
    size_t stride = (TG__ENVELOPE_BYTES + cap + TG_ALIGN - 1) / TG_ALIGN * TG_ALIGN;
    size_t total = TG__MAX(count, (size_t)1) * stride;
    m->base = NULL;
    if (cap <= PTRDIFF_MAX / 2 && total / stride == TG__MAX(count, (size_t)1))
        m->base = aligned_alloc(TG_ALIGN, total);
    if (!m->base)
        return tg_fail(TG_E_NOMEM, "out of memory: %zu messages of %zu bytes", count, stride);
    m->stride = stride;
    m->cap = cap;
    return tg__owned_add(&x->owned, m->base, free);
}

tg_status tg__parts_alloc(tg__exchange *x, tg__messages *m, int count)
{
    size_t cap = 0;
    for (int q = 0; q < count; q++)
        cap = TG__MAX(cap, tg__codec_bound(x->codec, tg__block_len(x->n, count, q)));
    TG_TRY(tg__messages_alloc(x, m, (size_t)count, cap));
    TG_TRY(tg__owned_alloc(&x->owned, (size_t)count, sizeof *x->parts, &x->parts));
    x->nparts = (size_t)count;
    for (int q = 0; q < count; q++) {
        x->parts[q].dst = tg__message_frame(m, (size_t)q);
        x->parts[q].cap = cap;
        x->parts[q].lo = tg__block_begin(x->n, count, q);
        x->parts[q].hi = tg__block_begin(x->n, count, q + 1);
    }
    return TG_OK;
}

size_t tg__f32_frame(uint8_t *frame, size_t n)
{
    tg__frame_head(frame, TG__ID_f32, TG__FORM_DENSE, 0, n, sizeof(float) * n);
    return TG__F32_BYTES(n);
}

tg_status tg__check_received(int from, const uint8_t *frame, size_t len, size_t n, int want)
{
    tg_status status = tg__frame_check(frame, len, n, want);
    if (status != TG_OK)
        return tg_fail(status, "frame from rank %d: %s", from, tg_error());
    return TG_OK;
}

tg_status tg__mean_only(const tg__exchange *x, int most)
{
    if (!x->combine->additive)
        return tg_fail(TG_E_UNSUPPORTED, "exchange %s can only form means, not %s",
                       x->ops->entry.name, x->combine->name);
    if (x->size > most)
        return tg_fail(TG_E_UNSUPPORTED, "exchange %s among %d ranks: allowed: at most %d",
                       x->ops->entry.name, x->size, most);
    return TG_OK;
}

bool tg__add_in_order(const tg__exchange *x, int *next_p, float *acc, size_t n, const tg__part *own,
                      const tg__messages *in, const size_t *in_len)
{
    for (; *next_p < x->size; ++*next_p) {
        const size_t from = (size_t)*next_p;
        if (*next_p == x->rank)
            x->combine->add(acc, n, own->dst, own->len, x->pool);
        else if (in_len[from] > 0)
            x->combine->add(acc, n, tg__message_frame(in, from), in_len[from], x->pool);
        else
            return false;
    }
    return true;
}

tg__cost tg__cost_of(int size, unsigned rounds, double bytes)
{
    if (size == 1)
        return (tg__cost){0};
    return (tg__cost){.rounds = rounds, .delays = rounds, .bytes = bytes, .serial = bytes};
}
