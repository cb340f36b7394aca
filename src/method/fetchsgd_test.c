/* FetchSGD: sketches are linear, estimates are exact without collisions and unbiased with them; a
 * whole sketch is top-k of the mean with momentum and error feedback; dropped steps leave no trace
 * on any rank. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "method/sketch.h"
#include "method_ranks.h"
#include "telegrad/random.h"

#include <stdlib.h>

static void gradients(uint64_t t)
{
    for (int r = 0; r < ranks_size; r++) {
        const tg_rng_key key = {
            .seed = 7, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r, .step = t};
        for (size_t i = 0; i < RANKS_N; i++)
            ranks[r].g[i] = (float)(floor(tg_rng_normal(&key, i) * 64) / 64);
    }
}

static void mean_gradient(float mean[RANKS_N])
{
    for (size_t i = 0; i < RANKS_N; i++) {
        mean[i] = 0;
        for (int r = 0; r < ranks_size; r++)
            mean[i] += ranks[r].g[i];
        mean[i] /= (float)ranks_size;
    }
}

/* A rank's slot, with its number of floats. */
static float *slot(int r, const char *name, size_t *n_p)
{
    for (size_t i = 0; i < tg__state_count(ranks[r].state); i++) {
        const tg__slot_view view = tg__state_view(ranks[r].state, i);
        if ((size_t)view.name_len == strlen(name) && memcmp(view.name, name, strlen(name)) == 0) {
            *n_p = view.len / sizeof(float);
            return view.data;
        }
    }
    fail_msg("no slot %s", name);
    return NULL;
}

static void same_state(void)
{
    static const char *const names[] = {"sketch.velocity", "sketch.error"};
    for (size_t i = 0; i < TG_COUNT(names); i++)
        for (int r = 1; r < ranks_size; r++) {
            size_t n, other;
            const float *first = slot(0, names[i], &n), *own = slot(r, names[i], &other);
            assert_int_equal(n, other);
            assert_memory_equal(first, own, n * sizeof *own);
        }
}

/* A sketch of n elements outside of any step. */
static tg__sketch sketch_of(size_t n, size_t rows, double ratio)
{
    tg__sketch s = tg__sketch_shape(n, rows, ratio);
    assert_int_equal(tg__sketch_init(&s, ranks[0].m), TG_OK);
    return s;
}

/* ---- the sketch ------------------------------------------------------------------------------ */

enum { N = 5000, ROWS = 5 };
static float x[N], y[N], table[2][2 * N];

static void draw(float v[N], uint64_t step)
{
    const tg_rng_key key = {.seed = 3, .purpose = TG_PURPOSE_TEST, .step = step};
    for (size_t i = 0; i < N; i++)
        v[i] = (float)(floor(tg_rng_normal(&key, i) * 64) / 64);
}

static void shapes(void **state)
{
    (void)state;
    static const struct {
        size_t n, rows;
        double ratio;
        size_t want_rows, want_cols;
    } cases[] = {{5000, 5, 10, 5, 100},  {5000, 5, 4, 5, 250},  {431080, 5, 10, 5, 8621},
                 {5000, 5, 100, 5, 64},  {325, 5, 10, 5, 64},   {324, 5, 10, 1, 324},
                 {5000, 3, 1, 1, 5000},  {5000, 1, 2, 1, 2500}, {1, 5, 10, 1, 1},
                 {5000, 15, 1e6, 15, 64}};
    for (size_t c = 0; c < TG_COUNT(cases); c++) {
        const tg__sketch s = tg__sketch_shape(cases[c].n, cases[c].rows, cases[c].ratio);
        assert_int_equal(s.rows, cases[c].want_rows);
        assert_int_equal(s.cols, cases[c].want_cols);
        assert_true(s.whole == (cases[c].want_rows * cases[c].want_cols >= cases[c].n));
    }
}

/* The sum of sketches is the sketch of the sum; what is added can be taken back; each element is
 * where tg__sketch_cell says. */
