/* Changes that a hostile rank makes to a payload, by counter-based random numbers: it flips bits,
 * cuts, extends, inserts meaningful words (NaN, infinity, the largest count), substitutes another
 * message, or changes flags. */
#ifndef TG_MUTATE_H
#define TG_MUTATE_H

#include "hostile_transport.h"
#include "telegrad/random.h"

/* One lie: messages from `number` to `last` of the rank are changed. */
typedef struct mutation {
    uint64_t seed, number, last;
    const uint8_t *other; /* (other_len) a message that may replace it; NULL: none */
    size_t other_len;
    bool done; /* [out] a message has been changed */
} mutation;

enum { FLIP, CUT, GROW, WORD, HEAD, OTHER, EMPTY, FLAGS, MUTATIONS };

static inline size_t mutation_draw(const mutation *m, uint32_t what, size_t bound)
{
    const tg_rng_key key = {.seed = m->seed, .purpose = TG_PURPOSE_TEST, .tensor = what};
    const size_t v = (size_t)(tg_rng_uniform(&key, 0) * (double)bound);
    return v < bound ? v : bound - 1;
}

static inline void mutate(void *arg, uint64_t number, uint16_t *flags_p, uint8_t *payload,
                          size_t *len_p)
{
    static const uint32_t words[] = {0,          1,          0xffffffff, 0x7fffffff, 0x80000000,
                                     0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 300};
    mutation *m = arg;
    const size_t len = *len_p;
    if (number < m->number || number > m->last)
        return;
    m->done = true;
    switch (mutation_draw(m, 0, MUTATIONS)) {
    case FLIP:
        for (uint32_t i = 0; len > 0 && i <= mutation_draw(m, 1, 8); i++) {
            const size_t bit = mutation_draw(m, 2 + i, 8 * len);
            payload[bit / 8] = (uint8_t)(payload[bit / 8] ^ 1u << bit % 8);
        }
        break;
    case CUT:
        *len_p = len == 0 ? 0 : mutation_draw(m, 1, len);
        break;
    case GROW:
        *len_p = len + 1 + mutation_draw(m, 1, mutation_draw(m, 2, 2) == 0 ? 8 : HOSTILE_ROOM - 1);
        break;
    case WORD:
        if (len >= 4)
            tg__put32(payload + mutation_draw(m, 1, len - 3), words[mutation_draw(m, 2, 10)]);
        break;
    case HEAD:
        if (len > 0)
            payload[mutation_draw(m, 1, len < 24 ? len : 24)] = (uint8_t)mutation_draw(m, 2, 256);
        break;
    case OTHER:
        if (m->other != NULL && m->other_len <= len + HOSTILE_ROOM) {
            memcpy(payload, m->other, m->other_len);
            *len_p = m->other_len;
        }
        break;
    case EMPTY:
        *len_p = 0;
        break;
    default:
        *flags_p = (uint16_t)mutation_draw(m, 1, 9);
    }
}

#endif
