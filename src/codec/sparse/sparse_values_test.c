/* Values of sparse frames: hand-made blocks, every coding at every length, refusals. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "codec/sparse/topk_frame.h"
#include "each_level.h"
#include "guarded.h"
#include "vectors.h"
#include "wire/index.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_K = 1300, MAX_BYTES = 12 + 9 * MAX_K + 4 };

static tg_status check(int coding, size_t k, const uint8_t *bytes, size_t len)
{
    size_t used = 0;
    TG_TRY(tg__values_check(coding, k, bytes, len, &used));
    return used == len ? TG_OK : TG_E_MISMATCH;
}

static void read_all(int coding, size_t k, const uint8_t *bytes, size_t len, float *val)
{
    tg__values_reader r;
    size_t used;
    tg__values_begin(&r, coding, k, bytes, len, &used);
    assert_int_equal(used, len);
    for (size_t at = 0; at < k; at += TG__VALUES_BLOCK)
        tg__values_read(&r, val + at, TG__MIN(k - at, (size_t)TG__VALUES_BLOCK));
}

static void by_hand(void **state)
{
    (void)state;
    static const struct {
        int coding;
        size_t k, len;
        float x[5], decoded[5];
        uint8_t bytes[24];
    } cases[] = {
        /* scale 2; 3 / 2 and 5 / 2 are halfway between two integers: ties to even */
        {TG__VALUES_INT8,
         5,
         9,
         {254, -254, 3, 5, -1},
         {254, -254, 4, 4, 0},
         {0, 0, 0, 0x40, 127, 0x81, 2, 2, 0}},
        /* scale 0.5: codes 7, -7, 1, -2, 0 */
        {TG__VALUES_4BIT,
         5,
         7,
         {3.5f, -3.5f, 0.5f, -1, 0.125f},
         {3.5f, -3.5f, 0.5f, -1, 0},
         {0, 0, 0, 0x3f, 0x97, 0xe1, 0x00}},
        /* mean of 1 2 3 6 8 is 4: lower 2, upper 7; codes 0 1 0 3 2 */
        {TG__VALUES_2BIT,
         5,
         10,
         {1, -2, 3, -6, 8},
         {2, -2, 2, -7, 7},
         {0, 0, 0, 0x40, 0, 0, 0xe0, 0x40, 0xc4, 0x02}},
        /* all equal: no lower level */
        {TG__VALUES_2BIT, 2, 9, {-5, 5}, {-5, 5}, {0, 0, 0, 0, 0, 0, 0xa0, 0x40, 0x0b}},
        {TG__VALUES_1BIT, 5, 5, {1, -2, 3, -6, 8}, {4, -4, 4, -4, 4}, {0, 0, 0x80, 0x40, 0x0a}},
        {TG__VALUES_LEVEL,
         5,
         21,
         {0.5f, -0.5f, 2, 2, -2},
         {0.5f, -0.5f, 2, 2, -2},
         {2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0x3f, 5, 0, 0, 0, 0, 0, 0, 0x40, 0x12}},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        float x[5], y[5];
        uint8_t bytes[24];
        memcpy(x, cases[i].x, sizeof(x));
        size_t k = cases[i].k, len = tg__values_len(cases[i].coding, x, k);
        assert_int_equal(len, cases[i].len);
        tg__values_write(cases[i].coding, x, k, bytes);
        assert_memory_equal(bytes, cases[i].bytes, len);
        assert_memory_equal(x, cases[i].decoded, k * sizeof(float));
        assert_int_equal(check(cases[i].coding, k, bytes, len), TG_OK);
        read_all(cases[i].coding, k, bytes, len, y);
        assert_memory_equal(y, x, k * sizeof(float));
    }
}

/* Values as a selector returns them: no zeros. */
static void kept_values(float *x, size_t k, unsigned v, uint64_t seed)
{
    test_vector(x, k, (enum test_vector)v, seed);
    for (size_t i = 0; i < k; i++)
        if (x[i] == 0)
            x[i] = i % 3 ? 0x1p-149f : -0.25f;
}