static void linear(void **state)
{
    (void)state;
    ranks_start("fetchsgd", 1);
    const tg__sketch s = sketch_of(N, ROWS, 4);
    const size_t cells = tg__sketch_cells(&s);
    static uint32_t idx[N];
    draw(x, 1);
    draw(y, 2);
    tg__sketch_make(&s, x, table[0], NULL);
    tg__sketch_make(&s, y, table[1], NULL);
    for (size_t i = 0; i < cells; i++)
        table[0][i] += table[1][i];
    for (size_t i = 0; i < N; i++) {
        x[i] += y[i];
        idx[i] = (uint32_t)i;
    }
    tg__sketch_make(&s, x, table[1], NULL);
    assert_memory_equal(table[0], table[1], cells * sizeof(float));
    tg__sketch_add(&s, table[0], -1, idx, x, N);
    for (size_t i = 0; i < cells; i++)
        assert_true(table[0][i] == 0);
    tg__sketch_clear(&s, table[1], idx, N);
    for (size_t i = 0; i < N; i++)
        for (size_t row = 0; row < ROWS; row++) {
            float sign;
            assert_true(table[1][tg__sketch_cell(&s, row, i, &sign)] == 0);
        }
    ranks_stop();
}

/* A sparse vector comes back: its elements exactly (at most two of five cells are shared), and
 * nothing where three are untouched. */
static void sparse_vectors(void **state)
{
    (void)state;
    ranks_start("fetchsgd", 1);
    const tg__sketch s = sketch_of(N, ROWS, 4);
    memset(x, 0, sizeof x);
    for (size_t i = 0; i < 5; i++)
        x[i * 977 + 3] = (float)i - 7;
    tg__sketch_make(&s, x, table[0], NULL);
    tg__sketch_estimate(&s, table[0], y, NULL);
    for (size_t i = 0; i < N; i++) /* 0 may have a sign */
        assert_true(x[i] == y[i]);
    for (size_t i = 0; i < N; i++) /* a single element, anywhere */
        if (i % 13 == 0) {
            memset(x, 0, sizeof x);
            x[i] = -3;
            tg__sketch_make(&s, x, table[0], NULL);
            tg__sketch_estimate(&s, table[0], y, NULL);
            assert_true(y[i] == -3);
        }
    ranks_stop();
}

/* Cells and signs are spread evenly, and pairs collide as often as by chance. */
static void hashes(void **state)
{
    (void)state;
    ranks_start("fetchsgd", 1);
    const tg__sketch s = sketch_of(N, ROWS, 10);
    const double expected = (double)N / (double)s.cols;
    for (size_t row = 0; row < ROWS; row++) {
        double chi = 0, signs = 0, together = 0, alike = 0;
        static size_t count[N];
        memset(count, 0, sizeof count);
        for (size_t i = 0; i < N; i++) {
            float sign, other;
            const size_t at = tg__sketch_cell(&s, row, i, &sign) - row * s.cols;
            assert_true(at < s.cols);
            count[at]++;
            signs += (double)sign;
            for (size_t j = i + 1; j < N && j < i + 200; j++)
                if (tg__sketch_cell(&s, row, j, &other) - row * s.cols == at) {
                    together++;
                    alike += (double)(sign * other);
                }
        }
        for (size_t c = 0; c < s.cols; c++)
            chi += ((double)count[c] - expected) * ((double)count[c] - expected) / expected;
        const double pairs = (double)N * 199 / (double)s.cols;
        assert_true(fabs(chi - (double)s.cols) < 6 * sqrt(2 * (double)s.cols));
        assert_true(fabs(signs) < 5 * sqrt(N));
        assert_true(fabs(together - pairs) < 0.15 * pairs);
        assert_true(fabs(alike) < 8 * sqrt(pairs));
    }
    ranks_stop();
}

/* The median of an odd and an even number of rows; several cores change nothing. */
static void medians(void **state)
{
    (void)state;
    static float all[N];
    tg__pool *pool = NULL;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    ranks_start("fetchsgd", 1);
    draw(x, 5);
    for (size_t rows = 1; rows <= 6; rows++) {
        const tg__sketch s = sketch_of(N, rows, 4);
        tg__sketch_make(&s, x, table[0], NULL);
        tg__sketch_make(&s, x, table[1], pool);
        assert_memory_equal(table[0], table[1], tg__sketch_cells(&s) * sizeof(float));
        tg__sketch_estimate(&s, table[0], y, NULL);
        tg__sketch_estimate(&s, table[0], all, pool);
        assert_memory_equal(y, all, sizeof y);
        for (size_t i = 0; i < N; i += 37) {
            size_t below = 0, above = 0;
            for (size_t row = 0; row < rows; row++) {
                float sign;
                const size_t at = tg__sketch_cell(&s, row, i, &sign);
                below += sign * table[0][at] < y[i];
                above += sign * table[0][at] > y[i];
            }
            assert_true(below <= rows / 2 && above <= rows / 2);
        }
    }
    ranks_stop();
    tg__pool_destroy(pool);
}

