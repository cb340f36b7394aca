#include "server/region.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "strategy/optimizers.h"
#include <stdlib.h>
#include <string.h>

_Static_assert((int)TG__REGION_SLOTS >= (int)TG__OPTIMIZER_SLOTS, "room for all optimizers");

static tg_status allocate(tg__region *r, const tg__mode *m)
{
    const size_t n = TG__MAX(r->n, (size_t)1);
    TG_TRY(tg_alloc(n, sizeof *r->w, &r->w));
    TG_TRY(tg_alloc(n, sizeof *r->g, &r->g));
    for (size_t i = 0; i < tg_optimizer_slots(m->optimizer); i++)
        TG_TRY(tg_alloc(n, sizeof *r->w, &r->slot[i]));
    return TG_OK;
}

tg_status tg__region_create(const tg__mode *m, int ranks, size_t lo, const float *w, size_t n,
                            tg__region **r_p)
{
    tg__region *r;
    TG_TRY(tg_alloc(1, sizeof *r + (size_t)ranks * sizeof r->rank[0], &r));
    r->ranks = ranks;
    r->lo = lo;
    r->n = n;
    const tg_status status = allocate(r, m);
    if (status != TG_OK) {
        tg__region_destroy(r);
        return status;
    }
    memcpy(r->w, w, n * sizeof *w);
    *r_p = r;
    return TG_OK;
}

void tg__region_destroy(tg__region *r)
{
    free(r->w);
    free(r->g);
    free(r->frame);
    tg__sent_destroy(r->sent);
    for (size_t i = 0; i < TG__REGION_SLOTS; i++)
        free(r->slot[i]);
    for (int rank = 0; rank < r->ranks; rank++)
        tg__sent_destroy(r->rank[rank].sent);
    free(r);
}

tg__region *tg__region_find(tg__region *list, const tg__envelope *id)
{
    while (list != NULL && (list->channel != id->channel || list->bucket != id->bucket))
        list = list->next;
    return list;
}

tg__sent *tg__region_sent(const tg__region *r, int rank)
{
    return rank < 0 || r->rank[rank].sent == NULL ? r->sent : r->rank[rank].sent;
}

/* g + lambda g g (w - what the rank has computed it with): the first order of what the gradient
 * would be at w (Zheng et al. 2017, arXiv:1609.08326, with the outer product's diagonal). */
static void compensate(float *g, const float *w, const float *v, float lambda, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g[i] += lambda * g[i] * g[i] * (w[i] - v[i]);
}

/* The number of the next update of a slice. A coded gradient updates the whole region at once. */
static uint64_t next_number(const tg__region *r, uint16_t slice, size_t n)
{
    uint64_t number = r->updates[slice % TG__REGION_SLICES] + 1;
    for (size_t i = 0; n == r->n && i < TG__REGION_SLICES; i++)
        number = TG__MAX(number, r->updates[i] + 1);
    return number;
}

static void note_number(tg__region *r, uint16_t slice, size_t n, uint64_t number)
{
    for (size_t i = 0; i < TG__REGION_SLICES; i++)
        if (n == r->n || i == slice % TG__REGION_SLICES)
            r->updates[i] = number;
}

enum { BLOCK = 1024 }; /* elements; copies of w and of all slots stay in the first cache */

/* Whether parameters and the optimizer's memory are finite after a step, which is made on a copy,
 * block by block. */
static bool stays_finite(const tg_optimizer *o, const tg_update *u, const float *w, const float *g,
                         size_t n, float *const *slot)
{
    _Alignas(TG_ALIGN) float copy[1 + TG__REGION_SLOTS][BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t len = TG__MIN(n - at, (size_t)BLOCK);
        float *slots[TG__REGION_SLOTS] = {NULL};
        memcpy(copy[0], w + at, len * sizeof *w);
        for (size_t i = 0; i < TG__REGION_SLOTS && slot[i] != NULL; i++) {
            slots[i] = copy[1 + i];
            memcpy(slots[i], slot[i] + at, len * sizeof *w);
        }
        o->ops->step(o, u, copy[0], copy[0], g + at, len, slots);
        bool finite = tg__kernel()->all_finite(copy[0], len);
        for (size_t i = 0; i < TG__REGION_SLOTS && slots[i] != NULL; i++)
            finite = finite && tg__kernel()->all_finite(slots[i], len);
        if (!finite)
            return false;
    }
    return true;
}

