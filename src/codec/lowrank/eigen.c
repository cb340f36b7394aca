/* A = Q T Q^T by Householder reflections, last row first; T = Z diag(value) Z^T by QL steps with
 * implicit shifts. Eigenvector i of A is Q (Z e_i).
 *
 * An off-diagonal entry of T counts as 0 if it is below the rounding of T's largest entry: Gram
 * matrices, which are decomposed here, are known no more precisely.
 *
 * Source: Wilkinson and Reinsch, "Handbook for Automatic Computation", vol. II, 1971, II/2 (tred2)
 * and II/4 (imtql) */
#include "codec/lowrank/eigen.h"
#include "base/mem.h"
#include "codec/codec_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 60, LANES = 8 };

/* Reserve room for `count` rotations; those present stay. */
static tg_status room_for(tg__eigen *e, size_t count)
{
    if (count <= e->turn_cap)
        return TG_OK;
    tg__rotation *grown;
    count = e->turns > 0 ? 2 * count : count;
    TG_TRY(tg_alloc(count, sizeof *grown, &grown));
    if (e->turns > 0)
        memcpy(grown, e->turn, e->turns * sizeof *grown);
    free(e->turn);
    e->turn = grown;
    e->turn_cap = count;
    return TG_OK;
}

tg_status tg__eigen_reserve(tg__eigen *e, size_t n)
{
    TG_TRY(tg__owned_room(&e->owned, &e->a, n * n, sizeof(double)));
    TG_TRY(tg__owned_room(&e->owned, &e->value, n, sizeof(double)));
    TG_TRY(tg__owned_room(&e->owned, &e->below, n, sizeof(double)));
    TG_TRY(tg__owned_room(&e->owned, &e->norm, n, sizeof(double)));
    e->turns = 0; /* of the last matrix */
    TG_TRY(room_for(e, n * n));
    e->n = n;
    return TG_OK;
}

void tg__eigen_free(tg__eigen *e)
{
    tg__owned_free(&e->owned);
    free(e->turn);
}

/* ---- reduction to tridiagonal form ----------------------------------------------------------- */

/* Return the sum of x[j] * u[j]; in the same pass, p[j] += a * x[j]. */
static double dot_and_add(double *restrict p, double a, const double *restrict x,
                          const double *restrict u, size_t n)
{
    double sum[LANES] = {0}, total = 0;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++) {
            sum[l] += x[j + l] * u[j + l];
            p[j + l] += a * x[j + l];
        }
    for (; j < n; j++) {
        sum[j % LANES] += x[j] * u[j];
        p[j] += a * x[j];
    }
    for (size_t l = 0; l < LANES; l++)
        total += sum[l];
    return total;
}

static double dot(const double *x, const double *y, size_t n)
{
    double sum[LANES] = {0}, total = 0;
    for (size_t j = 0; j < n; j++)
        sum[j % LANES] += x[j] * y[j];
    for (size_t l = 0; l < LANES; l++)
        total += sum[l];
    return total;
}

/* x -= a * q + b * u */
static void subtract_two(double *restrict x, double a, const double *restrict q, double b,
                         const double *restrict u, size_t n)
{
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++)
            x[j + l] -= a * q[j + l] + b * u[j + l];
    for (; j < n; j++)
        x[j] -= a * q[j] + b * u[j];
}

/* Reflect so that row i of the leading i + 1 rows becomes 0 left of its off-diagonal entry; u is
 * stored in the row. p: scratch (i). */
