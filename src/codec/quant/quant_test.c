/* int8, qsgd and terngrad: bytes produced by independent code, limiting cases, refusals. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "codec/quant/quant.h"
#include "codec/quant/quant_elias.h"
#include "each_level.h"
#include "from_hex.h"
#include <golden/golden_quant.h> /* tests/golden */
#include "vectors.h"
#include "telegrad/random.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 300000 };

static float x[MAX_N], out[MAX_N];
static uint8_t frame[12 + 4 * MAX_N], other[12 + 4 * MAX_N];

static tg_codec *create(const char *spec)
{
    tg_codec *c = NULL;
    if (tg_codec_create(spec, &c) != TG_OK)
        fail_msg("%s: %s", spec, tg_error());
    return c;
}

static size_t encode(tg_codec *c, const tg_encode_context *ctx, size_t n, uint8_t *dst)
{
    size_t len;
    tg_array ax = tg_array_f32(x, n);
    assert_int_equal(tg_codec_encode(c, ctx, &ax, dst, tg_codec_bound(c, n), &len), TG_OK);
    return len;
}

static tg_status decode(size_t len, size_t n)
{
    tg_array aout = tg_array_f32(out, n);
    return tg_frame_decode(frame, len, &aout);
}

static tg_encode_context at_step(uint64_t step)
{
    return (tg_encode_context){.struct_size = sizeof(tg_encode_context),
                               .rng = {.seed = 11, .purpose = TG_PURPOSE_CODEC, .step = step}};
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void golden(void **state)
{
    (void)state;
    static uint8_t bytes[MAX_BYTES];
    for (size_t i = 0; i < TG_COUNT(golden_quant); i++) {
        const struct golden_quant *g = &golden_quant[i];
        size_t n = from_hex(bytes, golden_quant_x[g->x]) / sizeof(float);
        bool last = g->x + 1 == (int)TG_COUNT(golden_quant_x);
        tg__floats_get(x, bytes, n);
        for (size_t j = 0; last && j < 2 * n; j++)
            x[j] = (float)(int16_t)tg__get16(bytes + 2 * j) / 4096;
        n *= last ? 2 : 1;
        tg_codec *c = create(g->spec);
        size_t got = encode(c, NULL, n, other), len = from_hex(frame, g->frame);
        tg_codec_destroy(c);
        if (got != len || memcmp(frame, other, len) != 0)
            fail_msg("%s of vector %d: another frame", g->spec, g->x);
        assert_int_equal(decode(len, n), TG_OK);
        assert_int_equal(from_hex(bytes, g->decoded), last ? 0 : n * sizeof(float));
        tg__floats_get(x, bytes, last ? 0 : n);
        assert_true(n == 0 || last || memcmp(out, x, n * sizeof(float)) == 0);
    }
}

/* ---- limiting cases -------------------------------------------------------------------------- */

/* Multiples of a power of two, up to `levels` times, are reproduced exactly. */
static void lossless_on_levels(void **state)
{
    (void)state;
    enum { N = 3000 };
    static const struct {
        const char *spec;
        int levels;
    } cases[] = {{"int8", 127},
                 {"qsgd:bits=2", 1},
                 {"qsgd:bits=3", 3},
                 {"qsgd:bits=4", 7},
                 {"qsgd:bits=4,levels=4", 4},
                 {"qsgd:bits=5", 15},
                 {"qsgd:bits=6,bucket=2048", 31},
                 {"qsgd:bits=7,rounds=10", 63},
                 {"qsgd:bits=8", 127},
                 {"qsgd:bits=8,coding=elias", 127}};
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg_codec *c = create(cases[i].spec);
        const int s = cases[i].levels;
        for (uint64_t t = 0; t < 20; t++) {
            uint64_t seed = t + 1;
            float unit = ldexpf(1, (int)t - 15);
            for (size_t j = 0; j < N; j++)
                x[j] = unit * (float)((int)(test_random(&seed) % (2 * (uint32_t)s + 1)) - s);
            for (size_t j = 0; j < N; j += 512)
                x[j] = unit * (float)(j % 1024 ? s : -s);
            tg_encode_context ctx = at_step(t);
            assert_int_equal(decode(encode(c, &ctx, N, frame), N), TG_OK);
            for (size_t j = 0; j < N; j++)
                assert_true(out[j] == x[j]);
        }
        tg_codec_destroy(c);
    }
}

