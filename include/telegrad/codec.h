/* telegrad/codec.h - a codec turns a vector into bytes (a frame) and back. No network is needed.
 *
 * A codec keeps nothing between calls that changes what it computes: its memory, if a method needs
 * one, is the caller's (feedback slots). A handle only owns scratch space and hints that change
 * speed. */
#ifndef TELEGRAD_CODEC_H
#define TELEGRAD_CODEC_H

#include "telegrad/base.h"
#include "telegrad/random.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tg_dtype { TG_F32 = 0 } tg_dtype;
typedef enum tg_memory { TG_HOST = 0, TG_CUDA = 1 } tg_memory;

/* A vector where it lies (this layout is frozen: it is nested in other structures). A build without
 * CUDA refuses TG_CUDA with TG_E_UNSUPPORTED. */
typedef struct tg_array {
    size_t struct_size; /* sizeof(tg_array) */
    void *data;         /* (n) of dtype; not const so that one type serves inputs and outputs */
    size_t n;           /* elements, at most TG_MAX_ELEMENTS */
    tg_dtype dtype;
    tg_memory memory;
    int device;   /* TG_CUDA: ordinal */
    void *stream; /* TG_CUDA: cudaStream_t on which data becomes valid; NULL: default stream */
} tg_array;

#define TG_MAX_ELEMENTS ((size_t)1 << 29)

/* n floats in host memory. */
static inline tg_array tg_array_f32(const float *data, size_t n)
{
    tg_array a;
    a.struct_size = sizeof a;
    a.data = (void *)(uintptr_t)data;
    a.n = n;
    a.dtype = TG_F32;
    a.memory = TG_HOST;
    a.device = 0;
    a.stream = NULL;
    return a;
}

/* A tensor's place in a flat vector: codecs that look at rows, columns or single tensors use it. */
typedef struct tg_segment {
    size_t begin, n;   /* elements [begin, begin + n) */
    size_t rows, cols; /* matrix view: rows * cols == n; a vector has cols 1 */
    size_t dims;       /* of the tensor: 3 and more are convolutions to AdaComp; 0: not known */
} tg_segment;

/* What encoding may depend on beside the vector. */
typedef struct tg_encode_context {
    size_t struct_size;         /* sizeof(tg_encode_context) */
    tg_rng_key rng;             /* stream of random numbers for stochastic codecs */
    double density;             /* sparsifiers: fraction kept in this call; 0: the codec's own */
    const tg_segment *segments; /* (nsegments) ascending, without gaps; NULL: one segment */
    size_t nsegments;
    const float *gradient; /* (n) this step's gradient where x is gradient + residual (AdaComp
                              looks at both); NULL: x itself */
    const float *scale;    /* (nsegments) scalers agreed on with other ranks (TernGrad); NULL: the
                              codec's own */
    float *memory;         /* (nsegments * tg_codec_memory(codec)) what the codec remembers of the
                              last call, updated; zero before the first; NULL: every call is a
                              first one */
} tg_encode_context;

typedef struct tg_codec tg_codec;

/* spec: "topk:density=0.01", "2bit:threshold=0.004", ... see tg_registry_*.
 * Errors TG_E_SPEC, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_codec_create(const char *spec, tg_codec **codec_p);
TG_API void tg_codec_destroy(tg_codec *codec); /* NULL is fine */

/* How many floats of tg_encode_context.memory the codec wants for each segment: 0 unless it adapts
 * to what it has seen (threshold=auto). */
TG_API size_t tg_codec_memory(const tg_codec *codec);

/* Let encoding use `threads` cores (1: the default). The same bytes for any number.
 * Errors TG_E_ARG (0 or more than 256), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_codec_set_threads(tg_codec *codec, unsigned threads);

/* Bytes that are always enough for the frame of n elements. */
TG_API size_t tg_codec_bound(const tg_codec *codec, size_t n);

/* Encode x into one frame.
 * ctx      NULL: no random numbers, the codec's own density, one segment; density is 0 to 1
 * x        (n) f32, read only, must not alias dst
 * dst_cap  bytes; tg_codec_bound(codec, n) is always enough
 * len_p    [out] bytes written
 * Errors   TG_E_ARG, TG_E_SPACE, TG_E_NONFINITE (x holds NaN or infinity), TG_E_UNSUPPORTED
 * Threads  one tg_codec per thread */
TG_API TG_NODISCARD tg_status tg_codec_encode(tg_codec *codec, const tg_encode_context *ctx,
                                              const tg_array *x, void *dst, size_t dst_cap,
                                              size_t *len_p);

/* Decode a frame of exactly x->n elements (any codec's: frames name theirs), overwriting x or
 * adding to it. The frame is validated whole before anything is written.
 * Errors   TG_E_CORRUPT, TG_E_VERSION, TG_E_MISMATCH (another element count), TG_E_UNSUPPORTED
 * Threads  any; x by one thread */
TG_API TG_NODISCARD tg_status tg_frame_decode(const void *frame, size_t len, tg_array *x);
TG_API TG_NODISCARD tg_status tg_frame_decode_add(const void *frame, size_t len, tg_array *x);

#ifdef __cplusplus
}
#endif
#endif
