/* Index codes. Bytes per index: reads 8 and one partial sum of each block before its own; writes
 * the code, by one or two atomic operations on words of 32 bits. Then the frame is read and written
 * once, to the host. */
#include "index.h"
#include "gpu.h"
#include "topk_block.h"

namespace
{
constexpr unsigned threads = TG__SPARSE_BLOCK, copy_threads = 256, copy_blocks = 64;

/* Set bits from bit `at` on. */
__device__ __forceinline__ void put_bits(uint8_t *frame, uint64_t at, uint32_t bits)
{
    uint32_t *word = reinterpret_cast<uint32_t *>(frame) + at / 32;
    const uint64_t wide = (uint64_t)bits << at % 32;
    if ((uint32_t)wide != 0)
        atomicOr(word, (uint32_t)wide);
    if (wide >> 32 != 0)
        atomicOr(word + 1, (uint32_t)(wide >> 32));
}

__global__ void __launch_bounds__(threads) put_kernel(tg__sparse_frame f)
{
    __shared__ uint32_t shared[33];
    const tg__topk_state *state = f.state;
    if (state->go == 0 || state->dense != 0)
        return;
    const uint32_t k = state->keep, first = blockIdx.x * threads, i = first + threadIdx.x;
    const uint32_t b = state->param;
    if (first >= k)
        return;
    const uint64_t begin = (uint64_t)state->at_index * 8;
    const uint32_t at = i < k ? f.idx[i] : 0;
    if (state->coding == TG__SPARSE_RICE) {
        uint32_t before = 0, total, gap = at;
        for (uint32_t j = threadIdx.x; j < blockIdx.x; j += threads)
            before += f.sums[(size_t)b * gridDim.x + j];
        (void)tg__block_scan(before, shared, &total);
        const uint64_t base = begin + total + (uint64_t)first * (1 + b);
        if (i > 0 && i < k)
            gap = at - f.idx[i - 1] - 1;
        const uint32_t zeros = i < k ? gap >> b : 0;
        const uint64_t to =
            base + tg__block_scan(zeros, shared, &total) + zeros + (uint64_t)threadIdx.x * (1 + b);
        if (i < k)
            put_bits(f.frame, to, (gap & ((1u << b) - 1)) << 1 | 1);
        return;
    }
    if (i >= k)
        return;
    if (state->coding == TG__SPARSE_RAW) {
        put_bits(f.frame, begin + 32 * (uint64_t)i, at);
    } else if (state->coding == TG__SPARSE_BITMAP) {
        put_bits(f.frame, begin + at, 1);
    } else {
        put_bits(f.frame, begin + (uint64_t)i * b, at & ((1u << b) - 1));
        put_bits(f.frame, begin + (uint64_t)k * b + (at >> b) + i, 1);
    }
}

__global__ void __launch_bounds__(copy_threads)
    out_kernel(const tg__topk_state *state, const uint8_t *frame, const uint64_t *bad, uint8_t *dst,
               tg__topk_report *report)
{
    const bool spoilt = bad != nullptr && *bad != UINT64_MAX;
    const uint64_t len = !spoilt && state->go != 0 && state->dense == 0 ? state->len : 0;
    const size_t first = (size_t)blockIdx.x * copy_threads + threadIdx.x;
    const size_t step = (size_t)gridDim.x * copy_threads;
    if (first == 0) {
        report->bad = spoilt;
        report->go = state->go;
        report->low = state->low;
        report->total = state->total;
        report->keep = state->keep;
        report->kth = state->kth;
        report->infinite = state->infinite;
        report->coding = state->coding;
        report->param = state->param;
        report->dense = state->dense;
        report->len = len;
    }
    const size_t skip = TG__SPARSE_VALUES;
    if (len <= skip)
        return;
    const size_t whole = (uintptr_t)dst % 16 == 0 ? len / 16 * 16 : skip;
    for (size_t i = skip + 16 * first; i < whole; i += 16 * step)
        *reinterpret_cast<uint4 *>(dst + i) = *reinterpret_cast<const uint4 *>(frame + i);
    const size_t words = (uintptr_t)dst % 4 == 0 ? len / 4 * 4 : whole;
    for (size_t i = whole + 4 * first; i < words; i += 4 * step)
        *reinterpret_cast<uint32_t *>(dst + i) = *reinterpret_cast<const uint32_t *>(frame + i);
    for (size_t i = words + first; i < len; i += step)
        dst[i] = frame[i];
}
} // namespace

cudaError_t tg__index_put(const tg__sparse_frame *f, cudaStream_t stream)
{
    TG__LAUNCH(put_kernel, tg__sparse_blocks(f->most), threads, stream, *f);
    return cudaGetLastError();
}

cudaError_t tg__frame_out(const tg__sparse_frame *f, const uint64_t *bad, uint8_t *dst, size_t most,
                          tg__topk_report *report, cudaStream_t stream)
{
    const size_t blocks = most / (16 * copy_threads) + 1;
    TG__LAUNCH(out_kernel, (unsigned)(blocks < copy_blocks ? blocks : copy_blocks), copy_threads,
               stream, f->state, f->frame, bad, dst, report);
    return cudaGetLastError();
}
