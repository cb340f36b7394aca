/* Clipping of tensors on a GPU, or in its emulation, has the bits of tg__clip_tensors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "codec/on_gpu.h"
#include "feedback/feedback.h"
#include "hard_vectors.h"
#include "kernel/kernel.h"
#include "telegrad/cuda.h"
#include "telegrad/tools.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 65536, TENSORS_MOST = 400, GAP = 3 };

/* A vector of tensors, with elements in none of them around each. */
typedef struct vector {
    tg_segment segment[TENSORS_MOST];
    size_t begin[TENSORS_MOST], len[TENSORS_MOST], count, n;
    float *g, *want, *got;
    tg_queue *queue;
    tg_coder *coder;
    float *device_g, *device_out;
} vector;

static void make(vector *v, const size_t *len, size_t count)
{
    const tg_device_ops *ops = tg__device();
    *v = (vector){.count = count, .n = GAP};
    for (size_t i = 0; i < count; i++) {
        v->begin[i] = v->n;
        v->len[i] = len[i];
        v->segment[i] = (tg_segment){.begin = v->n, .n = len[i], .rows = len[i], .cols = 1};
        v->n += len[i] + GAP;
    }
    const tg_coder_setup setup = {.struct_size = sizeof setup,
                                  .codec = "f32",
                                  .feedback = "none",
                                  .n = v->n,
                                  .segments = v->segment,
                                  .nsegments = count};
    assert_int_equal(tg_alloc(v->n, sizeof *v->g, &v->g), TG_OK);
    assert_int_equal(tg_alloc(v->n, sizeof *v->want, &v->want), TG_OK);
    assert_int_equal(tg_alloc(v->n, sizeof *v->got, &v->got), TG_OK);
    assert_int_equal(ops->queue_create(0, &v->queue), TG_OK);
    assert_int_equal(ops->alloc(v->queue, v->n * sizeof(float), (void **)&v->device_g), TG_OK);
    assert_int_equal(ops->alloc(v->queue, v->n * sizeof(float), (void **)&v->device_out), TG_OK);
    assert_int_equal(ops->coder_create(v->queue, &setup, &v->coder), TG_OK);
}

static void destroy(vector *v)
{
    const tg_device_ops *ops = tg__device();
    ops->coder_destroy(v->coder);
    ops->release(v->queue, v->device_g);
    ops->release(v->queue, v->device_out);
    ops->queue_destroy(v->queue);
    free(v->g);
    free(v->want);
    free(v->got);
}

