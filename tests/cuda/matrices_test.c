/* PowerSGD's passes on a GPU, or in its emulation, have the bits of the reference kernels: vectors
 * of several matrices, and elements in none, of many shapes and ranks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "codec/on_gpu.h"
#include "kernel/kernel.h"
#include "telegrad/cuda.h"
#include "telegrad/random.h"
#include "telegrad/tools.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MATRICES_MOST = 4, GAP = 3, WIDE = TG__SKINNY_STRIP + 37 };

typedef struct size {
    size_t rows, cols;
} size;

/* A vector with its factors, as the host computes them; and the same on the device. */
typedef struct vector {
    tg_matrix matrix[MATRICES_MOST];
    size_t count, rank, n, nm, nleft, nright, nrest;
    float *g, *m, *left, *right, *start, *p, *rest, *out;
    tg_queue *queue;
    tg_matrices *matrices;
    float *on_device_m, *on_device_g, *on_device_out, *back;
} vector;

static float *drawn(size_t n, uint32_t number)
{
    const tg_rng_key key = {.seed = 2, .purpose = TG_PURPOSE_TEST, .rank = number};
    float *x;
    assert_int_equal(tg_alloc(n, sizeof *x, &x), TG_OK);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)tg_rng_normal(&key, i) * (i % 7 == 0 ? 1e-8f : 1.0f);
    return x;
}

static float *on_device(tg_queue *q, const float *x, size_t n)
{
    float *copy;
    assert_int_equal(tg__device()->alloc(q, n * sizeof *x, (void **)&copy), TG_OK);
    assert_int_equal(tg__device()->copy_in(q, copy, x, n * sizeof *x), TG_OK);
    return copy;
}

/* gap: elements before the first matrix, between matrices, and after the last. */
static void make(vector *v, const size *sizes, size_t count, size_t rank, size_t gap)
{
    *v = (vector){.count = count, .rank = rank};
    for (size_t i = 0; i < count; i++) {
        v->n += gap;
        v->matrix[i] = (tg_matrix){.at = v->n, .rows = sizes[i].rows, .cols = sizes[i].cols};
        v->n += sizes[i].rows * sizes[i].cols;
        v->nm += sizes[i].rows * sizes[i].cols;
        v->nleft += sizes[i].rows * rank;
        v->nright += sizes[i].cols * rank;
    }
    v->n += gap;
    v->nrest = v->n - v->nm;
    v->g = drawn(v->n, 0);
    v->m = drawn(v->nm, 1);
    v->left = drawn(v->nleft, 2);
    v->right = drawn(v->nright, 3);
    v->start = drawn(v->nright, 4);
    v->p = drawn(v->nleft, 5);
    v->rest = drawn(v->nrest, 6);
    v->out = drawn(v->n, 7);
    v->back = drawn(v->n, 8);
    assert_int_equal(tg__device()->queue_create(0, &v->queue), TG_OK);
    v->on_device_m = on_device(v->queue, v->m, v->nm);
    v->on_device_g = on_device(v->queue, v->g, v->n);
    v->on_device_out = on_device(v->queue, v->out, v->n);
    const tg_matrices_setup setup = {.struct_size = sizeof setup,
                                     .n = v->n,
                                     .matrix = v->matrix,
                                     .count = count,
                                     .rank = rank,
                                     .m = v->on_device_m};
    assert_int_equal(tg__device()->matrices_create(v->queue, &setup, &v->matrices), TG_OK);
}

