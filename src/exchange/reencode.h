/* Encoding of sums, for exchanges whose sums travel coded as well. Uses x->codec and x->context.
 * The error is this rank's leftover. */
#ifndef TG_EXCHANGE_REENCODE_H
#define TG_EXCHANGE_REENCODE_H

#include "exchange/exchange.h"

/* Scratch: the tensors cut to a block. Zero it before the first use; free it with
 * tg__reencoder_free. */
typedef struct tg__reencoder {
    tg_segment *segment;
    size_t cap;
} tg__reencoder;
void tg__reencoder_free(tg__reencoder *e);

/* Encode a sum as one frame. If the sum is not finite, write a frame of zeros and set x->overflow.
 * sum     (n) elements [lo, lo + n) of the vector; updated: what receivers decode is subtracted
 * cap     bytes; tg__codec_bound(x->codec, n)
 * Errors  TG_E_NOMEM (first calls only) */
TG_NODISCARD tg_status tg__reencode(tg__exchange *x, tg__reencoder *e, float *sum, size_t lo,
                                    size_t n, uint8_t *frame, size_t cap, size_t *len_p);

#endif
