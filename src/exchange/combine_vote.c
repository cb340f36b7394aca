/* Majority vote: the sign of the sum of the ranks' signs; a tie gives 0. Votes are frames of codec
 * sign without scales. A rank that sends any other frame (zero: its gradient was not finite)
 * abstains.
 *
 * Frame by frame, votes are added up; this is exact because they are small integers. If all frames
 * are at hand, they are counted as bits.
 *
 * Source: Bernstein et al. 2018, arXiv:1802.04434, alg. 3; 2019, arXiv:1810.05291 */
#include "base/mem.h"
#include "codec/sign/codec_sign.h"
#include "exchange/exchange.h"
#include "kernel/kernel.h"

static void vote_add(float *acc, size_t n, const uint8_t *frame, size_t len, tg__pool *pool)
{
    (void)n;
    if (tg__sign_bits(frame))
        tg__frame_decode_add(frame, len, acc, pool);
}

static void vote_finish(float *acc, size_t n, int size)
{
    (void)size;
    tg__kernel()->sign_of(acc, n);
}

typedef struct ballot {
    float *acc;
    const uint8_t *const *bits;
    size_t voters;
} ballot;

static void count_range(void *arg, size_t lo, size_t hi)
{
    const ballot *b = arg;
    tg__kernel()->vote(b->acc + lo, b->bits, b->voters, lo / 8, hi - lo);
}

static void vote_all(const tg__exchange *x, float *acc, const uint8_t **frames, const size_t *lens)
{
    (void)lens;
    ballot b = {.acc = acc, .bits = frames};
    for (int q = 0; q < x->size; q++) {
        const uint8_t *bits = tg__sign_bits(frames[q]);
        if (bits)
            frames[b.voters++] = bits;
    }
    tg__pool_chunks(x->pool, x->n, TG__CHUNK, count_range, &b);
}

const tg__combine tg__combine_vote = {
    .name = "vote",
    .add = vote_add,
    .finish = vote_finish,
    .all = vote_all,
    .votes = true,
};
