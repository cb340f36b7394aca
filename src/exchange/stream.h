/* A coded frame on its way in messages of as many units of its bytes as its sender likes: for
 * frames too long to be on their way at once (send_window.h). A message is named by its first unit;
 * the frame's head, in the first message, says how long the frame is.
 *
 * In the sender's buffer each unit has room for an envelope before it. A receiver takes one message
 * after the other, so it lets each come to its place in the frame, where the envelope covers the
 * end of the one before, and puts that back. */
#ifndef TG_STREAM_H
#define TG_STREAM_H

#include "exchange/exchange.h"
#include "exchange/send_window.h"

/* A frame no longer than this, and no shorter one's beginning, is not cut: with its envelope it is
 * below the 64 KiB that MPI sends without asking. */
#define TG__WHOLE_BYTES ((size_t)60 << 10)
#define TG__UNITS 4096u /* at most: what a tag can name, its slice and its round */

/* The frame of a peer. */
typedef struct tg__incoming {
    size_t here, total; /* bytes; total 0: not known yet */
    bool wanted;        /* the message at `here` has been told */
    uint8_t covered[TG__ENVELOPE_BYTES];
} tg__incoming;

/* Bytes of a unit, so that frames of at most cap bytes have no more than TG__UNITS. */
size_t tg__stream_unit(int size, size_t cap);
/* At least 1. */
static inline uint32_t tg__units(size_t bytes, size_t unit)
{
    return bytes <= unit ? 1 : (uint32_t)((bytes + unit - 1) / unit);
}

/* Where unit i's message is in a sender's buffer; of `units` units that buffer has tg__outgoing_at
 * (units) bytes. */
static inline size_t tg__outgoing_at(uint32_t i, size_t unit)
{
    return i * (unit + TG__ENVELOPE_BYTES);
}

/* Name the message that begins with unit i: (round, slice), which grow with i. */
void tg__stream_name(tg__wish *wish, uint32_t i, uint32_t units);

/* The next message from `peer`, if one is to come and has not been told. room: the message buffer
 * of a frame of at most cap bytes. */
bool tg__incoming_wants(tg__incoming *in, int peer, uint8_t *room, size_t cap, size_t unit,
                        tg__wish *wish);
/* It has come, of len bytes. Errors TG_E_CORRUPT: it does not agree with the head or the units */
TG_NODISCARD tg_status tg__incoming_take(tg__incoming *in, int peer, uint8_t *room, size_t len,
                                         size_t cap, size_t unit);

#endif
