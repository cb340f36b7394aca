#include "codec/sign/rank1.h"
#include "base/mem.h"
#include "codec/sign/strips.h"
#include "telegrad/spec.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    MOST_BITS = 3, /* per element, for weights and factors */
    SHARE = 512    /* the fewest columns for one core */
};

bool tg__rank1_fits(size_t rows, size_t cols)
{
    return rows > 1 && MOST_BITS * rows * cols >= 32 * (rows + cols);
}

size_t tg__rank1_values(size_t rows, size_t cols)
{
    if (rows == 0)
        return cols;
    return tg__rank1_fits(rows, cols) ? rows + cols : rows;
}

typedef struct job {
    const tg__rank1 *m;
    double *low, *high, *squares; /* (cols) sums of w x below the threshold and elsewhere, and of w^2
                                   * below. TG__ONE_FACTOR: only high, of w |x| */
    float *t, *plus, *minus;      /* (cols) threshold and values, without weights */
    float *weights;               /* (rows) */
    size_t first, rows;           /* those at work */
} job;

static job job_of(const tg__rank1 *m)
{
    double *doubles = m->room;
    float *floats = (float *)(doubles + 3 * m->cols);
    memset(m->room, 0, TG__RANK1_ROOM(m->rows, m->cols));
    return (job){.m = m,
                 .low = doubles,
                 .high = doubles + m->cols,
                 .squares = doubles + 2 * m->cols,
                 .t = floats,
                 .plus = floats + m->cols,
                 .minus = floats + 2 * m->cols,
                 .weights = floats + 3 * m->cols};
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
    if (m->columns == TG__ONE_FACTOR)
        m->k->column_weigh(x, m->cols, j->rows, hi - lo, weights, j->high + lo);
    else
        m->k->column_weigh_split(x, m->cols, j->rows, hi - lo, weights, j->t + lo, j->low + lo,
                                 j->high + lo, j->squares + lo);
}

/* Rows that fit in the second-level cache are read twice: for their weights, and for the columns'
 * sums. */
static void sum_up(job *j)
{
    const tg__rank1 *m = j->m;
    const size_t block = TG__COLUMN_BLOCK, cached = TG__CHUNK / m->cols / block * block;
    const size_t most = TG__MAX(cached, block);
    for (j->first = 0; j->first < m->rows; j->first += j->rows) {
        j->rows = TG__MIN(most, m->rows - j->first);
        tg__pool_chunks(m->pool, j->rows, block, rows_range, j);
        tg__pool_chunks(m->pool, m->cols, SHARE, weigh_range, j);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct range {
    double squares; /* the sum of all w^2 */
    double limit;   /* of values, so that no product with a weight is infinite */
} range;

static range range_of(const job *j)
{
    float largest = 0;
    range of = {0, 0};
    for (size_t r = 0; r < j->m->rows; r++) {
        of.squares += (double)j->weights[r] * (double)j->weights[r];
        largest = fmaxf(largest, j->weights[r]);
    }
    of.limit = fmin((double)FLT_MAX / (double)largest * (1 - (double)FLT_EPSILON), FLT_MAX);
    return of;
}

/* sum / squares; an empty class has 0. Adding 0 turns -0 into +0. */
static float value_of(double sum, double squares, const range *of)
{
    return squares > 0 ? (float)fmax(-of->limit, fmin(of->limit, sum / squares)) + 0.0f : 0.0f;
}

static void find_values(job *j, const range *of)
{
    for (size_t c = 0; c < j->m->cols; c++) {
        const double below = j->squares[c], above = of->squares - below;
        if (j->m->columns == TG__ONE_FACTOR) {
            j->plus[c] = value_of(j->high[c], of->squares, of);
            j->minus[c] = 0 - j->plus[c];
        } else if (j->m->columns == TG__TWO_VALUES) {
            j->plus[c] = value_of(j->high[c], above, of);
            j->minus[c] = value_of(j->low[c], below, of);
        } else {
            const double t = (double)j->t[c];
            const double sum = (j->high[c] - above * t) + (below * t - j->low[c]);
            const double d = (double)value_of(fmax(0, sum), of->squares, of);
            j->plus[c] = value_of(t + d, 1, of);
            j->minus[c] = value_of(t - d, 1, of);
        }
    }
}

/* Make the means of the columns their thresholds, and the sums those below and above them. */
static void around_means(job *j, const range *of)
{
    const size_t cols = j->m->cols;
    for (size_t c = 0; c < cols; c++)
        j->t[c] = value_of(j->low[c] + j->high[c], of->squares, of);
    memset(j->low, 0, 3 * cols * sizeof *j->low);
    j->first = 0;
    j->rows = j->m->rows;
    tg__pool_chunks(j->m->pool, cols, SHARE, weigh_range, j);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void settle_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    const tg__rank1 *m = j->m;
    m->k->column_settle(m->x + lo, m->cols, m->rows, hi - lo, j->t + lo, j->plus + lo,
                        j->minus + lo, j->weights, m->bits + lo / 8, tg__strip_row_bytes(m->cols),
                        m->g != NULL);
}

void tg__rank1_write(const tg__rank1 *m)
{
    job j = job_of(m);
    sum_up(&j);
    if (atomic_load(m->spoilt))
        return;
    const range of = range_of(&j);
    if (m->columns == TG__TWO_AROUND)
        around_means(&j, &of);
    find_values(&j, &of);
    const size_t floats = m->cols * sizeof(float);
    uint8_t *at = m->values + m->rows * sizeof(float);
    tg__floats_put(m->values, j.weights, m->rows);
    tg__floats_put(at, j.plus, m->cols);
    if (m->columns != TG__ONE_FACTOR)
        tg__floats_put(at + floats, j.minus, m->cols);
    tg__pool_chunks(m->pool, m->cols, SHARE, settle_range, &j);
}

/* ---- reading --------------------------------------------------------------------------------- */

static float largest_of(const uint8_t *values, size_t n)
{
    float largest = 0, value;
    for (size_t i = 0; i < n; i++) {
        tg__floats_get(&value, values + i * sizeof value, 1);
        largest = fmaxf(largest, fabsf(value));
    }
    return largest;
}

bool tg__rank1_finite(const uint8_t *values, size_t rows, size_t n)
{
    return isfinite(largest_of(values, rows) * largest_of(values + rows * sizeof(float), n));
}
