/* Queues: a stream of one device, with the buffers that its users share. */
#include "cuda_impl.h"
#include "telegrad/tools.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

tg_status tg__gpu_status(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return TG_OK;
    (void)cudaGetLastError(); /* errors that are not final must not show up again */
    return tg_fail(error == cudaErrorMemoryAllocation ? TG_E_NOMEM : TG_E_STATE, "CUDA: %s: %s",
                   call, cudaGetErrorString(error));
}

/* Whether the process uses this device. cudaSetDevice alone would make a context there, of some
 * hundred MiB. */
static bool is_in_use(int device)
{
    typedef int (*state_call)(int device, unsigned *flags, int *active);
    static _Atomic(state_call) known;
    state_call state = known;
    unsigned flags;
    int active = 0;
    if (state == NULL) { /* the runtime has loaded the driver */
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        if (driver == NULL)
            return true;
        *(void **)&state = dlsym(driver, "cuDevicePrimaryCtxGetState");
        (void)dlclose(driver);
        known = state;
    }
    return state == NULL || state(device, &flags, &active) != 0 || active != 0;
}

/* If this fails, so do the calls that follow. Clears an earlier error of the caller's, which would
 * be reported as theirs. */
int tg__gpu_enter(int device)
{
    int before = device;
    (void)cudaGetLastError();
    if (cudaGetDevice(&before) != cudaSuccess || before == device)
        return -1;
    (void)cudaSetDevice(device);
    return before;
}

void tg__gpu_leave(const int *before)
{
    if (*before >= 0 && is_in_use(*before))
        (void)cudaSetDevice(*before);
}

tg_status tg__gpu_finish(tg_queue *q)
{
    TG__GPU(cudaStreamSynchronize(q->stream));
    return TG_OK;
}

void tg__gpu_free(tg__gpu_buffer *b)
{
    if (b->data != NULL && b->pinned)
        (void)cudaFreeHost(b->data);
    else if (b->data != NULL)
        (void)cudaFree(b->data);
    b->data = NULL;
    b->bytes = 0;
}

