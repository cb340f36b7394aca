/* telegrad/device.h - vectors in the memory of a device: what a backend, such as libtelegrad-cuda,
 * gives to the library.
 *
 * A program does not call this. It attaches a backend once (telegrad/cuda.h) and then passes arrays
 * whose memory is TG_CUDA.
 *
 *     backend                      library
 *     tg_device_register(ops)
 *                                  queue_create: one for each reducer or codec handle
 *                                  alloc: a reducer's memory (residual, velocity) and aggregate
 *                                  coder_create: a codec with its feedback. If the backend has
 *                                      none, vectors are copied to the host and coded there
 *                                  wait_for, encode, ..., decode, signal
 *
 * Frames and memory have the same bits as those of the host's codecs.
 *
 * Queues    Functions with a queue put work into it, in order, and return, unless the comment says
 *           that they wait. A failure of the device may be reported by a later call
 * Threads   one thread per queue at a time
 * Errors    TG_E_STATE: the device failed (the message has its error); TG_E_NOMEM */
#ifndef TELEGRAD_DEVICE_H
#define TELEGRAD_DEVICE_H

#include "telegrad/codec.h"
#include "telegrad/spec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_queue tg_queue;       /* work in order on one device */
typedef struct tg_coder tg_coder;       /* a codec with its feedback, on a device */
typedef struct tg_matrices tg_matrices; /* matrices of a vector and a memory of them, likewise */

enum { TG_CODER_VECTORS = 2 };

/* Everything is borrowed until the coder is destroyed. */
typedef struct tg_coder_setup {
    size_t struct_size;  /* sizeof(tg_coder_setup) */
    const char *codec;   /* "topk", "2bit", ...: as in codecs.def */
    const tg_spec *spec; /* has the keys of that codec */
    /* "none"; "residual": p = r + g, r = p - decoded; "velocity": DGC's (vectors u and v) */
    const char *feedback;
    double momentum; /* velocity */
    bool nesterov;   /* velocity */
    bool masking;    /* velocity: u = 0 where v was sent */
    uint8_t unused[6];
    size_t n;                   /* elements, at least 1 */
    const tg_segment *segments; /* (nsegments) the tensors, at least one */
    size_t nsegments;
    float *vector[TG_CODER_VECTORS]; /* (n) each, on the device: residual r; or velocity u, sum v */
} tg_coder_setup;

/* The result of encode. */
typedef struct tg_coded {
    size_t struct_size; /* sizeof(tg_coded) */
    size_t len;         /* bytes of the frame */
    /* elements that the frame carries: k of a sparse frame, the nonzero ones of a ternary one, none
     * of a frame of zeros, else n */
    size_t kept;
    /* With TG_E_NONFINITE: the first element of g that is not finite (nothing has changed then);
     * SIZE_MAX: g is finite, but not what is formed of it, and the vectors are spoilt */
    size_t bad;
} tg_coded;

/* Where a matrix lies in a vector: rows * cols elements from `at` on, row after row. Never
 * grows. */
typedef struct tg_matrix {
    size_t at, rows, cols;
} tg_matrix;

/* Everything is borrowed until the matrices are destroyed. */
typedef struct tg_matrices_setup {
    size_t struct_size;      /* sizeof(tg_matrices_setup) */
    size_t n;                /* elements of the vector */
    const tg_matrix *matrix; /* (count) in the order of the vector; they do not overlap */
    size_t count;            /* at least 1 */
    size_t rank;             /* columns of the factors, at least 1 */
    float *m;                /* on the device: the elements of all matrices, one after another */
} tg_matrices_setup;

