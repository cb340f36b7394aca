/* Bytes of device memory per element of a matrix: fold 12, project and expand 4. With ranks other
 * than 1, 2, 4 and 8, fold takes a pass of 12 and one of 4 for each 4 columns of the factors, and
 * project one of 4 for each 8. */
#include "gpu.h"
#include "skinny.h"

enum { LANES = 16, STRIP = 16384, BLOCK_ROWS = 8, WARP = 32 };
enum { FOLD_THREADS = TG__FOLD_HALVES * LANES };
enum { PROJECT_WARPS = 16 };
enum { CELL_WARPS = 8, ACROSS = TG__CELL_COLS / WARP };

/* Pointers into the memory of one matrix and its factors. */
struct view {
    size_t rows, cols;
    float *m;
    const float *g, *left, *right, *start;
    float *p;
};

/* ---- fold: a half warp is the 16 lanes of a row's sum ---------------------------------------- */

/* Of the half warp that this thread belongs to. */
static __device__ __forceinline__ unsigned half_mask(void)
{
    return 0xffffu << (threadIdx.x % WARP / LANES * LANES);
}

/* The sum over the lanes, in lane 0: folded in halves. */
static __device__ __forceinline__ float fold_lanes(float x, unsigned mask)
{
    for (unsigned half = LANES / 2; half > 0; half /= 2)
        x = x + __shfl_down_sync(mask, x, half, LANES);
    return x;
}

/* Column j of R rows, whose elements of m and g have been loaded. */
template <int R, int K>
static __device__ __forceinline__ void fold_column(const view &v, float *m,
                                                   const float (&left)[R][K], const float *was,
                                                   const float *g, size_t j, float (&acc)[R][K])
{
    float x[R], factor = v.right[j];
    for (int r = 0; r < R; r++)
        x[r] = left[r][0] * factor;
    for (int k = 1; k < K; k++) {
        factor = v.right[k * v.cols + j];
        for (int r = 0; r < R; r++)
            x[r] = x[r] + left[r][k] * factor;
    }
    for (int r = 0; r < R; r++) {
        x[r] = (was[r] - x[r]) + g[r];
        m[r * v.cols + j] = x[r];
    }
    for (int k = 0; k < K; k++) {
        factor = v.start[k * v.cols + j];
        for (int r = 0; r < R; r++)
            acc[r][k] = acc[r][k] + x[r] * factor;
    }
}

/* AHEAD columns of this lane, so that many loads are under way at once. */
template <int R, int K, int AHEAD>
static __device__ __forceinline__ void fold_columns(const view &v, float *m, const float *g,
                                                    const float (&left)[R][K], size_t j,
                                                    float (&acc)[R][K])
{
    float was[AHEAD][R], add[AHEAD][R];
    for (int a = 0; a < AHEAD; a++)
        for (int r = 0; r < R; r++) {
            was[a][r] = m[r * v.cols + j + a * LANES];
            add[a][r] = g[r * v.cols + j + a * LANES];
        }
    for (int a = 0; a < AHEAD; a++)
        fold_column<R, K>(v, m, left, was[a], add[a], j + a * LANES, acc);
}

template <int R, int K>
static __device__ __forceinline__ void fold_rows(const view &v, size_t row, unsigned lane,
                                                 unsigned mask)
{
    enum { AHEAD = 8 / R };
    float *m = v.m + row * v.cols;
    const float *g = v.g + row * v.cols;
    float left[R][K], total[R][K] = {};
    for (int r = 0; r < R; r++)
        for (int k = 0; k < K; k++)
            left[r][k] = v.left[k * v.rows + row + r];
    for (size_t from = 0; from < v.cols; from += STRIP) {
        const size_t to = min(v.cols, from + STRIP);
        float acc[R][K] = {};
        size_t j = from + lane;
        for (; j + (AHEAD - 1) * LANES < to; j += AHEAD * LANES)
            fold_columns<R, K, AHEAD>(v, m, g, left, j, acc);
        for (; j < to; j += LANES)
            fold_columns<R, K, 1>(v, m, g, left, j, acc);
        __syncwarp(mask);
        for (int r = 0; r < R; r++)
            for (int k = 0; k < K; k++) {
                const float sum = fold_lanes(acc[r][k], mask);
                total[r][k] = from == 0 ? sum : total[r][k] + sum;
            }
    }
    for (int r = 0; r < R; r++)
        for (int k = 0; k < K; k++)
            if (lane == 0)
                v.p[k * v.rows + row + r] = total[r][k];
}

