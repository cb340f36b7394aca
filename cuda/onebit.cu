/* The columns of matrices: bytes that move per element: sums 4, or 12 with g; settle 8, or 4 if x
 * is only read; bits 1/8.
 *
 * A block sums 32 columns. Each of its eight warps sums eight rows, which is a block of rows of
 * src/kernel; the first two warps then add these sums in order, while the others go on. */
#include "onebit.h"
#include "gpu.h"
#include <float.h>
#include <math.h>

namespace
{
enum { WARP = 32, WARPS = 8, THREADS = WARPS * WARP, ROWS = 8, STEP = WARPS * ROWS };
static_assert((int)WARP == (int)TG__PANEL_COLS, "a lane is a column");

struct panel {
    tg__matrix m;
    unsigned col, row_bytes; /* col: of the lane */
    bool inside;
};

__device__ inline panel panel_of(const tg__matrices &all, const tg__panel &p)
{
    panel own;
    own.m = all.matrix[p.matrix];
    own.col = p.col + threadIdx.x % WARP;
    own.row_bytes = (own.m.cols + 7) / 8;
    own.inside = own.col < own.m.cols;
    return own;
}

/* Eight rows of the lane's column; missing elements are 0. */
__device__ inline void get_rows(float x[ROWS], const float *from, const panel &p, unsigned row)
{
    const float *at = from + p.m.begin + (size_t)row * p.m.cols + p.col;
#pragma unroll
    for (unsigned j = 0; j < ROWS; j++)
        x[j] = p.inside && row + j < p.m.rows ? at[(size_t)j * p.m.cols] : 0.0f;
}

__device__ inline void put_rows(float *to, const float x[ROWS], const panel &p, unsigned row)
{
    float *at = to + p.m.begin + (size_t)row * p.m.cols + p.col;
#pragma unroll
    for (unsigned j = 0; j < ROWS; j++)
        if (p.inside && row + j < p.m.rows)
            at[(size_t)j * p.m.cols] = x[j];
}

/* The bits of eight rows; byte b of row r is stored by lane 4r + b. */
__device__ inline void put_bits(uint8_t *bits, const float x[ROWS], const panel &p, unsigned row,
                                float t)
{
    const unsigned lane = threadIdx.x % WARP, at = (p.col - lane) / 8 + lane % 4;
    unsigned word = 0;
#pragma unroll
    for (unsigned j = 0; j < ROWS; j++) {
        const unsigned ballot = __ballot_sync(~0u, p.inside && x[j] < t);
        word = lane == j ? ballot : word;
    }
    const unsigned byte = __shfl_sync(~0u, word, (int)(lane / 4)) >> 8 * (lane % 4);
    if (row + lane / 4 < p.m.rows && at < p.row_bytes)
        bits[p.m.bit + (size_t)(row + lane / 4) * p.row_bytes + at] = (uint8_t)byte;
}

/* As in codec_onebit.c. */
__device__ inline float mean_of(double sum, double n)
{
    return n > 0 ? (float)(sum / n) + 0.0f : 0.0f;
}

__device__ inline float saturated(double x)
{
    return (float)fmax(-(double)FLT_MAX, fmin((double)FLT_MAX, x)) + 0.0f;
}

__device__ inline void finish(const tg__column_pass &p, tg__column_result what, const panel &own,
                              double below, double above, unsigned count, float t)
{
    const double n = (double)own.m.rows, nbelow = (double)count, nabove = n - nbelow;
    float *plus = p.values + own.m.value + own.col, *minus = plus + own.m.cols;
    if (what == TG__COLUMN_MEAN) {
        p.t[own.m.column + own.col] = mean_of(below + above, n);
    } else if (what == TG__COLUMN_PAIR) {
        *plus = mean_of(above, nabove);
        *minus = mean_of(below, nbelow);
    } else {
        const double m = (double)t;
        const double d = fmax(0.0, ((above - nabove * m) + (nbelow * m - below)) / n);
        *plus = saturated(m + d);
        *minus = saturated(m - d);
    }
}

__global__ void __launch_bounds__(THREADS, 4)
    sum_columns(tg__matrices all, tg__column_pass p, tg__column_result what)
{
    __shared__ double part[2][2][WARPS][WARP]; /* of two steps in turn: below, above */
    __shared__ double above[WARP];
    __shared__ unsigned nbelow[WARP];
    if (*p.bad != UINT64_MAX)
        return;
    const panel own = panel_of(all, all.panel[blockIdx.x]);
    const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const float t = what == TG__COLUMN_SPREAD && own.inside ? p.t[own.m.column + own.col] : 0.0f;
    unsigned count = 0;
    bool wrong = false;
    double sum = 0;
    if (warp == 0)
        nbelow[lane] = 0;
    for (unsigned begin = 0, turn = 0; begin < own.m.rows; begin += STEP, turn ^= 1) {
        const unsigned row = begin + warp * ROWS;
        float x[ROWS];
        double low = 0, high = 0;
        get_rows(x, p.x, own, row);
        if (p.g != nullptr) {
            float g[ROWS];
            get_rows(g, p.g, own, row);
#pragma unroll
            for (unsigned j = 0; j < ROWS; j++)
                x[j] = x[j] + g[j];
            put_rows(p.x, x, own, row);
        }
#pragma unroll
        for (unsigned j = 0; j < ROWS; j++) {
            const bool less = x[j] < t;
            low = __dadd_rn(low, (double)(less ? x[j] : 0.0f));
            high = __dadd_rn(high, (double)(less ? 0.0f : x[j]));
            count += less && row + j < own.m.rows;
            wrong |= !(fabsf(x[j]) <= FLT_MAX);
        }
        if (p.bits != nullptr)
            put_bits(p.bits, x, own, row, t);
        part[turn][0][warp][lane] = low;
        part[turn][1][warp][lane] = high;
        __syncthreads();
        if (warp < 2)
            for (unsigned w = 0; w < WARPS; w++)
                sum = __dadd_rn(sum, part[turn][warp][w][lane]);
    }
    if (wrong)
        *p.spoilt = 1;
    atomicAdd(&nbelow[lane], count);
    if (warp == 1)
        above[lane] = sum;
    __syncthreads();
    if (warp == 0 && own.inside)
        finish(p, what, own, sum, above[lane], nbelow[lane], t);
}

__global__ void __launch_bounds__(THREADS) settle_columns(tg__matrices all, tg__column_pass p)
{
    if (*p.bad != UINT64_MAX)
        return;
    const tg__panel tile = all.tile[blockIdx.x];
    const panel own = panel_of(all, tile);
    const unsigned warp = threadIdx.x / WARP;
    const unsigned end = min(own.m.rows, tile.row + (unsigned)TG__PANEL_ROWS);
    const float *value = p.values + own.m.value + own.col;
    const float t = p.t != nullptr && own.inside ? p.t[own.m.column + own.col] : 0.0f;
    const float plus = own.inside ? value[0] : 0.0f, minus = own.inside ? value[own.m.cols] : 0.0f;
    for (unsigned row = tile.row + warp * ROWS; row < end; row += STEP) {
        float x[ROWS];
        get_rows(x, p.x, own, row);
        if (p.bits != nullptr)
            put_bits(p.bits, x, own, row, t);
        if (!p.subtract)
            continue;
#pragma unroll
        for (unsigned j = 0; j < ROWS; j++)
            x[j] = x[j] - (x[j] < t ? minus : plus);
        put_rows(p.x, x, own, row);
    }
}
} // namespace

cudaError_t tg__column_sums(const tg__matrices *m, const tg__column_pass *p, tg__column_result what,
                            cudaStream_t stream)
{
    if (m->panels == 0)
        return cudaSuccess;
    TG__LAUNCH(sum_columns, m->panels, THREADS, stream, *m, *p, what);
    return cudaGetLastError();
}

cudaError_t tg__column_settle(const tg__matrices *m, const tg__column_pass *p, cudaStream_t stream)
{
    if (m->tiles == 0)
        return cudaSuccess;
    TG__LAUNCH(settle_columns, m->tiles, THREADS, stream, *m, *p);
    return cudaGetLastError();
}
