/* All ranks' exchanges of one round in one thread, by hand: every message goes where it is awaited,
 * at once; what it says may be changed on the way. Include after cmocka.h, or where assert_true and
 * assert_int_equal are something else. */
#ifndef TG_HAND_EXCHANGE_H
#define TG_HAND_EXCHANGE_H

#include "exchange/exchange.h"

#include <string.h>

enum { HAND_RANKS = 12, HAND_WISHES = 64 };

/* Change a payload of rank `from` (*len_p, room for `cap`, which it may say to have passed). */
typedef void hand_change(void *arg, int from, uint8_t *payload, size_t *len_p, size_t cap);

/* The wishes that are open, by rank. */
typedef struct hand {
    tg__exchange *const *x;
    int size;
    hand_change *change; /* NULL: all messages arrive as they are, and are taken */
    void *arg;
    tg_status status[HAND_RANKS]; /* of ranks that refused a message: they are gone */
    int refused[HAND_RANKS];      /* ... whose message it was */
    tg__wish wish[HAND_RANKS][HAND_WISHES];
    size_t count[HAND_RANKS];
} hand;

/* What a driver does with what came, too: a message longer than awaited is refused. */
static inline void hand_deliver(hand *h, int from, const tg__wish *s, const tg__wish *d)
{
    const int to = s->peer;
    size_t len = s->len;
    assert_true(h->change != NULL || len <= d->len);
    if (len <= d->len)
        memcpy(d->msg + TG__ENVELOPE_BYTES, s->msg + TG__ENVELOPE_BYTES, len);
    if (len <= d->len && h->change != NULL)
        h->change(h->arg, from, d->msg + TG__ENVELOPE_BYTES, &len, d->len);
    if (len > d->len)
        h->status[to] = tg_fail(TG_E_CORRUPT, "message from rank %d: %zu bytes, awaited: %zu", from,
                                len, d->len);
    else
        h->status[to] = h->x[to]->ops->done(h->x[to], d->id, len);
    assert_true(h->change != NULL || h->status[to] == TG_OK);
    if (h->status[to] != TG_OK)
        h->refused[to] = from;
}

/* Find a send of `rank` that is awaited, deliver it. */
static inline bool hand_move_one(hand *h, int rank)
{
    for (size_t i = 0; i < h->count[rank]; i++) {
        const tg__wish s = h->wish[rank][i];
        for (size_t j = 0; s.send && h->status[s.peer] == TG_OK && j < h->count[s.peer]; j++) {
            const tg__wish d = h->wish[s.peer][j];
            if (d.send || d.peer != rank || d.round != s.round || d.slice != s.slice)
                continue;
            h->wish[rank][i] = h->wish[rank][--h->count[rank]];
            h->wish[s.peer][j] = h->wish[s.peer][--h->count[s.peer]];
            hand_deliver(h, rank, &s, &d);
            assert_int_equal(h->x[rank]->ops->done(h->x[rank], s.id, s.len), TG_OK);
            return true;
        }
    }
    return false;
}

/* h->x (h->size): encoded, not started. Until no message can move. */
static inline void hand_play(hand *h)
{
    for (int r = 0; r < h->size; r++)
        assert_int_equal(h->x[r]->ops->start(h->x[r]), TG_OK);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < h->size; r++)
            if (h->status[r] == TG_OK)
                h->count[r] += h->x[r]->ops->wants(h->x[r], h->wish[r] + h->count[r],
                                                   HAND_WISHES - h->count[r]);
        for (int r = 0; r < h->size && !moved; r++)
            moved = h->status[r] == TG_OK && hand_move_one(h, r);
    }
}

/* x (size): encoded, not started; finished afterwards. */
static inline void hand_exchange(tg__exchange *const *x, int size)
{
    static hand h;
    h = (hand){.x = x, .size = size};
    hand_play(&h);
    for (int r = 0; r < size; r++)
        assert_true(x[r]->ops->finished(x[r]));
}

#endif
