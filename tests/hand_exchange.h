/* Runs the exchanges of all ranks in one round by hand, in a single thread. Every message is
 * delivered at once where it is awaited, and may be changed on the way. Include it after cmocka.h,
 * or where assert_true and assert_int_equal are defined differently. */
#ifndef TG_HAND_EXCHANGE_H
#define TG_HAND_EXCHANGE_H

#include "exchange/exchange.h"

#include <string.h>

enum { HAND_RANKS = 12, HAND_WISHES = 64 };

/* Change a payload of rank `from` (*len_p, room for `cap`; a larger *len_p claims to exceed it). */
typedef void hand_change(void *arg, int from, uint8_t *payload, size_t *len_p, size_t cap);

/* The open wishes of all ranks. */
typedef struct hand {
    tg__exchange *const *x;
    int size;
    hand_change *change; /* NULL: all messages arrive unchanged and are accepted */
    void *arg;
    tg_status status[HAND_RANKS]; /* of ranks that refused a message and have left */
    int refused[HAND_RANKS];      /* ... and the rank that sent it */
    tg__wish wish[HAND_RANKS][HAND_WISHES];
    size_t count[HAND_RANKS];
} hand;

/* Deliver a message as a driver does: it is refused if it is longer than awaited. */
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

/* Find a message of `rank` that another rank awaits, and deliver it. */
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

/* Deliver messages until none can move. h->x (h->size): encoded, not started. */
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

/* Run an exchange to its end. x (size): encoded, not started. */
static inline void hand_exchange(tg__exchange *const *x, int size)
{
    static hand h;
    h = (hand){.x = x, .size = size};
    hand_play(&h);
    for (int r = 0; r < size; r++)
        assert_true(x[r]->ops->finished(x[r]));
}

#endif