static void reflect(tg__eigen *e, size_t i, double *p)
{
    const size_t n = e->n;
    double *u = e->a + i * n, square = dot(u, u, i), last = u[i - 1];
    e->norm[i] = 0;
    e->below[i - 1] = last;
    if (square == last * last) /* the entries to the left are negligible */
        return;
    double length = last >= 0 ? -sqrt(square) : sqrt(square);
    double h = square - last * length;
    u[i - 1] = last - length;
    e->below[i - 1] = length;
    e->norm[i] = h;
    memset(p, 0, i * sizeof *p); /* p = A u, reading A's lower triangle once */
    for (size_t r = 0; r < i; r++) {
        const double *row = e->a + r * n;
        p[r] += dot_and_add(p, u[r], row, u, r) + row[r] * u[r];
    }
    for (size_t r = 0; r < i; r++)
        p[r] /= h;
    double half = dot(u, p, i) / (2 * h);
    for (size_t r = 0; r < i; r++)
        p[r] -= half * u[r];
    for (size_t r = 0; r < i; r++) /* A -= u p^T + p u^T */
        subtract_two(e->a + r * n, u[r], p, p[r], u, r + 1);
}

static void tridiagonalise(tg__eigen *e)
{
    const size_t n = e->n;
    for (size_t i = n; i-- > 2;)
        reflect(e, i, e->value); /* value serves as scratch; it is filled below */
    if (n > 1) {
        e->norm[1] = 0;
        e->below[0] = e->a[n];
    }
    for (size_t i = 0; i < n; i++)
        e->value[i] = e->a[i * n + i];
    if (n > 0)
        e->below[n - 1] = e->norm[0] = 0;
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

/* One QL step on rows first .. last, whose off-diagonal entries are all significant. */
static void ql_step(tg__eigen *e, size_t first, size_t last)
{
    double *d = e->value, *b = e->below;
    double g = (d[first + 1] - d[first]) / (2 * b[first]), r = sqrt(g * g + 1);
    g = d[last] - d[first] + b[first] / (g + (g >= 0 ? r : -r));
    double s = 1, c = 1, p = 0;
    for (size_t i = last; i-- > first;) {
        double f = s * b[i], h = c * b[i];
        r = sqrt(f * f + g * g);
        b[i + 1] = r;
        if (r == 0) { /* underflow: the rest consists of two smaller matrices */
            d[i + 1] -= p;
            b[last] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * h;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - h;
        e->turn[e->turns++] = (tg__rotation){.c = c, .s = s, .at = i};
    }
    d[first] -= p;
    b[first] = g;
    b[last] = 0;
}

static double rounding(const tg__eigen *e)
{
    double most = 0;
    for (size_t i = 0; i < e->n; i++) {
        most = TG__MAX(most, fabs(e->value[i]));
        most = TG__MAX(most, fabs(e->below[i]));
    }
    return most * 0x1p-53;
}

tg_status tg__eigen_decompose(tg__eigen *e, bool *ok_p)
{
    tridiagonalise(e);
    const double nothing = rounding(e);
    *ok_p = isfinite(nothing);
    e->turns = 0;
    for (size_t first = 0; *ok_p && first < e->n; first++)
        for (int step = 0;; step++) {
            size_t last = first;
            while (last + 1 < e->n && fabs(e->below[last]) > nothing)
                last++;
            if (last == first)
                break;
            *ok_p = step < STEPS_MAX;
            if (!*ok_p)
                break;
            TG_TRY(room_for(e, e->turns + (last - first)));
            ql_step(e, first, last);
        }
    return TG_OK;
}

/* ---- eigenvectors ---------------------------------------------------------------------------- */

void tg__eigen_vector(const tg__eigen *e, size_t i, double *v)
{
    memset(v, 0, e->n * sizeof *v);
    v[i] = 1;
    for (size_t t = e->turns; t-- > 0;) {
        const tg__rotation *turn = &e->turn[t];
        double x = v[turn->at], y = v[turn->at + 1];
        v[turn->at] = turn->c * x + turn->s * y;
        v[turn->at + 1] = turn->c * y - turn->s * x;
    }
    for (size_t r = 2; r < e->n; r++) {
        const double *u = e->a + r * e->n;
        if (e->norm[r] == 0)
            continue;
        double along = dot(u, v, r) / e->norm[r];
        for (size_t j = 0; j < r; j++)
            v[j] -= along * u[j];
    }
}
