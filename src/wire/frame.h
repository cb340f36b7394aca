/* The frame: the output of a codec. A 12-byte head, then the payload, up to the end of the
 * envelope's payload.
 *
 *   0  1  codec id (codecs.def; never reused)      2  2  aux: defined by the codec
 *   1  1  form                                     4  4  n, elements
 *   8  4  payload length, bytes
 * form: 0 coded (the codec's layout), 1 dense (n little-endian f32: the fallback if coding does not
 * pay), 2 zero (no payload: all elements are 0). aux is 0 in forms 1 and 2. */
#ifndef TG_WIRE_FRAME_H
#define TG_WIRE_FRAME_H

#include "telegrad/base.h"

#define TG__FRAME_HEAD 12u
enum { TG__FORM_CODED = 0, TG__FORM_DENSE = 1, TG__FORM_ZERO = 2 };

typedef struct tg__frame {
    uint8_t codec, form;
    uint16_t aux;
    uint32_t n;
    const uint8_t *payload;
    size_t payload_len;
} tg__frame;

/* Write the head at dst for a payload of payload_len bytes (< 2^32) at dst + 12. n < 2^32 */
void tg__frame_head(uint8_t *dst, uint8_t codec, uint8_t form, uint16_t aux, size_t n,
                    size_t payload_len);

/* Split a frame of len bytes and check its head: lengths agree, form known, n as expected, sizes of
 * forms 1 and 2 exact. The payload of form 0 is not examined (the codec's check does that).
 * Errors  TG_E_CORRUPT, TG_E_MISMATCH (another n) */
TG_NODISCARD tg_status tg__frame_split(const uint8_t *src, size_t len, size_t n, tg__frame *f_p);

#endif