typedef struct tg_device_ops {
    size_t struct_size; /* sizeof(tg_device_ops) */
    const char *name;   /* "cuda" */

    /* device  ordinal
     * Errors  TG_E_ARG (no such device) */
    tg_status (*queue_create)(int device, tg_queue **q_p);
    void (*queue_destroy)(tg_queue *q); /* waits; NULL is fine */
    /* Work put into the queue from now on begins after what `stream` (a cudaStream_t; NULL: the
     * default one) has been given so far. */
    tg_status (*wait_for)(tg_queue *q, void *stream);
    /* Work put into `stream` from now on begins after what the queue has been given so far. */
    tg_status (*signal)(tg_queue *q, void *stream);
    tg_status (*finish)(tg_queue *q); /* waits until the queue is empty */

    /* Device memory, zeroed. */
    tg_status (*alloc)(tg_queue *q, size_t bytes, void **p_p);
    void (*release)(tg_queue *q, void *p); /* waits; NULL is fine */
    /* Pin host memory that the library allocated, so that the device reaches it; if it cannot be
     * pinned, it is copied through a pinned buffer. */
    void (*pin)(tg_queue *q, void *p, size_t bytes);
    void (*unpin)(tg_queue *q, void *p); /* waits */
    /* copy_in has read the host's memory when it returns, unless that is pinned. */
    tg_status (*copy_in)(tg_queue *q, void *device, const void *host, size_t bytes);
    tg_status (*copy_out)(tg_queue *q, void *host, const void *device, size_t bytes);
    tg_status (*copy)(tg_queue *q, void *dst, const void *src, size_t bytes); /* on the device */

    /* Elementwise, on the device, with the bits of the host's kernels. */
    tg_status (*zero)(tg_queue *q, float *x, size_t n);
    tg_status (*scale)(tg_queue *q, float *x, float a, size_t n); /* x *= a */
    tg_status (*widen)(tg_queue *q, float *dst, const void *src, tg_dtype dtype, size_t n);
    tg_status (*narrow)(tg_queue *q, void *dst, const float *src, tg_dtype dtype, size_t n);
    /* [out] the first element that is NaN or exceeds `most` in magnitude; n: none does. Waits. */
    tg_status (*stray)(tg_queue *q, const float *x, size_t n, float most, size_t *first_p);

    /* Create a coder.
     * Errors  TG_E_UNSUPPORTED: the backend has none for this codec, these settings or this
     *         feedback */
    tg_status (*coder_create)(tg_queue *q, const tg_coder_setup *setup, tg_coder **c_p);
    void (*coder_destroy)(tg_coder *c); /* NULL is fine */
    /* Form the vector of g and the memory, encode it into one frame, and update the memory. Waits.
     * ctx     as for tg_codec_encode, with pointers to host memory; segments as in the setup;
     *         gradient and scale are NULL. memory is updated on success
     * g       (n) on the device
     * dst     (dst_cap bytes) host memory, at least the codec's bound
     * coded   [out] struct_size must be set; `bad` also on TG_E_NONFINITE
     * Errors  TG_E_NONFINITE (see coded->bad) */
    tg_status (*encode)(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                        size_t dst_cap, tg_coded *coded);

    /* x = the decoded frames of `count` ranks, added up in their order from 0 (add: from x), times
     * `share`. The frames have been checked; each holds n elements. Waits.
     * frame     (count) host memory
     * finite_p  [out] whether all of x is finite; NULL: not wanted. Then, with one frame, share 1
     *           and without add, x is the decoded frame itself: -0 stays -0 */
    tg_status (*decode)(tg_queue *q, const uint8_t *const *frame, const size_t *len, size_t count,
                        float *x, size_t n, bool add, float share, bool *finite_p);
    /* Whether the backend decodes frames of this codec; otherwise they are decoded on the host. */
    bool (*decodes)(const char *codec);

    /* PowerSGD's passes. A library uses these members if struct_size shows that the backend has
     * them all; otherwise vectors are copied to the host.
     *
     * The factors of a matrix have `rank` columns, and are stored column by column: left (rows of
     * the matrix), right and start (its columns). Factors of several matrices stand one after
     * another. They are in host memory, which has been read when a function returns.
     * Errors  TG_E_NOMEM, TG_E_STATE; TG_E_UNSUPPORTED: not with this rank */
    tg_status (*matrices_create)(tg_queue *q, const tg_matrices_setup *setup, tg_matrices **x_p);
    void (*matrices_destroy)(tg_matrices *x); /* waits; NULL is fine */
    /* m = (m - left right^T) + g, p = m start (stored as left), and rest = the elements of g that
     * are in no matrix, in their order. Waits.
     * g      (n) on the device; NULL: as if it were not finite
     * p      [out]
     * rest   [out]
     * bad_p  [out] the first element of g that is not finite; then p and rest are undefined, and
     *        only m = m - left right^T is done. n: all are, SIZE_MAX: there is no g */
    tg_status (*fold)(tg_matrices *x, const float *g, const float *left, const float *right,
                      const float *start, float *p, float *rest, size_t *bad_p);
    /* right = m^T left. Waits. */
    tg_status (*project)(tg_matrices *x, const float *left, float *right);
    /* out (n, on the device) = left right^T in the places of the matrices, and rest elsewhere. */
    tg_status (*expand)(tg_matrices *x, const float *left, const float *right, const float *rest,
                        float *out);

    /* Random-k's passes, likewise to be used if the backend has both. idx (count, distinct) and val
     * (count) are on the device.
     *
     * r += g (r NULL: there is none), and val = the elements idx of r, or of g. Waits.
     * host    [out] (count) host memory: val
     * bad_p   [out] the first element of g that is not finite: then r is as before; n: all are
     * Errors  TG_E_NONFINITE: g is finite, but not r + g, and r is spoilt */
    tg_status (*gather)(tg_queue *q, float *r, const float *g, size_t n, const uint32_t *idx,
                        float *val, size_t count, float *host, size_t *bad_p);
    /* The elements idx of x = val; or, with add, += share * val. */
    tg_status (*scatter)(tg_queue *q, float *x, const uint32_t *idx, const float *val, size_t count,
                         bool add, float share);

    /* DGC's local clipping, likewise to be used if the backend has it: out = g, in which each
     * tensor of the coder's setup with a norm above `limit` is scaled down to it. A tensor with an
     * element that is not finite stays as it is. The first call waits.
     * g, out  (n) on the device, not the same. Elements of out in no tensor are not written */
    tg_status (*clip)(tg_coder *c, const float *g, double limit, float *out);
} tg_device_ops;

/* Make the backend known. It must live as long as the process. There is one at a time; registering
 * the same again does nothing.
 * Errors  TG_E_ARG, TG_E_STATE (another one is registered) */
TG_API TG_NODISCARD tg_status tg_device_register(const tg_device_ops *ops);

#ifdef __cplusplus
}
#endif
#endif
