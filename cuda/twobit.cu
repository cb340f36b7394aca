/* 2-bit codes: bytes that move per element: encode 4 (no feedback), 12 (residual), 8 (residual that
 * holds g already; 12 with lookahead), and 1/4; decode 8, or 4 for the first frame, and 1/4. */
#include "accumulate.h"
#include "gpu.h"
#include "twobit.h"
#include <float.h>
#include <math.h>

namespace
{
enum { WARP = 32, THREADS = 128, WARPS = THREADS / WARP, UNROLL = 8, EACH = WARP * UNROLL };
enum { BLOCK = 64, BLOCK_BYTES = 16, SAMPLES = 256 }; /* of threshold_auto.c */

__device__ inline unsigned plane_bytes(unsigned n)
{
    return n / BLOCK * BLOCK_BYTES + (n % BLOCK + 7) / 8 * 2;
}

/* Byte i of the planes of 256 elements, of which `left` exist. Lane 4b + 0, 1 has the first plane
 * of block b, lane 4b + 2, 3 the second one. */
__device__ inline unsigned plane_byte(unsigned word, unsigned i, unsigned left)
{
    const unsigned block = i / BLOCK_BYTES, m = left - block * BLOCK;
    unsigned at = i % BLOCK_BYTES, second = at / 8;
    if (left < (block + 1) * BLOCK) { /* of a short block */
        const unsigned size = (m % BLOCK + 7) / 8;
        second = at >= size;
        at = second ? at - size : at;
    } else {
        at %= 8;
    }
    return __shfl_sync(~0u, word, (int)(block * 4 + second * 2 + at / 4)) >> 8 * (at % 4);
}

__device__ inline void put_planes(uint8_t *to, unsigned word, unsigned left)
{
    const unsigned lane = threadIdx.x % WARP;
    if (left >= EACH) {
        const unsigned half = __shfl_sync(~0u, word, (int)(lane / 2)) >> 16 * (lane % 2);
        ((uint16_t *)to)[lane] = (uint16_t)half;
        return;
    }
    const unsigned bytes = plane_bytes(left);
    for (unsigned k = 0; k < 2; k++) {
        const unsigned i = k * WARP + lane, byte = plane_byte(word, i, left);
        if (i < bytes)
            to[i] = (uint8_t)byte;
    }
}

/* Counts of a thread; sent is that of its warp. */
struct counts {
    unsigned sent, late;
    bool nonzero, wrong;
};

/* Blocks of a line are sampled every `stride`. */
struct sample {
    unsigned stride;
    float limit;
};

/* The score of x, the last addition to which was g. */
__device__ inline float score_of(float x, float g, float ahead)
{
    return __fadd_rn(x, __fmul_rn(ahead, g));
}

/* 256 elements of a line, from i on. r: it keeps the remainder. p: how r and g are added. */
__device__ inline void code(float *r, const float *g, unsigned i, unsigned n, float tau,
                            const tg__twobit_pass &p, const sample &s, uint8_t *planes, counts *c)
{
    const bool reads = r == nullptr || !p.added || p.ahead != 0;
    const unsigned lane = threadIdx.x % WARP;
    float x[UNROLL], y[UNROLL];
#pragma unroll
    for (unsigned j = 0; j < UNROLL; j++) {
        const unsigned at = i + WARP * j + lane;
        x[j] = r != nullptr && at < n ? r[at] : 0.0f;
        y[j] = reads && at < n ? g[at] : 0.0f;
    }
    unsigned word = 0, phase = i / BLOCK % s.stride;
#pragma unroll
    for (unsigned j = 0; j < UNROLL; j++) {
        const unsigned at = i + WARP * j + lane, own = j / 2 * 4 + j % 2;
        const float v = r == nullptr ? y[j] : p.added ? x[j] : x[j] + y[j];
        const float score = p.ahead != 0 ? score_of(v, y[j], p.ahead) : v;
        const bool up = score >= tau, down = score <= -tau;
        const unsigned ups = __ballot_sync(~0u, up), downs = __ballot_sync(~0u, down);
        const float rest = up ? v - tau : down ? v + tau : v;
        word = lane == own ? ups : lane == own + 2 ? downs : word;
        if (r != nullptr && at < n)
            r[at] = rest;
        c->sent += (unsigned)(__popc(ups) + __popc(downs));
        const float left = r == nullptr ? v : p.ahead != 0 ? score_of(rest, y[j], p.ahead) : rest;
        c->late += phase == 0 && fabsf(left) >= s.limit;
        c->nonzero |= v != 0;
        c->wrong |= !(fabsf(v) <= FLT_MAX);
        if (j % 2 == 1)
            phase = phase + 1 == s.stride ? 0 : phase + 1;
    }
    put_planes(planes + i / BLOCK * BLOCK_BYTES, word, n - i);
}

__global__ void __launch_bounds__(THREADS) encode_pieces(tg__lines lines, tg__twobit_pass p)
{
    __shared__ unsigned sent, late, nonzero;
    if (*p.bad != UINT64_MAX)
        return;
    const tg__span span = lines.piece[blockIdx.x];
    const tg__line line = lines.line[span.line];
    const unsigned end = min(line.n, span.lo + (unsigned)TG__LINE_PIECE);
    const unsigned warp = threadIdx.x / WARP;
    const float tau = p.threshold[span.line];
    float *r = p.r != nullptr ? p.r + line.begin : nullptr;
    const float *g = p.g + line.begin;
    const sample s = {line.n / BLOCK / SAMPLES + 1, p.r != nullptr ? tau : 2 * tau};
    counts c = {0, 0, false, false};
    if (threadIdx.x == 0)
        sent = late = nonzero = 0;
    __syncthreads();
    for (unsigned i = span.lo + warp * EACH; i < end; i += WARPS * EACH)
        code(r, g, i, line.n, tau, p, s, p.planes + line.at, &c);
    if (c.wrong)
        *p.spoilt = 1;
    if (c.late > 0)
        atomicAdd(&late, c.late);
    const int any = __any_sync(~0u, c.nonzero);
    if (threadIdx.x % WARP == 0) {
        atomicAdd(&sent, c.sent);
        atomicOr(&nonzero, any ? 1u : 0u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        tg__twobit_count *to = &p.count[span.line];
        atomicAdd(&to->sent, sent);
        atomicAdd(&to->late, late);
        if (nonzero)
            to->nonzero = 1;
    }
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* The value to add for element i of a run of n: -0 changes no sum, whatever its sign. */
__device__ inline float decoded(const uint8_t *planes, unsigned i, unsigned n, float tau,
                                bool plain)
{
    const unsigned block = i / BLOCK, m = n - block * BLOCK, at = i % BLOCK;
    const unsigned size = m >= BLOCK ? 8 : (m + 7) / 8;
    const uint8_t *byte = planes + (size_t)block * BLOCK_BYTES + at / 8;
    const unsigned up = byte[0] >> at % 8 & 1, down = byte[size] >> at % 8 & 1;
    return up == down ? (plain ? 0.0f : -0.0f) : up ? tau : -tau;
}

__global__ void __launch_bounds__(THREADS)
    decode_pieces(tg__twobit_runs runs, const uint8_t *planes, tg__sum s, uint64_t *spoilt)
{
    const unsigned begin = runs.run[0].begin + blockIdx.x * TG__LINE_PIECE;
    const unsigned end = min(runs.end, begin + (unsigned)TG__LINE_PIECE);
    bool fine = true;
    unsigned k = 0;
    while (k + 1 < runs.count && runs.run[k + 1].begin <= begin)
        k++;
    for (; k < runs.count && runs.run[k].begin < end; k++) {
        const tg__twobit_run run = runs.run[k];
        const unsigned all = k + 1 < runs.count ? runs.run[k + 1].begin : runs.end;
        const unsigned n = all - run.begin, hi = min(end, all);
        const unsigned lo = max(begin, run.begin);
#pragma unroll 4
        for (unsigned i = lo + threadIdx.x; i < hi; i += THREADS)
            tg__sum_put(&s, i, decoded(planes + run.at, i - run.begin, n, run.threshold, s.plain),
                        &fine);
    }
    tg__sum_end(fine, spoilt);
}
} // namespace

cudaError_t tg__twobit_encode(const tg__lines *lines, const tg__twobit_pass *p, cudaStream_t stream)
{
    TG__LAUNCH(encode_pieces, lines->pieces, THREADS, stream, *lines, *p);
    return cudaGetLastError();
}

cudaError_t tg__twobit_decode(const tg__twobit_runs *runs, const uint8_t *planes, float *x,
                              bool first, bool last, float share, uint64_t *spoilt,
                              cudaStream_t stream)
{
    const unsigned n = runs->end - runs->run[0].begin;
    const tg__sum s = {x, first, last, share, first && last && spoilt == nullptr};
    TG__LAUNCH(decode_pieces, (n + TG__LINE_PIECE - 1) / TG__LINE_PIECE, THREADS, stream, *runs,
               planes, s, spoilt);
    return cudaGetLastError();
}
