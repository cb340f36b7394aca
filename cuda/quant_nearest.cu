/* int8: one warp for each bucket of 512 elements, which stays in its registers. Each element moves
 * 4 bytes read and 1 written; with a residual 8 read and 5 written; and 1/256 for units. */
#include "gpu.h"
#include "quant.h"
#include "quant_code.h"

namespace
{
constexpr unsigned THREADS = 256, WARPS = THREADS / 32, BLOCKS_MAX = 2112;
constexpr unsigned FOURS = TG__QUANT_BLOCK / 128; /* of each lane */

/* Load x[at .. at + 4), at < n; what is beyond n is 0. */
__device__ __forceinline__ float4 load_four(const float *x, size_t at, size_t n, bool aligned)
{
    if (aligned && at + 4 <= n)
        return *(const float4 *)(x + at);
    float4 v = make_float4(0, 0, 0, 0);
    v.x = at < n ? x[at] : 0;
    v.y = at + 1 < n ? x[at + 1] : 0;
    v.z = at + 2 < n ? x[at + 2] : 0;
    v.w = at + 3 < n ? x[at + 3] : 0;
    return v;
}

__device__ __forceinline__ void store_four(float *x, size_t at, size_t n, bool aligned, float4 v)
{
    if (aligned && at + 4 <= n) {
        *(float4 *)(x + at) = v;
        return;
    }
    if (at < n)
        x[at] = v.x;
    if (at + 1 < n)
        x[at + 1] = v.y;
    if (at + 2 < n)
        x[at + 2] = v.z;
    if (at + 3 < n)
        x[at + 3] = v.w;
}

__device__ __forceinline__ uint32_t larger(uint32_t most, float x)
{
    return max(most, __float_as_uint(x) & 0x7fffffffu);
}

/* The code of p, of which the rest is left. */
__device__ __forceinline__ uint32_t encode_one(float &p, float unit, float inverse, int levels)
{
    const int code = unit == 0 ? 0 : tg__code_nearest(p, inverse, levels);
    p = tg__left_of(p, code, unit);
    return (uint32_t)code & 0xff;
}

template <bool RESIDUAL>
__global__ void __launch_bounds__(THREADS) encode(tg__quant_pass a, bool aligned)
{
    if (*a.bad != UINT64_MAX)
        return;
    const unsigned lane = threadIdx.x % 32;
    const size_t buckets = (a.n + TG__QUANT_BLOCK - 1) / TG__QUANT_BLOCK;
    bool coded = false, spoilt = false;
    for (size_t b = (size_t)blockIdx.x * WARPS + threadIdx.x / 32; b < buckets;
         b += (size_t)gridDim.x * WARPS) {
        const size_t begin = b * TG__QUANT_BLOCK + 4 * lane;
        float4 p[FOURS], r[FOURS];
        for (unsigned i = 0; i < FOURS; i++) {
            p[i] = load_four(a.g, begin + 128 * i, a.n, aligned);
            if (RESIDUAL)
                r[i] = load_four(a.r, begin + 128 * i, a.n, aligned);
        }
        uint32_t most = 0;
        for (unsigned i = 0; i < FOURS; i++) {
            if (RESIDUAL) {
                p[i].x = __fadd_rn(r[i].x, p[i].x);
                p[i].y = __fadd_rn(r[i].y, p[i].y);
                p[i].z = __fadd_rn(r[i].z, p[i].z);
                p[i].w = __fadd_rn(r[i].w, p[i].w);
            }
            most = larger(larger(larger(larger(most, p[i].x), p[i].y), p[i].z), p[i].w);
        }
        most = tg__largest_in_warp(most);
        spoilt |= most >= tg__infinity_bits;
        const float unit = tg__unit_of((double)__uint_as_float(most), a.levels);
        const float inverse = unit == 0 ? 0 : __fdiv_rn(1, unit);
        if (lane == 0)
            tg__unit_put(a.units, b, unit);
        for (unsigned i = 0; i < FOURS; i++) {
            const size_t at = begin + 128 * i;
            uint32_t codes = encode_one(p[i].x, unit, inverse, a.levels);
            codes |= encode_one(p[i].y, unit, inverse, a.levels) << 8;
            codes |= encode_one(p[i].z, unit, inverse, a.levels) << 16;
            codes |= encode_one(p[i].w, unit, inverse, a.levels) << 24;
            coded |= codes != 0;
            if (at + 4 <= a.n)
                *(uint32_t *)(a.packed + at) = codes;
            else
                for (unsigned j = 0; at + j < a.n; j++)
                    a.packed[at + j] = (uint8_t)(codes >> 8 * j);
            if (RESIDUAL)
                store_four(a.r, at, a.n, aligned, p[i]);
        }
    }
    if (coded)
        a.flags[0] = 1;
    if (spoilt)
        a.flags[1] = 1;
}
} // namespace

extern "C" cudaError_t tg__quant_encode_nearest(const tg__quant_pass *pass, cudaStream_t stream)
{
    const bool aligned = ((uintptr_t)pass->g | (uintptr_t)pass->r) % 16 == 0;
    const size_t wanted = (pass->n + TG__QUANT_BLOCK * WARPS - 1) / (TG__QUANT_BLOCK * WARPS);
    const unsigned blocks = (unsigned)(wanted < BLOCKS_MAX ? wanted : BLOCKS_MAX);
    const auto kernel = pass->r != nullptr ? encode<true> : encode<false>;
    TG__LAUNCH(kernel, blocks, THREADS, stream, *pass, aligned);
    return cudaGetLastError();
}
