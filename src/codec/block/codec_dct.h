/* Sums of dct frames: coefficients are added in the places of elements, and transformed back
 * once. */
#ifndef TG_CODEC_DCT_SUM_H
#define TG_CODEC_DCT_SUM_H

#include "codec/codec_impl.h"

/* y += the coefficients of a checked frame, each at the element with the same place in its block.
 * Frames that are not coded have no coefficients. Returns true if the frame has some. */
bool tg__dct_add(float *y, const uint8_t *frame, size_t len);
/* Transform the tensors of y in place, from coefficients as tg__dct_add leaves them to elements.
 * pool NULL: the calling core only; the bits are the same for any pool. */
void tg__dct_finish(float *y, const tg_segment *tensors, size_t count, tg__pool *pool);

#endif