static void destroy(vector *v)
{
    const tg_device_ops *ops = tg__device();
    ops->matrices_destroy(v->matrices);
    ops->release(v->queue, v->on_device_m);
    ops->release(v->queue, v->on_device_g);
    ops->release(v->queue, v->on_device_out);
    ops->queue_destroy(v->queue);
    float *const all[] = {v->g, v->m, v->left, v->right, v->start, v->p, v->rest, v->out, v->back};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* ---- the same on the host -------------------------------------------------------------------- */

/* What the passes of one matrix read and write; left_at etc. advance from matrix to matrix. */
typedef struct place {
    tg__skinny s;
    size_t at, m_at, left_at, right_at;
} place;

static place first_place(const vector *v)
{
    const tg_matrix *a = &v->matrix[0];
    return (place){.s = {.rows = a->rows,
                         .cols = a->cols,
                         .rank = v->rank,
                         .stride = a->cols,
                         .left_stride = a->rows,
                         .right_stride = a->cols},
                   .at = a->at};
}

static void to_next(const vector *v, size_t i, place *p)
{
    const place last = *p;
    if (i + 1 == v->count)
        return;
    vector rest = {.rank = v->rank, .matrix = {v->matrix[i + 1]}};
    *p = first_place(&rest);
    p->m_at = last.m_at + last.s.rows * last.s.cols;
    p->left_at = last.left_at + last.s.rows * v->rank;
    p->right_at = last.right_at + last.s.cols * v->rank;
}

static void host_fold(vector *v)
{
    const tg__kernels *ref = tg__kernel_level("ref");
    place a = first_place(v);
    size_t rest = 0, end = 0;
    for (size_t i = 0; i < v->count; to_next(v, i++, &a)) {
        ref->skinny_fold(&a.s, v->m + a.m_at, v->g + a.at, v->left + a.left_at,
                         v->right + a.right_at, v->start + a.right_at, v->p + a.left_at);
        memcpy(v->rest + rest, v->g + end, (a.at - end) * sizeof *v->rest);
        rest += a.at - end;
        end = a.at + a.s.rows * a.s.cols;
    }
    memcpy(v->rest + rest, v->g + end, (v->n - end) * sizeof *v->rest);
}

static void host_settle(vector *v)
{
    const tg__kernels *ref = tg__kernel_level("ref");
    place a = first_place(v);
    for (size_t i = 0; i < v->count; to_next(v, i++, &a)) {
        ref->skinny_expand(&a.s, v->out + a.at, v->left + a.left_at, v->right + a.right_at);
        ref->sub(v->m + a.m_at, v->out + a.at, a.s.rows * a.s.cols);
    }
}

static void host_project(vector *v)
{
    place a = first_place(v);
    for (size_t i = 0; i < v->count; to_next(v, i++, &a))
        tg__kernel_level("ref")->skinny_project(&a.s, v->m + a.m_at, v->left + a.left_at,
                                                v->right + a.right_at);
}

static void host_expand(vector *v)
{
    place a = first_place(v);
    size_t rest = 0, end = 0;
    for (size_t i = 0; i < v->count; to_next(v, i++, &a)) {
        tg__kernel_level("ref")->skinny_expand(&a.s, v->out + a.at, v->left + a.left_at,
                                               v->right + a.right_at);
        memcpy(v->out + end, v->rest + rest, (a.at - end) * sizeof *v->rest);
        rest += a.at - end;
        end = a.at + a.s.rows * a.s.cols;
    }
    memcpy(v->out + end, v->rest + rest, (v->n - end) * sizeof *v->rest);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void same(const vector *v, const char *what, const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%zu matrices, the first %zu x %zu, rank %zu: %s %zu of %zu is %g, not %g",
                     v->count, v->matrix[0].rows, v->matrix[0].cols, v->rank, what, i, n,
                     (double)got[i], (double)want[i]);
}

static void same_on_device(const vector *v, const char *what, const float *got, const float *want,
                           size_t n)
{
    assert_int_equal(tg__device()->copy_out(v->queue, v->back, got, n * sizeof *got), TG_OK);
    assert_int_equal(tg__device()->finish(v->queue), TG_OK);
    same(v, what, v->back, want, n);
}

static void compare(const size *sizes, size_t count, size_t rank, size_t gap)
{
    const tg_device_ops *ops = tg__device();
    vector v;
    size_t bad = 0;
    make(&v, sizes, count, rank, gap);
    float *p = drawn(v.nleft, 0), *rest = drawn(v.nrest, 0), *right = drawn(v.nright, 0);
    for (int times = 0; times < (v.n < 30000 ? 2 : 1); times++) {
        assert_int_equal(
            ops->fold(v.matrices, v.on_device_g, v.left, v.right, v.start, p, rest, &bad), TG_OK);
        host_fold(&v);
        assert_int_equal(bad, v.n);
        same(&v, "p", p, v.p, v.nleft);
        same(&v, "rest", rest, v.rest, v.nrest);
        same_on_device(&v, "m", v.on_device_m, v.m, v.nm);
        assert_int_equal(ops->project(v.matrices, v.left, right), TG_OK);
        host_project(&v);
        same(&v, "right", right, v.right, v.nright);
        assert_int_equal(ops->expand(v.matrices, v.left, right, rest, v.on_device_out), TG_OK);
        host_expand(&v);
        same_on_device(&v, "out", v.on_device_out, v.out, v.n);
    }
    free(p);
    free(rest);
    free(right);
    destroy(&v);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const size_t ranks[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 32};
#define RANKS (sizeof ranks / sizeof *ranks)

static void shapes(void **state)
{
    static const size_t rows[] = {1, 2, 7, 8, 9, 16, 33, 65, 130, 300},
                        cols[] = {1, 7, 15, 16, 17, 31, 33, 64, 65, 129, 500};
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
            for (size_t k = 0; k < RANKS; k++)
                if (rows[r] * cols[c] < 5000 ? (r + c + k) % 5 == 0 : (r + 3 * c + k) % 20 == 0)
                    compare(&(size){rows[r], cols[c]}, 1, ranks[k], (r + c) % 2);
}

/* Rows longer than a strip. */
static void strips(void **state)
{
    (void)state;
    for (size_t k = 0; k < RANKS; k++)
        compare(&(size){3, WIDE}, 1, ranks[k], 1);
    compare(&(size){2, TG__SKINNY_STRIP}, 1, 2, 0);
    compare(&(size){9, 2 * WIDE}, 1, 4, 0);
}

static void several(void **state)
{
    static const size sizes[] = {{40, 60}, {5, 300}, {300, 5}, {64, 64}};
    (void)state;
    for (size_t k = 0; k < RANKS; k++)
        for (size_t count = 1 + k % 2; count <= MATRICES_MOST; count += 2)
            compare(sizes, count, ranks[k], k / 2 % 2 * GAP);
    compare(sizes, 4, 4, 20000); /* runs of elements in several pieces */
}

/* So many rows that threads take 2 or 4 at a time, and a rest. */
static void tall(void **state)
{
    (void)state;
    compare((size[]){{16391, 18}, {5, 40}}, 2, 3, 1);
    compare((size[]){{16391, 18}, {5, 40}}, 2, 8, 1);
    compare((size[]){{16391, 3}, {34, 70}}, 2, 2, 1);
    compare((size[]){{33001, 3}, {34, 70}}, 2, 1, 0);
    compare((size[]){{33001, 3}, {34, 70}}, 2, 4, 0);
}

/* A gradient that is not finite is not added; and what stands for none. */
static void spoilt(void **state)
{
    const tg_device_ops *ops = tg__device();
    static const float values[] = {NAN, -INFINITY, INFINITY};
    (void)state;
    for (size_t k = 0; k < RANKS; k++) {
        vector v;
        size_t bad = 0;
        make(&v, (size[]){{40, 60}, {5, 300}}, 2, ranks[k], GAP);
        const size_t at = k % 2 ? 1 : v.matrix[1].at + 77; /* in no matrix, and in one */
        const float value = values[k % 3];
        assert_int_equal(ops->copy_in(v.queue, v.on_device_g + at, &value, sizeof value), TG_OK);
        assert_int_equal(
            ops->fold(v.matrices, v.on_device_g, v.left, v.right, v.start, v.p, v.rest, &bad),
            TG_OK);
        assert_int_equal(bad, at);
        host_settle(&v);
        same_on_device(&v, "m", v.on_device_m, v.m, v.nm);
        assert_int_equal(ops->fold(v.matrices, NULL, v.left, v.right, v.start, v.p, v.rest, &bad),
                         TG_OK);
        assert_true(bad == SIZE_MAX);
        host_settle(&v);
        same_on_device(&v, "m", v.on_device_m, v.m, v.nm);
        destroy(&v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shapes), cmocka_unit_test(strips),
                                       cmocka_unit_test(several), cmocka_unit_test(tall),
                                       cmocka_unit_test(spoilt)};
    if (tg_cuda_attach() != TG_OK) {
        printf("SKIP: %s\n", tg_error());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
