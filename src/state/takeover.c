#include "state/takeover.h"
#include "base/mem.h"
#include "state/slots.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* On a common scale, old rank i covers [i P', (i + 1) P'), and new rank j covers [j P, (j + 1)
 * P). */
int tg__heir_weight(tg__heir h, int from)
{
    const int64_t lo = TG__MAX((int64_t)from * h.size, (int64_t)h.rank * h.old);
    const int64_t hi = TG__MIN(((int64_t)from + 1) * h.size, ((int64_t)h.rank + 1) * h.old);
    return hi > lo ? (int)(hi - lo) : 0;
}

int tg__heir_first(tg__heir h)
{
    return (int)((int64_t)h.rank * h.old / h.size);
}

tg_status tg__blend_add(tg__owned *o, tg__blend *b, float *dst, const float *x, size_t n,
                        int weight, int whole)
{
    if (weight == whole) {
        if (n > 0)
            memcpy(dst, x, n * sizeof *dst);
        b->weight = whole;
        return TG_OK;
    }
    if (b->sum == NULL)
        TG_TRY(tg__owned_alloc(o, n, sizeof *b->sum, &b->sum));
    for (size_t i = 0; i < n; i++)
        b->sum[i] += (double)weight * (double)x[i];
    b->weight += weight;
    for (size_t i = 0; b->weight == whole && i < n; i++)
        dst[i] = (float)(b->sum[i] / whole);
    if (b->weight == whole) {
        tg__owned_drop(o, b->sum);
        b->sum = NULL;
    }
    return TG_OK;
}

/* ---- slots ----------------------------------------------------------------------------------- */

typedef struct taking {
    tg__blend blend;
    char *other;  /* RANK, LEADER: its key in a file with the other of the two roles */
    bool swapped; /* this file has the other role */
    size_t seen;  /* OWNER: elements of the tensor in the files so far */
    size_t taken; /* OWNER: elements taken of those; else 1: filled */
} taking;

struct tg__takeover {
    tg__owned *owned; /* the caller's */
    tg__state *s;
    tg__heir ranks, leaders;
    int *node;    /* (ranks.old) NULL: each rank has its own */
    taking *slot; /* (s->count) */
};

static bool is_own(const tg__slot *slot)
{
    return slot->role == TG__ROLE_RANK || slot->role == TG__ROLE_LEADER;
}

/* A memory of all ranks may become one of leaders, and the reverse. */
static tg_status make_other(tg__owned *o, const tg__slot *slot, taking *t)
{
    const char *rest = strchr(slot->key + strlen(TG__SLOT_PREFIX), ':');
    const char *role = slot->role == TG__ROLE_RANK ? "leader" : "rank";
    if (asprintf(&t->other, TG__SLOT_PREFIX "%s%s", role, rest) < 0)
        return tg_fail(TG_E_NOMEM, "out of memory: %s", slot->key);
    return tg__owned_add(o, t->other, free);
}

tg_status tg__takeover_create(tg__owned *o, tg__state *s, tg__heir ranks, tg__heir leaders,
                              const int *node, tg__takeover **t_p)
{
    tg__takeover *t;
    TG_TRY(tg__owned_alloc(o, 1, sizeof *t, &t));
    *t = (tg__takeover){.owned = o, .s = s, .ranks = ranks, .leaders = leaders};
    TG_TRY(tg__owned_alloc(o, s->count, sizeof *t->slot, &t->slot));
    if (node != NULL) {
        TG_TRY(tg__owned_alloc(o, (size_t)ranks.old, sizeof *t->node, &t->node));
        memcpy(t->node, node, (size_t)ranks.old * sizeof *node);
    }
    for (size_t i = 0; i < s->count; i++)
        if (is_own(&s->slot[i]))
            TG_TRY(make_other(o, &s->slot[i], &t->slot[i]));
    *t_p = t;
    return TG_OK;
}

static int node_of(const tg__takeover *t, int from)
{
    return t->node == NULL ? from : t->node[from];
}

bool tg__takeover_needs(const tg__takeover *t, int from)
{
    const int node = node_of(t, from);
    if (from == 0 || tg__heir_weight(t->ranks, from) > 0)
        return true;
    if (t->leaders.size > 0 && node >= 0 && tg__heir_weight(t->leaders, node) > 0)
        return true;
    for (size_t i = 0; i < t->s->count; i++)
        if (t->s->slot[i].role == TG__ROLE_OWNER)
            return true;
    return false;
}

