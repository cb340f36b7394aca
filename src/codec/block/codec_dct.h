/* Sums of dct frames: coefficients are added where elements will be, and transformed back once. */
#ifndef TG_CODEC_DCT_SUM_H
#define TG_CODEC_DCT_SUM_H

#include "codec/codec_impl.h"

/* y += the coefficients of a checked frame, each where the element of the same place in its block
 * stands; frames that are not coded have none. Returns whether it has. */
bool tg__dct_add(float *y, const uint8_t *frame, size_t len);
/* In place: the tensors of y, of coefficients as tg__dct_add leaves them, become what they stand
 * for. pool NULL: the calling core alone; the same bits for any. */
void tg__dct_finish(float *y, const tg_segment *tensors, size_t count, tg__pool *pool);

#endif
