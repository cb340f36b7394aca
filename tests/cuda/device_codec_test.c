/* tg_codec_encode, tg_frame_decode and tg_frame_decode_add with arrays on a GPU, or in its
 * emulation: all codecs, with the bytes and bits of arrays on the host. Codecs that the GPU does
 * not have go through the host. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "telegrad/cuda.h"
#include "telegrad/registry.h"
#include "telegrad/tools.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3000, FRAME = 1 << 16 };

static float *device; /* (N) */

/* Normal numbers of several scales, zeros of both signs, and values that round to -0. */
static void draw(float *x, size_t n)
{
    const tg_rng_key key = {.seed = 9, .purpose = TG_PURPOSE_TEST};
    static const float scales[] = {1, 1e-3f, 0, 1e-30f, 100};
    for (size_t i = 0; i < n; i++)
        x[i] = (float)tg_rng_normal(&key, i) * scales[i / 7 % 5];
}

static tg_array on_gpu(size_t n)
{
    tg_array a = tg_array_f32(device, n);
    a.memory = TG_CUDA;
    return a;
}

static void put(const float *x, size_t n)
{
    assert_int_equal(cudaMemcpy(device, x, n * sizeof *x, cudaMemcpyHostToDevice), cudaSuccess);
}

static void get(float *x, size_t n)
{
    assert_int_equal(cudaMemcpy(x, device, n * sizeof *x, cudaMemcpyDeviceToHost), cudaSuccess);
}

static void check_decoding(const char *spec, size_t n, const void *frame, size_t len)
{
    static float own[N], found[N];
    tg_array host = tg_array_f32(own, n), gpu = on_gpu(n);
    draw(own, n);
    put(own, n);
    assert_int_equal(tg_frame_decode_add(frame, len, &host), TG_OK);
    assert_int_equal(tg_frame_decode_add(frame, len, &gpu), TG_OK);
    get(found, n);
    if (memcmp(own, found, n * sizeof *own) != 0)
        fail_msg("%s, n=%zu: decode_add differs", spec, n);
    assert_int_equal(tg_frame_decode(frame, len, &host), TG_OK);
    assert_int_equal(tg_frame_decode(frame, len, &gpu), TG_OK);
    get(found, n);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&own[i], &found[i], sizeof own[i]) != 0)
            fail_msg("%s, n=%zu: element %zu decoded as %a, on the host %a", spec, n, i,
                     (double)found[i], (double)own[i]);
}

static void check(const char *spec, size_t n)
{
    static float x[N];
    static uint8_t here[FRAME], there[FRAME];
    size_t len = 0, other = 0;
    tg_codec *codec;
    assert_int_equal(tg_codec_create(spec, &codec), TG_OK);
    assert_true(tg_codec_bound(codec, n) <= FRAME);
    draw(x, n);
    for (int times = 0; times < 2; times++) { /* hints must not matter */
        const tg_array host = tg_array_f32(x, n), gpu = on_gpu(n);
        put(x, n);
        assert_int_equal(tg_codec_encode(codec, NULL, &host, here, FRAME, &len), TG_OK);
        if (tg_codec_encode(codec, NULL, &gpu, there, FRAME, &other) != TG_OK)
            fail_msg("%s, n=%zu: %s", spec, n, tg_error());
        assert_int_equal(len, other);
        assert_memory_equal(here, there, len);
    }
    check_decoding(spec, n, here, len);
    x[n / 2] = INFINITY;
    put(x, n);
    const tg_array gpu = on_gpu(n);
    assert_int_equal(tg_codec_encode(codec, NULL, &gpu, there, FRAME, &other), TG_E_NONFINITE);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "element %zu of x is inf", n / 2);
    assert_non_null(strstr(tg_error(), wanted));
    tg_codec_destroy(codec);
}

static void test_codecs(void **state)
{
    static const char *const more[] = {"topk:density=0.3,values=fp16",
                                       "topk:density=1,values=f32",
                                       "topk:density=0.05,values=int8,index=ef",
                                       "2bit:threshold=0.5",
                                       "sign:scale=none",
                                       "qsgd:bits=2,norm=l2"};
    static const size_t sizes[] = {1, 2, 63, 100, 513, 1000, N};
    size_t count = 0;
    const tg_entry *const *all = tg_registry_entries(TG_KIND_CODEC, &count);
    (void)state;
    assert_true(count > 10);
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
        for (size_t i = 0; i < count; i++)
            check(all[i]->name, sizes[j]);
        for (size_t i = 0; i < sizeof more / sizeof *more; i++)
            check(more[i], sizes[j]);
    }
}

static void test_no_such_device(void **state)
{
    tg_codec *codec;
    uint8_t frame[64];
    size_t len;
    tg_array a = on_gpu(4);
    (void)state;
    a.device = 1000;
    assert_int_equal(tg_codec_create("fp16", &codec), TG_OK);
    assert_int_equal(tg_codec_encode(codec, NULL, &a, frame, sizeof frame, &len), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "device=1000: allowed: 0 to "));
    tg_codec_destroy(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codecs),
                                       cmocka_unit_test(test_no_such_device)};
    if (tg_cuda_attach() != TG_OK) {
        printf("SKIP: %s\n", tg_error());
        return 77;
    }
    if (cudaMalloc((void **)&device, N * sizeof *device) != cudaSuccess)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
