/* Bytes of device memory per element: scale 8, widen and narrow 6, first_above 4, sum 8 to 12. */
#include "elementwise.h"
#include "accumulate.h"
#include "half_words.h"

enum { THREADS = 256, BLOCKS_MOST = 4096 };

static unsigned blocks_for(size_t items)
{
    const size_t blocks = (items + THREADS - 1) / THREADS;
    return blocks < 1 ? 1u : blocks < BLOCKS_MOST ? (unsigned)blocks : (unsigned)BLOCKS_MOST;
}

/* Elements up to the first that is aligned to 16 bytes. */
static size_t until_aligned(const void *x, size_t n)
{
    const size_t past = (uintptr_t)x % 16 / sizeof(float), head = past == 0 ? 0 : 4 - past;
    return head < n ? head : n;
}

static __global__ void scale_kernel(float *x, float a, size_t n)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        x[i] = x[i] * a;
}

cudaError_t tg__gpu_scale(cudaStream_t stream, float *x, float a, size_t n)
{
    TG__LAUNCH(scale_kernel, blocks_for(n), THREADS, stream, x, a, n);
    return cudaGetLastError();
}

static __global__ void widen_kernel(float *dst, const uint16_t *src, int bf16, size_t n)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        dst[i] = bf16 ? tg__from_bf16(src[i]) : tg__from_f16(src[i]);
}

cudaError_t tg__gpu_widen(cudaStream_t stream, float *dst, const void *src, int bf16, size_t n)
{
    TG__LAUNCH(widen_kernel, blocks_for(n), THREADS, stream, dst, (const uint16_t *)src, bf16, n);
    return cudaGetLastError();
}

static __global__ void narrow_kernel(uint16_t *dst, const float *src, int bf16, size_t n)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        dst[i] = bf16 ? tg__to_bf16(src[i]) : tg__to_f16(src[i]);
}

cudaError_t tg__gpu_narrow(cudaStream_t stream, void *dst, const float *src, int bf16, size_t n)
{
    TG__LAUNCH(narrow_kernel, blocks_for(n), THREADS, stream, (uint16_t *)dst, src, bf16, n);
    return cudaGetLastError();
}

static __device__ __forceinline__ bool above(float x, uint32_t most)
{
    return (__float_as_uint(x) & 0x7fffffffu) > most;
}

static __device__ void note_first(uint64_t *first, size_t i)
{
    atomicMin((unsigned long long *)first, (unsigned long long)i);
}

static __device__ void look_at(const float *x, size_t i, uint32_t most, uint64_t *first)
{
    if (above(x[i], most))
        note_first(first, i);
}

/* x + head is aligned to 16 bytes. */
static __global__ void first_above_kernel(const float *x, size_t n, size_t head, uint32_t most,
                                          uint64_t *first)
{
    const size_t step = (size_t)gridDim.x * blockDim.x, quads = (n - head) / 4;
    const size_t self = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const float4 *middle = (const float4 *)(x + head);
    for (size_t i = self; i < quads; i += step) {
        const float4 v = middle[i];
        if (above(v.x, most) || above(v.y, most) || above(v.z, most) || above(v.w, most))
            for (size_t j = 0; j < 4; j++)
                look_at(x, head + 4 * i + j, most, first);
    }
    if (self < head)
        look_at(x, self, most, first);
    if (head + 4 * quads + self < n)
        look_at(x, head + 4 * quads + self, most, first);
}

cudaError_t tg__gpu_first_above(cudaStream_t stream, const float *x, size_t n, uint32_t most,
                                uint64_t *first)
{
    const cudaError_t error = cudaMemsetAsync(first, 0xff, sizeof *first, stream);
    if (error != cudaSuccess)
        return error;
    TG__LAUNCH(first_above_kernel, blocks_for((n + 3) / 4), THREADS, stream, x, n,
               until_aligned(x, n), most, first);
    return cudaGetLastError();
}

static __global__ void sum_kernel(float *x, const float *src, size_t n, int first, int last,
                                  float share, uint64_t *spoilt)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    const tg__sum s = {x, first != 0, last != 0, share, first && last && spoilt == nullptr};
    bool fine = true;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        tg__sum_put(&s, i, src == NULL ? -0.0f : src[i], &fine); /* -0 changes no sum */
    tg__sum_end(fine, spoilt);
}

cudaError_t tg__gpu_sum(cudaStream_t stream, float *x, const float *src, size_t n, int first,
                        int last, float share, uint64_t *spoilt)
{
    TG__LAUNCH(sum_kernel, blocks_for(n), THREADS, stream, x, src, n, first, last, share, spoilt);
    return cudaGetLastError();
}
