/* Strips: the layout of a part in codecs with one bit per element. A strip is rows x cols
 * consecutive elements: whole rows of a tensor's matrix, or (rows = 1) a vector. A tensor that a
 * part cuts inside a row gives up to three strips: the end of a row, whole rows, the beginning of a
 * row. A codec may send tensors that are vectors as they are (rows = 0).
 *
 * payload: u32 strips; strips x {u32 rows, u32 cols}; the f32 values of all strips; the bits of all
 * strips, each row beginning at a byte. The codec determines how many values a strip has. */
#ifndef TG_CODEC_STRIPS_H
#define TG_CODEC_STRIPS_H

#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include <stdatomic.h>

typedef struct tg__strip {
    size_t lo;         /* index of its first element, counted as in the run */
    size_t rows, cols; /* rows = 0: cols elements as they are: as many values, no bits */
} tg__strip;

static inline size_t tg__strip_row_bytes(size_t cols)
{
    return (cols + 7) / 8;
}

/* The number of f32 values of a strip. */
typedef size_t tg__strip_values(size_t rows, size_t cols);

/* The layout of a payload. */
typedef struct tg__strip_layout {
    size_t strips, values, bits; /* number of strips; offset of the values; offset of the bits */
    size_t len;
} tg__strip_layout;

/* What the codecs share; the first member of their impl. */
typedef struct tg__strip_coder {
    tg__strip_values *values;
    size_t min_rows; /* fewer rows become a vector; SIZE_MAX: each run is one vector */
    bool plain;      /* tensors that are vectors are sent as they are, if together they are at most
                      * a 32nd of the elements of all tensors of the encoded vector (bucket) */
    /* Encode the part's elements. With g: x += g first, and x -= decoded afterwards; otherwise x is
     * only read. The part has room for the bound.
     * Errors  TG_E_NOMEM: x is unchanged; TG_E_NONFINITE */
    tg_status (*write)(tg_codec *c, const tg_encode_context *ctx, float *x, const float *g,
                       tg__part *part);
    uint8_t *coded; /* a payload that is too long to send */
    float *dense;   /* the content of a dense frame */
} tg__strip_coder;

/* The strips of a part, in order and covering it:
 * for (tg__strips s = tg__strips_of(ctx, part, 3, false); tg__strips_next(&s, &strip);)
 * min_rows, plain  see tg__strip_coder */
typedef struct tg__strips {
    tg__run run;
    size_t at, min_rows;
    bool plain;
} tg__strips;
tg__strips tg__strips_of(const tg_encode_context *ctx, const tg__part *part, size_t min_rows,
                         bool plain);
bool tg__strips_next(tg__strips *s, tg__strip *strip);

/* See tg__codec_ops. */
TG_NODISCARD tg_status tg__strips_encode(tg_codec *c, const tg_encode_context *ctx, const float *x,
                                         tg__part *part, float *decoded);
TG_NODISCARD tg_status tg__strips_settle(tg_codec *c, const tg_encode_context *ctx, float *r,
                                         const float *g, size_t n, tg__part *parts, size_t nparts);
/* The steps of `write`: begin writes the list of strips to a payload, in the part if the frame will
 * be coded; the codec writes values and bits; end makes the frame, with this aux.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__strips_begin(tg_codec *c, const tg_encode_context *ctx,
                                        const tg__part *part, tg__strip_layout *layout_p,
                                        uint8_t **payload_p);
void tg__strips_end(tg_codec *c, tg__part *part, const tg__strip_layout *l, const uint8_t *payload,
                    uint16_t aux);

/* Check everything except the values. name is the codec's, for error texts.
 * plain   strips with rows = 0 are allowed
 * Errors  TG_E_CORRUPT */
TG_NODISCARD tg_status tg__strips_check(const tg__frame *f, const char *name,
                                        tg__strip_values *values, bool plain,
                                        tg__strip_layout *layout_p);

/* Check n values: finite, and (positive) without sign.
 * Errors  TG_E_CORRUPT */
TG_NODISCARD tg_status tg__strip_check_floats(const char *name, const uint8_t *values, size_t n,
                                              bool positive);

/* Rows and columns of strip i of a frame. */
tg__strip tg__strip_at(const tg__frame *f, size_t i);

/* A piece of one row of a checked frame. */
typedef struct tg__strip_piece {
    size_t rows, cols, row, col, n; /* the strip's size; where the piece begins; its elements */
    const uint8_t *values;          /* the strip's */
    const uint8_t *bits;            /* the byte with the piece's first element, in bit col % 8 */
} tg__strip_piece;
typedef void tg__strip_decode(const tg__strip_piece *p, float *dst, bool add);
/* Decode elements [lo, hi) of a checked frame, piece by piece; dst is element 0. */
void tg__strips_decode(const tg__frame *f, tg__strip_values *values, size_t lo, size_t hi,
                       float *dst, bool add, tg__strip_decode *decode);

/* A strip with rows = 0: x += g, write x (n) to the values; then, if there is g, x = 0.
 * spoilt  [out] set if some x is not finite */
void tg__strip_put(const tg__kernels *k, float *x, const float *g, size_t n, uint8_t *values,
                   atomic_bool *spoilt);
/* dst = (add: +=) the elements of such a piece */
void tg__strip_get(const tg__strip_piece *p, float *dst, bool add);

#endif
