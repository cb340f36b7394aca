/* 16-bit floats. Each element moves these bytes:
 *
 *     encode            4 read, 2 written
 *     with a residual   8 read, 6 written
 *     decode            2 read, 4 written; 4 more read unless it is the first frame */
#include "half.h"
#include "accumulate.h"
#include "half_words.h"

namespace
{
constexpr unsigned THREADS = 256, BLOCKS_MAX = 2112, EACH = 8;
template <bool BRAIN> __device__ __forceinline__ uint32_t code_of(float x)
{
    return BRAIN ? tg__to_bf16(x) : tg__to_f16(x);
}

template <bool BRAIN> __device__ __forceinline__ float value_of(uint32_t code)
{
    return BRAIN ? tg__from_bf16((uint16_t)code) : tg__from_f16((uint16_t)code);
}

/* The code of one element: p is g, and becomes what is left. */
template <bool BRAIN, bool RESIDUAL>
__device__ __forceinline__ uint32_t encode_one(float &p, float r, bool &spoilt)
{
    if (RESIDUAL)
        p = __fadd_rn(r, p);
    const uint32_t code = code_of<BRAIN>(p);
    if (RESIDUAL) {
        spoilt |= (__float_as_uint(p) & 0x7fffffffu) >= 0x7f800000u;
        p = __fsub_rn(p, value_of<BRAIN>(code));
    }
    return code;
}

template <bool BRAIN, bool RESIDUAL>
__global__ void __launch_bounds__(THREADS)
    encode(const float *g, float *r, uint16_t *words, size_t n, bool aligned, const uint64_t *bad,
           uint32_t *flags)
{
    if (*bad != UINT64_MAX)
        return;
    bool coded = false, spoilt = false;
    const size_t stride = (size_t)gridDim.x * THREADS * EACH;
    for (size_t at = ((size_t)blockIdx.x * THREADS + threadIdx.x) * EACH; at < n; at += stride) {
        if (aligned && at + EACH <= n) {
            float4 p[2], q[2] = {};
            for (int i = 0; i < 2; i++) {
                p[i] = __ldcs((const float4 *)(g + at) + i);
                if (RESIDUAL)
                    q[i] = *((const float4 *)(r + at) + i);
            }
            uint32_t w[4];
            for (int i = 0; i < 2; i++) {
                w[2 * i] = encode_one<BRAIN, RESIDUAL>(p[i].x, q[i].x, spoilt);
                w[2 * i] |= encode_one<BRAIN, RESIDUAL>(p[i].y, q[i].y, spoilt) << 16;
                w[2 * i + 1] = encode_one<BRAIN, RESIDUAL>(p[i].z, q[i].z, spoilt);
                w[2 * i + 1] |= encode_one<BRAIN, RESIDUAL>(p[i].w, q[i].w, spoilt) << 16;
                if (RESIDUAL)
                    *((float4 *)(r + at) + i) = p[i];
            }
            coded |= (w[0] | w[1] | w[2] | w[3]) != 0;
            *(uint4 *)(words + at) = make_uint4(w[0], w[1], w[2], w[3]);
            continue;
        }
        for (size_t i = at; i < at + EACH && i < n; i++) {
            float p = g[i];
            const uint32_t w = encode_one<BRAIN, RESIDUAL>(p, RESIDUAL ? r[i] : 0, spoilt);
            if (RESIDUAL)
                r[i] = p;
            coded |= w != 0;
            words[i] = (uint16_t)w;
        }
    }
    if (coded)
        flags[0] = 1;
    if (spoilt)
        flags[1] = 1;
}

template <bool BRAIN>
__global__ void __launch_bounds__(THREADS)
    decode(const uint8_t *payload, size_t n, bool aligned, tg__sum sum, uint64_t *spoilt)
{
    const uint16_t *words = (const uint16_t *)payload;
    bool fine = true;
    const size_t stride = (size_t)gridDim.x * THREADS * EACH;
    for (size_t at = ((size_t)blockIdx.x * THREADS + threadIdx.x) * EACH; at < n; at += stride) {
        if (aligned && at + EACH <= n) {
            const uint4 w = __ldcs((const uint4 *)(words + at));
            tg__sum_put4(&sum, at,
                         make_float4(value_of<BRAIN>(w.x & 0xffff), value_of<BRAIN>(w.x >> 16),
                                     value_of<BRAIN>(w.y & 0xffff), value_of<BRAIN>(w.y >> 16)),
                         &fine);
            tg__sum_put4(&sum, at + 4,
                         make_float4(value_of<BRAIN>(w.z & 0xffff), value_of<BRAIN>(w.z >> 16),
                                     value_of<BRAIN>(w.w & 0xffff), value_of<BRAIN>(w.w >> 16)),
                         &fine);
            continue;
        }
        for (size_t i = at; i < at + EACH && i < n; i++)
            tg__sum_put(&sum, i, value_of<BRAIN>(words[i]), &fine);
    }
    tg__sum_end(fine, spoilt);
}

unsigned blocks_for(size_t n)
{
    const size_t blocks = (n + EACH * THREADS - 1) / (EACH * THREADS);
    return (unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
}
} // namespace

extern "C" cudaError_t tg__half_encode(bool brain, const float *g, float *r, uint16_t *words,
                                       size_t n, const uint64_t *bad, uint32_t *flags,
                                       cudaStream_t stream)
{
    const bool aligned = ((uintptr_t)g | (uintptr_t)r) % 16 == 0;
    const auto kernel = brain ? (r != nullptr ? encode<true, true> : encode<true, false>)
                              : (r != nullptr ? encode<false, true> : encode<false, false>);
    TG__LAUNCH(kernel, blocks_for(n), THREADS, stream, g, r, words, n, aligned, bad, flags);
    return cudaGetLastError();
}

extern "C" cudaError_t tg__half_decode(bool brain, const uint8_t *payload, float *x, size_t n,
                                       bool first, bool last, float share, uint64_t *spoilt,
                                       cudaStream_t stream)
{
    const bool aligned = (uintptr_t)x % 16 == 0;
    const auto kernel = brain ? decode<true> : decode<false>;
    const tg__sum sum = {x, first, last, share, first && last && spoilt == nullptr};
    TG__LAUNCH(kernel, blocks_for(n), THREADS, stream, payload, n, aligned, sum, spoilt);
    return cudaGetLastError();
}
