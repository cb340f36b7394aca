/* Signs without scales: bytes that move per element: encode 4, or 12 with a residual, and 1/8;
 * decode 8, or 4 for the first frame, and 1/8. */
#include "sign.h"
#include "accumulate.h"
#include "gpu.h"
#include <float.h>
#include <math.h>

namespace
{
enum { WARP = 32, THREADS = 128, UNROLL = 8, EACH = WARP * UNROLL, PIECE = 8192 };

__global__ void __launch_bounds__(THREADS) encode_pieces(tg__sign_pass p)
{
    if (*p.bad != UINT64_MAX)
        return;
    const unsigned begin = blockIdx.x * PIECE, end = min(p.n, begin + (unsigned)PIECE);
    const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    bool wrong = false;
    for (unsigned at = begin + warp * EACH; at < end; at += THREADS / WARP * EACH) {
        float x[UNROLL], g[UNROLL];
        unsigned word = 0;
#pragma unroll
        for (unsigned j = 0; j < UNROLL; j++) {
            const unsigned i = at + WARP * j + lane;
            g[j] = i < end ? p.g[i] : 0.0f;
            x[j] = p.r != nullptr && i < end ? p.r[i] : 0.0f;
        }
#pragma unroll
        for (unsigned j = 0; j < UNROLL; j++) {
            const unsigned i = at + WARP * j + lane;
            const float v = p.r != nullptr ? x[j] + g[j] : g[j];
            const bool less = v < 0;
            const unsigned ballot = __ballot_sync(~0u, less);
            word = lane == j ? ballot : word;
            wrong |= !(fabsf(v) <= FLT_MAX);
            if (p.r != nullptr && i < end)
                p.r[i] = v - (less ? -1.0f : 1.0f);
        }
        if (lane < UNROLL && at + WARP * lane < end)
            ((uint32_t *)p.bits)[at / WARP + lane] = word;
    }
    if (wrong)
        *p.spoilt = 1;
}

__global__ void __launch_bounds__(THREADS)
    decode_pieces(const uint8_t *bits, tg__sum s, unsigned n, uint64_t *spoilt)
{
    const unsigned begin = blockIdx.x * PIECE, end = min(n, begin + (unsigned)PIECE);
    bool fine = true;
#pragma unroll 8
    for (unsigned i = begin + threadIdx.x; i < end; i += THREADS)
        tg__sum_put(&s, i, bits[i / 8] >> i % 8 & 1 ? -1.0f : 1.0f, &fine);
    tg__sum_end(fine, spoilt);
}
} // namespace

cudaError_t tg__sign_encode(const tg__sign_pass *p, cudaStream_t stream)
{
    TG__LAUNCH(encode_pieces, (p->n + PIECE - 1) / PIECE, THREADS, stream, *p);
    return cudaGetLastError();
}

cudaError_t tg__sign_decode(const uint8_t *bits, float *x, size_t n, bool first, bool last,
                            float share, uint64_t *spoilt, cudaStream_t stream)
{
    const tg__sum s = {x, first, last, share, first && last && spoilt == nullptr};
    TG__LAUNCH(decode_pieces, (unsigned)((n + PIECE - 1) / PIECE), THREADS, stream, bits, s,
               (unsigned)n, spoilt);
    return cudaGetLastError();
}