/* m -= left right^T, in one row. */
template <int K> static __device__ void settle_row(const view &v, size_t row, unsigned lane)
{
    for (size_t j = lane; j < v.cols; j += LANES) {
        float x = v.left[row] * v.right[j];
        for (int k = 1; k < K; k++)
            x = x + v.left[k * v.rows + row] * v.right[k * v.cols + j];
        v.m[row * v.cols + j] = v.m[row * v.cols + j] - x;
    }
}

template <int R, int K>
static __global__ void __launch_bounds__(FOLD_THREADS)
    fold_kernel(const tg__gpu_matrix *matrix, const tg__gpu_tile *tile, float *m, const float *g,
                const float *left, const float *right, const float *start, float *p,
                const uint64_t *bad)
{
    const tg__gpu_tile t = tile[blockIdx.x];
    const tg__gpu_matrix a = matrix[t.matrix];
    const view v = {a.rows,
                    a.cols,
                    m + a.m_at,
                    g + a.at,
                    left + a.left_at,
                    right + a.right_at,
                    start + a.right_at,
                    p + a.left_at};
    const unsigned lane = threadIdx.x % LANES, mask = half_mask();
    const size_t begin = t.row + threadIdx.x / LANES * R, end = min(v.rows, begin + R);
    if (*bad != UINT64_MAX) {
        for (size_t row = begin; row < end; row++)
            settle_row<K>(v, row, lane);
        return;
    }
    if (begin + R <= v.rows) {
        fold_rows<R, K>(v, begin, lane, mask);
        return;
    }
    for (size_t row = begin; row < end; row++)
        fold_rows<1, K>(v, row, lane, mask);
}

/* p = m start for G columns of start, from column k0 on; a half warp for each row. */
template <int G>
static __global__ void __launch_bounds__(FOLD_THREADS)
    dot_kernel(const tg__gpu_matrix *matrix, const tg__gpu_tile *tile, const float *__restrict__ m,
               const float *__restrict__ start, float *p, uint32_t height, uint32_t k0,
               const uint64_t *bad)
{
    const tg__gpu_tile t = tile[blockIdx.x];
    const tg__gpu_matrix a = matrix[t.matrix];
    const size_t rows = a.rows, cols = a.cols;
    const unsigned lane = threadIdx.x % LANES, mask = half_mask();
    const size_t begin = t.row + threadIdx.x / LANES * height, end = min(rows, begin + height);
    if (*bad != UINT64_MAX)
        return;
    for (size_t row = begin; row < end; row++) {
        const float *x = m + a.m_at + row * cols, *factor = start + a.right_at + k0 * cols;
        float total[G] = {};
        for (size_t from = 0; from < cols; from += STRIP) {
            const size_t to = min(cols, from + STRIP);
            float acc[G] = {};
#pragma unroll 4
            for (size_t j = from + lane; j < to; j += LANES) {
                const float own = x[j];
                for (int k = 0; k < G; k++)
                    acc[k] = acc[k] + own * factor[k * cols + j];
            }
            __syncwarp(mask);
            for (int k = 0; k < G; k++) {
                const float sum = fold_lanes(acc[k], mask);
                total[k] = from == 0 ? sum : total[k] + sum;
            }
        }
        for (int k = 0; k < G; k++)
            if (lane == 0)
                p[a.left_at + (k0 + k) * rows + row] = total[k];
    }
}

/* ---- project: a warp sums blocks of 8 rows, for 32 columns ----------------------------------- */

/* sum = the products of a whole block of rows with G columns of left; or of nrows rows. */
template <int G>
static __device__ __forceinline__ void sum_block(const float *m, const float *left, size_t rows,
                                                 size_t cols, float (&sum)[G])
{
    float x[BLOCK_ROWS];
    for (int i = 0; i < BLOCK_ROWS; i++)
        x[i] = m[i * cols];
    for (int k = 0; k < G; k++) {
        sum[k] = left[k * rows] * x[0];
        for (int i = 1; i < BLOCK_ROWS; i++)
            sum[k] = sum[k] + left[k * rows + i] * x[i];
    }
}

template <int G>
static __device__ void sum_rows(const float *m, const float *left, size_t rows, size_t cols,
                                size_t nrows, float (&sum)[G])
{
    for (int k = 0; k < G; k++)
        sum[k] = left[k * rows] * m[0];
    for (size_t i = 1; i < nrows; i++)
        for (int k = 0; k < G; k++)
            sum[k] = sum[k] + left[k * rows + i] * m[i * cols];
}

