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

struct tg_queue {
    int device;
    cudaStream_t stream; /* does not wait for the default stream */
    cudaEvent_t event;
    tg__gpu_buffer staging; /* pinned: for host memory that is not */
    tg__gpu_buffer frames;  /* device: received frames */
    tg__gpu_buffer answer;  /* pinned: a few numbers that kernels report */
    void *decoder;          /* what decode keeps (cuda/decode.c) */
};

/* Turn CUDA's error into a status; the message names the call.
 * Errors  TG_E_NOMEM, TG_E_STATE */
TG_NODISCARD tg_status tg__gpu_status(cudaError_t error, const char *call);
#define TG__GPU(call) TG_TRY(tg__gpu_status((call), #call))
/* After a launch. */
#define TG__GPU_LAUNCHED(what) TG_TRY(tg__gpu_status(cudaGetLastError(), (what)))

/* Make the buffer at least `bytes` long; its content is lost. Waits for the queue if it grows. */
TG_NODISCARD tg_status tg__gpu_room(tg_queue *q, tg__gpu_buffer *b, size_t bytes);
void tg__gpu_free(tg__gpu_buffer *b);
TG_NODISCARD tg_status tg__gpu_finish(tg_queue *q);

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
    void *impl; /* ops->impl_bytes, zeroed before init */
};

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
    /* Put into the queue: x = (first: 0 else x) + decoded frame, element by element; if last, times
     * share, with *bad (device memory) set to 1 if an element of the result is not finite. `frame`
     * has been copied to device memory, aligned to 16 bytes; `host` is the same frame. */
    tg_status (*decode)(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                        float *x, size_t n, bool first, bool last, float share, uint32_t *bad);
};

/* Defined in the files of the families. */
extern const tg__coder_ops tg__coder_f32, tg__coder_fp16, tg__coder_bf16, tg__coder_int8,
    tg__coder_qsgd, tg__coder_2bit, tg__coder_1bit, tg__coder_sign, tg__coder_topk;
const tg__coder_ops *tg__coder_find(const char *codec); /* NULL: none */
const tg__coder_ops *tg__coder_by_id(uint8_t wire_id);  /* of frames; NULL: none */

#endif