/* Euclidean norm 8 in each bucket, 4 levels: unit 2. */
static void lossless_with_the_euclidean_norm(void **state)
{
    (void)state;
    static const char *const specs[] = {"qsgd:bits=4,levels=4,norm=l2",
                                        "qsgd:bits=4,levels=4,norm=l2,coding=elias"};
    enum { N = 2048 };
    for (size_t i = 0; i < TG_COUNT(specs); i++) {
        tg_codec *c = create(specs[i]);
        memset(x, 0, N * sizeof(*x));
        x[3] = -8;
        for (size_t j = 0; j < 4; j++)
            x[512 + 100 * j] = j % 2 ? 4.0f : -4.0f;
        for (size_t j = 0; j < 16; j++)
            x[1024 + 31 * j] = j % 3 ? 2.0f : -2.0f;
        assert_int_equal(decode(encode(c, NULL, N, frame), N), TG_OK);
        assert_memory_equal(out, x, N * sizeof(*x));
        tg_codec_destroy(c);
    }
}

/* 0, s and -s without clipping, for any s of each tensor; the same with agreed scalers. */
static void ternary_vectors_are_exact(void **state)
{
    (void)state;
    enum { N = 2000 };
    static const tg_segment segments[] = {
        {0, 1, 1, 1, 0}, {1, 700, 7, 100, 0}, {701, 299, 299, 1, 0}, {1000, 1000, 10, 100, 0}};
    static const float scales[] = {0.3f, 1e-20f, 77.7f, 3e38f};
    tg_codec *c = create("terngrad:clip=0");
    tg_encode_context ctx = at_step(3);
    uint64_t seed = 5;
    ctx.segments = segments;
    ctx.nsegments = TG_COUNT(segments);
    for (size_t i = 0; i < TG_COUNT(segments); i++)
        for (size_t j = segments[i].begin; j < segments[i].begin + segments[i].n; j++)
            x[j] = scales[i] * (float)((int)(test_random(&seed) % 3) - 1);
    for (int agreed = 0; agreed < 2; agreed++) {
        ctx.scale = agreed ? scales : NULL;
        size_t len = encode(c, &ctx, N, frame);
        assert_int_equal(len, 12 + 4 + 8 * 4 + tg__packed_bytes(N, 2));
        assert_int_equal(decode(len, N), TG_OK);
        for (size_t j = 0; j < N; j++)
            assert_true(out[j] == x[j]);
    }
    /* an s larger than the own: other values, the same mean; an s of 0: all zeros */
    static const float zeros[4] = {0}, wrong[3] = {NAN, -1, INFINITY};
    ctx.scale = zeros;
    assert_int_equal(encode(c, &ctx, N, frame), 12);
    for (size_t i = 0; i < 3; i++) {
        const float scale[4] = {1, 1, wrong[i], 1};
        size_t len;
        tg_array ax = tg_array_f32(x, N);
        ctx.scale = scale;
        assert_int_equal(tg_codec_encode(c, &ctx, &ax, frame, tg_codec_bound(c, N), &len),
                         TG_E_ARG);
    }
    tg_codec_destroy(c);
}

/* Clipped on either side of 0 at 2.5 standard deviations, whatever the mean; a constant vector is
 * not clipped. */
static void clipping_goes_by_the_deviation(void **state)
{
    (void)state;
    enum { N = 2000 };
    static const float mean[] = {0, 1, -1, 1e6f}, deviation[] = {3, 0.125f, 0.125f, 0.125f};
    tg_codec *c = create("terngrad");
    for (size_t i = 0; i < TG_COUNT(mean); i++) {
        for (size_t j = 0; j < N; j++)
            x[j] = mean[i] + (j % 2 ? deviation[i] : -deviation[i]);
        x[0] = mean[i] + 200 * deviation[i]; /* the outlier is first, where sums begin */
        x[1] = mean[i] - 200 * deviation[i];
        double variance = ((N - 2.0) + 2 * 200.0 * 200) / N; /* in units of the deviation */
        float limit = (float)(2.5 * (double)deviation[i] * sqrt(variance));
        assert_int_equal(decode(encode(c, NULL, N, frame), N), TG_OK);
        float largest = 0;
        for (size_t j = 0; j < N; j++)
            largest = fmaxf(largest, fabsf(out[j]));
        assert_true(fabsf(largest / limit - 1) < 1e-6f);
    }
    for (size_t j = 0; j < N; j++)
        x[j] = -0.3f;
    for (size_t n = 1; n <= N; n += N - 1) {
        assert_int_equal(decode(encode(c, NULL, n, frame), n), TG_OK);
        assert_memory_equal(out, x, n * sizeof *x);
    }
    tg_codec_destroy(c);
}

