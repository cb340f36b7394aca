/* Bytes of device memory per element: add 12; per place: take and put a sector of 32 and more. */
#include "places.h"
#include "gpu.h"

enum { THREADS = 256, BLOCKS_MOST = 4096, AHEAD = 4 };

static unsigned blocks_for(size_t items)
{
    const size_t blocks = (items + THREADS - 1) / THREADS;
    return blocks < 1 ? 1u : blocks < BLOCKS_MOST ? (unsigned)blocks : (unsigned)BLOCKS_MOST;
}

static __device__ __forceinline__ bool finite(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

static __global__ void add_kernel(float *r, const float *g, size_t n, const uint64_t *bad,
                                  uint64_t *spoilt)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    bool fine = true;
    if (*bad != UINT64_MAX)
        return;
    for (; i + (AHEAD - 1) * step < n; i += AHEAD * step) {
        float sum[AHEAD];
        for (int a = 0; a < AHEAD; a++)
            sum[a] = r[i + a * step] + g[i + a * step];
        for (int a = 0; a < AHEAD; a++) {
            r[i + a * step] = sum[a];
            fine = fine && finite(sum[a]);
        }
    }
    for (; i < n; i += step) {
        const float sum = r[i] + g[i];
        r[i] = sum;
        fine = fine && finite(sum);
    }
    if (!fine)
        *spoilt = 1; /* all threads that write it write the same */
}

cudaError_t tg__gpu_add(cudaStream_t stream, float *r, const float *g, size_t n,
                        const uint64_t *bad, uint64_t *spoilt)
{
    TG__LAUNCH(add_kernel, blocks_for(n), THREADS, stream, r, g, n, bad, spoilt);
    return cudaGetLastError();
}

static __global__ void take_kernel(float *val, const float *x, const uint32_t *idx, size_t count)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        val[i] = x[idx[i]];
}

cudaError_t tg__gpu_take(cudaStream_t stream, float *val, const float *x, const uint32_t *idx,
                         size_t count)
{
    TG__LAUNCH(take_kernel, blocks_for(count), THREADS, stream, val, x, idx, count);
    return cudaGetLastError();
}

static __global__ void put_kernel(float *x, const uint32_t *idx, const float *val, size_t count,
                                  int add, float share)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        float *to = x + idx[i];
        *to = add ? *to + share * val[i] : val[i];
    }
}

cudaError_t tg__gpu_put(cudaStream_t stream, float *x, const uint32_t *idx, const float *val,
                        size_t count, int add, float share)
{
    TG__LAUNCH(put_kernel, blocks_for(count), THREADS, stream, x, idx, val, count, add, share);
    return cudaGetLastError();
}
