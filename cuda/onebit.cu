/* The columns of matrices: bytes that move per element: sums 4, or 12 with g; settle 8, or 4 if x
 * is only read; bits 1/8.
 *
 * A block sums 32 columns. Each of its eight warps sums eight rows, which is a block of rows of
 * src/kernel; the first warps then add these sums in order, while the others go on. Weights come
 * from a pass before it, in which half a warp sums a row, as the 16 lanes of src/kernel. */
#include "onebit.h"
#include "gpu.h"
#include <float.h>
#include <math.h>

namespace
{
enum { WARP = 32, WARPS = 8, THREADS = WARPS * WARP, ROWS = 8, STEP = WARPS * ROWS };
enum { LANES = 16, CHUNK = 65536, UNROLL = 8 };
static_assert((int)WARP == (int)TG__PANEL_COLS, "a lane is a column");
static_assert(THREADS / LANES == (int)TG__BAND_ROWS, "half a warp has a row");

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

/* The weights of eight rows, where there are any. */
__device__ inline void get_weights(float w[ROWS], const float *values, const panel &p, unsigned row)
{
#pragma unroll
    for (unsigned j = 0; j < ROWS; j++)
        w[j] = row + j < p.m.rows ? values[p.m.value + row + j] : 0.0f;
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

/* ---- weights --------------------------------------------------------------------------------- */

/* The lane's sum of up to a chunk of a row, from `at` on; x += g before, if there is g. */
__device__ inline double sum_lane(const tg__column_pass &p, size_t at, unsigned n, bool inside,
                                  bool *wrong)
{
    const unsigned lane = threadIdx.x % LANES;
    double sum = 0;
    for (unsigned from = 0; from < n; from += LANES * UNROLL) {
        float x[UNROLL], g[UNROLL];
#pragma unroll
        for (unsigned j = 0; j < UNROLL; j++) {
            const unsigned i = from + LANES * j + lane;
            x[j] = inside && i < n ? p.x[at + i] : 0.0f;
            g[j] = p.g != nullptr && inside && i < n ? p.g[at + i] : 0.0f;
        }
#pragma unroll
        for (unsigned j = 0; j < UNROLL; j++) {
            const unsigned i = from + LANES * j + lane;
            if (p.g != nullptr) {
                x[j] = x[j] + g[j];
                if (inside && i < n)
                    p.x[at + i] = x[j];
            }
            *wrong |= !(fabsf(x[j]) <= FLT_MAX);
            sum = __dadd_rn(sum, (double)fabsf(x[j]));
        }
    }
    return sum;
}

__global__ void __launch_bounds__(THREADS) weigh_rows(tg__matrices all, tg__column_pass p)
{
    if (*p.bad != UINT64_MAX)
        return;
    const tg__panel band = all.band[blockIdx.x];
    const tg__matrix m = all.matrix[band.matrix];
    const unsigned row = band.row + threadIdx.x / LANES;
    const bool inside = row < m.rows;
    const size_t begin = m.begin + (size_t)row * m.cols;
    bool wrong = false;
    double total = 0;
    for (unsigned at = 0; at < m.cols; at += CHUNK) {
        const unsigned n = min(m.cols - at, (unsigned)CHUNK);
        const double own = sum_lane(p, begin + at, n, inside, &wrong);
        double sum = 0;
        for (int j = 0; j < LANES; j++)
            sum += __shfl_sync(~0u, own, j, LANES);
        total += sum;
    }
    if (wrong)
        *p.spoilt = 1;
    if (inside && threadIdx.x % LANES == 0)
        p.values[m.value + row] = (float)(total / (double)m.cols);
}

/* As in rank1.c. */
__device__ inline double limit_of(float largest)
{
    const double limit = (double)FLT_MAX / (double)largest * (1 - (double)FLT_EPSILON);
    return fmin(limit, (double)FLT_MAX);
}

__device__ inline float limited(double sum, double squares, double limit)
{
    const double value = squares > 0 ? sum / squares : 0;
    return (float)fmax(fmin(value, limit), -limit) + 0.0f;
}

/* Add the block of rows that the warp has: x w below 0, others, w^2 below 0, others. */
__device__ inline void weigh_block(const float x[ROWS], const float w[ROWS], double sums[4])
{
    for (int s = 0; s < 4; s++)
        sums[s] = 0;
#pragma unroll
    for (unsigned j = 0; j < ROWS; j++) {
        const bool less = x[j] < 0;
        const double weight = (double)w[j], square = __dmul_rn(weight, weight);
        sums[0] = __dadd_rn(sums[0], __dmul_rn((double)(less ? x[j] : 0.0f), weight));
        sums[1] = __dadd_rn(sums[1], __dmul_rn((double)(less ? 0.0f : x[j]), weight));
        sums[2] = __dadd_rn(sums[2], less ? square : 0.0);
        sums[3] = __dadd_rn(sums[3], less ? 0.0 : square);
    }
}

__global__ void __launch_bounds__(THREADS) weigh_columns(tg__matrices all, tg__column_pass p)
{
    __shared__ double part[2][4][WARPS][WARP]; /* of two steps in turn */
    __shared__ double total[4][WARP];
    __shared__ float largest[WARPS];
    if (*p.bad != UINT64_MAX)
        return;
    const panel own = panel_of(all, all.panel[blockIdx.x]);
    const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float most = 0;
    double sum = 0;
    for (unsigned begin = 0, turn = 0; begin < own.m.rows; begin += STEP, turn ^= 1) {
        const unsigned row = begin + warp * ROWS;
        float x[ROWS], w[ROWS];
        double sums[4];
        get_rows(x, p.x, own, row);
        get_weights(w, p.values, own, row);
        weigh_block(x, w, sums);
        for (unsigned j = 0; j < ROWS; j++)
            most = fmaxf(most, w[j]);
        if (p.bits != nullptr)
            put_bits(p.bits, x, own, row, 0);
        for (unsigned s = 0; s < 4; s++)
            part[turn][s][warp][lane] = sums[s];
        __syncthreads();
        if (warp < 4)
            for (unsigned b = 0; b < WARPS; b++)
                sum = __dadd_rn(sum, part[turn][warp][b][lane]);
    }
    if (warp < 4)
        total[warp][lane] = sum;
    if (lane == 0)
        largest[warp] = most;
    __syncthreads();
    if (warp != 0 || !own.inside)
        return;
    for (unsigned w = 0; w < WARPS; w++)
        most = fmaxf(most, largest[w]);
    const double limit = limit_of(most);
    float *plus = p.values + own.m.value + own.m.rows + own.col;
    plus[0] = limited(total[1][lane], total[3][lane], limit);
    plus[own.m.cols] = limited(total[0][lane], total[2][lane], limit);
}

/* ---- settling -------------------------------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS) settle_columns(tg__matrices all, tg__column_pass p)
{
    if (*p.bad != UINT64_MAX)
        return;
    const tg__panel tile = all.tile[blockIdx.x];
    const panel own = panel_of(all, tile);
    const unsigned warp = threadIdx.x / WARP;
    const unsigned end = min(own.m.rows, tile.row + (unsigned)TG__PANEL_ROWS);
    const float *value = p.values + own.m.value + (all.weighted ? own.m.rows : 0) + own.col;
    const float t = p.t != nullptr && own.inside ? p.t[own.m.column + own.col] : 0.0f;
    const float plus = own.inside ? value[0] : 0.0f, minus = own.inside ? value[own.m.cols] : 0.0f;
    for (unsigned row = tile.row + warp * ROWS; row < end; row += STEP) {
        float x[ROWS];
        get_rows(x, p.x, own, row);
        if (p.bits != nullptr)
            put_bits(p.bits, x, own, row, t);
        if (!p.subtract)
            continue;
        if (all.weighted) {
            float w[ROWS];
            get_weights(w, p.values, own, row);
#pragma unroll
            for (unsigned j = 0; j < ROWS; j++)
                x[j] = x[j] - __fmul_rn(x[j] < 0 ? minus : plus, w[j]);
        } else {
#pragma unroll
            for (unsigned j = 0; j < ROWS; j++)
                x[j] = x[j] - (x[j] < t ? minus : plus);
        }
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

cudaError_t tg__row_weights(const tg__matrices *m, const tg__column_pass *p, cudaStream_t stream)
{
    if (m->bands == 0)
        return cudaSuccess;
    TG__LAUNCH(weigh_rows, m->bands, THREADS, stream, *m, *p);
    return cudaGetLastError();
}

cudaError_t tg__column_weighed(const tg__matrices *m, const tg__column_pass *p, cudaStream_t stream)
{
    if (m->panels == 0)
        return cudaSuccess;
    TG__LAUNCH(weigh_columns, m->panels, THREADS, stream, *m, *p);
    return cudaGetLastError();
}

cudaError_t tg__column_settle(const tg__matrices *m, const tg__column_pass *p, cudaStream_t stream)
{
    if (m->tiles == 0)
        return cudaSuccess;
    TG__LAUNCH(settle_columns, m->tiles, THREADS, stream, *m, *p);
    return cudaGetLastError();
}