/* int8 is off by at most 0.4 % of the largest element of a bucket that it sends. */
static void int8_keeps_its_bound(void **state)
{
    (void)state;
    static const float largest[] = {1.01e-28f, 3e-20f, 1, 77.7f, 1e30f, FLT_MAX};
    tg_codec *c = create("int8");
    uint64_t seed = 9;
    for (size_t i = 0; i < TG_COUNT(largest); i++) {
        for (size_t j = 0; j < 512; j++)
            x[j] = largest[i] * ((float)(test_random(&seed) % 20001) / 10000 - 1);
        x[77] = -largest[i];
        assert_int_equal(decode(encode(c, NULL, 512, frame), 512), TG_OK);
        for (size_t j = 0; j < 512; j++)
            assert_true(fabs((double)out[j] - (double)x[j]) <= 0.004 * (double)largest[i]);
    }
    for (size_t j = 0; j < 512; j++)
        x[j] = 0.99e-28f;
    assert_int_equal(encode(c, NULL, 512, frame), 12); /* the zero form */
    tg_codec_destroy(c);
}

/* Units at the ends of the range. */
static void tiny_and_huge(void **state)
{
    (void)state;
    static const char *const specs[] = {"int8", "qsgd", "qsgd:bits=3,norm=l2", "terngrad"};
    static const float sizes[] = {0x1p-149f, 0x1p-126f, 0x1p-110f, 1, 0x1p100f, FLT_MAX};
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        tg_codec *c = create(specs[s]);
        for (size_t i = 0; i < TG_COUNT(sizes); i++) {
            for (size_t j = 0; j < 600; j++)
                x[j] = j % 2 ? sizes[i] : -sizes[i];
            size_t len = encode(c, NULL, 600, frame);
            assert_int_equal(decode(len, 600), TG_OK);
            assert_int_equal(len == 12, i < 3); /* the zero form */
            for (size_t j = 0; j < 600; j++)
                assert_true(isfinite(out[j]) && fabsf(out[j]) <= 23 * (double)sizes[i]);
        }
        tg_codec_destroy(c);
    }
}

static void error_bounds(void **state)
{
    (void)state;
    enum { N = 5000 };
    static const struct {
        const char *spec;
        double levels; /* |error| in units of the largest of 512 */
    } cases[] = {{"int8", 0.5 / 127}, {"qsgd", 1.0 / 7}, {"qsgd:bits=8", 1.0 / 127}};
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg_codec *c = create(cases[i].spec);
        test_vector(x, N, TEST_GRADIENT, i);
        assert_int_equal(decode(encode(c, NULL, N, frame), N), TG_OK);
        for (size_t b = 0; b < N; b += 512) {
            double max = (double)tg__kernel()->abs_max(x + b, TG__MIN((size_t)512, N - b));
            for (size_t j = b; j < TG__MIN(b + 512, (size_t)N); j++)
                assert_true(fabs((double)x[j] - (double)out[j]) <= 1.008 * cases[i].levels * max);
        }
        tg_codec_destroy(c);
    }
}

/* ---- the same bytes -------------------------------------------------------------------------- */

static const char *const all_specs[] = {"int8", "qsgd", "qsgd:bits=5,bucket=65536,norm=l2",
                                        "qsgd:bits=6,norm=l2,coding=elias", "terngrad"};

static void any_number_of_threads(void **state)
{
    (void)state;
    enum { N = MAX_N };
    static float again[N];
    tg__pool *pool;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    for (size_t i = 0; i < TG_COUNT(all_specs); i++) {
        tg_codec *c = create(all_specs[i]);
        test_vector(x, N, TEST_GRADIENT, i);
        size_t len = encode(c, NULL, N, frame);
        assert_int_equal(tg_codec_set_threads(c, 3), TG_OK);
        assert_int_equal(encode(c, NULL, N, other), len);
        assert_memory_equal(frame, other, len);
        tg__frame_decode(frame, len, out, NULL);
        tg__frame_decode(frame, len, again, pool);
        assert_memory_equal(out, again, sizeof(again));
        tg_codec_destroy(c);
    }
    tg__pool_destroy(pool);
}

/* Random numbers belong to positions in the vector: parts cut between buckets have the same
 * contents as the whole. */
