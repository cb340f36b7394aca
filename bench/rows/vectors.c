/* The data that is measured on: gradients, and tensors of a network to lay them out. */
#include "bench/rows/bench_impl.h"
#include "base/mem.h"
#include "bench/rows/npy.h"
#include "telegrad/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- gradients ------------------------------------------------------------------------------- */

/* Reads pools of normal numbers in a different order in every block: fast, and good enough here.
 * The values are about a tenth, so that thresholds with absolute defaults select some of them. */
tg_status bench_draw(float *x, size_t n, uint32_t number)
{
    enum { BLOCK = 4096, POOL = 1 << 16 };
    float *pool;
    TG_TRY(tg_alloc(POOL, sizeof *pool, &pool));
    const tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_TEST, .tensor = number};
    for (uint64_t i = 0; i < POOL; i++)
        pool[i] = (float)tg_rng_normal(&key, i);
    for (size_t begin = 0, block = 0; begin < n; begin += BLOCK, block++) {
        float scale = 0.1f * (float)exp(tg_rng_normal(&key, POOL + block));
        for (size_t i = begin; i < TG__MIN(n, begin + BLOCK); i++)
            x[i] = scale * pool[(i * 31 + block * 977) % POOL];
    }
    free(pool);
    return TG_OK;
}

/* Two gradients: the file's vector, and the same vector started at its middle. */
static void tile(bench *b, const float *x, size_t have)
{
    for (size_t which = 0; which < 2; which++)
        for (size_t i = 0, from = which * (have / 2); i < b->n; i++) {
            b->g[which][i] = x[from];
            from = from + 1 == have ? 0 : from + 1;
        }
}

static tg_status fill(bench *b)
{
    float *x;
    size_t have;
    if (!b->o->gradients) {
        TG_TRY(bench_draw(b->g[0], b->n, 0));
        return bench_draw(b->g[1], b->n, 1);
    }
    TG_TRY(bench_npy_read(b->o->gradients, &x, &have));
    tile(b, x, have);
    free(x);
    return TG_OK;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

tg__method_setup bench_method_setup(const bench *b, int rank, int size, tg__state *state)
{
    return (tg__method_setup){.rank = rank,
                              .size = size,
                              .seed = 1,
                              .steps_per_epoch = 1,
                              .tensor = b->tensor,
                              .len = b->len,
                              .rows = b->rows,
                              .cols = b->cols,
                              .count = b->count,
                              .lanes = 1,
                              .momentum = (double)NAN,
                              .nesterov = -1,
                              .state = state,
                              .pool = b->pool};
}

float bench_threshold(bench *b, const float *x, double density)
{
    size_t stride = b->n > 1000000 ? 29 : 1, m = 0;
    for (size_t i = 0; i < b->n; i += stride)
        b->out[m++] = fabsf(x[i]);
    qsort(b->out, m, sizeof *b->out, descending);
    return b->out[(size_t)(density * (double)m)];
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The matrices of ResNet-50, rows x columns, and how many of each. All its vectors are one
 * entry. */
static const struct shape {
    size_t rows, cols, times;
} shapes[] = {
    {64, 147, 1},    {64, 64, 1},    {64, 256, 2},   {64, 576, 3},   {256, 64, 4},
    {128, 256, 1},   {128, 512, 3},  {128, 1152, 4}, {512, 128, 4},  {512, 256, 1},
    {256, 512, 1},   {256, 1024, 5}, {256, 2304, 6}, {1024, 256, 6}, {1024, 512, 1},
    {512, 1024, 1},  {512, 2048, 2}, {512, 4608, 3}, {2048, 512, 3}, {2048, 1024, 1},
    {1000, 2048, 1},
};

static void add_tensor(bench *b, size_t rows, size_t cols)
{
    size_t i = b->count++;
    snprintf(b->names[i], sizeof b->names[i], "t%zu", i);
    b->tensor[i] = b->names[i];
    b->rows[i] = rows;
    b->cols[i] = cols;
    b->len[i] = rows * cols;
}

tg_status bench_lay_out(bench *b)
{
    enum { MOST = 64 };
    size_t left = b->n;
    TG_TRY(tg_alloc(MOST, sizeof *b->tensor, &b->tensor));
    TG_TRY(tg_alloc(MOST, sizeof *b->names, &b->names));
    TG_TRY(tg_alloc(MOST, sizeof *b->len, &b->len));
    TG_TRY(tg_alloc(MOST, sizeof *b->rows, &b->rows));
    TG_TRY(tg_alloc(MOST, sizeof *b->cols, &b->cols));
    for (size_t s = 0; s < TG_COUNT(shapes); s++)
        for (size_t t = 0; t < shapes[s].times && shapes[s].rows * shapes[s].cols < left; t++) {
            add_tensor(b, shapes[s].rows, shapes[s].cols);
            left -= shapes[s].rows * shapes[s].cols;
        }
    add_tensor(b, left, 1);
    return TG_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static const tg__kernels *best_kernels(void)
{
    static const char *const levels[] = {"avx512", "avx2"};
    for (size_t i = 0; i < TG_COUNT(levels); i++)
        if (tg__kernel_level(levels[i]))
            return tg__kernel_level(levels[i]);
    return tg__kernel_level("ref");
}

static tg_status open_all(bench *b)
{
    TG_TRY(tg_alloc(b->n, sizeof(float), &b->g[0]));
    TG_TRY(tg_alloc(b->n, sizeof(float), &b->g[1]));
    TG_TRY(tg_alloc(b->n, sizeof(float), &b->out));
    TG_TRY(tg__pool_create(b->o->threads, &b->pool));
    b->yards = best_kernels();
    TG_TRY(bench_lay_out(b));
    return fill(b);
}

tg_status bench_open(bench *b, const bench_options *o, size_t n)
{
    *b = (bench){.o = o, .n = n};
    tg_status status = open_all(b);
    if (status != TG_OK)
        bench_close(b);
    return status;
}

void bench_close(bench *b)
{
    free(b->g[0]);
    free(b->g[1]);
    free(b->out);
    free(b->tensor);
    free(b->names);
    free(b->len);
    free(b->rows);
    free(b->cols);
    tg__pool_destroy(b->pool);
    *b = (bench){0};
}
