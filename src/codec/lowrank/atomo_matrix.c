/* Any orthonormal v_i give M = sum of (M v_i) v_i^T exactly. So the singular vectors are taken from
 * the Gram matrix of the narrower side, W^T W with W = M or M^T: its eigenvectors are v_i, and s_i
 * = sqrt(|value_i|), with an error of the rounding of the largest. This changes the probabilities
 * of tiny atoms, but not the mean.
 *
 * Source: Wang et al. 2018, arXiv:1806.04090, sec. 3 and alg. 1 */
#include "codec/lowrank/atomo_matrix.h"
#include "base/mem.h"
#include "telegrad/random.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { SLAB = 64, LANES = 8 };

static size_t narrow_side(const tg__atomo *a)
{
    return TG__MIN(a->rows, a->cols);
}

/* Rows k .. k + count of W in f64. */
static void fill_slab(tg__atomo *a, size_t k, size_t count)
{
    const size_t m = narrow_side(a);
    if (m == a->cols) {
        for (size_t i = 0; i < count * m; i++)
            a->slab[i] = (double)a->x[k * m + i];
        return;
    }
    for (size_t i = 0; i < m; i++) {
        const float *row = a->x + i * a->cols + k;
        for (size_t r = 0; r < count; r++)
            a->slab[r * m + i] = (double)row[r];
    }
}

/* g += c0 * w0 + c1 * w1 + c2 * w2 + c3 * w3, added in this order */
static void add_four(double *restrict g, const double *restrict w, size_t m, const double c[4],
                     size_t n)
{
    const double *w1 = w + m, *w2 = w1 + m, *w3 = w2 + m;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t l = j; l < j + LANES; l++)
            g[l] = (((g[l] + c[0] * w[l]) + c[1] * w1[l]) + c[2] * w2[l]) + c[3] * w3[l];
    for (; j < n; j++)
        g[j] = (((g[j] + c[0] * w[j]) + c[1] * w1[j]) + c[2] * w2[j]) + c[3] * w3[j];
}

/* The lower triangle of W^T W; its terms are added in order. */
static void gram(tg__atomo *a)
{
    const size_t m = narrow_side(a), length = a->rows + a->cols - m;
    double *g = a->eigen.a;
    memset(g, 0, m * m * sizeof *g);
    for (size_t k = 0; k < length; k += SLAB) {
        size_t count = TG__MIN(length - k, (size_t)SLAB);
        fill_slab(a, k, count);
        memset(a->slab + count * m, 0, (SLAB - count) * m * sizeof *a->slab);
        for (size_t i = 0; i < m; i++)
            for (size_t r = 0; r < count; r += 4) {
                const double *w = a->slab + r * m;
                const double c[4] = {w[i], w[m + i], w[2 * m + i], w[3 * m + i]};
                add_four(g + i * m, w, m, c, i + 1);
            }
    }
}

double tg__atomo_probabilities(tg__atom *atom, size_t n, double rank)
{
    double total = 0;
    for (size_t i = n; i-- > 0;) { /* p: the sum from here to the end, smallest first */
        total += atom[i].s;
        atom[i].p = total;
    }
    size_t i = 0;
    while (i < n && atom[i].s > 0 && (rank - (double)i) * atom[i].s >= atom[i].p)
        atom[i++].p = 1;
    double left = i < n ? atom[i].p : 0, share = left > 0 ? (rank - (double)i) / left : 0;
    for (; i < n; i++)
        atom[i].p = atom[i].s * share;
    return total;
}

static void sort_falling(tg__atom *atom, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        tg__atom moved = atom[i];
        size_t at = i;
        for (; at > 0 && atom[at - 1].s < moved.s; at--)
            atom[at] = atom[at - 1];
        atom[at] = moved;
    }
}

/* Compute s from the eigenvalues. Values below the resolution of the Gram matrix are raised to it;
 * otherwise an atom that appears smaller than it is would be scaled by an enormous 1 / p. */
static void set_sizes(tg__atomo *a, size_t m)
{
    double most = 0;
    for (size_t i = 0; i < m; i++)
        most = TG__MAX(most, fabs(a->eigen.value[i]));
    const double least = most * (double)m * 0x1p-53;
    for (size_t i = 0; i < m; i++) {
        double square = fabs(a->eigen.value[i]);
        a->atom[i] = (tg__atom){.s = square > 0 ? sqrt(TG__MAX(square, least)) : square, .at = i};
    }
}

tg_status tg__atomo_draw(tg_codec *c, tg__atomo *a, const float *x, size_t rows, size_t cols,
                         double rank, const tg_rng_key *key, uint64_t first, size_t *kept_p)
{
    a->x = x;
    a->rows = rows;
    a->cols = cols;
    const size_t m = narrow_side(a);
    TG_TRY(tg__eigen_reserve(&a->eigen, m));
    TG_TRY(tg__scratch(c, &a->slab, SLAB * m, sizeof *a->slab));
    TG_TRY(tg__scratch(c, &a->narrow, m, sizeof *a->narrow));
    TG_TRY(tg__scratch(c, &a->wide, TG__MAX(rows, cols), sizeof *a->wide));
    TG_TRY(tg__scratch(c, &a->atom, m, sizeof *a->atom));
    gram(a);
    bool ok;
    TG_TRY(tg__eigen_decompose(&a->eigen, &ok));
    set_sizes(a, m);
    sort_falling(a->atom, m);
    double total = tg__atomo_probabilities(a->atom, m, rank);
    *kept_p = SIZE_MAX;
    /* Elements of scaled atoms do not exceed the sum of all s. */
    if (!ok || !(total * (double)m < (double)FLT_MAX))
        return TG_OK;
    size_t kept = 0;
    for (size_t i = 0; i < m; i++)
        if (tg_rng_uniform(key, first + i) < a->atom[i].p)
            a->atom[kept++] = a->atom[i];
    *kept_p = kept;
    return TG_OK;
}

/* wide = W v */
static void multiply(tg__atomo *a, const double *v)
{
    if (a->cols <= a->rows) {
        for (size_t r = 0; r < a->rows; r++) {
            const float *row = a->x + r * a->cols;
            double sum[LANES] = {0}, total = 0;
            for (size_t c = 0; c < a->cols; c++)
                sum[c % LANES] += (double)row[c] * v[c];
            for (size_t l = 0; l < LANES; l++)
                total += sum[l];
            a->wide[r] = total;
        }
        return;
    }
    memset(a->wide, 0, a->cols * sizeof *a->wide);
    for (size_t r = 0; r < a->rows; r++) {
        const float *row = a->x + r * a->cols;
        for (size_t c = 0; c < a->cols; c++)
            a->wide[c] += (double)row[c] * v[r];
    }
}

void tg__atomo_atom(tg__atomo *a, size_t i, float *u, float *v)
{
    const size_t m = narrow_side(a), length = a->rows + a->cols - m;
    float *narrow = m == a->cols ? v : u, *wide = m == a->cols ? u : v;
    tg__eigen_vector(&a->eigen, a->atom[i].at, a->narrow);
    multiply(a, a->narrow);
    for (size_t k = 0; k < m; k++)
        narrow[k] = (float)a->narrow[k];
    for (size_t k = 0; k < length; k++)
        wide[k] = (float)(a->wide[k] / a->atom[i].p);
}
