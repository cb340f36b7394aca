/* What the exchanges share: message buffers, the cut of a vector into blocks, dense f32 frames. */
#ifndef TG_EXCHANGE_MESSAGE_H
#define TG_EXCHANGE_MESSAGE_H

#include "exchange/exchange.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "sums are accumulated inside their frames, which are little-endian"
#endif

/* `count` message buffers of equal room: the envelope, then cap bytes of payload. */
typedef struct tg__messages {
    uint8_t *base;
    size_t stride, cap;
} tg__messages;

/* The memory is not touched, so that room for the worst case costs pages only where messages are
 * that long. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__messages_alloc(tg__messages *m, size_t count, size_t cap);
void tg__messages_free(tg__messages *m);

/* Buffer i with its room for the envelope, and the frame in it. */
static inline uint8_t *tg__message(const tg__messages *m, size_t i)
{
    return m->base + i * m->stride;
}
static inline uint8_t *tg__message_frame(const tg__messages *m, size_t i)
{
    return m->base + i * m->stride + TG__ENVELOPE_BYTES;
}

/* Blocks: the vector is cut at multiples of 16 elements into `size` nearly equal parts; with few
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

/* rank + by, around the ring; -size <= by <= size. */
static inline int tg__around(const tg__exchange *x, int by)
{
    return (x->rank + by + x->size) % x->size;
}

/* Parts 0..size-1 of x are its blocks, encoded into buffers m (size). Sets x->parts, x->nparts.
 * Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__parts_of_blocks(tg__exchange *x, tg__messages *m);
/* Parts 0..count-1 are as many blocks. */
TG_NODISCARD tg_status tg__parts_of_cut(tg__exchange *x, tg__messages *m, int count);
/* One part: the whole vector, encoded into m (1). */
TG_NODISCARD tg_status tg__parts_of_vector(tg__exchange *x, tg__messages *m);

/* A dense f32 frame whose n values already stand at tg__f32_values(frame): writes the head, returns
 * its bytes. Values are aligned as float if the frame is that of a message. */
#define TG__F32_BYTES(n) (TG__FRAME_HEAD + sizeof(float) * (n))
size_t tg__f32_frame(uint8_t *frame, size_t n);
static inline float *tg__f32_values(uint8_t *frame)
{
    return (float *)(void *)(frame + TG__FRAME_HEAD);
}

/* Check a received frame of n elements and codec `want`. Errors TG_E_CORRUPT, TG_E_MISMATCH: naming
 * the rank */
TG_NODISCARD tg_status tg__check_received(int from, const uint8_t *frame, size_t len, size_t n,
                                          int want);

#endif
