/* PowerSGD's passes: the same bits at every level, whole and in pieces, in guarded memory; equal to
 * f64 sums up to rounding; exact on small integers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "guarded.h"
#include "kernel/kernel.h"
#include "telegrad/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 40, COLS_MAX = TG__SKINNY_STRIP + 37, RANK_MAX = 9 };

/* Arrays of a case: m, g, out (rows, cols); left, p (rank, rows); right, q, t (rank, cols). */
enum { M, G, OUT, LEFT, P, RIGHT, Q, T, ARRAYS };

static tg__guarded memory[ARRAYS];
static float *x[ARRAYS], *start[ARRAYS], *reference[ARRAYS];
static size_t len[ARRAYS];

enum { NORMAL, INTEGERS, LARGE, SPARSE, KINDS };

static float number(int kind, const tg_rng_key *key, uint64_t i)
{
    double z = tg_rng_normal(key, i);
    switch (kind) {
    case INTEGERS:
        return (float)floor(z * 2);
    case LARGE:
        return (float)(z * ((i * 7) % 5 == 0 ? 1e30 : 1e-30));
    case SPARSE:
        return z > 1 ? (float)z : z > 0 ? 0.0f : -0.0f;
    default:
        return (float)z;
    }
}

static void place(const tg__skinny *s, int kind, size_t shift, bool at_end)
{
    const size_t sizes[ARRAYS] = {s->rows * s->cols, s->rows * s->cols, s->rows * s->cols,
                                  s->rank * s->rows, s->rank * s->rows, s->rank * s->cols,
                                  s->rank * s->cols, s->rank * s->cols};
    for (int a = 0; a < ARRAYS; a++) {
        const tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)a};
        len[a] = sizes[a];
        x[a] = tg__guarded_place(&memory[a], len[a] * sizeof(float),
                                 shift ? (shift + 3 * (size_t)a) % 16 * sizeof(float) : 0, at_end);
        for (size_t i = 0; i < len[a]; i++) /* factors keep products finite */
            start[a][i] = number(kind == LARGE && a >= LEFT ? NORMAL : kind, &key, i);
    }
}

static void reset(void)
{
    for (int a = 0; a < ARRAYS; a++)
        memcpy(x[a], start[a], len[a] * sizeof(float));
}

/* One step, with rows in pieces of `rows` and columns in pieces of `cols`. */
static void play(const tg__kernels *k, const tg__skinny *s, size_t rows, size_t cols)
{
    for (size_t i = 0; i < s->rows; i += rows) {
        tg__skinny piece = *s;
        piece.rows = TG__MIN(rows, s->rows - i);
        piece.past_caches = rows < s->rows;
        k->skinny_fold(&piece, x[M] + i * s->stride, x[G] + i * s->stride, x[LEFT] + i, x[RIGHT],
                       x[Q], x[P] + i);
        k->skinny_expand(&piece, x[OUT] + i * s->stride, x[P] + i, x[Q]);
    }
    for (size_t j = 0; j < s->cols; j += cols) {
        tg__skinny piece = *s;
        piece.cols = TG__MIN(cols, s->cols - j);
        k->skinny_project(&piece, x[M] + j, x[P], x[T] + j);
    }
}

static tg__skinny shape(size_t rows, size_t cols, size_t rank)
{
    return (tg__skinny){.rows = rows,
                        .cols = cols,
                        .rank = rank,
                        .stride = cols,
                        .left_stride = rows,
                        .right_stride = cols};
}

static void compare(const tg__skinny *s, int kind, size_t shift, bool at_end)
{
    place(s, kind, shift, at_end);
    for (size_t l = 0; tg__kernel_levels[l]; l++) {
        const tg__kernels *k = tg__kernel_level(tg__kernel_levels[l]);
        for (int pieces = 0; k != NULL && pieces < 2; pieces++) {
            reset();
            play(k, s, pieces ? 5 : s->rows, pieces ? 48 : s->cols);
            for (int a = 0; a < ARRAYS; a++) {
                assert_true(tg__guarded_intact(&memory[a]));
                if (l == 0 && pieces == 0)
                    memcpy(reference[a], x[a], len[a] * sizeof(float));
                else if (memcmp(reference[a], x[a], len[a] * sizeof(float)) != 0)
                    fail_msg("%s, pieces %d: array %d of %zu x %zu, rank %zu, kind %d differs",
                             tg__kernel_levels[l], pieces, a, s->rows, s->cols, s->rank, kind);
            }
        }
    }
}

