/* Encoding sums again: what a rank does on behalf of all when sums, too, travel coded. It uses
 * x->codec and x->context; what it loses is the rank's leftover. */
#ifndef TG_EXCHANGE_REENCODE_H
#define TG_EXCHANGE_REENCODE_H

#include "exchange/exchange.h"

/* The tensors as a block cuts them: scratch. Zeroed before the first use; tg__reencoder_free after
 * the last. */
typedef struct tg__reencoder {
    tg_segment *segment;
    size_t cap;
} tg__reencoder;
void tg__reencoder_free(tg__reencoder *e);

/* Encode sum (n), elements [lo, lo + n) of x's vector, as one frame, and subtract from it what
 * receivers decode. cap: tg__codec_bound(x->codec, n). If the sum is not finite: a frame of zeros,
 * and x->overflow. Errors TG_E_NOMEM (first calls only) */
TG_NODISCARD tg_status tg__reencode(tg__exchange *x, tg__reencoder *e, float *sum, size_t lo,
                                    size_t n, uint8_t *frame, size_t cap, size_t *len_p);

#endif
