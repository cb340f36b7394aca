/* Shared by codec_fp16.c and codec_bf16.c: n little-endian 16-bit floats as the payload. */
#ifndef TG_CODEC_HALF_H
#define TG_CODEC_HALF_H

#include "codec/codec_impl.h"

/* The kernels of one format. */
typedef struct tg__half_format {
    uint8_t wire_id;
    void (*encode)(uint16_t *dst, const float *src, size_t n);
    void (*decode)(float *dst, const uint16_t *src, size_t n);
    void (*decode_add)(float *dst, const uint16_t *src, size_t n);
} tg__half_format;

tg_status tg__half_init(tg_codec *c);
void tg__half_fini(tg_codec *c);
size_t tg__half_bound(const tg_codec *c, size_t n);
tg_status tg__half_encode(tg_codec *c, const tg__half_format *h, const float *x, size_t n,
                          tg__part *parts, size_t nparts, tg__view *view_p);
tg_status tg__half_check(const tg__frame *f);
void tg__half_decode(const tg__half_format *h, const tg__frame *f, size_t lo, size_t hi, float *dst,
                     bool add);

#endif