static void levels_agree(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 2, 3, 4, 7, 8, 9, 17, ROWS_MAX},
                        cols[] = {1, 7, 8, 15, 16, 17, 31, 33, 64, 1000, COLS_MAX - 40, COLS_MAX};
    for (size_t r = 0; r < TG_COUNT(rows); r++)
        for (size_t c = 0; c < TG_COUNT(cols); c++)
            for (size_t rank = 1; rank <= RANK_MAX; rank++) {
                tg__skinny s = shape(rows[r], cols[c], rank);
                if (rows[r] * cols[c] * rank > 20000 && (7 * r + 3 * c + rank) % 11 != 0)
                    continue; /* some of the large ones are enough */
                for (int kind = 0; kind < (rows[r] * cols[c] > 20000 ? 1 : KINDS); kind++)
                    compare(&s, kind, (r + c + rank) % 4, (r + c) % 2);
            }
}

/* m - left right^T + g and its products are correct up to rounding; exactly if all values are
 * integers. */
static void sums_are_right(void **state)
{
    (void)state;
    for (int kind = NORMAL; kind <= INTEGERS; kind++) {
        const tg__skinny s = shape(ROWS_MAX, 500, 3); /* integers stay below 2^24 */
        place(&s, kind, 0, false);
        reset();
        play(tg__kernel(), &s, s.rows, s.cols);
        double *sum = calloc(s.cols, sizeof *sum);
        const double near = kind == NORMAL ? 1e-5 : 0;
        for (size_t i = 0; i < s.rows; i++) {
            double dot[3] = {0};
            for (size_t j = 0; j < s.cols; j++) {
                double want = (double)start[M][i * s.cols + j] + start[G][i * s.cols + j], out = 0;
                for (size_t k = 0; k < s.rank; k++) {
                    want -= (double)start[LEFT][k * s.rows + i] * start[RIGHT][k * s.cols + j];
                    out += (double)x[P][k * s.rows + i] * x[Q][k * s.cols + j];
                }
                const float got = x[M][i * s.cols + j];
                assert_true(fabs(got - want) <= near * (1 + fabs(want)));
                assert_true(fabs(x[OUT][i * s.cols + j] - out) <= near * (1 + fabs(out)) * 10);
                for (size_t k = 0; k < s.rank; k++)
                    dot[k] += (double)got * start[Q][k * s.cols + j];
                sum[j] += (double)got * x[P][s.rows + i];
            }
            for (size_t k = 0; k < s.rank; k++)
                assert_true(fabs(x[P][k * s.rows + i] - dot[k]) <= near * 64 * (1 + fabs(dot[k])));
        }
        for (size_t j = 0; j < s.cols; j++)
            assert_true(fabs(x[T][s.cols + j] - sum[j]) <= near * 1000);
        free(sum);
    }
}

static void dots_agree(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 7, 8, 15, 16, 17, 31, 33, 4097, 65536, 65536 + 21};
    const tg__kernels *ref = tg__kernel_level("ref");
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t c = 0; c < TG_COUNT(sizes); c++) {
            const tg__skinny s = shape(1, sizes[c], 1);
            place(&s, kind, c % 3, c % 2);
            reset();
            double sum = 0, want = ref->dot(x[M], x[G], sizes[c]);
            for (size_t i = 0; i < sizes[c]; i++)
                sum += (double)x[M][i] * x[G][i];
            assert_true(kind == LARGE || fabs(sum - want) <= 1e-9 * (1 + fabs(sum)));
            for (size_t l = 1; tg__kernel_levels[l]; l++) {
                const tg__kernels *k = tg__kernel_level(tg__kernel_levels[l]);
                double got = k == NULL ? want : k->dot(x[M], x[G], sizes[c]);
                assert_memory_equal(&got, &want, sizeof got);
            }
        }
}

static int set_up(void **state)
{
    (void)state;
    const size_t room = (size_t)ROWS_MAX * COLS_MAX + 65536;
    for (int a = 0; a < ARRAYS; a++) {
        tg__guarded_open(&memory[a], (room + 16) * sizeof(float));
        start[a] = malloc(room * sizeof(float));
        reference[a] = malloc(room * sizeof(float));
        if (start[a] == NULL || reference[a] == NULL)
            return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int a = 0; a < ARRAYS; a++) {
        tg__guarded_close(&memory[a]);
        free(start[a]);
        free(reference[a]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_agree),
        cmocka_unit_test(sums_are_right),
        cmocka_unit_test(dots_agree),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