bool tg__region_update(tg__region *r, const tg__mode *m, const tg__star *star, uint16_t slice,
                       int rank, float *g, size_t n)
{
    const size_t at = (size_t)star->begin - r->lo;
    const bool plain = (star->flags & TG__STAR_OWNS_MOMENTUM) != 0 && m->plain != NULL;
    const tg_optimizer *o = plain ? m->plain : m->optimizer;
    float *slot[TG__REGION_SLOTS];
    if (m->compensate > 0 && rank >= 0 && r->rank[rank].sent != NULL)
        compensate(g, r->w + at, r->rank[rank].sent->v + at, (float)m->compensate, n);
    for (size_t i = 0; i < TG__REGION_SLOTS; i++)
        slot[i] = r->slot[i] == NULL ? NULL : r->slot[i] + at;
    const tg_update u = {
        .struct_size = sizeof u, .lr = star->rate, .number = next_number(r, slice, n)};
    if (!stays_finite(o, &u, r->w + at, g, n, slot))
        return false;
    note_number(r, slice, n, u.number);
    for (int other = 0; other < r->ranks; other++) /* what was w is w no more */
        if (tg__region_sent(r, other) == NULL)
            r->rank[other].has &= ~tg__slice_bits(r, slice, n);
    o->ops->step(o, &u, r->w + at, r->w + at, g, n, slot);
    return true;
}

/* One frame serves all ranks. */
static tg_status make_room(tg__region *r, const tg__coder *c)
{
    const size_t room = c->codec == NULL ? 0 : tg__coder_room(c);
    if (room <= r->frame_room)
        return TG_OK;
    free(r->frame);
    r->frame = NULL;
    r->frame_room = 0;
    TG_TRY(tg_alloc(room, 1, &r->frame));
    r->frame_room = room;
    return TG_OK;
}

tg_status tg__region_begin_sending(tg__region *r, int rank, const tg__star *star, uint8_t codec,
                                   const uint8_t *coding)
{
    tg__sent **sent = rank < 0 ? &r->sent : &r->rank[rank].sent;
    if (*sent == NULL)
        TG_TRY(tg__sent_create(r->w, r->n, sent));
    if ((star->flags & TG__STAR_FIRST) != 0)
        TG_TRY(tg__sent_adopt(*sent, codec, coding, star->coding));
    return make_room(r, &(*sent)->coder);
}

tg_status tg__region_send(tg__region *r, int rank, const tg__star *star, size_t n, uint8_t codec,
                          uint64_t step, const uint8_t *coding, bool dropped)
{
    tg__sent *sent = tg__region_sent(r, rank);
    r->frame_len = 0;
    if (coding != NULL)
        return tg__sent_code(sent, r->w, codec, step, coding, dropped, r->g, r->frame,
                             &r->frame_len);
    if (!dropped)
        tg__sent_copy(sent, r->w, (size_t)star->begin - r->lo, n);
    return TG_OK;
}

uint64_t tg__slice_bits(const tg__region *r, uint16_t slice, size_t n)
{
    return n == r->n ? UINT64_MAX : UINT64_C(1) << slice % TG__REGION_SLICES;
}

void tg__region_answered(tg__region *r, int rank, uint64_t begin)
{
    if (r != NULL && rank >= 0 && begin == r->lo)
        r->rank[rank].known = r->updates[0];
}

void tg__region_read(tg__region *r, int rank, size_t begin, float *w, size_t n)
{
    const float *from = r->sent == NULL ? r->w : r->sent->v;
    const size_t at = begin - r->lo;
    memcpy(w, from + at, n * sizeof *w);
    tg__region_answered(r, rank, begin);
    if (rank >= 0)
        tg__sent_copy(r->rank[rank].sent, from, at, n);
}

uint64_t tg__region_staleness(const tg__region *r, int rank)
{
    return r->updates[0] - r->rank[rank].known;
}

bool tg__region_count(tg__region *r, int rank, uint64_t step, size_t n)
{
    tg__pace_of *p = &r->rank[rank];
    if (p->step != step || p->elements >= r->n)
        p->elements = 0;
    p->step = step;
    p->elements += n;
    return p->elements >= r->n;
}

void tg__region_note(tg__region *r, int rank, uint64_t step, size_t n)
{
    tg__pace_of *p = &r->rank[rank];
    if (tg__region_count(r, rank, step, n))
        tg__pace_move(p, p->clock + 1);
}

void tg__pace_move(tg__pace_of *p, uint64_t step)
{
    if (step <= p->clock)
        return;
    p->clock = step;
    p->came = 0;
}

tg_status tg__region_see(tg__region *r, const tg__mode *m, int rank)
{
    if (r->rank[rank].sent != NULL)
        tg__coder_clear(&r->rank[rank].sent->coder);
    return m->compensate > 0 && r->rank[rank].sent == NULL
               ? tg__sent_create(r->w, r->n, &r->rank[rank].sent)
               : TG_OK;
}

void tg__region_admit(tg__region *r, int rank, uint64_t base)
{
    tg__region_forget(r, rank);
    r->rank[rank] = (tg__pace_of){.counts = true, .fresh = true, .clock = base};
}

void tg__region_forget(tg__region *r, int rank)
{
    tg__sent_destroy(r->rank[rank].sent);
    r->rank[rank].sent = NULL;
}
