/* Sums of lines, and what is made of them. Bytes that move per element: sums 4, or 12 with g;
 * settle 8, or 4 if x is only read; scale 8; bits 1/8.
 *
 * A block sums one chunk. Eight warps load tiles of it into shared memory, and a ninth one adds up
 * the tile before: a lane's 4,096 additions depend on each other, so several blocks per
 * multiprocessor hide them. */
#include "gpu.h"
#include "lines.h"
#include <float.h>
#include <math.h>

namespace
{
enum { WARP = 32, LANES = 16, LOADERS = 8, UNROLL = 8, EACH = WARP * UNROLL };
enum { TILE = LOADERS * EACH, SUM_THREADS = (LOADERS + 1) * WARP };
enum { PIECE_THREADS = 128, PIECE_WARPS = PIECE_THREADS / WARP };

__device__ inline bool finite(float x)
{
    return fabsf(x) <= FLT_MAX;
}

/* Store the bits of 256 elements: lane j has the word of the j-th 32 of them. */
__device__ inline void put_bits(uint8_t *bits, unsigned at, unsigned n, unsigned word)
{
    const unsigned lane = threadIdx.x % WARP;
    const unsigned own = __shfl_sync(~0u, word, (int)(lane / 4)) >> 8 * (lane % 4);
    if (at / 8 + lane < (n + 7) / 8)
        bits[at / 8 + lane] = (uint8_t)own;
}

struct chunk {
    size_t begin;
    unsigned n;
    float t;
    uint8_t *bits;
};

/* Load 256 elements of a tile, from `at` on; missing ones are 0. */
template <int WHAT>
__device__ inline void load(const tg__line_pass &p, const chunk &c, unsigned at, float *to,
                            unsigned *below, bool *wrong)
{
    const unsigned lane = threadIdx.x % WARP;
    float x[UNROLL], g[UNROLL];
#pragma unroll
    for (unsigned j = 0; j < UNROLL; j++) {
        const unsigned i = at + WARP * j + lane;
        x[j] = i < c.n ? p.x[c.begin + i] : 0.0f;
        g[j] = p.g != nullptr && i < c.n ? p.g[c.begin + i] : 0.0f;
    }
    unsigned word = 0;
#pragma unroll
    for (unsigned j = 0; j < UNROLL; j++) {
        const unsigned i = at + WARP * j + lane;
        if (p.g != nullptr) {
            x[j] = x[j] + g[j];
            if (i < c.n)
                p.x[c.begin + i] = x[j];
        }
        *wrong |= !finite(x[j]);
        to[WARP * j + lane] = x[j];
        if (WHAT == TG__LINE_SPLIT || c.bits != nullptr) {
            const unsigned ballot = __ballot_sync(~0u, i < c.n && x[j] < c.t);
            *below += (unsigned)__popc(ballot);
            word = lane == j ? ballot : word;
        }
    }
    if (c.bits != nullptr)
        put_bits(c.bits, at, c.n, word);
}

/* Lane % 16 adds up its elements: those below t in lanes 0 to 15, the others in 16 to 31. */
template <int WHAT>
__device__ inline double add_tile(double sum, const float *tile, unsigned steps, float t)
{
    const unsigned lane = threadIdx.x % WARP;
    const float *at = tile + lane % LANES;
#pragma unroll 16
    for (unsigned k = 0; k < steps; k++) {
        const float x = at[LANES * k];
        if (WHAT == TG__LINE_SQUARES) {
            const double a = (double)fabsf(x);
            sum = __dadd_rn(sum, __dmul_rn(a, a));
        } else if (WHAT == TG__LINE_ABS) {
            sum = __dadd_rn(sum, (double)fabsf(x));
        } else {
            sum = __dadd_rn(sum, (double)((x < t) == (lane < LANES) ? x : 0.0f));
        }
    }
    return sum;
}

template <int WHAT>
__global__ void __launch_bounds__(SUM_THREADS) sum_chunks(tg__lines lines, tg__line_pass p)
{
    __shared__ float tile[2][TILE];
    __shared__ unsigned below;
    if (*p.bad != UINT64_MAX)
        return;
    const tg__span span = lines.chunk[blockIdx.x];
    const tg__line line = lines.line[span.line];
    chunk c;
    c.begin = (size_t)line.begin + span.lo;
    c.n = min(line.n - span.lo, (unsigned)TG__LINE_CHUNK);
    c.t = p.t != nullptr ? p.t[span.line] : 0.0f;
    c.bits = p.bits != nullptr ? p.bits + line.at + span.lo / 8 : nullptr;
    const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const unsigned tiles = (c.n + TILE - 1) / TILE;
    unsigned own = 0;
    bool wrong = false;
    double sum = 0;
    if (threadIdx.x == 0)
        below = 0;
    for (unsigned k = 0; k <= tiles; k++) {
        if (warp < LOADERS && k < tiles)
            load<WHAT>(p, c, k * TILE + warp * EACH, tile[k % 2] + warp * EACH, &own, &wrong);
        if (warp == LOADERS && k > 0) {
            const unsigned left = c.n - (k - 1) * TILE;
            const float *last = tile[(k - 1) % 2];
            if (left >= TILE)
                sum = add_tile<WHAT>(sum, last, TILE / LANES, c.t);
            else
                sum = add_tile<WHAT>(sum, last, (left + LANES - 1) / LANES, c.t);
        }
        __syncthreads();
    }
    if (wrong)
        *p.spoilt = 1;
    if (warp < LOADERS && lane == 0)
        atomicAdd(&below, own);
    if (warp == LOADERS) {
        const int from = WHAT == TG__LINE_SPLIT && lane >= LANES ? LANES : 0;
        double total = 0;
        for (int j = 0; j < LANES; j++)
            total += __shfl_sync(~0u, sum, from + j);
        if (lane % LANES == 0)
            lines.sums[2 * (size_t)blockIdx.x + lane / LANES] = total;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        lines.below[blockIdx.x] = below;
}

/* ---- results --------------------------------------------------------------------------------- */

struct totals {
    double below, above;
    unsigned nbelow;
};

/* Of a line, by a warp. */
__device__ inline totals add_chunks(const tg__lines &lines, const tg__line &line)
{
    const unsigned lane = threadIdx.x % WARP;
    const unsigned chunks = (line.n + TG__LINE_CHUNK - 1) / TG__LINE_CHUNK;
    totals all = {0, 0, 0};
    for (unsigned k = 0; k < chunks; k += WARP) {
        const unsigned left = min(chunks - k, (unsigned)WARP);
        const size_t own = (size_t)line.chunk + k + lane;
        const double low = lane < left ? lines.sums[2 * own] : 0;
        const double high = lane < left ? lines.sums[2 * own + 1] : 0;
        const unsigned n = lane < left ? lines.below[own] : 0;
        for (unsigned j = 0; j < left; j++) {
            all.below += __shfl_sync(~0u, low, (int)j);
            all.above += __shfl_sync(~0u, high, (int)j);
            all.nbelow += __shfl_sync(~0u, n, (int)j);
        }
    }
    return all;
}

/* As in threshold_auto.c. */
__device__ inline float threshold(double sum_sq, double n, double target)
{
    const float least = 1e-30f, most = 1e30f;
    const double t = sqrt(sum_sq / (n * target));
    const float bounded = !(t > (double)least) ? least : t < (double)most ? (float)t : most;
    return __uint_as_float(__float_as_uint(bounded) & 0xffff0000u);
}

/* As in codec_onebit.c. */
__device__ inline float mean_of(double sum, double n)
{
    return n > 0 ? (float)(sum / n) + 0.0f : 0.0f;
}

/* As in feedback/clip.c: the sum of squares is finite if and only if all elements are. */
__device__ inline float factor(double sum_sq, double limit)
{
    const double norm = sqrt(sum_sq);
    return norm > limit && norm <= DBL_MAX ? (float)(limit / norm) : 1.0f;
}

__device__ inline float saturated(double x)
{
    return (float)fmax(-(double)FLT_MAX, fmin((double)FLT_MAX, x)) + 0.0f;
}

__global__ void finish_lines(tg__lines lines, tg__line_finish f)
{
    const unsigned number = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (number >= lines.count || *f.bad != UINT64_MAX)
        return;
    const tg__line line = lines.line[number];
    const totals s = add_chunks(lines, line);
    const double n = (double)line.n, below = (double)s.nbelow, above = n - below;
    if (threadIdx.x % WARP != 0)
        return;
    if (f.result == TG__LINE_THRESHOLD) {
        if (f.value[number] == 0)
            f.value[number] = threshold(s.below, n, f.target);
    } else if (f.result == TG__LINE_SCALE) {
        f.value[line.value] = (float)(s.below / n);
    } else if (f.result == TG__LINE_MEAN) {
        f.value[number] = mean_of(s.below + s.above, n);
    } else if (f.result == TG__LINE_FACTOR) {
        f.value[number] = factor(s.below, f.target);
    } else if (f.result == TG__LINE_PAIR) {
        f.value[line.value] = mean_of(s.above, above);
        f.value[line.value + 1] = mean_of(s.below, below);
    } else {
        const double m = (double)f.t[number];
        const double d = fmax(0.0, ((s.above - above * m) + (below * m - s.below)) / n);
        f.value[line.value] = saturated(m + d);
        f.value[line.value + 1] = saturated(m - d);
    }
}

/* ---- settling -------------------------------------------------------------------------------- */

__global__ void __launch_bounds__(PIECE_THREADS) settle_pieces(tg__lines lines, tg__line_settling s)
{
    if (*s.bad != UINT64_MAX)
        return;
    const tg__span span = lines.piece[blockIdx.x];
    const tg__line line = lines.line[span.line];
    const unsigned end = min(line.n, span.lo + (unsigned)TG__LINE_PIECE);
    const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const float t = s.t != nullptr ? s.t[span.line] : 0.0f;
    const float plus = s.value[line.value];
    const float minus = s.single ? 0 - plus : s.value[line.value + 1];
    float *x = s.x + line.begin;
    for (unsigned at = span.lo + warp * EACH; at < end; at += PIECE_WARPS * EACH) {
        float v[UNROLL];
        unsigned word = 0;
#pragma unroll
        for (unsigned j = 0; j < UNROLL; j++) {
            const unsigned i = at + WARP * j + lane;
            v[j] = i < end ? x[i] : 0.0f;
        }
#pragma unroll
        for (unsigned j = 0; j < UNROLL; j++) {
            const unsigned i = at + WARP * j + lane;
            const bool less = v[j] < t;
            if (s.settle && i < end)
                x[i] = v[j] - (less ? minus : plus);
            if (s.bits != nullptr) {
                const unsigned ballot = __ballot_sync(~0u, i < end && less);
                word = lane == j ? ballot : word;
            }
        }
        if (s.bits != nullptr)
            put_bits(s.bits + line.at, at, line.n, word);
    }
}

__global__ void __launch_bounds__(PIECE_THREADS)
    scale_pieces(tg__lines lines, const float *from, const float *factors, float *out)
{
    const tg__span span = lines.piece[blockIdx.x];
    const tg__line line = lines.line[span.line];
    const unsigned end = min(line.n, span.lo + (unsigned)TG__LINE_PIECE);
    const float a = factors[span.line];
    const float *x = from + line.begin;
    float *to = out + line.begin;
    for (unsigned at = span.lo + threadIdx.x; at < end; at += UNROLL * PIECE_THREADS) {
        float v[UNROLL];
#pragma unroll
        for (unsigned j = 0; j < UNROLL; j++) {
            const unsigned i = at + PIECE_THREADS * j;
            v[j] = i < end ? x[i] : 0.0f;
        }
#pragma unroll
        for (unsigned j = 0; j < UNROLL; j++) {
            const unsigned i = at + PIECE_THREADS * j;
            if (i < end)
                to[i] = a == 1.0f ? v[j] : v[j] * a;
        }
    }
}

__global__ void __launch_bounds__(PIECE_THREADS) take_pieces(tg__lines lines, tg__line_taking t)
{
    if (*t.bad != UINT64_MAX)
        return;
    const tg__span span = lines.piece[blockIdx.x];
    const tg__line line = lines.line[span.line];
    const unsigned end = min(line.n, span.lo + (unsigned)TG__LINE_PIECE);
    bool wrong = false;
    for (unsigned i = span.lo + threadIdx.x; i < end; i += PIECE_THREADS) {
        float *x = t.x + line.begin + i;
        const float v = t.g != nullptr ? *x + t.g[line.begin + i] : *x;
        t.value[line.value + i] = v;
        wrong |= !(fabsf(v) <= FLT_MAX);
        if (t.g != nullptr)
            *x = 0;
    }
    if (wrong)
        *t.spoilt = 1;
}
} // namespace

cudaError_t tg__line_sums(tg__line_sum what, const tg__lines *lines, const tg__line_pass *p,
                          cudaStream_t stream)
{
    if (lines->chunks == 0)
        return cudaSuccess;
    if (what == TG__LINE_SQUARES)
        TG__LAUNCH(sum_chunks<TG__LINE_SQUARES>, lines->chunks, SUM_THREADS, stream, *lines, *p);
    else if (what == TG__LINE_ABS)
        TG__LAUNCH(sum_chunks<TG__LINE_ABS>, lines->chunks, SUM_THREADS, stream, *lines, *p);
    else
        TG__LAUNCH(sum_chunks<TG__LINE_SPLIT>, lines->chunks, SUM_THREADS, stream, *lines, *p);
    return cudaGetLastError();
}

cudaError_t tg__line_results(const tg__lines *lines, const tg__line_finish *f, cudaStream_t stream)
{
    if (lines->count == 0)
        return cudaSuccess;
    const unsigned per_block = PIECE_THREADS / WARP;
    TG__LAUNCH(finish_lines, (lines->count + per_block - 1) / per_block, PIECE_THREADS, stream,
               *lines, *f);
    return cudaGetLastError();
}

cudaError_t tg__line_settle(const tg__lines *lines, const tg__line_settling *s, cudaStream_t stream)
{
    if (lines->pieces == 0)
        return cudaSuccess;
    TG__LAUNCH(settle_pieces, lines->pieces, PIECE_THREADS, stream, *lines, *s);
    return cudaGetLastError();
}

cudaError_t tg__line_scale(const tg__lines *lines, const float *x, const float *factor, float *out,
                           cudaStream_t stream)
{
    if (lines->pieces == 0)
        return cudaSuccess;
    TG__LAUNCH(scale_pieces, lines->pieces, PIECE_THREADS, stream, *lines, x, factor, out);
    return cudaGetLastError();
}

cudaError_t tg__line_take(const tg__lines *lines, const tg__line_taking *t, cudaStream_t stream)
{
    if (lines->pieces == 0)
        return cudaSuccess;
    TG__LAUNCH(take_pieces, lines->pieces, PIECE_THREADS, stream, *lines, *t);
    return cudaGetLastError();
}
