/* qsgd: stochastic rounding. Each element moves 4 bytes read and width / 8 written; with a residual
 * 8 read and 4 more written; and 2 / bucket for units. Buckets above 16,384 elements, which do not
 * fit into the registers of a block, are read twice, and with a residual written twice, mostly in
 * the L2 cache.
 *
 * A warp has 512 elements, those that are packed together. Lane 16 h + w has elements 256 h + w +
 * 16 j, j = 0..15: they are the ones of word w of each plane (kernel/pack.h), those whose random
 * numbers are in Philox blocks 16 q + w (kernel.h), and those of lane w of the sum of squares. */
#include "gpu.h"
#include "philox.h"
#include "quant.h"
#include "quant_code.h"

namespace
{
constexpr unsigned THREADS = 256, THREADS_MAX = 1024, BLOCKS_MAX = 2112;
constexpr unsigned HALF = TG__QUANT_BLOCK / 2, LANES = 16, EACH = HALF / LANES, GROUP = 128;

/* What the warps of a block share. */
struct room {
    uint32_t most[THREADS_MAX / 32];
    double sums[THREADS_MAX / 32][LANES];
    uint8_t codes[TG__QUANT_BLOCK]; /* of the vector's last warp */
};

/* Where the thread is. */
struct place {
    unsigned lane, w, h;
    unsigned warp;    /* of the block */
    unsigned in_warp; /* this warp among those of its bucket */
};

/* ---- loading, storing ------------------------------------------------------------------------ */

/* p[j] = x[at + 16 j]; 0 beyond n */
__device__ __forceinline__ void load(float *p, const float *x, size_t at, size_t n)
{
    if (at + LANES * EACH <= n) {
        for (unsigned j = 0; j < EACH; j++)
            p[j] = x[at + LANES * j];
        return;
    }
    for (unsigned j = 0; j < EACH; j++)
        p[j] = at + LANES * j < n ? x[at + LANES * j] : 0;
}

__device__ __forceinline__ void store(float *x, size_t at, size_t n, const float *p)
{
    const bool whole = at + LANES * EACH <= n;
    for (unsigned j = 0; j < EACH; j++)
        if (whole || at + LANES * j < n)
            x[at + LANES * j] = p[j];
}

template <bool RESIDUAL>
__device__ __forceinline__ void form(float *p, const tg__quant_pass &a, size_t at)
{
    load(p, a.g, at, a.n);
    if (RESIDUAL) {
        float r[EACH];
        load(r, a.r, at, a.n);
        for (unsigned j = 0; j < EACH; j++)
            p[j] = __fadd_rn(r[j], p[j]);
    }
}

/* ---- norms ----------------------------------------------------------------------------------- */

__device__ __forceinline__ uint32_t magnitude(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

__device__ __forceinline__ double add_squares(double sum, const float *p)
{
    for (unsigned j = 0; j < EACH; j++)
        sum = __dadd_rn(sum, __dmul_rn((double)p[j], (double)p[j]));
    return sum;
}

/* Go on with the sums of the 16 lanes, which both halves of the warp are given, over the warp's
 * elements: first those of h = 0, then those of h = 1. */
__device__ __forceinline__ double go_on(double sum, const float *p, const place &at)
{
    const double low = __shfl_sync(tg__full_warp, add_squares(sum, p), (int)at.w);
    return __shfl_sync(tg__full_warp, add_squares(low, p), (int)(LANES + at.w));
}

/* The sum of squares of the bucket so far, lane by lane: the warps take turns. */
__device__ __forceinline__ double squares_in_turns(double sum, const float *p, unsigned warps,
                                                   const place &at, room &shared)
{
    double *sums = shared.sums[at.warp - at.in_warp];
    for (unsigned turn = 0; turn < warps; turn++) {
        if (turn == at.in_warp) {
            if (turn > 0)
                sum = sums[at.w];
            sum = go_on(sum, p, at);
            __syncwarp();
            if (at.h == 0)
                sums[at.w] = sum;
        }
        __syncthreads();
    }
    sum = sums[at.w];
    __syncthreads();
    return sum;
}

__device__ __forceinline__ double lanes_sum(double sum)
{
    double total = 0;
    for (int lane = 0; lane < (int)LANES; lane++)
        total = __dadd_rn(total, __shfl_sync(tg__full_warp, sum, lane));
    return total;
}

/* The largest magnitude of the bucket, from that of each warp. */
__device__ __forceinline__ uint32_t largest(uint32_t most, unsigned warps, const place &at,
                                            room &shared)
{
    if (warps == 1)
        return most;
    if (at.lane == 0)
        shared.most[at.warp] = most;
    __syncthreads();
    most = 0;
    for (unsigned i = 0; i < warps; i++)
        most = max(most, shared.most[at.warp - at.in_warp + i]);
    __syncthreads();
    return most;
}

/* The norm of the bucket; `tiles` times the warps' elements. p: those of the only tile.
 * RESIDUAL, several tiles: the sums r + g are put into r. */
template <bool RESIDUAL>
__device__ double norm_of(float *p, const tg__quant_pass &a, size_t begin, unsigned warps,
                          unsigned tiles, const place &at, room &shared)
{
    uint32_t most = 0;
    double sum = 0;
    for (unsigned t = 0; t < tiles; t++) {
        const size_t first = begin + (size_t)t * warps * TG__QUANT_BLOCK;
        form<RESIDUAL>(p, a, first);
        if (RESIDUAL && tiles > 1)
            store(a.r, first, a.n, p);
        if (a.l2) {
            sum = warps == 1 ? go_on(sum, p, at) : squares_in_turns(sum, p, warps, at, shared);
            continue;
        }
        for (unsigned j = 0; j < EACH; j++)
            most = max(most, magnitude(p[j]));
    }
    if (a.l2)
        return sqrt(lanes_sum(sum));
    most = largest(tg__largest_in_warp(most), warps, at, shared);
    return (double)__uint_as_float(most);
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* Codes of the lane's elements; p is what is left of them. */
__device__ __forceinline__ void code(int *codes, float *p, float unit, const tg__quant_pass &a,
                                     size_t at)
{
    if (unit == 0) {
        for (unsigned j = 0; j < EACH; j++)
            codes[j] = 0;
        return;
    }
    const float scale = __fmul_rn(65536.0f, __fdiv_rn(1, unit));
    for (unsigned q = 0; q < 2; q++) {
        const uint32_t block = (uint32_t)(at / GROUP + q) * LANES + (uint32_t)(at % LANES);
        const uint32_t counter[4] = {block, 0, 0, 0};
        uint32_t word[4];
        if (a.rounds == 7)
            tg__gpu_philox(counter, a.key[0], a.key[1], 7, word);
        else
            tg__gpu_philox(counter, a.key[0], a.key[1], 10, word);
        for (unsigned j = 0; j < 8; j++) {
            const uint32_t draw = word[j / 2] >> 16 * (j % 2) & 0xffff;
            float &x = p[8 * q + j];
            codes[8 * q + j] = tg__code_random(x, scale, draw, a.levels);
            x = tg__left_of(x, codes[8 * q + j], unit);
        }
    }
}

/* Codes of 8 bits in order: four lanes transpose 4 x 4 bytes. */
__device__ __forceinline__ void put_bytes(uint8_t *to, const int *codes, const place &at)
{
    const unsigned row = at.w % 4;
    for (unsigned i = 0; i < EACH; i += 4) {
        uint32_t x = 0;
        for (unsigned j = 0; j < 4; j++)
            x |= ((uint32_t)codes[i + j] & 0xff) << 8 * j;
        uint32_t y = __shfl_xor_sync(tg__full_warp, x, 1);
        x = row & 1 ? (x & 0xff00ff00u) | (y >> 8 & 0x00ff00ffu)
                    : (x & 0x00ff00ffu) | (y << 8 & 0xff00ff00u);
        y = __shfl_xor_sync(tg__full_warp, x, 2);
        x = row & 2 ? (x & 0xffff0000u) | y >> 16 : (x & 0xffffu) | y << 16;
        *(uint32_t *)(to + HALF * at.h + LANES * (i + row) + (at.w - row)) = x;
    }
}

/* Whole blocks of 512 codes below 8 bits. */
__device__ __forceinline__ void put_planes(uint8_t *to, const int *codes, unsigned width,
                                           const place &at)
{
    uint32_t *word = (uint32_t *)to + at.w;
    unsigned from = 0;
    if (width & 4) {
        for (unsigned q = 0; q < 2; q++) {
            uint32_t x = 0;
            for (unsigned j = 0; j < 8; j++)
                x |= ((uint32_t)codes[8 * q + j] & 15) << 4 * j;
            word[LANES * (2 * at.h + q)] = x;
        }
        word += 4 * LANES;
        from = 4;
    }
    if (width & 2) {
        uint32_t x = 0;
        for (unsigned j = 0; j < EACH; j++)
            x |= ((uint32_t)codes[j] >> from & 3) << 2 * j;
        word[LANES * at.h] = x;
        word += 2 * LANES;
        from += 2;
    }
    if (width & 1) {
        uint32_t x = 0;
        for (unsigned j = 0; j < EACH; j++)
            x |= ((uint32_t)codes[j] >> from & 1) << j;
        x |= __shfl_xor_sync(tg__full_warp, x, (int)LANES) << 16;
        if (at.h == 0)
            word[0] = x;
    }
}

/* The vector's last m < 512 codes, in shared memory. */
__device__ void put_last(uint8_t *to, const uint8_t *codes, unsigned m, unsigned width,
                         unsigned lane)
{
    if (width == 8) {
        for (unsigned e = lane; e < m; e += 32)
            to[e] = codes[e];
        return;
    }
    for (unsigned from = 0; from < width;) {
        const unsigned w = width - from >= 4 ? 4 : width - from >= 2 ? 2 : 1;
        const unsigned group = TG__QUANT_BLOCK / w;
        for (unsigned first = 0; first < m; first += group) {
            const unsigned count = min(m - first, group), words = (count * w + 31) / 32;
            if (lane < words) {
                uint32_t x = 0;
                for (unsigned e = lane; e < count; e += words)
                    x |= ((uint32_t)codes[first + e] >> from & ((1u << w) - 1)) << w * (e / words);
                ((uint32_t *)to)[lane] = x;
            }
            to += 4 * words;
        }
        from += w;
    }
}

__device__ __forceinline__ void put_codes(const int *codes, const tg__quant_pass &a, size_t first,
                                          const place &at, room &shared)
{
    uint8_t *to = a.packed + first / TG__QUANT_BLOCK * (TG__QUANT_BLOCK / 8 * a.width);
    if (first + TG__QUANT_BLOCK <= a.n) {
        if (a.width == 8)
            put_bytes(to, codes, at);
        else
            put_planes(to, codes, a.width, at);
    } else if (first < a.n) {
        for (unsigned j = 0; j < EACH; j++)
            shared.codes[HALF * at.h + LANES * j + at.w] = (uint8_t)codes[j];
        __syncwarp();
        put_last(to, shared.codes, (unsigned)(a.n - first), a.width, at.lane);
    }
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* warps: those of a bucket, which has `tiles` times their elements. MOST: threads of a block. */
template <bool RESIDUAL, unsigned MOST>
__global__ void __launch_bounds__(MOST) encode(tg__quant_pass a, unsigned warps, unsigned tiles)
{
    __shared__ room shared;
    if (*a.bad != UINT64_MAX)
        return;
    place at;
    at.lane = threadIdx.x % 32;
    at.w = at.lane % LANES;
    at.h = at.lane / LANES;
    at.warp = threadIdx.x / 32;
    at.in_warp = at.warp % warps;
    const unsigned at_once = blockDim.x / 32 / warps; /* buckets */
    const size_t buckets = (a.n + a.bucket - 1) / a.bucket;
    const unsigned own = TG__QUANT_BLOCK * at.in_warp;
    const unsigned from = HALF * at.h + at.w;
    bool coded = false, spoilt = false;
    for (size_t b0 = (size_t)blockIdx.x * at_once; b0 < buckets;
         b0 += (size_t)gridDim.x * at_once) {
        const size_t b = b0 + at.warp / warps, begin = b * a.bucket + own;
        float p[EACH];
        const double norm = norm_of<RESIDUAL>(p, a, begin + from, warps, tiles, at, shared);
        const float unit = tg__unit_of(norm, a.levels);
        spoilt |= !tg__is_finite(norm);
        if (b < buckets && at.in_warp == 0 && at.lane == 0)
            tg__unit_put(a.units, b, unit);
        for (unsigned t = 0; t < tiles; t++) {
            const size_t first = begin + (size_t)t * warps * TG__QUANT_BLOCK;
            int codes[EACH];
            if (tiles > 1)
                load(p, RESIDUAL ? a.r : a.g, first + from, a.n);
            code(codes, p, unit, a, first + from);
            for (unsigned j = 0; j < EACH; j++)
                coded |= codes[j] != 0;
            put_codes(codes, a, first, at, shared);
            if (RESIDUAL)
                store(a.r, first + from, a.n, p);
        }
    }
    if (coded)
        a.flags[0] = 1;
    if (spoilt)
        a.flags[1] = 1;
}
} // namespace

extern "C" cudaError_t tg__quant_encode_random(const tg__quant_pass *pass, cudaStream_t stream)
{
    const unsigned blocks_of_512 = pass->bucket / TG__QUANT_BLOCK;
    const unsigned warps = blocks_of_512 < THREADS_MAX / 32 ? blocks_of_512 : THREADS_MAX / 32;
    const unsigned threads = 32 * warps > THREADS ? 32 * warps : THREADS;
    const size_t at_once = threads / 32 / warps * (size_t)pass->bucket;
    const size_t wanted = (pass->n + at_once - 1) / at_once;
    const unsigned blocks = (unsigned)(wanted < BLOCKS_MAX ? wanted : BLOCKS_MAX);
    const auto kernel =
        threads > THREADS
            ? (pass->r != nullptr ? encode<true, THREADS_MAX> : encode<false, THREADS_MAX>)
            : (pass->r != nullptr ? encode<true, THREADS> : encode<false, THREADS>);
    TG__LAUNCH(kernel, blocks, threads, stream, *pass, warps, blocks_of_512 / warps);
    return cudaGetLastError();
}
