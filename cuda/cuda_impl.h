/* The inside of libtelegrad-cuda. C files see this; kernels are in .cu files, each with a header of
 * functions that start them. */
#ifndef TG_CUDA_IMPL_H
#define TG_CUDA_IMPL_H

#include "telegrad/cuda.h"
#include <cuda_runtime_api.h>
#include <stdint.h>

/* A buffer of device memory, or of pinned host memory, that grows. */
typedef struct tg__gpu_buffer {
    void *data;
    size_t bytes;
    bool pinned; /* host memory that the device reaches, at the same address */
} tg__gpu_buffer;

/* Host memory of the library that has been pinned. */
typedef struct tg__gpu_pinned {
    char *begin;
    size_t bytes;
} tg__gpu_pinned;
enum { TG__GPU_PINNED_MOST = 8 };

struct tg_queue {
    int device;
    cudaStream_t stream; /* does not wait for the default stream */
    cudaEvent_t event;
    bool streaming, recording; /* stream and event exist */
    tg__gpu_buffer staging;    /* pinned: for host memory that is not */
    tg__gpu_buffer frames;     /* device: received frames */
    tg__gpu_buffer answer;     /* pinned: TG__GPU_WORDS numbers, copied from `word` */
    tg__gpu_pinned pinned[TG__GPU_PINNED_MOST];
    size_t npinned;
    uint64_t *word; /* device memory: TG__GPU_WORDS numbers, for elementwise.cu and decode.c */
};

/* Members of tg_device_ops (queue.c, elementwise.cu, coder.c, clip.c, decode.c). */
tg_status tg__queue_create(int device, tg_queue **q_p);
void tg__queue_destroy(tg_queue *q);
tg_status tg__queue_wait_for(tg_queue *q, void *stream);
tg_status tg__queue_signal(tg_queue *q, void *stream);
tg_status tg__queue_alloc(tg_queue *q, size_t bytes, void **p_p);
void tg__queue_release(tg_queue *q, void *p);
void tg__queue_pin(tg_queue *q, void *p, size_t bytes);
void tg__queue_unpin(tg_queue *q, void *p);
tg_status tg__coder_create(tg_queue *q, const tg_coder_setup *setup, tg_coder **c_p);
void tg__coder_destroy(tg_coder *c);
tg_status tg__coder_encode(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                           size_t dst_cap, tg_coded *coded);
tg_status tg__coder_clip(tg_coder *c, const float *g, double limit, float *out);
tg_status tg__gpu_decode(tg_queue *q, const uint8_t *const *frame, const size_t *len, size_t count,
                         float *x, size_t n, bool add, float share, bool *finite_p);
bool tg__gpu_decodes(const char *codec);
/* matrices.c */
tg_status tg__matrices_create(tg_queue *q, const tg_matrices_setup *setup, tg_matrices **x_p);
void tg__matrices_destroy(tg_matrices *x);
tg_status tg__matrices_fold(tg_matrices *x, const float *g, const float *left, const float *right,
                            const float *start, float *p, float *rest, size_t *bad_p);
tg_status tg__matrices_project(tg_matrices *x, const float *left, float *right);
tg_status tg__matrices_expand(tg_matrices *x, const float *left, const float *right,
                              const float *rest, float *out);
/* places.c */
tg_status tg__places_gather(tg_queue *q, float *r, const float *g, size_t n, const uint32_t *idx,
                            float *val, size_t count, float *host, size_t *bad_p);
tg_status tg__places_scatter(tg_queue *q, float *x, const uint32_t *idx, const float *val,
                             size_t count, bool add, float share);

/* Turn CUDA's error into a status; the message names the call.
 * Errors  TG_E_NOMEM, TG_E_STATE */
TG_NODISCARD tg_status tg__gpu_status(cudaError_t error, const char *call);
#define TG__GPU(call) TG_TRY(tg__gpu_status((call), #call))
/* After a launch. */
#define TG__GPU_LAUNCHED(what) TG_TRY(tg__gpu_status(cudaGetLastError(), (what)))

