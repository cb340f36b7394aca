/* The inside of a codec: the table that each codec file fills at its end. A codec is one file and
 * one line in codecs.def: TG_CODEC(name, wire id). */
#ifndef TG_CODEC_CODEC_H
#define TG_CODEC_CODEC_H

#include "base/owned.h"
#include "base/pool.h"
#include "telegrad/codec.h"
#include "wire/frame.h"
#include "base/keys.h"

/* The encoded vector as every receiver will decode it: dense, or the support with its decoded
 * values. A selected element whose value is quantised to 0 belongs to the support. Valid until the
 * next call on the same codec. */
typedef struct tg__view {
    bool sparse;
    const float *dense; /* (n) unless sparse */
    const uint32_t *idx;
    const float *val; /* (k) each, ascending */
    size_t k;
} tg__view;

/* One frame to write: elements [lo, hi) of the vector, with indices relative to lo. An all-gather
 * has one part, a reduce-scatter one per rank. Selection always competes over the whole vector. */
typedef struct tg__part {
    uint8_t *dst;
    size_t cap; /* bytes: at least tg__codec_bound(codec, hi - lo) */
    size_t lo, hi;
    size_t len; /* [out] bytes of the frame */
    /* [out] elements that the frame carries: k of a sparse frame, the nonzero ones of a ternary
     * one, else all */
    size_t kept;
} tg__part;

/* A vector that is formed by the pass that selects from it. */
typedef struct tg__source tg__source;
struct tg__source {
    const float *x; /* (n) as it is after `pass` */
    /* Elements compete by their scores, x + ahead * (the last addition to x); see `again`. Set by
     * the codec; 0: by x itself */
    float ahead;
    /* Element i as it will be after `pass`; called before it, for samples. */
    float (*peek)(const tg__source *s, size_t i);
    /* Form x[begin, begin + m), and select on it as tg__kernels.select does (indices from begin).
     * Called once for every range, in order; with a pool in any order, by several threads at
     * once. */
    size_t (*pass)(const tg__source *s, size_t begin, size_t m, float threshold, uint32_t *idx,
                   float *val, size_t cap);
    /* Select on the scores after `pass`, any number of times. NULL: ahead must be 0. */
    size_t (*again)(const tg__source *s, size_t begin, size_t m, float threshold, uint32_t *idx,
                    float *val, size_t cap);
};

enum {                   /* properties of a codec */
       TG__LINEAR = 1,   /* payloads may be summed without decoding */
       TG__SPARSE = 2,   /* the view is sparse */
       TG__UNBIASED = 4, /* E[decode] = x */
       TG__LOSSLESS = 8, /* decode(encode(x)) == x, so feedback has nothing to remember */
       TG__WHOLE = 16,   /* decode only works on whole frames: lo is 0 and hi is n */
       TG__CUTS = 32,    /* decoded values depend on where parts are cut (means of pieces) */
       TG__TO_ZERO = 64  /* most decoded elements may be 0, though those of x are not */
};

/* What the tests of all codecs need to know about one. */
typedef struct tg__promise {
    /* |decoded - x| <= relative * |x| + share * (largest |x|) + absolute, for each element, with
     * the default settings and no gradient in the context. All 0: exact, or, of an unbiased codec,
     * not stated */
    double relative, share, absolute;
    /* "KEY=VALUE,...": settings to test besides the defaults, NULL at the end. NULL: none */
    const char *const *settings;
    /* settings with which E[decode] = x, if that does not hold with all. NULL: none */
    const char *unbiased;
} tg__promise;

typedef struct tg__codec_ops tg__codec_ops;
struct tg_codec {
    const tg__codec_ops *ops;
    const tg_spec *spec; /* owned by the handle */
    void *impl;          /* the codec's own: ops->impl_bytes, zeroed before init */
    tg__pool *pool;      /* cores for encode; NULL: the calling one. Borrowed, or own_pool */
    tg__pool *own_pool;
    float *decoded;                 /* dense views */
    struct tg__device_side *device; /* NULL: no vector on a device so far */
    tg__owned owned;                /* impl, and scratch memory */
};

struct tg__codec_ops {
    tg_entry entry;
    uint8_t wire_id;
    uint32_t properties;
    tg__promise promise;

    size_t impl_bytes;
    tg_status (*init)(tg_codec *c); /* read c->spec into c->impl; NULL: nothing to read */
    void (*fini)(tg_codec *c);      /* release what c->owned does not; NULL: nothing */
    /* Floats of ctx->memory per segment; NULL: none. */
    size_t (*memory)(const tg_codec *c);
    /* Largest size of a frame of n elements, in bytes, head included. NULL: that of a dense one. */
    size_t (*bound)(const tg_codec *c, size_t n);
    /* Encode x (n) into the parts, which cover [0, n) in order.
     * ctx     not NULL
     * x       finite: callers check (tg_codec_encode, feedback). Every finite vector must give
     *         valid frames, however large: form scales and sums so that they cannot overflow, or
     *         limit them to the largest float. The result of other vectors is unspecified but safe
     * view_p  [out] NULL: not wanted
     * NULL: encode_part does it, part by part */
    tg_status (*encode)(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p);
    /* Encode the part's elements of x, the whole vector, for a dense view. The part has room for
     * the bound.
     * decoded  [out] (hi - lo) as receivers will decode them; NULL: not wanted */
    tg_status (*encode_part)(tg_codec *c, const tg_encode_context *ctx, const float *x,
                             tg__part *part, float *decoded);
    /* r += g, encode r, r -= decoded, in one pass over r (n): frames and r get the same bits as in
     * three. The parts have room for the bound. NULL: not available.
     * Errors  TG_E_NONFINITE (r + g is not finite), TG_E_NOMEM: r and the frames are spoilt */
    tg_status (*settle)(tg_codec *c, const tg_encode_context *ctx, float *r, const float *g,
                        size_t n, tg__part *parts, size_t nparts);
    /* Encode the vector (n) that s forms, as encode would. The context is checked, and memory
     * allocated, before s is called. The parts have room for the bound. NULL: not available.
     * Errors  TG_E_ARG, TG_E_NOMEM; TG_E_NONFINITE: the vector and the frames are spoilt */
    tg_status (*encode_formed)(tg_codec *c, const tg_encode_context *ctx, tg__source *s, size_t n,
                               tg__part *parts, size_t nparts, tg__view *view_p);
    /* For coded frames with this codec's id. check validates everything; decode is called only
     * after it, on the same bytes.
     * decode   dst[lo..hi) = (add: +=) elements [lo, hi) of the frame; dst (n) points to element 0.
     *          lo is a multiple of TG__CHUNK, and hi too, or n, so that threads can share a frame
     * Threads  any; both are pure functions */
    tg_status (*check)(const tg__frame *f);
    void (*decode)(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add);
};