static void every_coding_round_trips(void **state)
{
    (void)state;
    static const size_t ks[] = {1, 2, 3, 7, 8, 9, 511, 512, 513, 1024, MAX_K};
    static float x[MAX_K], rounded[MAX_K], again[MAX_K], decoded[MAX_K];
    tg__guarded mem;
    tg__guarded_open(&mem, MAX_BYTES);
    for (int coding = 0; coding < TG__VALUES_CODINGS; coding++)
        for (size_t i = 0; i < TG_COUNT(ks); i++)
            for (unsigned v = 0; v < TEST_VECTORS; v++) {
                size_t k = ks[i];
                kept_values(x, k, v, i);
                memcpy(rounded, x, k * sizeof(float));
                memcpy(again, x, k * sizeof(float));
                size_t len = tg__values_len(coding, x, k);
                uint8_t *bytes = tg__guarded_place(&mem, len, 0, true);
                tg__values_write(coding, rounded, k, bytes);
                tg__values_write(coding, again, k, NULL);
                assert_memory_equal(again, rounded, k * sizeof(float));
                if (coding == TG__VALUES_F32 || coding == TG__VALUES_LEVEL)
                    assert_memory_equal(rounded, x, k * sizeof(float));
                for (size_t j = 0; j < k; j++)
                    assert_true(isfinite(rounded[j]) &&
                                (rounded[j] == 0 || (rounded[j] < 0) == (x[j] < 0)));
                assert_int_equal(check(coding, k, bytes, len), TG_OK);
                read_all(coding, k, bytes, len, decoded);
                assert_memory_equal(decoded, rounded, k * sizeof(float));
                assert_int_equal(check(coding, k, bytes, len - 1), TG_E_CORRUPT);
                for (size_t bit = 0; k < 10 && bit < 8 * len; bit++) {
                    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                    size_t used;
                    if (tg__values_check(coding, k, bytes, len, &used) == TG_OK) {
                        assert_true(used <= len);
                        read_all(coding, k, bytes, used, decoded);
                    }
                    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                }
                assert_true(tg__guarded_intact(&mem));
            }
    tg__guarded_close(&mem);
}

/* Errors are at most half a step, and 0 if values are whole steps. */
static void integers_are_nearest(void **state)
{
    (void)state;
    static const int codings[] = {TG__VALUES_INT8, TG__VALUES_4BIT};
    static const float tops[] = {127, 7};
    static float x[512], y[512];
    for (size_t c = 0; c < 2; c++) {
        for (unsigned v = 0; v < TEST_VECTORS; v++) {
            kept_values(x, 512, v, 7);
            memcpy(y, x, sizeof(x));
            tg__values_write(codings[c], y, 512, NULL);
            double largest = 0;
            for (size_t i = 0; i < 512; i++)
                largest = TG__MAX(largest, fabs((double)x[i]));
            for (size_t i = 0; i < 512; i++)
                assert_true(fabs((double)x[i] - (double)y[i]) <=
                            0.50001 * largest / (double)tops[c] + 0x1p-149);
        }
        for (size_t i = 0; i < 512; i++)
            x[i] = y[i] = (tops[c] - (float)(i % (size_t)tops[c])) * (i % 3 ? 0x1p-20f : -0x1p-20f);
        tg__values_write(codings[c], y, 512, NULL);
        assert_memory_equal(x, y, sizeof(x));
    }
}

static void extremes_stay_finite(void **state)
{
    (void)state;
    for (int coding = TG__VALUES_INT8; coding < TG__VALUES_CODINGS; coding++) {
        float x[][2] = {{FLT_MAX, -FLT_MAX}, {0x1p-149f, -0x1p-149f}, {FLT_MAX, 0x1p-149f}};
        for (size_t i = 0; i < TG_COUNT(x); i++) {
            uint8_t bytes[32];
            size_t len = tg__values_len(coding, x[i], 2);
            tg__values_write(coding, x[i], 2, bytes);
            assert_int_equal(check(coding, 2, bytes, len), TG_OK);
            assert_true(isfinite(x[i][0]) && isfinite(x[i][1]));
            assert_true(i == 1 || x[i][0] >= 0.49f * FLT_MAX);
        }
    }
}