/* Warps sum PROJECT_WARPS blocks of rows at a time; then warp k adds these sums in order, for
 * column k of left, while others go on. The last tile is first: fold has left it in the cache. */
template <int G>
static __global__ void __launch_bounds__(PROJECT_WARPS *WARP)
    project_kernel(const tg__gpu_matrix *matrix, const tg__gpu_tile *tile,
                   const float *__restrict__ m, const float *__restrict__ left, float *right,
                   uint32_t k0)
{
    __shared__ float sums[2][PROJECT_WARPS][G][WARP];
    const tg__gpu_tile t = tile[gridDim.x - 1 - blockIdx.x];
    const tg__gpu_matrix a = matrix[t.matrix];
    const size_t rows = a.rows, cols = a.cols, blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const size_t col = t.col + lane;
    float total = 0;
    m += a.m_at + col;
    left += a.left_at + k0 * rows;
    for (size_t first = 0, turn = 0; first < blocks; first += PROJECT_WARPS, turn ^= 1) {
        const size_t row = (first + warp) * BLOCK_ROWS;
        float sum[G] = {};
        if (col < cols && row + BLOCK_ROWS <= rows)
            sum_block<G>(m + row * cols, left + row, rows, cols, sum);
        else if (col < cols && row < rows)
            sum_rows<G>(m + row * cols, left + row, rows, cols, rows - row, sum);
        for (int k = 0; k < G; k++)
            sums[turn][warp][k][lane] = sum[k];
        __syncthreads();
        const size_t have = min(blocks - first, (size_t)PROJECT_WARPS);
        for (size_t i = 0; i < have && warp < G; i++) {
            const float block = sums[turn][i][warp][lane];
            total = first + i == 0 ? block : total + block;
        }
    }
    if (warp < G && col < cols)
        right[a.right_at + (k0 + warp) * cols + col] = total;
}

/* ---- cells: products of the factors, element by element -------------------------------------- */

/* K: the rank; 0: it is `rank`. FOLD: m = (m - product) + g, without g if *bad is not UINT64_MAX.
 * Else m = product, where m has the places of the vector. */
template <int K, bool FOLD>
static __global__ void __launch_bounds__(CELL_WARPS *WARP)
    cells_kernel(const tg__gpu_matrix *matrix, const tg__gpu_tile *tile, float *__restrict__ m,
                 const float *__restrict__ g, const float *__restrict__ left,
                 const float *__restrict__ right, uint32_t rank, const uint64_t *bad)
{
    const tg__gpu_tile t = tile[blockIdx.x];
    const tg__gpu_matrix a = matrix[t.matrix];
    const size_t rows = a.rows, cols = a.cols, depth = K == 0 ? rank : K;
    const size_t end = min(rows, (size_t)t.row + TG__CELL_ROWS);
    const size_t col = t.col + threadIdx.x % WARP;
    const bool adds = FOLD && *bad == UINT64_MAX;
    float factor[ACROSS][K == 0 ? 1 : K];
    m += FOLD ? a.m_at : a.at;
    left += a.left_at;
    right += a.right_at;
    for (int c = 0; c < ACROSS; c++)
        for (int k = 0; k < K; k++)
            factor[c][k] = col + c * WARP < cols ? right[k * cols + col + c * WARP] : 0;
#pragma unroll 4
    for (size_t row = t.row + threadIdx.x / WARP; row < end; row += CELL_WARPS)
        for (int c = 0; c < ACROSS; c++) {
            const size_t j = col + c * WARP;
            if (j >= cols)
                continue;
            float x = left[row] * (K == 0 ? right[j] : factor[c][0]);
            for (size_t k = 1; k < depth; k++)
                x = x + left[k * rows + row] * (K == 0 ? right[k * cols + j] : factor[c][k]);
            if (FOLD)
                x = m[row * cols + j] - x;
            if (adds)
                x = x + g[a.at + row * cols + j];
            m[row * cols + j] = x;
        }
}

/* ---- what is in no matrix -------------------------------------------------------------------- */

static __global__ void runs_kernel(const tg__gpu_run *run, const float *from, float *to, int back)
{
    const tg__gpu_run r = run[blockIdx.x];
    const float *src = from + (back ? r.to : r.at);
    float *dst = to + (back ? r.at : r.to);
    for (size_t i = threadIdx.x; i < r.n; i += blockDim.x)
        dst[i] = src[i];
}

/* ---- launching ------------------------------------------------------------------------------- */