/* tg__codec_NAME and its wire id TG__ID_NAME, for each line of codecs.def. */
#define TG_CODEC(name, id) extern const tg__codec_ops tg__codec_##name;
#include "codec/codecs.def"
#undef TG_CODEC
enum {
#define TG_CODEC(name, id) TG__ID_##name = (id),
#include "codec/codecs.def"
#undef TG_CODEC
    TG__ID_END
};

/* All codecs, in the order of codecs.def. */
const tg__codec_ops *const *tg__codecs(size_t *count_p);
const tg_entry *const *tg__codec_entries(size_t *count_p);
const tg__codec_ops *tg__codec_by_id(uint8_t wire_id); /* NULL if there is none */

/* Create the codec `name`, with the settings of another spec that have the names of its keys.
 * Errors  TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status tg__codec_derive(const char *name, const tg_spec *settings,
                                        tg_codec **codec_p);

size_t tg__codec_bound(const tg_codec *c, size_t n);

/* Encode into parts (see ops->encode).
 * Errors  TG_E_NONFINITE, TG_E_SPACE, TG_E_NOMEM (only in the first call of a size) */
TG_NODISCARD tg_status tg__codec_encode(tg_codec *c, const tg_encode_context *ctx, const float *x,
                                        size_t n, tg__part *parts, size_t nparts, tg__view *view_p);

/* Validate a frame of n elements.
 * want    codec id; -1: any
 * Errors  TG_E_CORRUPT, TG_E_MISMATCH */
TG_NODISCARD tg_status tg__frame_check(const uint8_t *frame, size_t len, size_t n, int want);
/* Decode a frame that has been checked.
 * pool  cores; NULL: the calling one. Any number gives the same bits */
void tg__frame_decode(const uint8_t *frame, size_t len, float *dst, tg__pool *pool);
void tg__frame_decode_add(const uint8_t *frame, size_t len, float *dst, tg__pool *pool);

/* The same as tg__frame_decode; returns true if all values are finite. */
bool tg__frame_decode_finite(const uint8_t *frame, size_t len, float *dst, tg__pool *pool);

/* ---- for codecs ------------------------------------------------------------------------------ */

/* Encode by ops->encode_part. */
TG_NODISCARD tg_status tg__encode_parts(tg_codec *c, const tg_encode_context *ctx, const float *x,
                                        size_t n, tg__part *parts, size_t nparts, tg__view *view_p);
/* Fail with TG_E_NONFINITE: for passes that form their vector themselves (ops->settle). */
tg_status tg__encode_spoilt(const tg_codec *c);
/* Check that a frame of `len` bytes fits into the part.
 * Errors  TG_E_SPACE */
TG_NODISCARD tg_status tg__part_room(const tg__part *part, size_t len);
/* Write the part's frame, after a call of tg__part_room:
 *     zero          all zeros
 *     dense         the decoded values x (hi - lo)
 *     dense_placed  the same, with the values at dst + 12 already
 *     coded         only the head; payload_len bytes are at dst + 12 already
 * They set part->len, and part->kept to 0 or all. If a coded frame carries fewer, set kept
 * afterwards. */
void tg__part_zero(tg__part *part, uint8_t wire_id);
void tg__part_dense(tg__part *part, uint8_t wire_id, const float *x);
void tg__part_dense_placed(tg__part *part, uint8_t wire_id); /* values at dst + 12 */
void tg__part_coded(tg__part *part, uint8_t wire_id, uint16_t aux, size_t payload_len);

/* A run: the elements [lo, hi) that a segment and a part have in common. Runs come in order and
 * cover the part:
 *     for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r))
 * Without segments the whole vector is one (rows n, cols 1). */
typedef struct tg__run {
    size_t lo, hi;
    size_t segment; /* its number */
    tg_segment of;  /* the whole segment */
    const tg_encode_context *ctx;
    const tg__part *part;
} tg__run;
tg__run tg__run_first(const tg_encode_context *ctx, const tg__part *part);
tg__run tg__run_next(const tg__run *r);

/* True if len bytes are all 0. */
bool tg__all_zero(const uint8_t *p, size_t len);

/* Little-endian floats at any alignment. */
void tg__floats_put(uint8_t *dst, const float *src, size_t n);
void tg__floats_get(float *dst, const uint8_t *src, size_t n);
void tg__floats_add(float *dst, const uint8_t *src, size_t n); /* dst += src */

/* Scratch memory that grows, until the codec is destroyed (tg__owned_room).
 * ptr_p   address of a pointer of any type in c->impl
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__scratch(tg_codec *c, void *ptr_p, size_t n, size_t size);
#endif