static void what_means_nothing_is_refused(void **state)
{
    (void)state;
    static const struct {
        int coding;
        size_t k, len;
        uint8_t bytes[24];
    } bad[] = {
        {TG__VALUES_INT8, 1, 5, {0, 0, 0x80, 0x3f, 0x80}}, /* -128 */
        {TG__VALUES_INT8, 1, 5, {0, 0, 0x80, 0xbf, 1}},    /* a negative scale */
        {TG__VALUES_INT8, 1, 5, {0, 0, 0x80, 0x7f, 1}},    /* infinite */
        {TG__VALUES_INT8, 1, 5, {0, 0, 0xc0, 0x7f, 1}},    /* NaN */
        {TG__VALUES_INT8, 1, 5, {0, 0, 0, 0x80, 0}},       /* -0 */
        {TG__VALUES_INT8, 1, 5, {0, 0, 0, 0, 1}},          /* a code without a scale */
        {TG__VALUES_4BIT, 2, 5, {0, 0, 0x80, 0x3f, 0x08}}, /* -8 */
        {TG__VALUES_4BIT, 2, 5, {0, 0, 0x80, 0x3f, 0x80}},
        {TG__VALUES_4BIT, 1, 5, {0, 0, 0x80, 0x3f, 0x17}}, /* padding */
        {TG__VALUES_4BIT, 2, 5, {0, 0, 0, 0, 0x10}},
        {TG__VALUES_2BIT, 1, 9, {0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0x06}},         /* padding */
        {TG__VALUES_2BIT, 1, 9, {0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0}},            /* none is upper */
        {TG__VALUES_2BIT, 1, 9, {0, 0, 0, 0x3f, 0, 0, 0x80, 0x3f, 2}},         /* none is lower */
        {TG__VALUES_2BIT, 2, 9, {0, 0, 0, 0x40, 0, 0, 0x80, 0x3f, 2}},         /* lower > upper */
        {TG__VALUES_2BIT, 1, 9, {0, 0, 0, 0, 0, 0, 0x80, 0xff, 2}},            /* -inf */
        {TG__VALUES_1BIT, 3, 5, {0, 0, 0x80, 0x3f, 0x08}},                     /* padding */
        {TG__VALUES_1BIT, 3, 5, {0, 0, 0x80, 0xbf, 0x01}},                     /* negative */
        {TG__VALUES_LEVEL, 2, 13, {1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x80, 0x3f}}, /* ends early */
        {TG__VALUES_LEVEL, 2, 13, {1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0x80, 0x3f}}, /* beyond k */
        {TG__VALUES_LEVEL, 2, 13, {1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0x80, 0xbf}}, /* negative */
        {TG__VALUES_LEVEL, 2, 13, {1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}},       /* 0 */
        {TG__VALUES_LEVEL, 2, 13, {1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0x80, 0x3f, 4}}, /* padding */
        {TG__VALUES_LEVEL, 2, 5, {0, 0, 0, 0, 0}},                                /* no run */
        {TG__VALUES_LEVEL, 2, 21, {2,    0,    0, 0, 2, 0, 0, 0, 0, 0,
                                   0x80, 0x3f, 2, 0, 0, 0, 0, 0, 0, 0x3f}},
        {TG__VALUES_LEVEL, 2, 21, {2,    0,    0, 0, 1, 0, 0, 0, 0,    0,
                                   0x80, 0x3f, 2, 0, 0, 0, 0, 0, 0x80, 0x3f}},
        {TG__VALUES_LEVEL, 2, 24, {0xff, 0xff, 0xff, 0xff}}, /* far more runs than k */
        {TG__VALUES_LEVEL, 2, 3, {1, 0, 0}},
        {TG__VALUES_CODINGS, 1, 24, {0}},
        {-1, 1, 24, {0}},
    };
    for (size_t i = 0; i < TG_COUNT(bad); i++)
        assert_int_equal(check(bad[i].coding, bad[i].k, bad[i].bytes, bad[i].len), TG_E_CORRUPT);
}

