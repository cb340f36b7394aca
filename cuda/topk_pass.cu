/* The pass of top-k. Bytes per element: velocity 20 (reads u, v, g, writes u, v), residual 12, none
 * 4; the counts take 1/128. Collecting reads again the segments of 128 that have candidates.
 *
 * A warp reads 128 elements at once, a segment; a block has 8 warps and 64 segments. The last block
 * adds up the counts of all. */
#include "topk_pass.h"
#include "gpu.h"
#include "topk_block.h"

namespace
{
constexpr unsigned threads = 256, warps = threads / 32, at_once = 2, sample_threads = 1024;
constexpr uint32_t infinity = 0x7f800000u;

struct step {
    float4 u, x, g;
};

__device__ __forceinline__ bool candidate(float x, uint32_t low)
{
    return tg__magnitude(x) - low <= infinity - low;
}

/* Form one element of x; u and x as they are before it. */
template <int FORMS> __device__ __forceinline__ void form(float &u, float &x, float g, float m)
{
    if (FORMS == TG__TOPK_NESTEROV) {
        u = __fmul_rn(m, __fadd_rn(u, g));
        x = __fadd_rn(__fadd_rn(x, u), g);
    } else if (FORMS == TG__TOPK_VELOCITY) {
        u = __fadd_rn(__fmul_rn(m, u), g);
        x = __fadd_rn(x, u);
    } else if (FORMS == TG__TOPK_RESIDUAL) {
        x = __fadd_rn(x, g);
    } else {
        x = g;
    }
}

__device__ __forceinline__ float score(float x, float g, float ahead)
{
    return __fadd_rn(x, __fmul_rn(ahead, g));
}

__device__ __forceinline__ float4 score4(float4 x, float4 g, float ahead)
{
    return make_float4(score(x.x, g.x, ahead), score(x.y, g.y, ahead), score(x.z, g.z, ahead),
                       score(x.w, g.w, ahead));
}

template <int FORMS> __device__ __forceinline__ void form4(step &s, float m)
{
    form<FORMS>(s.u.x, s.x.x, s.g.x, m);
    form<FORMS>(s.u.y, s.x.y, s.g.y, m);
    form<FORMS>(s.u.z, s.x.z, s.g.z, m);
    form<FORMS>(s.u.w, s.x.w, s.g.w, m);
}

/* Four elements from i on; 0 beyond n. */
template <bool ALIGNED> __device__ __forceinline__ float4 get4(const float *p, size_t i, size_t n)
{
    if (ALIGNED && i + 4 <= n)
        return *reinterpret_cast<const float4 *>(p + i);
    return make_float4(i < n ? p[i] : 0, i + 1 < n ? p[i + 1] : 0, i + 2 < n ? p[i + 2] : 0,
                       i + 3 < n ? p[i + 3] : 0);
}

template <bool ALIGNED> __device__ __forceinline__ void put4(float *p, size_t i, size_t n, float4 x)
{
    if (ALIGNED && i + 4 <= n) {
        *reinterpret_cast<float4 *>(p + i) = x;
        return;
    }
    if (i < n)
        p[i] = x.x;
    if (i + 1 < n)
        p[i + 1] = x.y;
    if (i + 2 < n)
        p[i + 2] = x.z;
    if (i + 3 < n)
        p[i + 3] = x.w;
}

template <int FORMS, bool ALIGNED>
__device__ __forceinline__ step get_step(const tg__topk_pass &p, size_t i)
{
    step s = {};
    s.g = get4<ALIGNED>(p.g, i, p.n);
    if (FORMS != TG__TOPK_NONE)
        s.x = get4<ALIGNED>(p.x, i, p.n);
    if (FORMS >= TG__TOPK_VELOCITY)
        s.u = get4<ALIGNED>(p.u, i, p.n);
    return s;
}

/* By the last block: candidates before each block, and what follows from their number. */
__device__ __forceinline__ void conclude(const tg__topk_pass &p, uint32_t low, uint32_t *shared)
{
    tg__topk_state *state = p.state;
    const uint32_t total = tg__block_sums(p.blocks, gridDim.x, shared);
    if (threadIdx.x == 0) {
        state->low = low;
        state->total = total;
        state->keep = total < p.k ? total : p.k;
        state->go = total > 0 && total <= p.room && (total >= p.k || low <= 1);
        state->kth = state->above = state->infinite = state->dense = 0;
        state->len = 0;
    }
    if (threadIdx.x < 32)
        state->gaps[threadIdx.x] = 0;
}

template <int FORMS, bool ALIGNED>
__global__ void __launch_bounds__(threads) pass_kernel(tg__topk_pass p)
{
    __shared__ uint32_t shared[33], in_block;
    if (p.bad != nullptr && *p.bad != UINT64_MAX) {
        if (blockIdx.x == 0 && threadIdx.x == 0)
            p.state->go = 0;
        return;
    }
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t low = p.low != 0 ? p.low : p.state->low;
    /* From the end: what the check of g has read last is still in the cache. */
    const unsigned block = gridDim.x - 1 - blockIdx.x;
    const size_t begin = (size_t)block * TG__TOPK_BLOCK;
    uint32_t of_warp = 0;
    if (threadIdx.x == 0)
        in_block = 0;
    __syncthreads();
    for (unsigned j = 0; j < TG__TOPK_SEGMENTS; j += warps * at_once) {
        step s[at_once];
        for (unsigned a = 0; a < at_once; a++) {
            const unsigned segment = j + a * warps + warp;
            s[a] = get_step<FORMS, ALIGNED>(p, begin + segment * TG__TOPK_SEGMENT + 4 * lane);
        }
        for (unsigned a = 0; a < at_once; a++) {
            const unsigned segment = j + a * warps + warp;
            const size_t i = begin + segment * TG__TOPK_SEGMENT + 4 * lane;
            form4<FORMS>(s[a], p.momentum);
            if (FORMS >= TG__TOPK_VELOCITY)
                put4<ALIGNED>(p.u, i, p.n, s[a].u);
            if (FORMS != TG__TOPK_NONE)
                put4<ALIGNED>(p.x, i, p.n, s[a].x);
            float4 x = s[a].x;
            if (FORMS == TG__TOPK_RESIDUAL)
                x = score4(x, s[a].g, p.ahead);
            else if (FORMS != TG__TOPK_NONE && p.ahead != 0)
                x = score4(x, s[a].u, p.ahead);
            const uint32_t count =
                tg__warp_sum((uint32_t)candidate(x.x, low) + (uint32_t)candidate(x.y, low) +
                             (uint32_t)candidate(x.z, low) + (uint32_t)candidate(x.w, low));
            if (lane == 0)
                p.segments[(size_t)block * TG__TOPK_SEGMENTS + segment] = (uint8_t)count;
            of_warp += count;
        }
    }
    if (lane == 0 && of_warp > 0)
        atomicAdd(&in_block, of_warp);
    __syncthreads();
    if (threadIdx.x == 0)
        p.blocks[block] = in_block;
    if (tg__last_block(&p.state->ticket))
        conclude(p, low, shared);
}

/* What was added to x last. */
__host__ __device__ __forceinline__ const float *last(const tg__topk_pass &p)
{
    return p.forms >= TG__TOPK_VELOCITY ? p.u : p.g;
}

template <bool ALIGNED, bool AHEAD>
__global__ void __launch_bounds__(threads) collect_kernel(tg__topk_pass p, const float *x)
{
    __shared__ uint32_t count[TG__TOPK_SEGMENTS], before[TG__TOPK_SEGMENTS];
    if (p.state->go == 0)
        return;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t low = p.state->low, first = p.blocks[blockIdx.x];
    const uint32_t end = blockIdx.x + 1 < gridDim.x ? p.blocks[blockIdx.x + 1] : p.state->total;
    if (first == end)
        return;
    if (threadIdx.x < TG__TOPK_SEGMENTS)
        count[threadIdx.x] = p.segments[(size_t)blockIdx.x * TG__TOPK_SEGMENTS + threadIdx.x];
    __syncthreads();
    if (warp == 0) {
        const uint32_t lower = count[2 * lane], upper = count[2 * lane + 1];
        const uint32_t to = tg__warp_scan(lower + upper);
        before[2 * lane] = to - upper - lower;
        before[2 * lane + 1] = to - upper;
    }
    __syncthreads();
    for (unsigned segment = warp; segment < TG__TOPK_SEGMENTS; segment += warps) {
        if (count[segment] == 0)
            continue;
        const size_t i =
            (size_t)blockIdx.x * TG__TOPK_BLOCK + segment * TG__TOPK_SEGMENT + 4 * lane;
        float4 four = get4<ALIGNED>(x, i, p.n);
        if (AHEAD)
            four = score4(four, get4<ALIGNED>(last(p), i, p.n), p.ahead);
        const float each[4] = {four.x, four.y, four.z, four.w};
        uint32_t own = 0;
        for (unsigned j = 0; j < 4; j++)
            own += candidate(each[j], low);
        uint32_t to = first + before[segment] + tg__warp_scan(own) - own;
        for (unsigned j = 0; j < 4; j++)
            if (candidate(each[j], low)) {
                p.idx[to] = (uint32_t)(i + j);
                p.val[to++] = each[j];
            }
    }
}

/* ---- the first threshold --------------------------------------------------------------------- */

__device__ __forceinline__ float peek(const tg__topk_pass &p, size_t i)
{
    float u = p.forms >= TG__TOPK_VELOCITY ? p.u[i] : 0, x = p.forms > TG__TOPK_NONE ? p.x[i] : 0;
    const float g = p.g[i];
    switch (p.forms) {
    case TG__TOPK_NESTEROV:
        form<TG__TOPK_NESTEROV>(u, x, g, p.momentum);
        break;
    case TG__TOPK_VELOCITY:
        form<TG__TOPK_VELOCITY>(u, x, g, p.momentum);
        break;
    case TG__TOPK_RESIDUAL:
        form<TG__TOPK_RESIDUAL>(u, x, g, p.momentum);
        break;
    default:
        x = g;
    }
    return p.ahead == 0 ? x : score(x, p.forms >= TG__TOPK_VELOCITY ? u : g, p.ahead);
}

__global__ void __launch_bounds__(sample_threads)
    sample_kernel(tg__topk_pass p, uint32_t count, uint32_t rank, uint32_t *scratch)
{
    __shared__ uint32_t shared[33], hist[TG__TOPK_BINS];
    const uint32_t stride = (uint32_t)(p.n / count);
    if (p.bad != nullptr && *p.bad != UINT64_MAX)
        return;
    for (uint32_t j = threadIdx.x; j < count; j += sample_threads) {
        uint32_t mixed = (j + 1) * 2654435761u;
        mixed ^= mixed >> 15;
        mixed *= 2246822519u;
        mixed ^= mixed >> 13;
        scratch[j] = tg__magnitude(peek(p, (size_t)j * stride + mixed % stride));
    }
    uint32_t kth = 0;
    for (int shift = 20; shift >= 0; shift -= 10) {
        const uint32_t bins = shift == 20 ? 2048 : 1024;
        for (uint32_t j = threadIdx.x; j < bins; j += sample_threads)
            hist[j] = 0;
        __syncthreads();
        for (uint32_t j = threadIdx.x; j < count; j += sample_threads)
            if (shift == 20 || scratch[j] >> (shift + 10) == kth >> (shift + 10))
                atomicAdd(&hist[scratch[j] >> shift & (bins - 1)], 1u);
        __syncthreads();
        const uint32_t each = bins / sample_threads, top = bins - each * threadIdx.x;
        uint32_t sum = 0, total;
        for (uint32_t j = 0; j < each; j++)
            sum += hist[top - 1 - j];
        uint32_t above = tg__block_scan(sum, shared, &total);
        __shared__ uint32_t bin, left;
        if (above < rank && above + sum >= rank) {
            uint32_t at = top - 1;
            for (; above + hist[at] < rank; at--)
                above += hist[at];
            bin = at;
            left = rank - above;
        }
        __syncthreads();
        kth |= bin << shift;
        rank = left;
        __syncthreads();
    }
    if (threadIdx.x == 0)
        p.state->low = kth == 0 ? 1 : kth < infinity ? kth : infinity;
}

__global__ void __launch_bounds__(threads) scores_kernel(tg__topk_pass p, float *scores)
{
    const size_t i = (size_t)blockIdx.x * threads + threadIdx.x;
    if (i < p.n)
        scores[i] = score(p.x[i], last(p)[i], p.ahead);
}

bool aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

unsigned grid(size_t n)
{
    return (unsigned)((n + TG__TOPK_BLOCK - 1) / TG__TOPK_BLOCK);
}

template <int FORMS> void launch(const tg__topk_pass *p, cudaStream_t stream)
{
    if (aligned(p->g) && aligned(p->x) && aligned(p->u))
        TG__LAUNCH((pass_kernel<FORMS, true>), grid(p->n), threads, stream, *p);
    else
        TG__LAUNCH((pass_kernel<FORMS, false>), grid(p->n), threads, stream, *p);
}
} // namespace

