/* A coded frame sent in several messages, for frames too long to be in flight as a whole
 * (send_window.h). A message holds any number of units of the frame's bytes, as the sender decides,
 * and is named by its first unit. The frame's head, in the first message, gives the length of the
 * frame.
 *
 * Sender    The buffer has room for an envelope before each unit.
 * Receiver  It receives messages one after another, directly in their place in the frame. There the
 *           envelope covers the end of the previous message, which is restored afterwards. */
#ifndef TG_STREAM_H
#define TG_STREAM_H

#include "exchange/exchange.h"
#include "exchange/send_window.h"

/* Frames of up to this many bytes, and as many first bytes of longer ones, are not cut: with an
 * envelope they stay below the 64 KiB that MPI sends without a handshake. */
#define TG__WHOLE_BYTES ((size_t)60 << 10)
#define TG__UNITS 4096u /* the most units: as many as a tag's slice and round can number */

/* The frame that is arriving from a peer. */
typedef struct tg__incoming {
    size_t here, total; /* bytes arrived, and in all; total 0: not yet known */
    bool wanted;        /* the message at `here` has been asked for */
    uint8_t covered[TG__ENVELOPE_BYTES];
} tg__incoming;

/* Bytes of a unit such that frames of at most cap bytes have at most TG__UNITS units. */
size_t tg__stream_unit(int size, size_t cap);
/* The number of units of a frame; at least 1. */
static inline uint32_t tg__units(size_t bytes, size_t unit)
{
    return bytes <= unit ? 1 : (uint32_t)((bytes + unit - 1) / unit);
}

/* Offset of unit i's message in the sender's buffer, which has tg__outgoing_at(units, unit) bytes
 * for `units` units. */
static inline size_t tg__outgoing_at(uint32_t i, size_t unit)
{
    return i * (unit + TG__ENVELOPE_BYTES);
}

/* Set round and slice of the message that begins with unit i; they grow with i. */
void tg__stream_name(tg__wish *wish, uint32_t i, uint32_t units);

/* Ask for the next message from `peer`. Returns false if none is left, or if it has been asked for.
 * room  the message buffer, for a frame of at most cap bytes */
bool tg__incoming_wants(tg__incoming *in, int peer, uint8_t *room, size_t cap, size_t unit,
                        tg__wish *wish);
/* Accept that message, of len bytes.
 * Errors  TG_E_CORRUPT (it does not match the head or the units) */
TG_NODISCARD tg_status tg__incoming_take(tg__incoming *in, int peer, uint8_t *room, size_t len,
                                         size_t cap, size_t unit);

#endif