/* A whole frame of levels, cut into parts: the runs of each part are determined separately. */
static void frames_of_levels(void **state)
{
    (void)state;
    enum { N = 3000 };
    static float val[MAX_K], whole[N], piece[N];
    static uint32_t idx[MAX_K], rebased[MAX_K];
    static uint8_t bytes[12 + 4 * N];
    for (size_t i = 0; i < MAX_K; i++) {
        idx[i] = (uint32_t)(2 * i + i % 2);
        val[i] = (i < 400 ? 0.5f : i < 401 ? 3.0f : 0.125f) * (i % 5 ? 1 : -1);
        whole[idx[i]] = val[i];
    }
    size_t cuts[] = {0, 500, 801, 802, 2600, 2990, N}, kept = 0;
    for (size_t i = 0; i + 1 < TG_COUNT(cuts); i++) {
        tg__sparse s = {.idx = idx,
                        .val = val,
                        .k = MAX_K,
                        .values = TG__VALUES_LEVEL,
                        .index = TG__INDEX_AUTO};
        tg__part part = {.dst = bytes,
                         .cap = 12 + 4 * (cuts[i + 1] - cuts[i]),
                         .lo = cuts[i],
                         .hi = cuts[i + 1]};
        assert_int_equal(tg__sparse_write(&part, TG__ID_topk, &s, rebased), TG_OK);
        assert_int_equal(tg__frame_check(bytes, part.len, part.hi - part.lo, TG__ID_topk), TG_OK);
        tg__frame_decode(bytes, part.len, piece, NULL);
        assert_memory_equal(piece, whole + part.lo, (part.hi - part.lo) * sizeof(float));
        kept += part.kept;
    }
    assert_int_equal(kept, MAX_K);
}

/* Plain floats, and scales whose multiples overflow f32, are valid; the finiteness check reports
 * them. */
static void what_is_not_finite_is_said(void **state)
{
    static const struct {
        int values;
        uint32_t first; /* bits of the first value, or of the scale */
        uint8_t code;   /* of the first value */
        bool finite;
    } cases[] = {{TG__VALUES_F32, 0x3f800000, 0, true},   {TG__VALUES_F32, 0x7fc00000, 0, false},
                 {TG__VALUES_F32, 0xff800000, 0, false},  {TG__VALUES_FP16, 0x3c003c00, 0, true},
                 {TG__VALUES_FP16, 0x3c007c00, 0, false}, {TG__VALUES_INT8, 0x7f000000, 100, false},
                 {TG__VALUES_INT8, 0x3f800000, 100, true}};
    static float val[20], decoded[100];
    static uint32_t idx[20];
    static uint8_t frame[600];
    (void)state;
    for (size_t c = 0; c < TG_COUNT(cases); c++) {
        for (size_t i = 0; i < TG_COUNT(val); i++) {
            idx[i] = (uint32_t)(3 * i);
            val[i] = 1 + (float)i;
        }
        tg__sparse s = {.idx = idx,
                        .val = val,
                        .k = TG_COUNT(val),
                        .values = cases[c].values,
                        .index = TG__INDEX_AUTO};
        tg__part part = {.dst = frame, .cap = sizeof frame, .hi = TG_COUNT(decoded)};
        assert_int_equal(tg__sparse_write(&part, TG__ID_topk, &s, idx), TG_OK);
        uint8_t *first = frame + TG__FRAME_HEAD + 4;
        tg__put32(first, cases[c].first);
        if (cases[c].values == TG__VALUES_INT8)
            first[4] = cases[c].code;
        assert_int_equal(tg__frame_check(frame, part.len, part.hi, TG__ID_topk), TG_OK);
        assert_int_equal(tg__frame_decode_finite(frame, part.len, decoded, NULL), cases[c].finite);
    }
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(every_coding_round_trips),
        cmocka_unit_test(integers_are_nearest),
        cmocka_unit_test(extremes_stay_finite),
        cmocka_unit_test(what_means_nothing_is_refused),
        cmocka_unit_test(frames_of_levels),
        cmocka_unit_test(what_is_not_finite_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
