/* What libtelegrad-cuda gives to the library. */
#include "cuda_impl.h"
#include "elementwise.h"

#include <math.h>
#include <string.h>

static tg_status copy(tg_queue *q, void *dst, const void *src, size_t bytes)
{
    TG__ON_DEVICE(q->device);
    TG__GPU(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, q->stream));
    return TG_OK;
}

static tg_status zero(tg_queue *q, float *x, size_t n)
{
    TG__ON_DEVICE(q->device);
    TG__GPU(cudaMemsetAsync(x, 0, n * sizeof *x, q->stream));
    return TG_OK;
}

static tg_status scale(tg_queue *q, float *x, float a, size_t n)
{
    TG__ON_DEVICE(q->device);
    TG__GPU(tg__gpu_scale(q->stream, x, a, n));
    return TG_OK;
}

static tg_status widen(tg_queue *q, float *dst, const void *src, tg_dtype dtype, size_t n)
{
    TG__ON_DEVICE(q->device);
    TG__GPU(tg__gpu_widen(q->stream, dst, src, dtype == TG_BF16, n));
    return TG_OK;
}

static tg_status narrow(tg_queue *q, void *dst, const float *src, tg_dtype dtype, size_t n)
{
    TG__ON_DEVICE(q->device);
    TG__GPU(tg__gpu_narrow(q->stream, dst, src, dtype == TG_BF16, n));
    return TG_OK;
}

static tg_status stray(tg_queue *q, const float *x, size_t n, float most, size_t *first_p)
{
    uint64_t *answer = q->answer.data;
    uint32_t bits;
    memcpy(&bits, &most, sizeof bits);
    TG__ON_DEVICE(q->device);
    TG__GPU(tg__gpu_first_above(q->stream, x, n, bits, &q->word[TG__GPU_STRAY]));
    TG__GPU(cudaMemcpyAsync(&answer[TG__GPU_STRAY], &q->word[TG__GPU_STRAY], sizeof *answer,
                            cudaMemcpyDeviceToHost, q->stream));
    TG_TRY(tg__gpu_finish(q));
    *first_p = answer[TG__GPU_STRAY] < n ? (size_t)answer[TG__GPU_STRAY] : n;
    return TG_OK;
}

static const tg_device_ops ops = {.struct_size = sizeof ops,
                                  .name = "cuda",
                                  .queue_create = tg__queue_create,
                                  .queue_destroy = tg__queue_destroy,
                                  .wait_for = tg__queue_wait_for,
                                  .signal = tg__queue_signal,
                                  .finish = tg__gpu_finish,
                                  .alloc = tg__queue_alloc,
                                  .release = tg__queue_release,
                                  .pin = tg__queue_pin,
                                  .unpin = tg__queue_unpin,
                                  .copy_in = tg__gpu_copy_in,
                                  .copy_out = tg__gpu_copy_out,
                                  .copy = copy,
                                  .zero = zero,
                                  .scale = scale,
                                  .widen = widen,
                                  .narrow = narrow,
                                  .stray = stray,
                                  .coder_create = tg__coder_create,
                                  .coder_destroy = tg__coder_destroy,
                                  .encode = tg__coder_encode,
                                  .decode = tg__gpu_decode,
                                  .decodes = tg__gpu_decodes,
                                  .matrices_create = tg__matrices_create,
                                  .matrices_destroy = tg__matrices_destroy,
                                  .fold = tg__matrices_fold,
                                  .project = tg__matrices_project,
                                  .expand = tg__matrices_expand,
                                  .gather = tg__places_gather,
                                  .scatter = tg__places_scatter,
                                  .clip = tg__coder_clip};

int tg_cuda_devices(void)
{
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess)
        return count;
    (void)cudaGetLastError();
    return 0;
}

tg_status tg_cuda_attach(void)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        (void)cudaGetLastError();
        return tg_fail(TG_E_UNSUPPORTED, "tg_cuda_attach: no CUDA device: %s",
                       error != cudaSuccess ? cudaGetErrorString(error) : "none is visible");
    }
    return tg_device_register(&ops);
}