tg_status tg__gpu_room(tg_queue *q, tg__gpu_buffer *b, size_t bytes)
{
    if (b->bytes >= bytes && b->data != NULL)
        return TG_OK;
    TG_TRY(tg__gpu_finish(q));
    tg__gpu_free(b);
    if (b->pinned)
        TG__GPU(cudaHostAlloc(&b->data, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    else
        TG__GPU(cudaMalloc(&b->data, bytes));
    b->bytes = bytes;
    return TG_OK;
}

/* ---- creating and destroying ----------------------------------------------------------------- */

static tg_status open_queue(tg_queue *q, int device)
{
    q->device = device;
    q->staging.pinned = q->answer.pinned = true;
    TG__ON_DEVICE(device);
    TG__GPU(cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking));
    q->streaming = true;
    TG__GPU(cudaEventCreateWithFlags(&q->event, cudaEventDisableTiming));
    q->recording = true;
    TG__GPU(cudaMalloc((void **)&q->word, TG__GPU_WORDS * sizeof *q->word));
    return tg__gpu_room(q, &q->answer, TG__GPU_WORDS * sizeof *q->word);
}

tg_status tg__queue_create(int device, tg_queue **q_p)
{
    const int count = tg_cuda_devices();
    if (device < 0 || device >= count)
        return tg_fail(TG_E_ARG, "device=%d: allowed: 0 to %d, the CUDA devices of this machine",
                       device, count - 1);
    tg_queue *q;
    TG_TRY(tg_alloc(1, sizeof *q, &q));
    const tg_status status = open_queue(q, device);
    if (status != TG_OK) {
        tg__queue_destroy(q);
        return status;
    }
    *q_p = q;
    return TG_OK;
}

void tg__queue_destroy(tg_queue *q)
{
    if (q == NULL)
        return;
    TG__ON_DEVICE(q->device);
    if (q->streaming)
        (void)cudaStreamSynchronize(q->stream);
    for (size_t i = 0; i < q->npinned; i++)
        (void)cudaHostUnregister(q->pinned[i].begin);
    tg__gpu_free(&q->staging);
    tg__gpu_free(&q->frames);
    tg__gpu_free(&q->answer);
    if (q->word != NULL)
        (void)cudaFree(q->word);
    if (q->recording)
        (void)cudaEventDestroy(q->event);
    if (q->streaming)
        (void)cudaStreamDestroy(q->stream);
    free(q);
}

/* ---- order ----------------------------------------------------------------------------------- */

tg_status tg__queue_wait_for(tg_queue *q, void *stream)
{
    TG__ON_DEVICE(q->device);
    TG__GPU(cudaEventRecord(q->event, stream));
    TG__GPU(cudaStreamWaitEvent(q->stream, q->event, 0));
    return TG_OK;
}

tg_status tg__queue_signal(tg_queue *q, void *stream)
{
    TG__ON_DEVICE(q->device);
    TG__GPU(cudaEventRecord(q->event, q->stream));
    TG__GPU(cudaStreamWaitEvent(stream, q->event, 0));
    return TG_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

tg_status tg__queue_alloc(tg_queue *q, size_t bytes, void **p_p)
{
    void *p;
    TG__ON_DEVICE(q->device);
    TG__GPU(cudaMalloc(&p, bytes));
    const tg_status status =
        tg__gpu_status(cudaMemsetAsync(p, 0, bytes, q->stream), "cudaMemsetAsync");
    if (status != TG_OK) {
        (void)cudaFree(p);
        return status;
    }
    *p_p = p;
    return TG_OK;
}

void tg__queue_release(tg_queue *q, void *p)
{
    if (p == NULL)
        return;
    TG__ON_DEVICE(q->device);
    (void)cudaStreamSynchronize(q->stream);
    (void)cudaFree(p);
}

void tg__queue_pin(tg_queue *q, void *p, size_t bytes)
{
    if (q->npinned == TG__GPU_PINNED_MOST || bytes == 0)
        return;
    TG__ON_DEVICE(q->device);
    if (cudaHostRegister(p, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable) ==
        cudaSuccess)
        q->pinned[q->npinned++] = (tg__gpu_pinned){.begin = p, .bytes = bytes};
    else
        (void)cudaGetLastError();
}

void tg__queue_unpin(tg_queue *q, void *p)
{
    for (size_t i = 0; i < q->npinned; i++) {
        if (q->pinned[i].begin != p)
            continue;
        TG__ON_DEVICE(q->device);
        (void)cudaStreamSynchronize(q->stream);
        (void)cudaHostUnregister(p);
        q->pinned[i] = q->pinned[--q->npinned];
    }
}

static bool is_pinned(const tg_queue *q, const void *host, size_t bytes)
{
    const uintptr_t at = (uintptr_t)host;
    for (size_t i = 0; i < q->npinned; i++) {
        const uintptr_t begin = (uintptr_t)q->pinned[i].begin;
        if (at >= begin && at + bytes <= begin + q->pinned[i].bytes)
            return true;
    }
    return false;
}

void *tg__gpu_reach(const tg_queue *q, void *host, size_t bytes)
{
    void *device = NULL;
    if (!is_pinned(q, host, bytes))
        return NULL;
    if (cudaHostGetDevicePointer(&device, host, 0) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    return device;
}

/* The staging buffer is used in halves, so that one fills while the other is on its way. */
#define STAGE_LEAST ((size_t)64 << 10)
#define STAGE_MOST ((size_t)4 << 20)

/* Room for a copy of this size. Returns the size of a half. */
static tg_status make_stage(tg_queue *q, size_t bytes, size_t *half_p)
{
    size_t half = STAGE_LEAST;
    while (half < STAGE_MOST && half < bytes)
        half *= 2;
    TG_TRY(tg__gpu_room(q, &q->staging, 2 * half));
    *half_p = half;
    return TG_OK;
}

tg_status tg__gpu_copy_in(tg_queue *q, void *device, const void *host, size_t bytes)
{
    TG__ON_DEVICE(q->device);
    if (is_pinned(q, host, bytes)) {
        TG__GPU(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, q->stream));
        return TG_OK;
    }
    size_t most;
    TG_TRY(make_stage(q, bytes, &most));
    TG_TRY(tg__gpu_finish(q)); /* an earlier copy may still read the buffer */
    for (size_t at = 0, half = 0; at < bytes; half++) {
        const size_t len = bytes - at < most ? bytes - at : most;
        char *stage = (char *)q->staging.data + half % 2 * most;
        if (half >= 2) /* all but the latest copy are over when its event is */
            TG__GPU(cudaEventSynchronize(q->event));
        memcpy(stage, (const char *)host + at, len);
        if (half >= 1)
            TG__GPU(cudaEventRecord(q->event, q->stream));
        TG__GPU(
            cudaMemcpyAsync((char *)device + at, stage, len, cudaMemcpyHostToDevice, q->stream));
        at += len;
    }
    return TG_OK;
}

tg_status tg__gpu_copy_out(tg_queue *q, void *host, const void *device, size_t bytes)
{
    TG__ON_DEVICE(q->device);
    if (is_pinned(q, host, bytes)) {
        TG__GPU(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, q->stream));
        return TG_OK;
    }
    size_t most;
    TG_TRY(make_stage(q, bytes, &most));
    size_t waiting = 0; /* bytes of the copy before this one, which are in the other half */
    for (size_t at = 0, half = 0; at < bytes || waiting > 0; half++) {
        const size_t len = bytes - at < most ? bytes - at : most;
        char *stage = (char *)q->staging.data + half % 2 * most,
             *other = (char *)q->staging.data + (half + 1) % 2 * most;
        TG_TRY(tg__gpu_finish(q));
        if (len > 0)
            TG__GPU(cudaMemcpyAsync(stage, (const char *)device + at, len, cudaMemcpyDeviceToHost,
                                    q->stream));
        memcpy((char *)host + at - waiting, other, waiting);
        at += len;
        waiting = len;
    }
    return TG_OK;
}
