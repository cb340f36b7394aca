#include "codec/sign/rank1.h"
#include "base/mem.h"
#include "codec/sign/strips.h"
#include "telegrad/spec.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { SHARE = 128 }; /* the fewest columns for one core */

typedef struct job {
    const tg__rank1 *m;
    double *sums[4];         /* (cols) see column_weigh_signs */
    float *t, *plus, *minus; /* (cols) threshold, which is 0, and values, without weights */
    float *weights;          /* (rows) */
    double limit;            /* of values */
    size_t first, rows;      /* those at work */
} job;

static job job_of(const tg__rank1 *m)
{
    double *doubles = m->room;
    float *floats = (float *)(doubles + 4 * m->cols);
    memset(m->room, 0, TG__RANK1_ROOM(m->rows, m->cols));
    job j = {.m = m,
             .t = floats,
             .plus = floats + m->cols,
             .minus = floats + 2 * m->cols,
             .weights = floats + 3 * m->cols};
    for (size_t i = 0; i < TG_COUNT(j.sums); i++)
        j.sums[i] = doubles + i * m->cols;
    return j;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void rows_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    const tg__rank1 *m = j->m;
    for (size_t row = j->first + lo; row < j->first + hi; row++) {
        const size_t at = row * m->cols;
        const double sum = m->k->sum_abs(m->x + at, m->g ? m->g + at : NULL, m->cols);
        if (!isfinite(sum))
            atomic_store(m->spoilt, true);
        j->weights[row] = (float)(sum / (double)m->cols);
    }
}

static void weigh_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    const tg__rank1 *m = j->m;
    const float *x = m->x + j->first * m->cols + lo, *weights = j->weights + j->first;
    double *const sums[] = {j->sums[0] + lo, j->sums[1] + lo, j->sums[2] + lo, j->sums[3] + lo};
    m->k->column_weigh_signs(x, m->cols, j->rows, hi - lo, weights, sums);
}

/* Each row is read twice, for its weight and for the columns' sums. In between come so few others
 * that they stay in the second-level caches, unless rows are very long. */
static void sum_up(job *j)
{
    const tg__rank1 *m = j->m;
    const size_t block = TG__COLUMN_BLOCK, all = TG__CHUNK * tg__pool_threads(m->pool);
    const size_t most = TG__MAX(all / m->cols / block, (size_t)1) * block;
    for (j->first = 0; j->first < m->rows; j->first += j->rows) {
        j->rows = TG__MIN(most, m->rows - j->first);
        tg__pool_chunks(m->pool, j->rows, 1, rows_range, j);
        tg__pool_chunks(m->pool, m->cols, SHARE, weigh_range, j);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static void find_limit(job *j)
{
    float largest = 0;
    for (size_t r = 0; r < j->m->rows; r++)
        largest = TG__MAX(largest, j->weights[r]);
    const double limit = (double)FLT_MAX / (double)largest * (1 - (double)FLT_EPSILON);
    j->limit = TG__MIN(limit, (double)FLT_MAX);
}

/* An empty class has 0. Adding 0 turns -0 into +0. */
static float value_of(const job *j, double sum, double squares)
{
    const double value = squares > 0 ? sum / squares : 0;
    const double most = TG__MIN(value, j->limit);
    return (float)TG__MAX(most, -j->limit) + 0.0f;
}

static void values_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (size_t c = lo; c < hi; c++) {
        j->minus[c] = value_of(j, j->sums[0][c], j->sums[2][c]);
        j->plus[c] = value_of(j, j->sums[1][c], j->sums[3][c]);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static void settle_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    const tg__rank1 *m = j->m;
    const size_t row_bytes = tg__strip_row_bytes(m->cols);
    m->k->column_settle(m->x + lo * m->cols, m->cols, hi - lo, m->cols, j->t, j->plus, j->minus,
                        j->weights + lo, m->bits + lo * row_bytes, row_bytes, m->g != NULL);
}

void tg__rank1_write(const tg__rank1 *m)
{
    job j = job_of(m);
    sum_up(&j);
    if (atomic_load(m->spoilt))
        return;
    find_limit(&j);
    tg__pool_chunks(m->pool, m->cols, TG__CHUNK, values_range, &j);
    uint8_t *at = m->values + m->rows * sizeof(float);
    tg__floats_put(m->values, j.weights, m->rows);
    tg__floats_put(at, j.plus, m->cols);
    tg__floats_put(at + m->cols * sizeof(float), j.minus, m->cols);
    tg__pool_chunks(m->pool, m->rows, TG__MAX(TG__CHUNK / m->cols, (size_t)1), settle_range, &j);
}

/* ---- reading --------------------------------------------------------------------------------- */

static float largest_of(const uint8_t *values, size_t n)
{
    float largest = 0, value;
    for (size_t i = 0; i < n; i++) {
        tg__floats_get(&value, values + i * sizeof value, 1);
        value = value < 0 ? -value : value;
        largest = TG__MAX(largest, value);
    }
    return largest;
}

bool tg__rank1_finite(const uint8_t *values, size_t rows, size_t n)
{
    return isfinite(largest_of(values, rows) * largest_of(values + rows * sizeof(float), n));
}
