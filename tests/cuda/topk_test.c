/* Top-k on a GPU where the threshold of the last call does not fit: vectors that shrink and grow
 * from call to call, and equal elements. The frames are those of the host. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "codec/on_gpu.h"
#include "telegrad/codec.h"
#include "telegrad/cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 120000, CALLS = 6 };

typedef enum kind { EQUAL, SHRINKING, GROWING, ZEROS, FEW } kind;

static float element(kind of, size_t i, int call)
{
    static const float shrinking[CALLS] = {1, 1, 1e-3f, 1e-3f, 1e-9f, 1},
                       growing[CALLS] = {1, 1, 1e3f, 1e3f, 1e9f, 1};
    const uint32_t mixed = (uint32_t)(i * 2654435761u + (uint32_t)call * 40503u);
    const float x = ((float)(mixed >> 8) / (float)(1 << 24) - 0.5f);
    switch (of) {
    case EQUAL:
        return i % 3 == 0 ? -0.25f : 0.25f;
    case SHRINKING:
        return x * shrinking[call];
    case GROWING:
        return x * growing[call];
    case ZEROS:
        return call % 2 == 0 ? 0 : x;
    default:
        return i % 1000 == 7 ? x : 0;
    }
}

static void compare(const char *spec, kind of, size_t n)
{
    const tg_device_ops *ops = tg__device();
    tg_codec *host, *device;
    tg_queue *q;
    void *memory;
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    assert_int_equal(tg_codec_create(spec, &host), TG_OK);
    assert_int_equal(tg_codec_create(spec, &device), TG_OK);
    assert_int_equal(ops->queue_create(0, &q), TG_OK);
    assert_int_equal(ops->alloc(q, n * sizeof *x, &memory), TG_OK);
    const size_t bound = tg_codec_bound(host, n);
    uint8_t *frame = malloc(bound), *other = malloc(bound);
    assert_true(frame != NULL && other != NULL);
    for (int call = 0; call < CALLS; call++) {
        tg_array there = {sizeof there, memory, n, TG_F32, TG_CUDA, 0, NULL};
        size_t len, other_len;
        for (size_t i = 0; i < n; i++)
            x[i] = element(of, i, call);
        const tg_array here = tg_array_f32(x, n);
        assert_int_equal(ops->copy_in(q, memory, x, n * sizeof *x), TG_OK);
        assert_int_equal(ops->finish(q), TG_OK);
        assert_int_equal(tg_codec_encode(host, NULL, &here, frame, bound, &len), TG_OK);
        assert_int_equal(tg_codec_encode(device, NULL, &there, other, bound, &other_len), TG_OK);
        if (len != other_len || memcmp(frame, other, len) != 0)
            fail_msg("%s: kind %d, n=%zu, call %d: other frames", spec, (int)of, n, call);
    }
    free(frame);
    free(other);
    free(x);
    ops->release(q, memory);
    ops->queue_destroy(q);
    tg_codec_destroy(host);
    tg_codec_destroy(device);
}

static void test_thresholds(void **state)
{
    (void)state;
    for (kind of = EQUAL; of <= FEW; of++) {
        compare("topk:density=0.01", of, N);
        compare("topk:density=0.003,values=f32,index=ef", of, 20000);
    }
    compare("topk:density=0.001", SHRINKING, N);
    compare("topk:density=0.001", GROWING, N);
}

static void test_extremes(void **state)
{
    (void)state;
    for (kind of = EQUAL; of <= FEW; of++) {
        compare("topk:density=1,values=f32", of, 3000);
        compare("topk:density=1,values=1bit", of, 3000);
        compare("topk:density=0.01", of, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_thresholds),
                                       cmocka_unit_test(test_extremes)};
    if (tg_cuda_attach() != TG_OK) {
        printf("SKIP: %s\n", tg_error());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