struct fold_args {
    cudaStream_t stream;
    const tg__gpu_matrices *s;
    float *m;
    const float *g, *left, *right, *start;
    float *p;
    const uint64_t *bad;
};

template <int R, int K> static void launch_fold(const fold_args &f)
{
    TG__LAUNCH((fold_kernel<R, K>), f.s->nfold, FOLD_THREADS, f.stream, f.s->matrix, f.s->fold, f.m,
               f.g, f.left, f.right, f.start, f.p, f.bad);
}

template <int K> static void launch_height(const fold_args &f)
{
    if (f.s->height == 4)
        launch_fold<4, K>(f);
    else if (f.s->height == 2)
        launch_fold<2, K>(f);
    else
        launch_fold<1, K>(f);
}

template <int G> static void launch_dots(const fold_args &f, uint32_t k0)
{
    TG__LAUNCH(dot_kernel<G>, f.s->nfold, FOLD_THREADS, f.stream, f.s->matrix, f.s->fold, f.m,
               f.start, f.p, f.s->height, k0, f.bad);
}

static void launch_any_rank(const fold_args &f)
{
    const uint32_t rank = f.s->rank;
    uint32_t k = 0;
    TG__LAUNCH((cells_kernel<0, true>), f.s->ncells, CELL_WARPS * WARP, f.stream, f.s->matrix,
               f.s->cells, f.m, f.g, f.left, f.right, rank, f.bad);
    for (; k + 4 <= rank; k += 4)
        launch_dots<4>(f, k);
    for (; k < rank; k++)
        launch_dots<1>(f, k);
}

cudaError_t tg__gpu_fold(cudaStream_t stream, const tg__gpu_matrices *s, float *m, const float *g,
                         const float *left, const float *right, const float *start, float *p,
                         const uint64_t *bad)
{
    const fold_args f = {stream, s, m, g, left, right, start, p, bad};
    switch (s->rank) {
    case 1:
        launch_height<1>(f);
        break;
    case 2:
        launch_height<2>(f);
        break;
    case 4:
        launch_height<4>(f);
        break;
    case 8:
        launch_height<8>(f);
        break;
    default:
        launch_any_rank(f);
    }
    return cudaGetLastError();
}

cudaError_t tg__gpu_project(cudaStream_t stream, const tg__gpu_matrices *s, const float *m,
                            const float *left, float *right)
{
    uint32_t k = 0;
#define PROJECT(G)                                                                                 \
    for (; k + (G) <= s->rank; k += (G))                                                           \
    TG__LAUNCH(project_kernel<G>, s->nproject, PROJECT_WARPS *WARP, stream, s->matrix, s->project, \
               m, left, right, k)
    PROJECT(8);
    PROJECT(4);
    PROJECT(2);
    PROJECT(1);
#undef PROJECT
    return cudaGetLastError();
}

template <int K>
static void launch_expand(cudaStream_t stream, const tg__gpu_matrices *s, const float *left,
                          const float *right, float *out)
{
    TG__LAUNCH((cells_kernel<K, false>), s->ncells, CELL_WARPS * WARP, stream, s->matrix, s->cells,
               out, (const float *)nullptr, left, right, s->rank, (const uint64_t *)nullptr);
}

cudaError_t tg__gpu_expand(cudaStream_t stream, const tg__gpu_matrices *s, const float *left,
                           const float *right, float *out)
{
    switch (s->rank) {
    case 1:
        launch_expand<1>(stream, s, left, right, out);
        break;
    case 2:
        launch_expand<2>(stream, s, left, right, out);
        break;
    case 4:
        launch_expand<4>(stream, s, left, right, out);
        break;
    case 8:
        launch_expand<8>(stream, s, left, right, out);
        break;
    default:
        launch_expand<0>(stream, s, left, right, out);
    }
    return cudaGetLastError();
}

static cudaError_t launch_runs(cudaStream_t stream, const tg__gpu_matrices *s, const float *from,
                               float *to, int back)
{
    if (s->nruns > 0)
        TG__LAUNCH(runs_kernel, s->nruns, 256, stream, s->run, from, to, back);
    return cudaGetLastError();
}

cudaError_t tg__gpu_gather(cudaStream_t stream, const tg__gpu_matrices *s, const float *x,
                           float *rest)
{
    return launch_runs(stream, s, x, rest, 0);
}

cudaError_t tg__gpu_scatter(cudaStream_t stream, const tg__gpu_matrices *s, const float *rest,
                            float *x)
{
    return launch_runs(stream, s, rest, x, 1);
}
