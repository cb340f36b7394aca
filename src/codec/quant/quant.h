/* Vectors as small integers times a unit per bucket: shared by int8 and qsgd, whose tables name the
 * functions below.
 *
 *     unit = norm(bucket) / levels, rounded up to 8 significant bits (a bf16)
 *     code = round(x / unit) in -levels .. levels      decoded = code * unit
 *
 * Code times unit has 15 bits and is never rounded, so a residual loses nothing on dyadic data.
 *
 * payload, fixed: units (bf16, ceil(n / bucket)), packed codes (kernel/pack.h) payload, Elias:
 * units, code lengths (u32 for each TG__CHUNK elements), codes (quant_elias.h)
 *
 * Buckets are counted from the part's first element, random numbers from the vector's. */
#ifndef TG_CODEC_QUANT_H
#define TG_CODEC_QUANT_H

#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include "kernel/pack.h"

/* Units below this count as 0, so that the inverse of a unit stays finite, even times 65536. So an
 * int8 bucket whose largest element is below 127 * 2^-100 = 1.0e-28 is sent as zeros; otherwise the
 * decoding error is at most 0.4 % of the largest element. */
#define TG__UNIT_MIN 0x1p-100f

/* The unit of a bucket: 0 if it is too small or norm is NaN; limited so that levels * unit is
 * finite. */
float tg__quant_unit(double norm, int levels);
/* True if a frame may hold this unit: 0, or finite and at least TG__UNIT_MIN. */
bool tg__quant_unit_valid(float unit);

#define TG__UNIT_BYTES 2u
static inline float tg__quant_unit_get(const uint8_t *src)
{
    const uint8_t bytes[] = {0, 0, src[0], src[1]};
    float unit;
    tg__floats_get(&unit, bytes, 1);
    return unit;
}

/* How elements are coded. */
typedef struct tg__quant_layout {
    unsigned width; /* bits per code, 2..8 */
    size_t bucket;  /* elements per bucket: a multiple of TG__PACK_BLOCK that divides TG__CHUNK */
    bool elias;
} tg__quant_layout;

/* int8's layout is fixed, with aux 0; other frames state theirs in aux: the width, log2(bucket /
 * 512), and whether codes are Elias codes. */
#define TG__QUANT_INT8 ((tg__quant_layout){.width = 8, .bucket = 512})
enum { TG__QUANT_AUX_BUCKET = 4, TG__QUANT_AUX_ELIAS = 1 << 7 };
static inline tg__quant_layout tg__quant_layout_of(const tg__frame *f)
{
    if (f->codec == TG__ID_int8)
        return TG__QUANT_INT8;
    return (tg__quant_layout){.width = f->aux & 15,
                              .bucket = (size_t)512 << (f->aux >> TG__QUANT_AUX_BUCKET & 7),
                              .elias = (f->aux & TG__QUANT_AUX_ELIAS) != 0};
}

/* A codec's settings and scratch. */
typedef struct tg__quant {
    tg__quant_layout layout;
    uint16_t aux; /* of frames in the fixed coding */
    int levels;
    bool l2, random; /* norm: Euclidean instead of maximum; rounding: random instead of nearest */
    unsigned rounds; /* Philox rounds */
    int8_t *codes;   /* Elias: codes of a whole part */
    uint8_t *stream;
} tg__quant;

/* See tg__codec_ops. */
size_t tg__quant_bound(const tg_codec *c, size_t n);
TG_NODISCARD tg_status tg__quant_encode(tg_codec *c, const tg_encode_context *ctx, const float *x,
                                        tg__part *part, float *decoded);
TG_NODISCARD tg_status tg__quant_settle(tg_codec *c, const tg_encode_context *ctx, float *r,
                                        const float *g, size_t n, tg__part *parts, size_t nparts);
TG_NODISCARD tg_status tg__quant_check(const tg__frame *f);
void tg__quant_decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add);

#define TG__QUANT_OPS                                                                           \
    .impl_bytes = sizeof(tg__quant), .bound = tg__quant_bound, .encode_part = tg__quant_encode, \
    .settle = tg__quant_settle, .check = tg__quant_check, .decode = tg__quant_decode

#endif
