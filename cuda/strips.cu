/* Sums of frames with strips: per element 8 bytes move, or 4 for the first frame, and 1/8. */
#include "strips.h"
#include "accumulate.h"
#include "gpu.h"

namespace
{
enum { THREADS = 128, PIECE = 8192 };

/* Element i of a strip. */
__device__ inline float decoded(const tg__strip_sum &s, const tg__strip &strip, unsigned i)
{
    unsigned row = 0, col = i;
    if (strip.rows > 1) {
        row = i / strip.cols;
        col = i - row * strip.cols;
    }
    const uint8_t *bits = s.bits + strip.bit + (size_t)row * ((strip.cols + 7) / 8);
    const float *value = s.values + strip.value;
    if (strip.rows == 0)
        return value[col];
    const bool minus = bits[col / 8] >> col % 8 & 1;
    if (s.kind == TG__STRIP_ROWS)
        return minus ? 0 - value[row] : value[row];
    if (strip.rows == 1)
        return value[minus];
    if (!tg__strip_is_weighted(s.kind, strip.rows, strip.cols))
        return value[minus ? strip.cols + col : col];
    return __fmul_rn(value[strip.rows + (minus ? strip.cols + col : col)], value[row]);
}

__global__ void __launch_bounds__(THREADS) sum_strips(tg__strip_group group, tg__strip_sum to)
{
    const unsigned begin = group.strip[0].begin + blockIdx.x * PIECE;
    const unsigned end = min(group.end, begin + (unsigned)PIECE);
    const tg__sum s = {to.x, to.first, to.last, to.share,
                       to.first && to.last && to.spoilt == nullptr};
    bool fine = true;
    unsigned k = 0;
    while (k + 1 < group.count && group.strip[k + 1].begin <= begin)
        k++;
    for (; k < group.count && group.strip[k].begin < end; k++) {
        const tg__strip strip = group.strip[k];
        const unsigned lo = max(begin, strip.begin);
        const unsigned hi = min(end, strip.begin + max(strip.rows, 1u) * strip.cols);
#pragma unroll 4
        for (unsigned i = lo + threadIdx.x; i < hi; i += THREADS)
            tg__sum_put(&s, i, decoded(to, strip, i - strip.begin), &fine);
    }
    tg__sum_end(fine, to.spoilt);
}
} // namespace

cudaError_t tg__strips_sum(const tg__strip_group *group, const tg__strip_sum *s,
                           cudaStream_t stream)
{
    const unsigned n = group->end - group->strip[0].begin;
    TG__LAUNCH(sum_strips, (n + PIECE - 1) / PIECE, THREADS, stream, *group, *s);
    return cudaGetLastError();
}
