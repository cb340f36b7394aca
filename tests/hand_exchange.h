/* All ranks' exchanges of one round in one thread, by hand: every message goes where it is awaited,
 * at once. Include after cmocka.h. */
#ifndef TG_HAND_EXCHANGE_H
#define TG_HAND_EXCHANGE_H

#include "exchange/exchange.h"

#include <string.h>

enum { HAND_RANKS = 12, HAND_WISHES = 64 };

/* The wishes that are open, by rank. */
typedef struct hand {
    tg__exchange *const *x;
    int size;
    tg__wish wish[HAND_RANKS][HAND_WISHES];
    size_t count[HAND_RANKS];
} hand;

/* Find a send of `rank` that is awaited, deliver it. */
static inline bool hand_move_one(hand *h, int rank)
{
    for (size_t i = 0; i < h->count[rank]; i++) {
        const tg__wish s = h->wish[rank][i];
        for (size_t j = 0; s.send && j < h->count[s.peer]; j++) {
            const tg__wish d = h->wish[s.peer][j];
            if (d.send || d.peer != rank || d.round != s.round || d.slice != s.slice)
                continue;
            assert_true(s.len <= d.len);
            memcpy(d.msg + TG__ENVELOPE_BYTES, s.msg + TG__ENVELOPE_BYTES, s.len);
            h->wish[rank][i] = h->wish[rank][--h->count[rank]];
            h->wish[s.peer][j] = h->wish[s.peer][--h->count[s.peer]];
            assert_int_equal(h->x[s.peer]->ops->done(h->x[s.peer], d.id, s.len), TG_OK);
            assert_int_equal(h->x[rank]->ops->done(h->x[rank], s.id, s.len), TG_OK);
            return true;
        }
    }
    return false;
}

/* x (size): encoded, not started; finished afterwards. */
static inline void hand_exchange(tg__exchange *const *x, int size)
{
    static hand h;
    h = (hand){.x = x, .size = size};
    for (int r = 0; r < size; r++)
        assert_int_equal(x[r]->ops->start(x[r]), TG_OK);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < size; r++)
            h.count[r] += x[r]->ops->wants(x[r], h.wish[r] + h.count[r], HAND_WISHES - h.count[r]);
        for (int r = 0; r < size && !moved; r++)
            moved = hand_move_one(&h, r);
    }
    for (int r = 0; r < size; r++)
        assert_true(x[r]->ops->finished(x[r]));
}

#endif
