/* The envelope around every message: who sent it, for which step, and a checksum.
 *
 *   0  4  magic "TGE1"            28  2  bucket
 *   4  2  version (2)             30  2  round
 *   6  2  flags                   32  2  slice
 *   8  8  session hash            34  2  channel
 *  16  8  step                    36  8  payload length, bytes
 *  24  4  sender rank             44  4  CRC-32C of bytes 0..43 and the payload
 * All numbers little-endian. docs/wire-format.md is the specification. */
#ifndef TG_WIRE_ENVELOPE_H
#define TG_WIRE_ENVELOPE_H

#include "telegrad/base.h"

#define TG__ENVELOPE_BYTES 48u
#define TG__ENVELOPE_VERSION 3u

enum {
    TG__FLAG_NONFINITE =
        1,               /* the sender's gradient of this step is not finite: no rank applies it */
    TG__FLAG_STOP = 2,   /* the sender wants to stop after this step */
    TG__FLAG_CLOSES = 4, /* this bucket closes the step: the two flags above are final */
    TG__FLAG_SPOILS = 8, /* with NONFINITE, in a server's answer: the gradient is finite, but the
                            update would make parameters not finite */
    TG__FLAG_WISH = 16   /* where ranks leave out steps: some rank wants to stop */
};

typedef struct tg__envelope {
    uint64_t session, step;
    uint32_t sender;
    uint16_t flags, bucket, round, slice;
    uint16_t channel; /* identifies the reducer or session on the transport; 0: not known yet */
} tg__envelope;

/* Fill msg[0, 48) for the payload of len bytes that is already at msg + 48. */
void tg__envelope_seal(uint8_t *msg, const tg__envelope *e, size_t len);

/* Read what a message of at least TG__ENVELOPE_BYTES says about itself. Nothing is checked. */
void tg__envelope_peek(const uint8_t *msg, tg__envelope *e);

/* Validate a whole message of msg_len bytes against what is expected: magic, version, known flags,
 * session, sender, channel, step, bucket, round, slice, length, checksum. `want->flags` is ignored;
 * *flags_p and *len_p (payload bytes) are set on success.
 * Errors  TG_E_CORRUPT, TG_E_VERSION, TG_E_MISMATCH (session), TG_E_PEER (another sender, channel,
 *         step or bucket: out of order); the text names the sender expected, the field, both values
 */
TG_NODISCARD tg_status tg__envelope_open(const uint8_t *msg, size_t msg_len,
                                         const tg__envelope *want, uint16_t *flags_p,
                                         size_t *len_p);

/* For messages: why what arrives is not what this rank waits for, though nothing is damaged. */
#define TG__OTHER_CALL "the two ranks called different functions, or in another order"

#endif
