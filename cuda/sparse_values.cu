/* Values of sparse frames, one block of threads for each 512 of them. Bytes per value: reads 8,
 * writes 4 and its code, and scattered 4 of x and of u, which touch 32 each.
 *
 * The last block chooses the coding of the indices, for which all blocks have summed up the gaps
 * between them. */
#include "sparse_values.h"
#include "gpu.h"
#include "half_words.h"
#include "topk_block.h"

namespace
{
constexpr unsigned threads = TG__SPARSE_BLOCK, lanes = 16, finish_threads = 256;
constexpr uint32_t infinity = 0x7f800000u, full = TG__FULL_WARP;

__device__ __forceinline__ float with_sign(float magnitude, uint32_t sign)
{
    return __uint_as_float(__float_as_uint(magnitude) | sign << 31);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The largest magnitude of the block's values. */
__device__ __forceinline__ float block_max(float x, uint32_t *shared)
{
    const uint32_t of_warp = tg__warp_max(tg__magnitude(x));
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = of_warp;
    __syncthreads();
    uint32_t most = 0;
    for (unsigned j = 0; j < threads / 32; j++)
        most = shared[j] > most ? shared[j] : most;
    return __uint_as_float(most);
}

struct sums {
    double lower, upper;
};

/* Sums of the magnitudes below the limit and of the others, each over 16 lanes in order. */
__device__ __forceinline__ sums class_sums(const float *magnitude, uint32_t m, double limit,
                                           double (*lane)[lanes])
{
    __syncthreads();
    if (threadIdx.x < lanes) {
        double lower = 0, upper = 0;
        for (uint32_t i = threadIdx.x; i < (m + lanes - 1) / lanes * lanes; i += lanes) {
            const double x = (double)magnitude[i], other = x >= limit ? x : 0;
            lower = __dadd_rn(lower, __dadd_rn(x, -other));
            upper = __dadd_rn(upper, other);
        }
        lane[0][threadIdx.x] = lower;
        lane[1][threadIdx.x] = upper;
    }
    __syncthreads();
    sums sum = {0, 0};
    for (unsigned l = 0; l < lanes; l++) {
        sum.lower = __dadd_rn(sum.lower, lane[0][l]);
        sum.upper = __dadd_rn(sum.upper, lane[1][l]);
    }
    return sum;
}

__device__ __forceinline__ void put_float(uint8_t *dst, float x)
{
    *reinterpret_cast<float *>(dst) = x; /* blocks begin at multiples of 4 */
}

/* Write the integer code of x in units of scale, 8 or 4 bits; returns what is decoded. */
template <bool NIBBLES>
__device__ __forceinline__ float write_integer(float x, uint32_t m, uint8_t *dst, uint32_t *shared)
{
    const float magic = 0x1.8p23f, top = NIBBLES ? 7 : 127;
    float scale = __fdiv_rn(block_max(x, shared), top);
    if (!(__fmul_rn(scale, top) < __uint_as_float(infinity)))
        scale = __uint_as_float(__float_as_uint(scale) - 1);
    float q = __fdiv_rn(x, scale > 0 ? scale : 1);
    q = q > top ? top : q < -top ? -top : q;
    q = __fsub_rn(__fadd_rn(q, magic), magic);
    const int code = (int)q;
    if (threadIdx.x == 0)
        put_float(dst, scale);
    if (NIBBLES) {
        const int next = __shfl_down_sync(full, code, 1);
        if (threadIdx.x % 2 == 0 && threadIdx.x < m)
            dst[4 + threadIdx.x / 2] = (uint8_t)((code & 15) | (next & 15) << 4);
    } else if (threadIdx.x < m) {
        dst[4 + threadIdx.x] = (uint8_t)code;
    }
    return __fmul_rn((float)code, scale);
}

__device__ __forceinline__ float write_1bit(float x, uint32_t m, uint8_t *dst,
                                            const float *magnitude, double (*lane)[lanes])
{
    const uint32_t sign = __float_as_uint(x) >> 31, t = threadIdx.x;
    const double sum = class_sums(magnitude, m, 0, lane).upper;
    const float level = __double2float_rn(__ddiv_rn(sum, (double)m));
    const uint32_t signs = __ballot_sync(full, sign != 0);
    if (t == 0)
        put_float(dst, level);
    if (t % 8 == 0 && t < m)
        dst[4 + t / 8] = (uint8_t)(signs >> t % 32);
    return with_sign(level, sign);
}

__device__ __forceinline__ float write_2bit(float x, uint32_t m, uint8_t *dst,
                                            const float *magnitude, double (*lane)[lanes])
{
    const uint32_t sign = __float_as_uint(x) >> 31, t = threadIdx.x;
    const double mean = __ddiv_rn(class_sums(magnitude, m, 0, lane).upper, (double)m);
    const bool above = t < m && (double)magnitude[t] >= mean; /* mean is 0 if all values are */
    const uint32_t upper = (uint32_t)__syncthreads_count(above);
    const sums sum = class_sums(magnitude, m, mean, lane);
    const float low = upper < m ? __double2float_rn(__ddiv_rn(sum.lower, (double)(m - upper))) : 0;
    const float high = __double2float_rn(__ddiv_rn(sum.upper, (double)upper));
    uint32_t codes = ((uint32_t)above << 1 | sign) << 2 * (t % 4);
    codes |= __shfl_xor_sync(full, codes, 1);
    codes |= __shfl_xor_sync(full, codes, 2);
    if (t == 0) {
        put_float(dst, low);
        put_float(dst + 4, high);
    }
    if (t % 4 == 0 && t < m)
        dst[8 + t / 4] = (uint8_t)codes;
    return with_sign(above ? high : low, sign);
}

/* Choose as the host's src/wire/index.c does. By one thread. */
__device__ __forceinline__ void plan(const tg__sparse_frame &f)
{
    tg__topk_state *state = f.state;
    const uint64_t k = state->keep, n = f.n,
                   at_index = TG__SPARSE_VALUES + tg__sparse_values_len(f.values, k);
    uint64_t raw = 4 * k, bitmap = (n + 7) / 8, rice = UINT64_MAX, len = raw;
    uint32_t param = 0, coding = (uint32_t)f.index;
    if (f.index == TG__SPARSE_RICE || f.index == TG__SPARSE_AUTO) {
        for (uint32_t b = 0; b < 32; b++) {
            const uint64_t bits = k * (1 + b) + __ldcg(&state->gaps[b]);
            if (bits < rice) {
                rice = bits;
                param = b;
            }
        }
        rice = (rice + 7) / 8;
    }
    if (f.index == TG__SPARSE_AUTO) {
        coding = bitmap < raw ? TG__SPARSE_BITMAP : TG__SPARSE_RAW;
        if (rice < (bitmap < raw ? bitmap : raw))
            coding = TG__SPARSE_RICE;
    }
    if (coding == TG__SPARSE_BITMAP)
        len = bitmap;
    if (coding == TG__SPARSE_RICE)
        len = rice;
    if (coding == TG__SPARSE_EF) {
        param = 63 - (uint32_t)__clzll((long long)(n / k));
        len = (k * (param + 1) + (n >> param) + 1 + 7) / 8;
    }
    state->coding = coding;
    state->param = coding == TG__SPARSE_RICE || coding == TG__SPARSE_EF ? param : 0;
    state->at_index = (uint32_t)at_index;
    state->len = at_index + len;
    state->dense = at_index + len - (TG__SPARSE_VALUES - 4) >= 4 * n;
}

__global__ void __launch_bounds__(threads) write_kernel(tg__sparse_frame f)
{
    __shared__ uint32_t shared[threads / 32][33];
    __shared__ float magnitude[threads];
    __shared__ uint32_t gaps[threads];
    __shared__ double lane[2][lanes];
    tg__topk_state *state = f.state;
    if (state->go == 0)
        return;
    const uint32_t k = state->keep, first = blockIdx.x * threads, t = threadIdx.x;
    if (first < k) {
        const uint32_t m = k - first < threads ? k - first : threads, i = first + t;
        const float x = t < m ? f.val[i] : 0;
        const uint32_t at = t < m ? f.idx[i] : 0;
        uint8_t *dst =
            f.frame + TG__SPARSE_VALUES + blockIdx.x * tg__sparse_block_len(f.values, threads);
        float decoded = x;
        magnitude[t] = __uint_as_float(tg__magnitude(x));
        if (f.values == TG__SPARSE_F32) {
            if (t < m)
                put_float(dst + 4 * t, x);
        } else if (f.values == TG__SPARSE_FP16) {
            const uint16_t h = tg__to_f16(x);
            if (t < m)
                *reinterpret_cast<uint16_t *>(dst + 2 * t) = h;
            decoded = tg__from_f16(h);
        } else if (f.values == TG__SPARSE_INT8) {
            decoded = write_integer<false>(x, m, dst, shared[0]);
        } else if (f.values == TG__SPARSE_4BIT) {
            decoded = write_integer<true>(x, m, dst, shared[0]);
        } else if (f.values == TG__SPARSE_2BIT) {
            decoded = write_2bit(x, m, dst, magnitude, lane);
        } else {
            decoded = write_1bit(x, m, dst, magnitude, lane);
        }
        if (t < m) {
            f.val[i] = decoded;
            if (f.x != nullptr)
                f.x[at] = __fsub_rn(x, decoded);
            if (f.u != nullptr)
                f.u[at] = 0;
        }
        if (f.index == TG__SPARSE_RICE || f.index == TG__SPARSE_AUTO) {
            uint32_t gap = 0;
            if (t < m)
                gap = i > 0 ? at - f.idx[i - 1] - 1 : at;
            __syncthreads();
            gaps[t] = gap;
            __syncthreads();
            uint32_t part = 0;
            for (uint32_t j = 0; j < 32; j++)
                part += gaps[t / 32 * 32 + j] >> t % 32;
            shared[t / 32][t % 32] = part;
            __syncthreads();
            if (t < 32) {
                uint32_t sum = 0;
                for (unsigned j = 0; j < threads / 32; j++)
                    sum += shared[j][t];
                f.sums[(size_t)t * gridDim.x + blockIdx.x] = sum;
                atomicAdd(&state->gaps[t], sum);
            }
        }
    }
    if (tg__last_block(&state->ticket) && t == 0)
        plan(f);
}

/* ---- reading --------------------------------------------------------------------------------- */

__device__ __forceinline__ float value_at(const uint8_t *src, int values, uint32_t t)
{
    const float *scale = reinterpret_cast<const float *>(src);
    switch (values) {
    case TG__SPARSE_F32:
        return scale[t];
    case TG__SPARSE_FP16:
        return tg__from_f16(reinterpret_cast<const uint16_t *>(src)[t]);
    case TG__SPARSE_INT8:
        return __fmul_rn((float)(int8_t)src[4 + t], scale[0]);
    case TG__SPARSE_4BIT:
        return __fmul_rn((float)(((src[4 + t / 2] >> 4 * (t % 2) & 15) ^ 8) - 8), scale[0]);
    case TG__SPARSE_2BIT: {
        const uint32_t code = (uint32_t)src[8 + t / 4] >> 2 * (t % 4) & 3;
        return (code & 1) != 0 ? -scale[code >> 1] : scale[code >> 1];
    }
    default:
        return with_sign(scale[0], (uint32_t)src[4 + t / 8] >> t % 8 & 1);
    }
}

__global__ void __launch_bounds__(threads)
    add_kernel(const uint8_t *frame, int values, uint32_t k, const uint32_t *idx, float *x,
               bool set, float share, uint64_t *spoilt)
{
    const uint32_t i = blockIdx.x * threads + threadIdx.x;
    if (i >= k)
        return;
    const uint8_t *src =
        frame + TG__SPARSE_VALUES + blockIdx.x * tg__sparse_block_len(values, threads);
    const uint32_t at = idx[i];
    const float sum =
        __fmul_rn(__fadd_rn(set ? -0.0f : x[at], value_at(src, values, threadIdx.x)), share);
    x[at] = sum;
    if (spoilt != nullptr && tg__magnitude(sum) >= infinity)
        *spoilt = 1;
}

/* Only elements that change are written. */
__global__ void __launch_bounds__(finish_threads)
    finish_kernel(float *x, size_t n, float share, uint64_t *spoilt)
{
    const size_t i = ((size_t)blockIdx.x * finish_threads + threadIdx.x) * 4;
    if (i >= n)
        return;
    const bool whole = i + 4 <= n && (uintptr_t)x % 16 == 0;
    const unsigned m = n - i < 4 ? (unsigned)(n - i) : 4;
    float own[4] = {0, 0, 0, 0};
    if (whole) {
        const float4 four = *reinterpret_cast<const float4 *>(x + i);
        own[0] = four.x, own[1] = four.y, own[2] = four.z, own[3] = four.w;
    } else {
        for (unsigned j = 0; j < m; j++)
            own[j] = x[i + j];
    }
    bool changed = false, infinite = false;
    for (unsigned j = 0; j < m; j++) {
        const float result = __fmul_rn(own[j], share);
        changed |= __float_as_uint(result) != __float_as_uint(own[j]);
        infinite |= tg__magnitude(result) >= infinity;
        own[j] = result;
    }
    if (infinite)
        *spoilt = 1;
    if (changed && whole) {
        *reinterpret_cast<float4 *>(x + i) = make_float4(own[0], own[1], own[2], own[3]);
    } else if (changed) {
        for (unsigned j = 0; j < m; j++)
            x[i + j] = own[j];
    }
}
} // namespace

cudaError_t tg__sparse_values_write(const tg__sparse_frame *f, cudaStream_t stream)
{
    TG__LAUNCH(write_kernel, tg__sparse_blocks(f->most), threads, stream, *f);
    return cudaGetLastError();
}

cudaError_t tg__sparse_values_add(const uint8_t *frame, int values, uint32_t k, const uint32_t *idx,
                                  float *x, bool set, float share, uint64_t *spoilt,
                                  cudaStream_t stream)
{
    TG__LAUNCH(add_kernel, tg__sparse_blocks(k), threads, stream, frame, values, k, idx, x, set,
               share, spoilt);
    return cudaGetLastError();
}

cudaError_t tg__sparse_finish(float *x, size_t n, float share, uint64_t *spoilt,
                              cudaStream_t stream)
{
    const unsigned blocks = (unsigned)((n + 4 * finish_threads - 1) / (4 * finish_threads));
    TG__LAUNCH(finish_kernel, blocks, finish_threads, stream, x, n, share, spoilt);
    return cudaGetLastError();
}
