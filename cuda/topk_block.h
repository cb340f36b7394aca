/* What the threads of a block do together, for the kernels of top-k. Include after gpu.h. */
#ifndef TG_CUDA_TOPK_BLOCK_H
#define TG_CUDA_TOPK_BLOCK_H

#define TG__FULL_WARP 0xffffffffu

/* The sum, and the largest, of the x of a whole warp. */
static __device__ __forceinline__ uint32_t tg__warp_sum(uint32_t x)
{
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800
    return __reduce_add_sync(TG__FULL_WARP, x);
#else
    for (int with = 16; with > 0; with /= 2)
        x += __shfl_xor_sync(TG__FULL_WARP, x, with);
    return x;
#endif
}

static __device__ __forceinline__ uint32_t tg__warp_max(uint32_t x)
{
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800
    return __reduce_max_sync(TG__FULL_WARP, x);
#else
    for (int with = 16; with > 0; with /= 2)
        x = max(x, __shfl_xor_sync(TG__FULL_WARP, x, with));
    return x;
#endif
}

/* The sum of x of the lanes up to this one. */
static __device__ __forceinline__ uint32_t tg__warp_scan(uint32_t x)
{
    const unsigned lane = threadIdx.x % 32;
    for (unsigned by = 1; by < 32; by *= 2) {
        const uint32_t other = __shfl_up_sync(TG__FULL_WARP, x, by);
        x += lane >= by ? other : 0;
    }
    return x;
}

/* The sum of x of the threads before this one; *total_p: of all. The block has whole warps.
 * shared  (33) */
static __device__ __forceinline__ uint32_t tg__block_scan(uint32_t x, uint32_t *shared,
                                                          uint32_t *total_p)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const uint32_t sum = tg__warp_scan(x);
    __syncthreads(); /* nobody reads the last call's result any more */
    if (lane == 31)
        shared[warp] = sum;
    __syncthreads();
    if (warp == 0)
        shared[lane] = tg__warp_scan(lane < warps ? shared[lane] : 0);
    __syncthreads();
    *total_p = shared[warps - 1];
    return (warp > 0 ? shared[warp - 1] : 0) + sum - x;
}

/* Whether all other blocks of the kernel have come here: true for the last one, in all its threads.
 * What the others wrote before is visible to it, through __ldcg. */
static __device__ __forceinline__ bool tg__last_block(uint32_t *ticket)
{
    __shared__ uint32_t last;
    __syncthreads();
    if (threadIdx.x == 0) { /* its fences hold for what the block's barriers order */
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
        if (last)
            *ticket = 0;
        __threadfence();
    }
    __syncthreads();
    return last != 0;
}

/* Replace count (m) by the sums of those before each; returns the sum of all. For the last block of
 * a kernel.
 * shared  (33) */
static __device__ __forceinline__ uint32_t tg__block_sums(uint32_t *count, uint32_t m,
                                                          uint32_t *shared)
{
    uint32_t before = 0, total;
    for (uint32_t from = 0; from < m; from += 4 * blockDim.x) {
        const uint32_t at = from + 4 * threadIdx.x;
        uint32_t x[4], sum = 0;
        for (uint32_t j = 0; j < 4; j++) {
            x[j] = at + j < m ? __ldcg(count + at + j) : 0;
            sum += x[j];
        }
        uint32_t next = before + tg__block_scan(sum, shared, &total);
        for (uint32_t j = 0; j < 4; j++) {
            if (at + j < m)
                count[at + j] = next;
            next += x[j];
        }
        before += total;
    }
    return before;
}

typedef struct tg__bin {
    uint32_t bin, above;
} tg__bin;

/* The bin of the k-th largest, counted from the top, and the elements in the bins above it. There
 * are at least k. bins is a multiple of the block's size.
 * shared  (33) */
static __device__ __forceinline__ tg__bin tg__block_bin(const uint32_t *hist, uint32_t bins,
                                                        uint32_t k, uint32_t *shared)
{
    __shared__ tg__bin found;
    const uint32_t each = bins / blockDim.x, top = bins - each * threadIdx.x;
    uint32_t sum = 0, total;
    for (uint32_t j = 0; j < each; j++)
        sum += __ldcg(hist + top - each + j);
    uint32_t above = tg__block_scan(sum, shared, &total);
    if (above < k && above + sum >= k) {
        uint32_t bin = top - 1;
        for (uint32_t h; above + (h = __ldcg(hist + bin)) < k; bin--)
            above += h;
        found.bin = bin;
        found.above = above;
    }
    __syncthreads();
    const tg__bin result = found;
    __syncthreads();
    return result;
}

static __device__ __forceinline__ uint32_t tg__magnitude(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

#endif