/* ---- the method ------------------------------------------------------------------------------ */

static int by_magnitude(const void *a, const void *b)
{
    const float p = fabsf(*(const float *)a), q = fabsf(*(const float *)b);
    return (p < q) - (p > q);
}

/* Without collisions: top-k of the mean, with momentum and error feedback, by plain loops. */
static void whole_sketch(void **state)
{
    static float u[RANKS_N], e[RANKS_N], mean[RANKS_N], sorted[RANKS_N];
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        const bool masking = kind & 1, nesterov = kind & 2, zero = kind & 4;
        char text[160];
        snprintf(text, sizeof text,
                 "fetchsgd:ratio=1,density=0.05,momentum=0.5,masking=%s,nesterov=%s,extract=%s",
                 masking ? "yes" : "no", nesterov ? "yes" : "no", zero ? "zero" : "subtract");
        ranks_start(text, 4);
        memset(u, 0, sizeof u);
        memset(e, 0, sizeof e);
        for (uint64_t t = 0; t < 6; t++) {
            gradients(t);
            mean_gradient(mean);
            assert_int_equal(ranks_step(t, true, -1), 1);
            for (size_t i = 0; i < RANKS_N; i++) {
                u[i] = nesterov ? 0.5f * (u[i] + mean[i]) : 0.5f * u[i] + mean[i];
                e[i] += u[i];
                e[i] += nesterov ? mean[i] : 0;
                sorted[i] = e[i];
            }
            qsort(sorted, RANKS_N, sizeof *sorted, by_magnitude);
            size_t left = 50;
            for (size_t i = 0; i < RANKS_N; i++)
                left -= fabsf(e[i]) > fabsf(sorted[49]);
            for (size_t i = 0; i < RANKS_N; i++) {
                const bool tie = fabsf(e[i]) == fabsf(sorted[49]) && left > 0;
                const bool taken = tie || fabsf(e[i]) > fabsf(sorted[49]);
                left -= tie;
                assert_true(ranks_aggregate(0)[i] == (taken ? e[i] : 0));
                e[i] = taken ? 0 : e[i];
                u[i] = taken && masking ? 0 : u[i];
            }
            size_t n;
            assert_memory_equal(slot(0, "sketch.error", &n), e, sizeof e);
            same_state();
            ranks_settle(false);
        }
        ranks_stop();
    }
}

/* A few elements that stand out in the mean, though on no rank: they are found, with the mean's
 * values to the noise of the sketch. */
static void heavy_hitters(void **state)
{
    static float mean[RANKS_N];
    (void)state;
    ranks_start("fetchsgd:rows=7,ratio=2,density=0.004,momentum=0", 4);
    gradients(0);
    for (int r = 0; r < 4; r++)
        for (size_t i = 0; i < RANKS_N; i++) {
            ranks[r].g[i] *= 1.0f / 64;
            if (i % 300 == 10)
                ranks[r].g[i] += 2;
            else if (i % 300 == (size_t)r + 20) /* the sum over ranks of these is 0 */
                ranks[r].g[i] += 8;
            else if (i % 300 == (size_t)(r + 1) % 4 + 20)
                ranks[r].g[i] -= 8;
        }
    mean_gradient(mean);
    ranks_step(0, true, -1);
    for (size_t i = 0; i < RANKS_N; i++) {
        if (i % 300 == 10)
            assert_true(fabsf(ranks_aggregate(0)[i] - mean[i]) < 0.1f);
        else
            assert_true(ranks_aggregate(0)[i] == 0);
    }
    ranks_stop();
}

/* What was extracted leaves the sketch of the error: with extract=subtract it holds the sketch of
 * what was put in less what was taken out, exactly as far as f32 goes. */
