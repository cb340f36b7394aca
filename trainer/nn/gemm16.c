#include "trainer/nn/gemm16.h"
#include "trainer/nn/gemm16_kernels.h"
#include "telegrad/tools.h"
#include <stdlib.h>

/* Steps of a sum that are packed at once: a left panel of them (21 KB) stays in the L1 cache while
 * the right panels pass. Lines of a packed block: both together are less than an L2 cache. */
#define STEPS 768
#define LEFT (28 * GEMM16_ROWS)   /* 588 KB with all steps */
#define RIGHT_BYTES (1024 * 1024) /* of a right block; with fewer steps it has more columns */

struct gemm16 {
    const gemm16_kernels *kernels;
    uint16_t *left, *right;
};

tg_status gemm16_create(bool native, gemm16 **g_p)
{
    gemm16 *g;
    TG_TRY(tg_alloc(1, sizeof *g, &g));
    g->kernels = &gemm16_kernels_ref;
#if defined(__x86_64__)
    if (native)
        g->kernels = &gemm16_kernels_avx512bf16;
#else
    (void)native;
#endif
    tg_status status =
        tg_alloc(LEFT / GEMM16_ROWS * GEMM16_LANES(GEMM16_ROWS) * STEPS, sizeof *g->left, &g->left);
    if (status == TG_OK)
        status = tg_alloc(RIGHT_BYTES, 1, &g->right);
    if (status != TG_OK) {
        gemm16_destroy(g);
        return status;
    }
    *g_p = g;
    return TG_OK;
}

void gemm16_destroy(gemm16 *g)
{
    if (!g)
        return;
    free(g->left);
    free(g->right);
    free(g);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Blocks of equal size, or nearly: the size that cuts n into the fewest of at most `most`. */
static size_t block_of(size_t n, size_t most, size_t multiple)
{
    const size_t blocks = (n + most - 1) / most;
    return blocks ? ((n + blocks - 1) / blocks + multiple - 1) / multiple * multiple : multiple;
}

/* Packed blocks, and their part of the result. */
typedef struct block {
    size_t rows, columns, pairs;
    gemm16_tile tile; /* c and row: of the first tile */
} block;

static void multiply(const gemm16 *g, const block *b)
{
    for (size_t i = 0; i < b->rows; i += GEMM16_ROWS) {
        const uint16_t *left = g->left + i / GEMM16_ROWS * GEMM16_LANES(GEMM16_ROWS) * b->pairs * 2;
        for (size_t j = 0; j < b->columns; j += GEMM16_COLUMNS) {
            gemm16_tile t = b->tile;
            t.rows = least(b->rows - i, GEMM16_ROWS);
            t.columns = least(b->columns - j, GEMM16_COLUMNS);
            t.c += i * t.ldc + j;
            t.row = t.row ? t.row + j : NULL;
            g->kernels->tile(b->pairs, left, g->right + j * b->pairs * 2, &t);
        }
    }
}

void gemm16_run(gemm16 *g, char transa, char transb, size_t m, size_t n, size_t k, const float *a,
                size_t lda, const float *b, size_t ldb, int beta, const float *row, float *c,
                size_t ldc)
{
    const size_t steps = block_of(k, STEPS, 2);
    const size_t rows = block_of(m, LEFT, GEMM16_ROWS);
    const size_t columns =
        block_of(n, RIGHT_BYTES / 2 / steps / GEMM16_COLUMNS * GEMM16_COLUMNS, GEMM16_COLUMNS);
    const bool along_a = transa == 'N', along_b = transb == 'T';
    for (size_t s = 0; s < k; s += steps) {
        const size_t ns = least(k - s, steps);
        for (size_t j = 0; j < n; j += columns) {
            const size_t nj = least(n - j, columns);
            g->kernels->pack(GEMM16_COLUMNS, nj, ns, b + (along_b ? j * ldb + s : s * ldb + j), ldb,
                             along_b, g->right);
            for (size_t i = 0; i < m; i += rows) {
                const size_t ni = least(m - i, rows);
                if (j == 0 || rows < m) /* else it is still there */
                    g->kernels->pack(GEMM16_ROWS, ni, ns, a + (along_a ? i * lda + s : s * lda + i),
                                     lda, along_a, g->left);
                multiply(g, &(block){.rows = ni,
                                     .columns = nj,
                                     .pairs = (ns + 1) / 2,
                                     .tile = {.c = c + i * ldc + j,
                                              .ldc = ldc,
                                              .add = beta != 0 || s > 0,
                                              .row = row && s == 0 ? row + j : NULL}});
            }
        }
    }
}
