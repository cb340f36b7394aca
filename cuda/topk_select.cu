/* Exact selection among the candidates, by a radix histogram of their magnitude bits (11, 10, 10).
 * Bytes per candidate: 4 in each of the three histograms and in the count, 8 to keep; candidates
 * are 1.1 to 2.5 times the elements kept, and stay in the cache. */
#include "topk_select.h"
#include "gpu.h"
#include "topk_block.h"

namespace
{
constexpr unsigned threads = 256, each = TG__SELECT_CHUNK / threads, blocks_max = 1056;

/* The next bits of the k-th largest. Its bits above them are known. */
__global__ void __launch_bounds__(threads)
    histogram_kernel(const float *x, size_t n, uint32_t k, int shift, tg__topk_state *state)
{
    __shared__ uint32_t shared[33], hist[TG__TOPK_BINS];
    const bool candidates = n == 0, first = shift == 20;
    if (candidates && state->go == 0)
        return;
    const uint32_t bins = first ? 2048 : 1024, kth = first ? 0 : state->kth;
    const size_t count = candidates ? state->total : n;
    for (uint32_t j = threadIdx.x; j < bins; j += threads)
        hist[j] = 0;
    __syncthreads();
    for (size_t i = (size_t)blockIdx.x * threads + threadIdx.x; i < count;
         i += (size_t)gridDim.x * threads) {
        const uint32_t m = tg__magnitude(x[i]);
        if (first || m >> (shift + 10) == kth >> (shift + 10))
            atomicAdd(&hist[m >> shift & (bins - 1)], 1u);
    }
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < bins; j += threads)
        if (hist[j] > 0)
            atomicAdd(&state->hist[j], hist[j]);
    if (!tg__last_block(&state->ticket))
        return;
    const uint32_t above = first ? 0 : state->above, wanted = candidates ? state->keep : k;
    const tg__bin found = tg__block_bin(state->hist, bins, wanted - above, shared);
    for (uint32_t j = threadIdx.x; j < bins; j += threads)
        state->hist[j] = 0;
    if (threadIdx.x == 0) {
        state->kth = kth | found.bin << shift;
        state->above = above + found.above;
    }
}

/* The candidates above the k-th, and those that equal it, in each chunk; then, by the last block,
 * in those before it. */
__global__ void __launch_bounds__(threads)
    count_kernel(tg__topk_choice c, uint4 *frame, size_t words)
{
    __shared__ uint32_t shared[33], above, equal;
    tg__topk_state *state = c.state;
    if (state->go == 0)
        return;
    for (size_t i = (size_t)blockIdx.x * threads + threadIdx.x; i < words;
         i += (size_t)gridDim.x * threads)
        frame[i] = make_uint4(0, 0, 0, 0);
    const uint32_t total = state->total, kth = state->kth;
    const uint32_t chunks = (total + TG__SELECT_CHUNK - 1) / TG__SELECT_CHUNK;
    bool infinite = false;
    for (uint32_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        if (threadIdx.x == 0)
            above = equal = 0;
        __syncthreads();
        uint32_t own_above = 0, own_equal = 0;
        for (unsigned j = 0; j < each; j++) {
            const uint32_t i = chunk * TG__SELECT_CHUNK + j * threads + threadIdx.x;
            const uint32_t m = i < total ? tg__magnitude(c.val[i]) : 0;
            own_above += m > kth;
            own_equal += m == kth;
            if (c.x == nullptr)
                infinite |= m >= 0x7f800000u;
            else if (i < total)
                infinite |= tg__magnitude(c.x[c.idx[i]]) >= 0x7f800000u;
        }
        own_above = tg__warp_sum(own_above);
        own_equal = tg__warp_sum(own_equal);
        if (threadIdx.x % 32 == 0) {
            atomicAdd(&above, own_above);
            atomicAdd(&equal, own_equal);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            c.above[chunk] = above;
            c.equal[chunk] = equal;
        }
    }
    if (infinite)
        state->infinite = 1;
    if (!tg__last_block(&state->ticket))
        return;
    (void)tg__block_sums(c.above, chunks, shared);
    (void)tg__block_sums(c.equal, chunks, shared);
}

__global__ void __launch_bounds__(threads) keep_kernel(tg__topk_choice c)
{
    __shared__ uint32_t shared[33];
    const tg__topk_state *state = c.state;
    if (state->go == 0)
        return;
    const uint32_t total = state->total, kth = state->kth, ties = state->keep - state->above;
    const uint32_t chunks = (total + TG__SELECT_CHUNK - 1) / TG__SELECT_CHUNK;
    for (uint32_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        const uint32_t begin = chunk * TG__SELECT_CHUNK + threadIdx.x * each;
        float val[each];
        uint32_t counts = 0, all; /* above in the upper half, equal in the lower one */
        for (unsigned j = 0; j < each; j++) {
            val[j] = begin + j < total ? c.val[begin + j] : 0;
            const uint32_t m = tg__magnitude(val[j]);
            counts += (m > kth ? 1u << 16 : 0) + (m == kth);
        }
        const uint32_t before = tg__block_scan(counts, shared, &all);
        uint32_t above = c.above[chunk] + (before >> 16),
                 equal = c.equal[chunk] + (before & 0xffff);
        for (unsigned j = 0; j < each; j++) {
            const uint32_t m = tg__magnitude(val[j]);
            if (m > kth || (m == kth && equal < ties)) {
                const uint32_t to = above + (equal < ties ? equal : ties);
                c.kept_idx[to] = c.idx[begin + j];
                c.kept_val[to] = c.x == nullptr ? val[j] : c.x[c.idx[begin + j]];
            }
            above += m > kth;
            equal += m == kth;
        }
    }
}

unsigned grid(size_t count, size_t in_block)
{
    const size_t blocks = (count + in_block - 1) / in_block;
    return (unsigned)(blocks < blocks_max ? blocks : blocks_max);
}

cudaError_t histograms(const float *x, size_t n, size_t most, uint32_t k, tg__topk_state *state,
                       cudaStream_t stream)
{
    for (int shift = 20; shift >= 0; shift -= 10)
        TG__LAUNCH(histogram_kernel, grid(most, TG__SELECT_CHUNK), threads, stream, x, n, k, shift,
                   state);
    return cudaGetLastError();
}
} // namespace

cudaError_t tg__select_kth(const tg__topk_choice *c, cudaStream_t stream)
{
    return histograms(c->val, 0, c->room, 0, c->state, stream);
}

cudaError_t tg__select_kth_of(const float *x, size_t n, uint32_t k, tg__topk_state *state,
                              cudaStream_t stream)
{
    return histograms(x, n, n, k, state, stream);
}

cudaError_t tg__select_keep(const tg__topk_choice *c, uint8_t *frame, size_t bytes,
                            cudaStream_t stream)
{
    const unsigned blocks = grid(c->room, TG__SELECT_CHUNK);
    TG__LAUNCH(count_kernel, blocks, threads, stream, *c, reinterpret_cast<uint4 *>(frame),
               bytes / 16);
    TG__LAUNCH(keep_kernel, blocks, threads, stream, *c);
    return cudaGetLastError();
}
