#include "method/sketch.h"
#include "base/mem.h"
#include "kernel/element.h"
#include "telegrad/random.h"

#include <string.h>

enum { BYTES = 4, VALUES = 256 }; /* of an index; of a byte */

tg__sketch tg__sketch_shape(size_t n, size_t rows, double ratio)
{
    const size_t want = (size_t)((double)n / (ratio * (double)rows));
    const size_t cols = TG__MAX(want, (size_t)TG__SKETCH_COLS_LEAST);
    if (rows * (cols + 1) > n) /* ratio=1 is always whole */
        return (tg__sketch){.n = n, .rows = 1, .cols = n, .whole = true};
    return (tg__sketch){.n = n, .rows = rows, .cols = cols};
}

tg_status tg__sketch_init(tg__sketch *s, tg__method *m)
{
    const tg_rng_key key = {
        .seed = m->setup.seed, .purpose = TG_PURPOSE_HASH, .tensor = m->setup.bucket};
    if (s->whole)
        return TG_OK;
    const size_t count = s->rows * BYTES * VALUES;
    TG_TRY(tg__method_alloc(m, count, sizeof *s->word, &s->word));
    for (size_t i = 0; i < count; i += 4)
        tg_rng_block(&key, i / 4, s->word + i);
    return TG_OK;
}

/* ---- one element ----------------------------------------------------------------------------- */

/* The part of the word that elements with the same upper bytes share. */
static uint32_t upper(const uint32_t *word, size_t i)
{
    return word[VALUES + (i >> 8 & 255)] ^ word[2 * VALUES + (i >> 16 & 255)] ^
           word[3 * VALUES + (i >> 24 & 255)];
}

static const uint32_t *words_of(const tg__sketch *s, size_t row)
{
    return s->word + row * BYTES * VALUES;
}

/* The upper 31 bits choose the column, the lowest one the sign. */
static size_t column(uint32_t word, size_t cols)
{
    return (size_t)((uint64_t)(word >> 1) * cols >> 31);
}

static float signed_by(uint32_t word, float x)
{
    return tg__f32_from(tg__f32_bits(x) ^ word << 31);
}

size_t tg__sketch_cell(const tg__sketch *s, size_t row, size_t i, float *sign_p)
{
    *sign_p = 1;
    if (s->whole)
        return i;
    const uint32_t *words = words_of(s, row), word = words[i & 255] ^ upper(words, i);
    *sign_p = signed_by(word, 1);
    return row * s->cols + column(word, s->cols);
}

/* ---- whole vectors --------------------------------------------------------------------------- */

typedef struct pass {
    const tg__sketch *s;
    const float *from;
    float *to;
} pass;

static void make_row(void *arg, size_t row)
{
    const pass *a = arg;
    const size_t n = a->s->n, cols = a->s->cols;
    const uint32_t *words = words_of(a->s, row);
    float *cells = a->to + row * cols;
    memset(cells, 0, cols * sizeof *cells);
    for (size_t lo = 0; lo < n; lo += VALUES) {
        const uint32_t shared = upper(words, lo);
        const size_t count = TG__MIN(n - lo, (size_t)VALUES);
        for (size_t i = 0; i < count; i++) {
            const uint32_t word = words[i] ^ shared;
            cells[column(word, cols)] += signed_by(word, a->from[lo + i]);
        }
    }
}

void tg__sketch_make(const tg__sketch *s, const float *x, float *table, tg__pool *pool)
{
    if (s->whole)
        memcpy(table, x, s->n * sizeof *x);
    else
        tg__pool_run(pool, s->rows, make_row, &(pass){.s = s, .from = x, .to = table});
}

/* The smaller one to a, the larger one to b, element by element. */
static void order(float *a, float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float x = a[i], y = b[i];
        a[i] = x < y ? x : y;
        b[i] = x < y ? y : x;
    }
}

/* The rows' values of `n` elements, in v[row]: their medians. Rows are sorted by odd-even
 * transposition, without branches. */
static void medians(float v[][VALUES], size_t rows, size_t n, float *out)
{
    for (size_t turn = 0; turn < rows; turn++)
        for (size_t row = turn % 2; row + 1 < rows; row += 2)
            order(v[row], v[row + 1], n);
    const float *above = v[rows / 2], *below = v[(rows - 1) / 2];
    for (size_t i = 0; i < n; i++)
        out[i] = rows % 2 == 1 ? above[i] : 0.5f * below[i] + 0.5f * above[i];
}

/* lo is a multiple of VALUES. */
static void estimate(void *arg, size_t lo, size_t hi)
{
    const pass *a = arg;
    const size_t rows = a->s->rows, cols = a->s->cols;
    float v[TG__SKETCH_ROWS][VALUES];
    for (; lo < hi; lo += VALUES) {
        const size_t count = TG__MIN(hi - lo, (size_t)VALUES);
        for (size_t row = 0; row < rows; row++) {
            const uint32_t *words = words_of(a->s, row), shared = upper(words, lo);
            const float *cells = a->from + row * cols;
            for (size_t i = 0; i < count; i++) {
                const uint32_t word = words[i] ^ shared;
                v[row][i] = signed_by(word, cells[column(word, cols)]);
            }
        }
        medians(v, rows, count, a->to + lo);
    }
}

void tg__sketch_estimate(const tg__sketch *s, const float *table, float *x, tg__pool *pool)
{
    if (s->whole)
        memcpy(x, table, s->n * sizeof *x);
    else
        tg__pool_chunks(pool, s->n, TG__CHUNK, estimate, &(pass){.s = s, .from = table, .to = x});
}

/* ---- some elements --------------------------------------------------------------------------- */

void tg__sketch_add(const tg__sketch *s, float *table, float factor, const uint32_t *idx,
                    const float *val, size_t k)
{
    for (size_t row = 0; row < s->rows; row++)
        for (size_t i = 0; i < k; i++) {
            float sign;
            const size_t at = tg__sketch_cell(s, row, idx[i], &sign);
            table[at] += sign * factor * val[i];
        }
}

void tg__sketch_clear(const tg__sketch *s, float *table, const uint32_t *idx, size_t k)
{
    for (size_t row = 0; row < s->rows; row++)
        for (size_t i = 0; i < k; i++) {
            float sign;
            table[tg__sketch_cell(s, row, idx[i], &sign)] = 0;
        }
}
