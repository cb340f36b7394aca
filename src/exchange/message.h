/* Shared by the exchanges: message buffers, cutting a vector into blocks, dense f32 frames,
 * encoding of sums. */
#ifndef TG_EXCHANGE_MESSAGE_H
#define TG_EXCHANGE_MESSAGE_H

#include "exchange/exchange.h"

/* `count` message buffers of equal room: the envelope, then cap bytes of payload. */
typedef struct tg__messages {
    uint8_t *base;
    size_t stride, cap;
} tg__messages;

/* Allocate buffers, which x owns. The memory is not touched, so room for the worst case costs pages
 * only if messages are that long.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__messages_alloc(tg__exchange *x, tg__messages *m, size_t count,
                                          size_t cap);

/* Buffer i, which begins with the envelope; and the frame in it. */
static inline uint8_t *tg__message(const tg__messages *m, size_t i)
{
    return m->base + i * m->stride;
}
static inline uint8_t *tg__message_frame(const tg__messages *m, size_t i)
{
    return m->base + i * m->stride + TG__ENVELOPE_BYTES;
}

/* Blocks: a vector is cut at multiples of 16 elements into `size` nearly equal blocks. With few
 * elements the first ones are empty. Block q is [tg__block_begin(q), tg__block_begin(q + 1)). */
static inline size_t tg__block_begin(size_t n, int size, int q)
{
    size_t cut = (n + 15) / 16 * (size_t)q / (size_t)size * 16;
    return q == size || cut > n ? n : cut;
}
static inline size_t tg__block_len(size_t n, int size, int q)
{
    return tg__block_begin(n, size, q + 1) - tg__block_begin(n, size, q);
}

/* The rank `by` places further around the ring; -size <= by <= size. */
static inline int tg__around(const tg__exchange *x, int by)
{
    return (x->rank + by + x->size) % x->size;
}

/* Set x->parts and x->nparts, one part for each of `count` blocks, and allocate the buffers m that
 * they are encoded into.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__parts_alloc(tg__exchange *x, tg__messages *m, int count);

/* Complete a dense f32 frame whose n values are at tg__f32_values(frame) already: write its head
 * and return its size in bytes. In the frame of a message, values are aligned for float. */
#define TG__F32_BYTES(n) (TG__FRAME_HEAD + sizeof(float) * (n))
size_t tg__f32_frame(uint8_t *frame, size_t n);
static inline float *tg__f32_values(uint8_t *frame)
{
    return (float *)(void *)(frame + TG__FRAME_HEAD);
}

/* Check a received frame of n elements and codec `want`.
 * Errors  TG_E_CORRUPT, TG_E_MISMATCH (both name the rank) */
TG_NODISCARD tg_status tg__check_received(int from, const uint8_t *frame, size_t len, size_t n,
                                          int want);

/* Encode a sum as one frame, for exchanges whose sums travel coded as well, with x->codec and
 * x->context. The error is this rank's leftover. If the sum is not finite, write a frame of zeros
 * and set x->overflow.
 * sum     (n) elements [lo, lo + n) of the vector; updated: what receivers decode is subtracted
 * frame   [out] tg__codec_bound(x->codec, n) bytes
 * Errors  TG_E_NOMEM (first calls only) */
TG_NODISCARD tg_status tg__reencode(tg__exchange *x, float *sum, size_t lo, size_t n,
                                    uint8_t *frame, size_t *len_p);

/* Check that x forms means, among at most `most` ranks.
 * Errors  TG_E_UNSUPPORTED */
TG_NODISCARD tg_status tg__mean_only(const tg__exchange *x, int most);

/* Add frames to acc (n) in rank order, from *next_p on, as far as they have arrived: `own`, and
 * those in `in` whose length is not 0. Returns true after the last. */
bool tg__add_in_order(const tg__exchange *x, int *next_p, float *acc, size_t n, const tg__part *own,
                      const tg__messages *in, const size_t *in_len);

/* The cost of rounds of one delay each, in which every rank sends at the same time; 0 for one
 * rank. */
tg__cost tg__cost_of(int size, unsigned rounds, double bytes);

#endif