static void cut_between_buckets(void **state)
{
    (void)state;
    enum { N = 4000 };
    static float whole[N];
    static uint8_t bytes[2][12 + 4 * N];
    static const char *const specs[] = {"int8", "qsgd:bits=3", "qsgd:coding=elias,norm=l2"};
    for (size_t i = 0; i < TG_COUNT(specs); i++) {
        tg_codec *c = create(specs[i]);
        tg_encode_context ctx = at_step(i);
        test_vector(x, N, TEST_GRADIENT, i);
        assert_int_equal(decode(encode(c, &ctx, N, frame), N), TG_OK);
        memcpy(whole, out, sizeof(whole));
        tg__part parts[] = {{.dst = bytes[0], .cap = sizeof(bytes[0]), .lo = 0, .hi = 3 * 512},
                            {.dst = bytes[1], .cap = sizeof(bytes[1]), .lo = 3 * 512, .hi = N}};
        assert_int_equal(tg__codec_encode(c, &ctx, x, N, parts, 2, NULL), TG_OK);
        for (size_t j = 0; j < 2; j++)
            tg__frame_decode(bytes[j], parts[j].len, out + parts[j].lo, NULL);
        assert_memory_equal(out, whole, sizeof(whole));
        tg_codec_destroy(c);
    }
}

/* Elias frames have the same values as fixed ones, and are smaller where they are used. */
static void elias_is_another_coding_only(void **state)
{
    (void)state;
    enum { N = MAX_N };
    static float want[N];
    static const char *const sets[] = {"", ",norm=l2", ",norm=l2,levels=1", ",bits=2,norm=l2"};
    for (size_t i = 0; i < TG_COUNT(sets); i++) {
        for (unsigned kind = 0; kind < TEST_VECTORS; kind++) {
            char spec[64];
            snprintf(spec, sizeof(spec), "qsgd:coding=fixed%s", sets[i]);
            tg_codec *fixed = create(spec);
            snprintf(spec, sizeof(spec), "qsgd:coding=elias%s", sets[i]);
            tg_codec *elias = create(spec);
            test_vector(x, N, (enum test_vector)kind, i);
            size_t fixed_len = encode(fixed, NULL, N, frame);
            assert_int_equal(decode(fixed_len, N), TG_OK);
            memcpy(want, out, sizeof(want));
            size_t len = encode(elias, NULL, N, frame);
            assert_int_equal(decode(len, N), TG_OK);
            assert_memory_equal(out, want, sizeof(want));
            bool used = (frame[2] & 128) != 0;
            assert_true(used ? len < fixed_len : len == fixed_len);
            if (i == 1 && kind == TEST_GRADIENT)
                assert_true(used && len < fixed_len / 2);
            tg_codec_destroy(fixed);
            tg_codec_destroy(elias);
        }
    }
}

