/* If a rank tells other ranks different things, they go different ways and then blame each other.
 * Rank k's note about r is the hash of what r said to k; its note about itself is the hash of what
 * it said. All ranks have all notes. If a single rank lies, in what it says or in its notes, then
 *
 *     k's note about this rank is wrong: k lies;
 *     k's note about itself differs from what it said to this rank: k lies;
 *     k's note about r differs from this rank's: r told the two different things, or k lies.
 *
 * The hashes do not protect against a rank that produces collisions on purpose. */
#include "engine/collect.h"
#include "base/mem.h"
#include "base/printable.h"
#include "engine/hub.h"
#include "exchange/gather.h"

#include <stdio.h>
#include <string.h>

enum { NOTE = 8 }; /* bytes; tg__gather_all can carry 4096 ranks' notes */

static tg_status run(tg__engine *e, const tg__speech *s, tg__op *op)
{
    tg_transport *t = tg__engine_transport(e);
    TG_TRY(tg__gather_create(t->rank, t->size, s->cap, s->full, &op->x));
    tg__gather_set(op->x, s->own, s->len);
    op->task.group = s->group;
    op->flight.no_step = true;
    TG_TRY(tg__engine_submit(e, op));
    TG_TRY(tg__engine_wait(e, op));
    e->control_bytes += op->bytes_sent - op->bytes_near;
    return TG_OK;
}

/* If memory ran out on this rank alone, leave the transport, because the others would wait. */
static tg_status alone(tg__engine *e, tg_status status)
{
    if (status == TG_E_NOMEM)
        tg__engine_give_up(e, status, tg__engine_transport(e)->rank);
    return status;
}

/* ---- notes ----------------------------------------------------------------------------------- */

typedef struct notes {
    const uint8_t *all; /* (size, size) of NOTE bytes: rank k's note about rank r */
    int size, rank;
    const char *what;
} notes;

static void take_notes(const tg__exchange *x, uint8_t *own)
{
    for (int rank = 0; rank < x->size; rank++) {
        uint8_t length[8];
        size_t len;
        const uint8_t *bytes = tg__gather_get(x, rank, &len);
        tg__put64(length, len);
        const uint64_t hash = tg_hash(TG_HASH_START, length, sizeof length);
        tg__put64(own + (size_t)rank * NOTE, tg_hash(hash, bytes, len));
    }
}

static bool differ(const notes *n, int k, int about)
{
    const size_t row = (size_t)n->size * NOTE, at = (size_t)about * NOTE;
    return memcmp(n->all + (size_t)k * row + at, n->all + (size_t)n->rank * row + at, NOTE) != 0;
}

/* Find a rank that certainly lies, or two ranks of which one lies: then neither is blamed
 * (-1). */
static tg_status judge(const notes *n, int *liar_p)
{
    for (int k = 0; k < n->size; k++) {
        *liar_p = k;
        if (differ(n, k, k))
            return tg_fail(
                TG_E_CORRUPT,
                "rank %d sent this rank (%d) something different in %s from what it reports", k,
                n->rank, n->what);
        if (differ(n, k, n->rank))
            return tg_fail(TG_E_CORRUPT,
                           "rank %d reports that this rank (%d) sent it something different in %s "
                           "from what it sent",
                           k, n->rank, n->what);
    }
    *liar_p = -1;
    for (int r = 0; r < n->size; r++)
        for (int k = 0; k < n->size; k++)
            if (differ(n, k, r))
                return tg_fail(TG_E_CORRUPT,
                               "ranks %d and %d received different data from rank %d in %s, or "
                               "rank %d falsely reports that",
                               TG__MIN(n->rank, k), TG__MAX(n->rank, k), r, n->what, k);
    return TG_OK;
}

static tg_status compare_notes(tg__engine *e, const char *what, const tg__exchange *x)
{
    const size_t size = (size_t)x->size;
    TG__FREED uint8_t *all = NULL;
    int liar;
    TG_TRY(alone(e, tg_alloc(size * (size + 1), NOTE, &all)));
    uint8_t *own = all + size * size * NOTE;
    take_notes(x, own);
    TG_TRY(tg__gather_all(e, NULL, own, size * NOTE, all));
    const notes n = {.all = all, .size = x->size, .rank = x->rank, .what = what};
    const tg_status status = judge(&n, &liar);
    if (status != TG_OK)
        tg__engine_give_up(e, status, liar);
    return status;
}

/* ---- public functions ------------------------------------------------------------------------ */

tg_status tg__collect(tg__engine *e, const char *what, const tg__speech *s, tg__op **op_p)
{
    tg__op *op;
    TG_TRY(alone(e, tg_alloc(1, sizeof *op, &op)));
    tg_status status = alone(e, run(e, s, op));
    if (status == TG_OK && what != NULL)
        status = compare_notes(e, what, op->x);
    if (status == TG_OK)
        *op_p = op;
    else
        tg__op_release(e, op);
    return status;
}

tg_status tg__gather_all(tg__engine *e, const char *what, const void *own, size_t len, void *all)
{
    const int size = tg__engine_transport(e)->size;
    const tg__speech s = {.own = own, .len = len, .cap = len, .full = size};
    tg__op *op;
    TG_TRY(tg__collect(e, what, &s, &op));
    for (int rank = 0; rank < size; rank++) {
        size_t got; /* len */
        memcpy((uint8_t *)all + (size_t)rank * len, tg__gather_get(op->x, rank, &got), len);
    }
    tg__op_release(e, op);
    return TG_OK;
}

tg_status tg__share(tg__engine *e, const char *what, void *data, size_t len)
{
    const bool says = tg__engine_transport(e)->rank == 0;
    const tg__speech s = {.own = data, .len = says ? len : 0, .cap = len, .full = 1};
    tg__op *op;
    TG_TRY(tg__collect(e, what, &s, &op));
    size_t got; /* len */
    memcpy(data, tg__gather_get(op->x, 0, &got), len);
    tg__op_release(e, op);
    return TG_OK;
}

typedef struct verdict { /* one rank's result, sent to all */
    int32_t status;
    char text[476];
} verdict;

static tg_status hear(tg__engine *e, int rank, verdict *v)
{
    if (v->status < TG_OK || v->status > TG_E_STOPPED ||
        memchr(v->text, '\0', sizeof v->text) == NULL) {
        const tg_status status =
            tg_fail(TG_E_CORRUPT, "rank %d says that it ended with status %d: allowed: 0 to %d",
                    rank, (int)v->status, TG_E_STOPPED);
        tg__engine_give_up(e, status, rank);
        return status;
    }
    if (v->status == TG_OK)
        return TG_OK;
    tg__engine_all_know(e);
    tg__make_printable(v->text);
    return tg_fail((tg_status)v->status, "rank %d: %s", rank, v->text);
}

tg_status tg__agree(tg__engine *e, tg_status own)
{
    const int size = tg__engine_transport(e)->size;
    verdict mine = {.status = (int32_t)own};
    TG__FREED verdict *all = NULL;
    if (own != TG_OK)
        snprintf(mine.text, sizeof mine.text, "%s", tg_error());
    TG_TRY(alone(e, tg_alloc((size_t)size, sizeof *all, &all)));
    TG_TRY(tg__gather_all(e, "a verdict", &mine, sizeof mine, all));
    for (int rank = 0; rank < size; rank++)
        TG_TRY(hear(e, rank, &all[rank]));
    return TG_OK;
}