static void nothing_is_lost(void **state)
{
    static float in[RANKS_N], mean[RANKS_N];
    (void)state;
    ranks_start("fetchsgd:rows=5,ratio=2,density=0.02,momentum=0,extract=subtract", 4);
    memset(in, 0, sizeof in);
    for (uint64_t t = 0; t < 8; t++) {
        gradients(t);
        mean_gradient(mean);
        assert_int_equal(ranks_step(t, true, -1), 1);
        for (size_t i = 0; i < RANKS_N; i++)
            in[i] += mean[i] - ranks_aggregate(0)[i];
        ranks_settle(false);
        same_state();
    }
    tg__sketch s = tg__sketch_shape(RANKS_N, 5, 2);
    assert_int_equal(tg__sketch_init(&s, ranks[0].m), TG_OK);
    tg__sketch_make(&s, in, table[0], NULL);
    size_t n;
    const float *e = slot(0, "sketch.error", &n);
    assert_int_equal(n, tg__sketch_cells(&s));
    for (size_t i = 0; i < n; i++) /* dyadic */
        assert_true(e[i] == table[0][i]);
    ranks_stop();
}

/* A dropped step leaves the sketches as they were, on all ranks, also on the one that had no
 * gradient. A dense step is the mean, and leaves them, too. */
static void dropped_and_dense(void **state)
{
    static float before[2][RANKS_N], mean[RANKS_N];
    (void)state;
    ranks_start("fetchsgd:ratio=2,density=0.02,momentum=0.5", 4);
    for (uint64_t t = 0; t < 9; t++) {
        const bool dropped = t % 3 == 1, dense = t % 3 == 2;
        size_t n;
        gradients(t);
        mean_gradient(mean);
        const float *u = slot(2, "sketch.velocity", &n), *e = slot(2, "sketch.error", &n);
        memcpy(before[0], u, n * sizeof *u);
        memcpy(before[1], e, n * sizeof *e);
        assert_int_equal(ranks_step(t, !dense, dropped ? 2 : -1), 1);
        if (!dense)
            assert_memory_not_equal(before[1], e, n * sizeof *e);
        for (size_t i = 0; dense && i < RANKS_N; i++)
            assert_true(ranks_aggregate(0)[i] == mean[i]);
        ranks_settle(dropped);
        ranks_settle(dropped); /* a second undo has nothing to do */
        if (dropped || dense) {
            assert_memory_equal(before[0], u, n * sizeof *u);
            assert_memory_equal(before[1], e, n * sizeof *e);
        }
        same_state();
    }
    ranks_stop();
}

/* Dropping a step is as if it had not been. */
static void goes_on(void **state)
{
    static float want[RANKS_N];
    (void)state;
    for (int with = 0; with < 2; with++) {
        ranks_start("fetchsgd:ratio=3,density=0.02", 2);
        for (uint64_t t = 0; t < 5; t++) {
            gradients(t);
            ranks_step(t, true, -1);
            ranks_settle(false);
            if (with == 1) {
                gradients(100 + t);
                ranks_step(t, true, t % 2 == 0 ? 1 : -1);
                ranks_settle(true);
            }
        }
        gradients(5);
        ranks_step(5, true, -1);
        if (with == 0)
            memcpy(want, ranks_aggregate(0), sizeof want);
        assert_memory_equal(want, ranks_aggregate(0), sizeof want);
        ranks_stop();
    }
}

static void refused(void **state)
{
    static const refusal cases[] = {
        {"fetchsgd:rows=0", "rows=0: allowed: 1 <= rows <= 15"},
        {"fetchsgd:rows=16", "rows=16"},
        {"fetchsgd:ratio=0.5", "ratio=0.5: allowed: 1 <= ratio"},
        {"fetchsgd:density=0", "density=0"},
        {"fetchsgd:momentum=1", "momentum=1"},
        {"fetchsgd:extract=some", "zero, subtract"},
        {"fetchsgd:exchange=gtopk", "allowed: direct, ring, halving, allgather, star, auto, none"},
    };
    (void)state;
    ranks_refuse(cases, TG_COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(linear),
        cmocka_unit_test(sparse_vectors),
        cmocka_unit_test(hashes),
        cmocka_unit_test(medians),
        cmocka_unit_test(whole_sketch),
        cmocka_unit_test(heavy_hitters),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(dropped_and_dense),
        cmocka_unit_test(goes_on),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
