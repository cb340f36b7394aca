/* telegrad/codec.h - a codec encodes a vector into bytes (a frame) and decodes it. No network is
 * needed.
 *
 *     tg_codec_create("topk:density=0.01", &codec);
 *     tg_codec_encode(codec, NULL, &x, dst, tg_codec_bound(codec, x.n), &len);
 *     tg_frame_decode(dst, len, &y);
 *     tg_codec_destroy(codec);
 *
 * A codec keeps nothing between calls that changes its output. What a codec must remember is in the
 * caller's memory (tg_encode_context.memory). The handle owns only scratch space and hints that
 * affect speed. */
#ifndef TELEGRAD_CODEC_H
#define TELEGRAD_CODEC_H

#include "telegrad/base.h"
#include "telegrad/random.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tg_dtype {
    TG_F32 = 0,
    /* IEEE binary16. This and bfloat16 are for tg_reducer_start_as and tg_reducer_start_array
     * only */
    TG_F16 = 1,
    TG_BF16 = 2
} tg_dtype;
typedef enum tg_memory { TG_HOST = 0, TG_CUDA = 1 } tg_memory;

/* A vector in place. Never grows, because other structures contain it. TG_CUDA is refused with
 * TG_E_UNSUPPORTED until tg_cuda_attach has been called (telegrad/cuda.h). */
typedef struct tg_array {
    size_t struct_size; /* exactly sizeof(tg_array) */
    void *data;         /* (n) of dtype; not const, as one type serves inputs and outputs */
    size_t n;           /* elements, at most TG_MAX_ELEMENTS */
    tg_dtype dtype;
    tg_memory memory;
    int device;   /* TG_CUDA: ordinal */
    void *stream; /* TG_CUDA: the cudaStream_t by which data becomes valid; NULL: the default one */
} tg_array;

#define TG_MAX_ELEMENTS ((size_t)1 << 29)

/* An array of n floats in host memory. */
static inline tg_array tg_array_f32(const float *data, size_t n)
{
    tg_array a;
    a.struct_size = sizeof a;
    memcpy(&a.data, &data, sizeof a.data); /* without const, and without a cast of C or C++ */
    a.n = n;
    a.dtype = TG_F32;
    a.memory = TG_HOST;
    a.device = 0;
    a.stream = NULL;
    return a;
}

/* A tensor's place in a flat vector, for codecs that work on rows, columns or single tensors. Never
 * grows, because it is used in arrays. */
typedef struct tg_segment {
    size_t begin, n;   /* elements [begin, begin + n) */
    size_t rows, cols; /* matrix view: rows * cols == n; a vector has cols 1 */
    size_t dims;       /* of the tensor; 0: unknown. AdaComp takes 3 or more as a convolution */
} tg_segment;

/* What encoding may depend on, apart from the vector. All numbers must be finite. */
typedef struct tg_encode_context {
    size_t struct_size;         /* sizeof(tg_encode_context) */
    tg_rng_key rng;             /* random stream of stochastic codecs */
    double density;             /* of sparsifiers, in this call, 0 to 1; 0: the codec's own */
    const tg_segment *segments; /* (nsegments) ascending, without gaps; NULL: one segment ... */
    size_t nsegments;           /* ... and this 0 */
    const float *gradient; /* (n) this step's gradient if x is gradient + residual (AdaComp uses
                            * both, and so do topk, 2bit and strom that look ahead); NULL, or equal
                            * to x: x is the gradient */
    const float *scale;    /* (nsegments) scalers agreed on by all ranks (TernGrad); NULL: the
                            * codec's own */
    float *memory;         /* (nsegments * tg_codec_memory(codec)) what the codec remembers from the
                            * last call; updated. Set it to zero before the first call. NULL: every
                            * call is a first one */
} tg_encode_context;

typedef struct tg_codec tg_codec;

/* Create a codec.
 * spec    "topk:density=0.01", "2bit:threshold=0.004", ...; registry.h lists all codecs and keys,
 *         with the paper of each (tg_entry.source), and so does `telegrad codecs NAME`
 * Errors  TG_E_SPEC, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_codec_create(const char *spec, tg_codec **codec_p);
TG_API void tg_codec_destroy(tg_codec *codec); /* NULL is fine */

/* Floats of tg_encode_context.memory that the codec needs per segment: 0 unless it adapts to
 * earlier calls (threshold=auto). */
TG_API size_t tg_codec_memory(const tg_codec *codec);

/* Let encoding use several cores. Any number gives the same bytes.
 * threads  1 to 256; 1 is the default
 * Errors   TG_E_ARG, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_codec_set_threads(tg_codec *codec, unsigned threads);

/* Largest size of a frame of n elements, in bytes; 0 if n is above TG_MAX_ELEMENTS. */
TG_API size_t tg_codec_bound(const tg_codec *codec, size_t n);

/* Encode x into one frame.
 * ctx      NULL: random key 0, the codec's own density, one segment
 * x        (n) f32, read only, must not overlap dst
 * dst_cap  bytes; tg_codec_bound(codec, n) is always enough
 * len_p    [out] bytes written, set on success only
 * Errors   TG_E_ARG (names the member of ctx), TG_E_SPACE, TG_E_NONFINITE (x holds NaN or infinity;
 *          names the first such element), TG_E_UNSUPPORTED; with TG_CUDA also TG_E_NOMEM and
 *          TG_E_STATE (the GPU has failed). What ctx points to is in host memory in any case
 * Threads  one tg_codec per thread */
TG_API TG_NODISCARD tg_status tg_codec_encode(tg_codec *codec, const tg_encode_context *ctx,
                                              const tg_array *x, void *dst, size_t dst_cap,
                                              size_t *len_p);

/* Decode a frame of any codec (frames name theirs). tg_frame_decode overwrites x,
 * tg_frame_decode_add adds to it. The whole frame is validated before anything is written: a
 * damaged frame never leads to a wrong access, but only envelopes, not frames, carry a checksum, so
 * it may decode to other values.
 * frame    (len bytes) must hold exactly x->n elements, and must not overlap x
 * Errors   TG_E_ARG, TG_E_CORRUPT, TG_E_VERSION, TG_E_MISMATCH (another element count),
 *          TG_E_UNSUPPORTED; with TG_CUDA also TG_E_NOMEM and TG_E_STATE (the GPU has failed)
 * Threads  any; only one may use x */
TG_API TG_NODISCARD tg_status tg_frame_decode(const void *frame, size_t len, tg_array *x);
TG_API TG_NODISCARD tg_status tg_frame_decode_add(const void *frame, size_t len, tg_array *x);

#ifdef __cplusplus
}
#endif
#endif
