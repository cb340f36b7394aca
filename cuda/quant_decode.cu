/* int8 and qsgd, the fixed coding. Each element moves width / 8 bytes read and 4 written; 4 more
 * read unless it is the first frame; and 2 / bucket for units. */
#include "quant.h"
#include "accumulate.h"
#include "quant_code.h"

namespace
{
constexpr unsigned THREADS = 256, WARPS = THREADS / 32, BLOCKS_MAX = 2112;
constexpr unsigned LANES = 16, HALF = TG__QUANT_BLOCK / 2, EACH = HALF / LANES;

/* A word at an even address. */
__device__ __forceinline__ uint32_t word_at(const uint8_t *p, bool whole)
{
    if (whole)
        return *(const uint32_t *)p;
    return ((const uint16_t *)p)[0] | (uint32_t)((const uint16_t *)p)[1] << 16;
}

__device__ __forceinline__ float value_of(uint32_t code, unsigned width, float unit)
{
    const uint32_t sign = 1u << (width - 1);
    return __fmul_rn((float)(int)((code ^ sign) - sign), unit);
}

struct source {
    const uint8_t *units, *packed;
    size_t n;
    unsigned bucket, width;
    bool whole; /* packed is aligned to 4 bytes */
};

/* ---- codes of a byte ------------------------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS)
    decode_bytes(source f, bool aligned, tg__sum sum, uint64_t *spoilt)
{
    bool fine = true;
    const size_t stride = (size_t)gridDim.x * THREADS * 4;
    for (size_t at = ((size_t)blockIdx.x * THREADS + threadIdx.x) * 4; at < f.n; at += stride) {
        const float unit = tg__unit_get(f.units, at / f.bucket);
        if (aligned && at + 4 <= f.n) {
            const uint32_t codes = word_at(f.packed + at, f.whole);
            tg__sum_put4(
                &sum, at,
                make_float4(value_of(codes & 0xff, 8, unit), value_of(codes >> 8 & 0xff, 8, unit),
                            value_of(codes >> 16 & 0xff, 8, unit), value_of(codes >> 24, 8, unit)),
                &fine);
            continue;
        }
        for (size_t i = at; i < at + 4 && i < f.n; i++)
            tg__sum_put(&sum, i, value_of(f.packed[i], 8, unit), &fine);
    }
    tg__sum_end(fine, spoilt);
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* The codes of a whole block at 16 j + w of its half h, j = 0..15. */
__device__ __forceinline__ void get_planes(uint32_t *codes, const uint8_t *block, unsigned w,
                                           unsigned h, unsigned width, bool whole)
{
    const uint8_t *word = block + 4 * w;
    unsigned at = 0;
    for (unsigned j = 0; j < EACH; j++)
        codes[j] = 0;
    if (width & 4) {
        for (unsigned q = 0; q < 2; q++) {
            const uint32_t x = word_at(word + 64 * (2 * h + q), whole);
            for (unsigned j = 0; j < 8; j++)
                codes[8 * q + j] = x >> 4 * j & 15;
        }
        word += 256;
        at = 4;
    }
    if (width & 2) {
        const uint32_t x = word_at(word + 64 * h, whole);
        for (unsigned j = 0; j < EACH; j++)
            codes[j] |= (x >> 2 * j & 3) << at;
        word += 128;
        at += 2;
    }
    if (width & 1) {
        const uint32_t x = word_at(word, whole) >> 16 * h;
        for (unsigned j = 0; j < EACH; j++)
            codes[j] |= (x >> j & 1) << at;
    }
}

/* Code e of the vector's last m < 512 codes. */
__device__ uint32_t code_in_last(const uint8_t *block, unsigned e, unsigned m, unsigned width,
                                 bool whole)
{
    uint32_t code = 0;
    for (unsigned at = 0; at < width;) {
        const unsigned w = width - at >= 4 ? 4 : width - at >= 2 ? 2 : 1;
        const unsigned group = TG__QUANT_BLOCK / w;
        for (unsigned first = 0; first < m; first += group) {
            const unsigned count = min(m - first, group), words = (count * w + 31) / 32;
            if (e >= first && e < first + count) {
                const uint32_t x = word_at(block + 4 * ((e - first) % words), whole);
                code |= (x >> w * ((e - first) / words) & ((1u << w) - 1)) << at;
            }
            block += 4 * words;
        }
        at += w;
    }
    return code;
}

/* A warp for each block of 512. */
__global__ void __launch_bounds__(THREADS) decode_planes(source f, tg__sum sum, uint64_t *spoilt)
{
    const unsigned lane = threadIdx.x % 32, w = lane % LANES, h = lane / LANES;
    const size_t blocks = (f.n + TG__QUANT_BLOCK - 1) / TG__QUANT_BLOCK;
    bool fine = true;
    for (size_t b = (size_t)blockIdx.x * WARPS + threadIdx.x / 32; b < blocks;
         b += (size_t)gridDim.x * WARPS) {
        const size_t begin = b * TG__QUANT_BLOCK, at = begin + HALF * h + w;
        const float unit = tg__unit_get(f.units, begin / f.bucket);
        const uint8_t *block = f.packed + b * (TG__QUANT_BLOCK / 8 * f.width);
        if (begin + TG__QUANT_BLOCK <= f.n) {
            uint32_t codes[EACH];
            float x[EACH];
            get_planes(codes, block, w, h, f.width, f.whole);
            for (unsigned j = 0; j < EACH; j++)
                x[j] = sum.first ? 0.0f : sum.x[at + LANES * j];
            for (unsigned j = 0; j < EACH; j++)
                sum.x[at + LANES * j] =
                    tg__sum_of(&sum, x[j], value_of(codes[j], f.width, unit), &fine);
            continue;
        }
        const unsigned m = (unsigned)(f.n - begin);
        for (unsigned e = lane; e < m; e += 32)
            tg__sum_put(&sum, begin + e,
                        value_of(code_in_last(block, e, m, f.width, f.whole), f.width, unit),
                        &fine);
    }
    tg__sum_end(fine, spoilt);
}

unsigned blocks_for(size_t n, size_t each)
{
    const size_t blocks = (n + each - 1) / each;
    return (unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
}
} // namespace

extern "C" cudaError_t tg__quant_decode_fixed(const uint8_t *payload, unsigned width,
                                              unsigned bucket, float *x, size_t n, bool first,
                                              bool last, float share, uint64_t *spoilt,
                                              cudaStream_t stream)
{
    const uint8_t *packed = payload + (n + bucket - 1) / bucket * 2;
    const source f = {payload, packed, n, bucket, width, (uintptr_t)packed % 4 == 0};
    const tg__sum sum = {x, first, last, share, first && last && spoilt == nullptr};
    if (width == 8) {
        const bool aligned = (uintptr_t)x % 16 == 0;
        TG__LAUNCH(decode_bytes, blocks_for(n, 4 * THREADS), THREADS, stream, f, aligned, sum,
                   spoilt);
    } else {
        TG__LAUNCH(decode_planes, blocks_for(n, TG__QUANT_BLOCK * WARPS), THREADS, stream, f, sum,
                   spoilt);
    }
    return cudaGetLastError();
}