cudaError_t tg__topk_sample(const tg__topk_pass *p, uint32_t count, uint32_t rank,
                            uint32_t *scratch, cudaStream_t stream)
{
    TG__LAUNCH(sample_kernel, 1, sample_threads, stream, *p, count, rank, scratch);
    return cudaGetLastError();
}

cudaError_t tg__topk_form(const tg__topk_pass *p, cudaStream_t stream)
{
    switch (p->forms) {
    case TG__TOPK_NESTEROV:
        launch<TG__TOPK_NESTEROV>(p, stream);
        break;
    case TG__TOPK_VELOCITY:
        launch<TG__TOPK_VELOCITY>(p, stream);
        break;
    case TG__TOPK_RESIDUAL:
        launch<TG__TOPK_RESIDUAL>(p, stream);
        break;
    default:
        launch<TG__TOPK_NONE>(p, stream);
    }
    return cudaGetLastError();
}

cudaError_t tg__topk_collect(const tg__topk_pass *p, cudaStream_t stream)
{
    const float *x = p->forms == TG__TOPK_NONE ? p->g : p->x;
    const bool ahead = p->ahead != 0;
    if (aligned(x) && ahead && aligned(last(*p)))
        TG__LAUNCH((collect_kernel<true, true>), grid(p->n), threads, stream, *p, x);
    else if (ahead)
        TG__LAUNCH((collect_kernel<false, true>), grid(p->n), threads, stream, *p, x);
    else if (aligned(x))
        TG__LAUNCH((collect_kernel<true, false>), grid(p->n), threads, stream, *p, x);
    else
        TG__LAUNCH((collect_kernel<false, false>), grid(p->n), threads, stream, *p, x);
    return cudaGetLastError();
}

cudaError_t tg__topk_scores(const tg__topk_pass *p, float *scores, cudaStream_t stream)
{
    const size_t blocks = (p->n + threads - 1) / threads;
    TG__LAUNCH(scores_kernel, (unsigned)blocks, threads, stream, *p, scores);
    return cudaGetLastError();
}
