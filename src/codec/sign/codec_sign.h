/* For the majority vote. */
#ifndef TG_CODEC_SIGN_H
#define TG_CODEC_SIGN_H

#include "codec/codec_impl.h"

/* The bits of a checked, coded frame that decodes to 1 and -1 (scale=none); NULL for any other
 * frame. */
const uint8_t *tg__sign_bits(const uint8_t *frame);

#endif
