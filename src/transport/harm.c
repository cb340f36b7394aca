#include "transport/harm.h"
#include "base/mem.h"
#include "telegrad/random.h"
#include <stdlib.h>
#include <string.h>

/* Kinds of random draws: the `tensor` of their key. */
enum draw { DROP, CORRUPT, CORRUPT_BIT, TRUNCATE, TRUNCATE_LENGTH, OVERSIZE, GARBAGE, REPLAY };

enum { OVERSIZE_BYTES = 1 << 16 };

typedef struct tg__kept {
    struct tg__kept *next;
    int peer;
    uint32_t place;
    size_t len;
    uint8_t *bytes;
} tg__kept;

static double draw(const tg__harm *h, enum draw kind, uint64_t number)
{
    const tg_rng_key key = {
        .seed = h->seed, .purpose = TG_PURPOSE_FAULT, .rank = h->rank, .tensor = (uint32_t)kind};
    return tg_rng_uniform(&key, number);
}

/* A number in [0, bound), bound > 0. */
static size_t draw_below(const tg__harm *h, enum draw kind, uint64_t number, size_t bound)
{
    size_t v = (size_t)(draw(h, kind, number) * (double)bound);
    return TG__MIN(v, bound - 1);
}

/* Copy the message to memory of its own, followed by `more` zeros. */
static tg_status own_copy(tg__outbound *m, size_t more)
{
    uint8_t *copy = malloc(m->len + more + 1);
    if (!copy)
        return tg_fail(TG_E_NOMEM, "out of memory: copy of a message of %zu bytes", m->len + more);
    if (m->len)
        memcpy(copy, m->buf, m->len);
    memset(copy + m->len, 0, more);
    free(m->copy);
    m->buf = m->copy = copy;
    return TG_OK;
}

static void fill_with_noise(const tg__harm *h, uint64_t number, uint8_t *bytes, size_t len)
{
    const tg_rng_key key = {.seed = h->seed,
                            .purpose = TG_PURPOSE_FAULT,
                            .rank = h->rank,
                            .step = number + 1,
                            .tensor = GARBAGE};
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(tg_rng_uniform(&key, i) * 256);
}

/* Store the message in place of the previous one; if so drawn, send the previous one again. */
static tg_status keep_or_replay(tg__harm *h, uint64_t number, int peer, uint32_t tag,
                                tg__outbound *m)
{
    const uint32_t place = tag & 0xfff; /* round and slice: see TG_TAG_LIMIT */
    tg__kept *k = h->kept;
    tg__outbound kept = *m;
    while (k && (k->peer != peer || k->place != place))
        k = k->next;
    kept.copy = NULL;
    TG_TRY(own_copy(&kept, 0));
    if (!k) {
        tg_status status = tg_alloc(1, sizeof *k, &k);
        if (status != TG_OK) {
            free(kept.copy);
            return status;
        }
        *k = (tg__kept){.next = h->kept, .peer = peer, .place = place};
        h->kept = k;
    } else if (draw(h, REPLAY, number) < h->replay) {
        *m = (tg__outbound){.buf = k->bytes, .copy = k->bytes, .len = k->len};
        k->bytes = NULL;
    }
    free(k->bytes);
    k->bytes = kept.copy;
    k->len = kept.len;
    return TG_OK;
}

tg_status tg__harm_message(tg__harm *h, uint64_t number, int peer, uint32_t tag, tg__outbound *m)
{
    if (draw(h, DROP, number) < h->drop) {
        m->lost = true;
        return TG_OK;
    }
    if (h->replay > 0)
        TG_TRY(keep_or_replay(h, number, peer, tag, m));
    const bool garbage = m->len && draw(h, GARBAGE, number) < h->garbage;
    const bool corrupt = m->len && draw(h, CORRUPT, number) < h->corrupt;
    const bool oversize = draw(h, OVERSIZE, number) < h->oversize;
    if (garbage || corrupt || oversize)
        TG_TRY(own_copy(m, oversize ? OVERSIZE_BYTES : 0));
    if (garbage)
        fill_with_noise(h, number, m->copy, m->len);
    if (corrupt) {
        const size_t bit = draw_below(h, CORRUPT_BIT, number, m->len * 8);
        uint8_t *byte = (uint8_t *)m->copy + bit / 8;
        *byte = (uint8_t)(*byte ^ 1U << bit % 8);
    }
    if (oversize)
        m->len += OVERSIZE_BYTES;
    if (m->len && draw(h, TRUNCATE, number) < h->truncate)
        m->len = draw_below(h, TRUNCATE_LENGTH, number, m->len);
    return TG_OK;
}

void tg__harm_fini(tg__harm *h)
{
    while (h->kept) {
        tg__kept *k = h->kept;
        h->kept = k->next;
        free(k->bytes);
        free(k);
    }
}