static tg_status get(tg__ckpt_reader *r, const tg__slot *slot, const char *key, const void **p)
{
    size_t len = 0;
    if (tg__ckpt_has(r, key))
        TG_TRY(tg__ckpt_get(r, key, SIZE_MAX, p, &len));
    if (len == slot->len && tg__ckpt_has(r, key))
        return TG_OK;
    return tg_fail(TG_E_MISMATCH, "%.200s has %zu bytes in the checkpoint, and %zu in this job",
                   key, len, slot->len);
}

/* Add the old rank's part: the mean, or the first, over the old ranks or leaders that have the
 * slot. */
static tg_status add_own(const tg__takeover *t, tg__ckpt_reader *r, int from, const tg__slot *slot,
                         taking *own)
{
    if (from == 0) /* it leads its node */
        own->swapped = !tg__ckpt_has(r, slot->key) && tg__ckpt_has(r, own->other);
    const bool led = (slot->role == TG__ROLE_LEADER) != own->swapped;
    const bool leads = slot->role == TG__ROLE_LEADER;
    const int index = led ? node_of(t, from) : from;
    const tg__heir h = {.rank = leads ? t->leaders.rank : t->ranks.rank,
                        .size = leads ? t->leaders.size : t->ranks.size,
                        .old = led ? t->leaders.old : t->ranks.old};
    const int weight = index < 0 ? 0 : tg__heir_weight(h, index);
    const void *bytes = NULL;
    if (weight == 0)
        return TG_OK;
    TG_TRY(get(r, slot, own->swapped ? own->other : slot->key, &bytes));
    if (slot->rescale != TG__RESCALE_COPY) {
        TG_TRY(tg__blend_add(t->owned, &own->blend, slot->data, bytes, slot->len / sizeof(float),
                             weight, h.old));
        own->taken = own->blend.weight == h.old;
    } else if (index == tg__heir_first(h)) {
        memcpy(slot->data, bytes, slot->len);
        own->taken = 1;
    }
    return TG_OK;
}

/* Copy the part of the old rank's piece of the tensor that lies in this rank's piece. */
static tg_status add_piece(tg__ckpt_reader *r, const tg__slot *slot, taking *own)
{
    const void *bytes = NULL;
    size_t len = 0;
    if (!tg__ckpt_has(r, slot->key))
        return TG_OK;
    TG_TRY(tg__ckpt_get(r, slot->key, SIZE_MAX, &bytes, &len));
    const size_t n = slot->len / sizeof(float), old = own->seen;
    own->seen += len / sizeof(float);
    const size_t lo = TG__MAX(old, slot->at), hi = TG__MIN(own->seen, slot->at + n);
    if (lo >= hi)
        return TG_OK;
    memcpy((float *)slot->data + (lo - slot->at), (const float *)bytes + (lo - old),
           (hi - lo) * sizeof(float));
    own->taken += hi - lo;
    return TG_OK;
}

tg_status tg__takeover_add(tg__takeover *t, tg__ckpt_reader *r, int from)
{
    for (size_t i = 0; i < t->s->count; i++) {
        const tg__slot *slot = &t->s->slot[i];
        taking *own = &t->slot[i];
        if (slot->role == TG__ROLE_OWNER) {
            TG_TRY(add_piece(r, slot, own));
        } else if (is_own(slot)) {
            TG_TRY(add_own(t, r, from, slot, own));
        } else if (from == 0) {
            const void *bytes = NULL;
            TG_TRY(get(r, slot, slot->key, &bytes));
            if (slot->len > 0)
                memcpy(slot->data, bytes, slot->len);
            own->taken = 1;
        }
    }
    return TG_OK;
}

tg_status tg__takeover_end(const tg__takeover *t)
{
    for (size_t i = 0; i < t->s->count; i++) {
        const tg__slot *slot = &t->s->slot[i];
        const size_t whole = slot->role == TG__ROLE_OWNER ? slot->len / sizeof(float) : 1;
        if (t->slot[i].taken != whole)
            return tg_fail(TG_E_CORRUPT, "the checkpoint's files do not contain all of %.200s",
                           slot->key);
    }
    return TG_OK;
}
