/* The 2-bit codec's steps, for the fused pass with a residual (method/fused.c). */
#ifndef TG_CODEC_TWOBIT_H
#define TG_CODEC_TWOBIT_H

#include "codec/codec_impl.h"

/* The codec's threshold. */
float tg__twobit_threshold(const tg_codec *c);

/* Where the bit planes of a part's elements are to be written: in its frame, or in `small` if the
 * frame will be dense. The part has room for the codec's bound. */
enum { TG__TWOBIT_SMALL = 16 };
uint8_t *tg__twobit_place(const tg__part *part, uint8_t small[TG__TWOBIT_SMALL]);

/* The planes stand where tg__twobit_place said: make the frame. */
void tg__twobit_finish(tg__part *part, float threshold, const uint8_t *planes);

#endif