/* Clip g, in which other values may stand each time. Returns how many tensors have changed. */
static size_t compare(vector *v, double limit)
{
    const tg_device_ops *ops = tg__device();
    const size_t bytes = v->n * sizeof *v->g;
    size_t changed = 0;
    for (size_t i = 0; i < v->n; i++)
        v->want[i] = (float)(i % 1000) + 0.5f;
    assert_int_equal(ops->copy_in(v->queue, v->device_g, v->g, bytes), TG_OK);
    assert_int_equal(ops->copy_in(v->queue, v->device_out, v->want, bytes), TG_OK);
    assert_int_equal(ops->clip(v->coder, v->device_g, limit, v->device_out), TG_OK);
    assert_int_equal(ops->copy_out(v->queue, v->got, v->device_out, bytes), TG_OK);
    assert_int_equal(ops->finish(v->queue), TG_OK);
    tg__clip_tensors(v->want, v->g, v->begin, v->len, v->count, limit, 1);
    for (size_t i = 0; i < v->n; i++)
        if (memcmp(&v->got[i], &v->want[i], sizeof *v->got) != 0)
            fail_msg("%zu tensors, limit %a: element %zu of %zu is %a, not %a", v->count, limit, i,
                     v->n, (double)v->got[i], (double)v->want[i]);
    for (size_t i = 0; i < v->count; i++)
        changed += memcmp(v->want + v->begin[i], v->g + v->begin[i], v->len[i] * sizeof *v->g) != 0;
    return changed;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Long ones among many of one element. */
static void many_tensors(void **state)
{
    static const double limits[4] = {1e-44, 0.02, 1, 1e300};
    static const size_t odd[] = {0,    1,    2,    15,        16,    17,        255,
                                 2047, 2048, 2049, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5};
    static size_t len[TENSORS_MOST];
    size_t least = SIZE_MAX, most = 0;
    vector v;
    (void)state;
    for (size_t i = 0; i < TENSORS_MOST; i++)
        len[i] = i % 20 == 0 && i / 20 < TG_COUNT(odd) ? odd[i / 20] : 1;
    make(&v, len, TENSORS_MOST);
    for (int kind = 0; kind < VECTOR_KINDS; kind++)
        for (int l = kind; l < kind + 2; l++) {
            vector_draw(v.g, v.n, kind, 1, (uint64_t)l);
            const size_t now = compare(&v, limits[l % 4]);
            least = now < least ? now : least;
            most = now > most ? now : most;
        }
    assert_int_equal(least, 0);
    assert_int_equal(most, TENSORS_MOST - 1); /* all but the empty one */
    destroy(&v);
}

/* With limits for which the factor of the one tensor lies so near to the middle between two floats
 * that it is the other one if the norm's last bit is another. This shows the order of the sum. */
static void compare_last_bit(vector *v)
{
    const double middle = 0.625 + 0x1p-25; /* floats from 0.5 to 1 are 2^-24 apart */
    tg__stats stats;
    tg__kernel()->copy_stats(NULL, v->g + v->begin[0], v->len[0], &stats);
    const double norm = sqrt(stats.sum_sq);
    double below = norm * middle;
    while ((float)(below / norm) > 0.625f)
        below = nextafter(below, 0);
    while ((float)(nextafter(below, DBL_MAX) / norm) == 0.625f)
        below = nextafter(below, DBL_MAX);
    assert_int_equal(compare(v, below), 1);
    assert_int_equal(compare(v, nextafter(below, DBL_MAX)), 1);
}

static void order_of_lanes(void **state)
{
    static const size_t len[] = {7, 16, 33, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 77};
    vector v;
    (void)state;
    for (size_t i = 0; i < TG_COUNT(len); i++) {
        make(&v, &len[i], 1);
        for (uint64_t step = 0; step < (len[i] < CHUNK - 1 ? 20 : 2); step++) {
            vector_draw(v.g, v.n, VECTOR_NORMAL, 2, step);
            compare_last_bit(&v);
        }
        destroy(&v);
    }
}

/* A chunk whose sum is 1, and then four of little more than half of 1's last bit. */
static void order_of_chunks(void **state)
{
    static const size_t len = 4 * CHUNK + 5;
    vector v;
    (void)state;
    make(&v, &len, 1);
    for (size_t i = 0; i < v.n; i++)
        v.g[i] = 0;
    for (size_t chunk = 0; chunk < 5; chunk++)
        v.g[v.begin[0] + CHUNK * chunk] = chunk == 0 ? 1 : 0x1.8p-27f;
    compare_last_bit(&v);
    destroy(&v);
}

/* Exactly the norm: unchanged. */
static void the_norm_itself(void **state)
{
    static const size_t len[] = {2, 1, 4};
    static const float values[] = {3, -4, 5, 1, 7, -5, 5};
    vector v;
    (void)state;
    make(&v, len, TG_COUNT(len));
    for (size_t i = 0, k = 0; i < v.count; i++)
        for (size_t j = 0; j < v.len[i]; j++)
            v.g[v.begin[i] + j] = values[k++];
    assert_int_equal(compare(&v, 5), 1);
    assert_int_equal(compare(&v, 10), 0);
    assert_int_equal(compare(&v, nextafter(5, 0)), 1); /* the factor of the others is 1 */
    assert_int_equal(compare(&v, 4.999), 3);
    destroy(&v);
}

/* The sum of squares overflows f32, or is less than its least number. */
static void extremes(void **state)
{
    static const size_t len[] = {1, 40, CHUNK + 3};
    vector v;
    (void)state;
    make(&v, len, TG_COUNT(len));
    for (size_t i = 0; i < v.n; i++)
        v.g[i] = i % 2 == 0 ? FLT_MAX : -FLT_MAX;
    assert_int_equal(compare(&v, 1), 3);
    assert_int_equal(compare(&v, 1e-30), 3);
    assert_int_equal(compare(&v, 1e300), 0);
    for (size_t i = 0; i < v.n; i++)
        v.g[i] = (i % 3 == 0 ? -1.0f : 1.0f) * (float)(1 + i % 5) * 0x1p-149f;
    assert_int_equal(compare(&v, 0x1p-148), 3);
    assert_int_equal(compare(&v, 1e-320), 3);
    assert_int_equal(compare(&v, 1e-30), 0);
    destroy(&v);
}

/* A tensor that is not finite stays as it is, with the bits of its NaNs; the others do not. */
static void not_finite(void **state)
{
    static const size_t len[] = {1, 100, CHUNK + 9, 100, 1};
    static const uint32_t strange[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc01234, 0x7fa00001};
    vector v;
    (void)state;
    make(&v, len, TG_COUNT(len));
    for (size_t i = 0; i < TG_COUNT(len); i++)
        for (size_t s = 0; s < TG_COUNT(strange); s++) {
            const size_t at = s % 2 == 0 ? len[i] - 1 : 0;
            vector_draw(v.g, v.n, VECTOR_TIES, 3, s);
            memcpy(&v.g[v.begin[i] + at], &strange[s], sizeof *strange);
            assert_int_equal(compare(&v, 0.1), TG_COUNT(len) - 1);
        }
    destroy(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_tensors),    cmocka_unit_test(order_of_lanes),
        cmocka_unit_test(order_of_chunks), cmocka_unit_test(the_norm_itself),
        cmocka_unit_test(extremes),        cmocka_unit_test(not_finite),
    };
    if (tg_cuda_attach() != TG_OK) {
        printf("SKIP: %s\n", tg_error());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