/* Until the end of the block, calls of this thread are for the device. */
#define TG__ON_DEVICE(number) \
    __attribute__((cleanup(tg__gpu_leave), unused)) const int tg_before_ = tg__gpu_enter(number)
int tg__gpu_enter(int device); /* the caller's device; -1: the same */
void tg__gpu_leave(const int *before);

/* Make the buffer at least `bytes` long; its content is lost. Waits for the queue if it grows. */
TG_NODISCARD tg_status tg__gpu_room(tg_queue *q, tg__gpu_buffer *b, size_t bytes);
void tg__gpu_free(tg__gpu_buffer *b);
TG_NODISCARD tg_status tg__gpu_finish(tg_queue *q);

/* The address at which the device reaches this host memory; NULL: it is not pinned. */
void *tg__gpu_reach(const tg_queue *q, void *host, size_t bytes);
/* Copy between host memory, pinned or not, and device memory. Host memory that is not pinned goes
 * through q->staging; then copy_out waits, and copy_in has read it when it returns. */
TG_NODISCARD tg_status tg__gpu_copy_in(tg_queue *q, void *device, const void *host, size_t bytes);
TG_NODISCARD tg_status tg__gpu_copy_out(tg_queue *q, void *host, const void *device, size_t bytes);

enum {
    TG__GPU_BAD,
    TG__GPU_STRAY,
    TG__GPU_SPOILT,
    TG__GPU_WORDS = 8
}; /* of q->word, and q->answer */

/* tg__frame_head of the library. */
void tg__gpu_frame_head(uint8_t *frame, uint8_t codec, uint8_t form, uint16_t aux, size_t n,
                        size_t payload_len);

/* ---- coders ---------------------------------------------------------------------------------- */

typedef struct tg__coder_ops tg__coder_ops;
struct tg_coder {
    const tg__coder_ops *ops;
    tg_queue *queue;
    tg_coder_setup setup;
    /* Device memory: the first element of g that is not finite; UINT64_MAX: none. It is set before
     * ops->encode puts work into the queue. If it is set, kernels must change nothing, neither the
     * vectors nor what the impl keeps; the result is not used. */
    const uint64_t *bad;
    void *impl;            /* ops->impl_bytes, zeroed before init */
    struct tg__clip *clip; /* clip.c; NULL: not used yet */
};
void tg__clip_free(struct tg__clip *own); /* NULL is fine */

/* A family of codecs: one .c file, with kernels in one or more .cu files. */
struct tg__coder_ops {
    const char *codec; /* name, as in codecs.def */
    size_t impl_bytes;
    /* Errors  TG_E_UNSUPPORTED: not with these settings or this feedback */
    tg_status (*init)(tg_coder *c);
    void (*fini)(tg_coder *c); /* also after init has failed; NULL: nothing */
    /* As tg_device_ops.encode: g has been checked (c->bad), ctx is not NULL, dst has room for the
     * bound, and coded->bad is not touched. Ends with tg__gpu_finish.
     * Errors  TG_E_NONFINITE: what is formed of g and the vectors is not finite */
    tg_status (*encode)(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                        size_t dst_cap, tg_coded *coded);
    /* Put into the queue: x = (first: 0, else x) + decoded frame, element by element; if last,
     * times share, and *spoilt (device memory) becomes 1 if an element of the result is not finite
     * (accumulate.h); spoilt NULL: x is the decoded frame itself. `host` is the frame, and `frame`
     * its copy in device memory, whose payload is aligned to 16 bytes. The frame is coded, and has
     * been checked. */
    tg_status (*decode)(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                        float *x, size_t n, bool first, bool last, float share, uint64_t *spoilt);
};

/* tg__coder_NAME, for each line of coders.def. */
#define TG__CODER(name, id) extern const tg__coder_ops tg__coder_##name;
#include "coders.def"
#undef TG__CODER
const tg__coder_ops *tg__coder_find(const char *codec); /* NULL: none */
const tg__coder_ops *tg__coder_by_id(uint8_t wire_id);  /* of frames; NULL: none */

#endif