static void elias_by_hand(void **state)
{
    (void)state;
    /* 0 0 3 -1 0: gamma(3) = 0 1 1, +, gamma(3) = 0 1 1; gamma(1) = 1, -, gamma(1) = 1; the end,
     * gamma(2) = 0 1 0 */
    static const int8_t codes[] = {0, 0, 3, -1, 0};
    uint8_t bytes[16];
    assert_int_equal(tg__elias_put(bytes, 8, codes, 5), 2);
    assert_int_equal(bytes[0], 0xe6); /* 0 1 1 0 0 1 1 1 */
    assert_int_equal(bytes[1], 0x0b); /* 1 1 0 1 0 */
    assert_int_equal(tg__elias_put(bytes, 1, codes, 5), 0);
    tg__elias e;
    static const uint8_t good[] = {0xe6, 0x0b}, long_one[] = {0xe6, 0x0b, 0},
                         padded[] = {0xe6, 0x2b};
    assert_true(tg__elias_begin(&e, good, 2, 5) && e.place == 2 && e.code == 3);
    assert_true(tg__elias_next(&e) && e.place == 3 && e.code == -1);
    assert_true(tg__elias_next(&e) && e.place == 5);
    for (size_t m = 0; m < 8; m++) { /* another number of elements */
        bool valid = tg__elias_begin(&e, good, 2, m);
        while (valid && e.place < e.m)
            valid = tg__elias_next(&e);
        assert_int_equal(valid, m == 5);
    }
    const uint8_t *const bad[] = {long_one, padded, good};
    static const size_t lens[] = {3, 2, 1};
    for (size_t i = 0; i < 3; i++) {
        bool valid = tg__elias_begin(&e, bad[i], lens[i], 5);
        while (valid && e.place < e.m)
            valid = tg__elias_next(&e);
        assert_false(valid);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(size_t len, size_t n, const char *say)
{
    assert_int_equal(decode(len, n), TG_E_CORRUPT);
    if (strstr(tg_error(), say) == NULL)
        fail_msg("\"%s\" without \"%s\"", tg_error(), say);
}

static void frames_that_lie(void **state)
{
    (void)state;
    enum { N = 700 };
    size_t len;
    tg_codec *c = create("qsgd");
    test_vector(x, N, TEST_GRADIENT, 1);
    len = encode(c, NULL, N, frame);
    assert_int_equal(len, 12 + 2 * 2 + 256 + 64 + 4 * 8);
    memcpy(other, frame, len);
    tg__put16(frame + 12, 0x7f80); /* infinite */
    refused(len, N, "unit=inf");
    tg__put16(frame + 12, 0x8000); /* -0 */
    refused(len, N, "unit=-0");
    tg__put16(frame + 12, 0x0001); /* subnormal */
    refused(len, N, "bucket 0");
    tg__put16(frame + 12, 0);
    refused(len, N, "a code is not 0");
    memcpy(frame, other, len);
    frame[2] = 9;
    refused(len, N, "the width is 9");
    frame[2] = 4;
    frame[3] = 1;
    refused(len, N, "aux");
    memcpy(frame, other, len); /* 60 elements in 8 words of the last group: 4 places are unused */
    frame[len - 1] |= 0x80;
    refused(len, N, "padding");
    tg_codec_destroy(c);

    c = create("terngrad:clip=0");
    len = encode(c, NULL, N, frame);
    memcpy(other, frame, len);
    tg__put32(frame + 12, 0);
    refused(len, N, "runs=0");
    tg__put32(frame + 12, 2);
    refused(len, N, "payload length");
    tg__put32(frame + 12, 1);
    tg__put32(frame + 16, N - 1);
    refused(len, N, "699 elements in all");
    tg__put32(frame + 16, N + 1);
    refused(len, N, "701 elements");
    memcpy(frame, other, len);
    tg__put32(frame + 20, 0);
    refused(len, N, "a code is not 0");
    memcpy(frame, other, len);
    frame[24] = (uint8_t)((frame[24] & ~3u) | 2u);
    refused(len, N, "-2");
    tg_codec_destroy(c);
}

/* An Elias frame with damaged bytes, one by one and at random, is refused or decodes within its
 * bounds. */
static void elias_frames_that_lie(void **state)
{
    (void)state;
    enum { N = 3000 };
    tg_codec *c = create("qsgd:norm=l2,coding=elias");
    uint64_t seed = 3;
    test_vector(x, N, TEST_GRADIENT, 2);
    size_t len = encode(c, NULL, N, other), wrong = 0;
    assert_true(other[2] & 128);
    for (size_t i = 0; i < 20000; i++) {
        uint8_t *copy = malloc(len); /* of exactly this length, for the sanitizer */
        memcpy(copy, other, len);
        for (uint32_t k = 0; k <= i % 3; k++)
            copy[12 + test_random(&seed) % (len - 12)] ^= (uint8_t)(1u << test_random(&seed) % 8);
        tg_array aout = tg_array_f32(out, N);
        tg_status status = tg_frame_decode(copy, len, &aout);
        assert_true(status == TG_OK || status == TG_E_CORRUPT);
        wrong += status != TG_OK;
        free(copy);
    }
    assert_true(wrong > 10000);
    tg_codec_destroy(c);
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),
        cmocka_unit_test(lossless_on_levels),
        cmocka_unit_test(lossless_with_the_euclidean_norm),
        cmocka_unit_test(ternary_vectors_are_exact),
        cmocka_unit_test(clipping_goes_by_the_deviation),
        cmocka_unit_test(int8_keeps_its_bound),
        cmocka_unit_test(tiny_and_huge),
        cmocka_unit_test(error_bounds),
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(cut_between_buckets),
        cmocka_unit_test(elias_is_another_coding_only),
        cmocka_unit_test(elias_by_hand),
        cmocka_unit_test(frames_that_lie),
        cmocka_unit_test(elias_frames_that_lie),
    };
    return cmocka_run_group_tests_name("quant", tests, NULL, NULL);
}
