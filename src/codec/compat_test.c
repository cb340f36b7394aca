/* The layouts of other systems: their own test vectors, the residual, refusals. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "telegrad/compat.h"
#include "vectors.h"
#include <string.h>

enum { HAND = 10, MAX_N = 1000 };

/* Threshold 4; r + g, what is sent, what remains. */
static const float hand[HAND] = {-9, -1, 2, 6, 8, 7, 0, -5, -10, -100};
static const float hand_sent[HAND] = {-4, 0, 0, 4, 4, 4, 0, -4, -4, -4};
static const float hand_left[HAND] = {-5, -1, 2, 2, 4, 3, 0, -1, -6, -96};

/* Half of the vector is residual, half is new. */
static void halves(float r[HAND], float g[HAND])
{
    for (size_t i = 0; i < HAND; i++)
        r[i] = g[i] = hand[i] / 2;
}

static void mxnet_words(void **state)
{
    (void)state;
    /* codes 10 00 00 11 | 11 11 00 10 | 10 10 00 00 | 00 00 00 00 */
    static const uint8_t want[4] = {0x83, 0xf2, 0xa0, 0x00};
    float r[HAND], g[HAND], out[HAND] = {0};
    uint8_t bytes[4];
    halves(r, g);
    assert_int_equal(tg_mxnet_2bit_bytes(HAND), 4);
    assert_int_equal(tg_mxnet_2bit_bytes(0), 0);
    assert_int_equal(tg_mxnet_2bit_bytes(16), 4);
    assert_int_equal(tg_mxnet_2bit_bytes(17), 8);
    assert_int_equal(tg_mxnet_2bit_encode(r, g, HAND, 4, bytes, 3), TG_E_SPACE);
    assert_int_equal(tg_mxnet_2bit_encode(r, g, HAND, 4, bytes, sizeof bytes), TG_OK);
    assert_memory_equal(bytes, want, sizeof want);
    assert_memory_equal(r, hand_left, sizeof r);
    assert_int_equal(tg_mxnet_2bit_decode_add(bytes, 4, HAND, 4, out), TG_OK);
    assert_memory_equal(out, hand_sent, sizeof out);
}

static void strom_words(void **state)
{
    (void)state;
    static const uint32_t want[] = {0x80000000, 3, 4, 5, 0x80000007, 0x80000008, 0x80000009};
    float r[HAND], g[HAND], out[HAND] = {0};
    uint32_t words[HAND];
    size_t count = 99;
    halves(r, g);
    assert_int_equal(tg_strom_encode(r, g, HAND, 4, words, 6, &count), TG_E_SPACE);
    assert_int_equal(count, 99);
    assert_true(r[0] == -4.5f); /* unchanged */
    assert_int_equal(tg_strom_encode(r, g, HAND, 4, words, 7, &count), TG_OK);
    assert_int_equal(count, 7);
    assert_memory_equal(words, want, sizeof want);
    assert_memory_equal(r, hand_left, sizeof r);
    assert_int_equal(tg_strom_decode_add(words, count, HAND, 4, out), TG_OK);
    assert_memory_equal(out, hand_sent, sizeof out);
}

/* On dyadic data sent + residual = sum of gradients; and both send what the codecs send. */
static void nothing_is_lost(void **state)
{
    (void)state;
    static float g[MAX_N], r[2][MAX_N], sent[2][MAX_N], total[MAX_N], p[MAX_N], decoded[MAX_N];
    static uint8_t bytes[MAX_N], frame[12 + 4 * MAX_N];
    static uint32_t words[MAX_N];
    tg_codec *c;
    assert_int_equal(tg_codec_create("2bit:threshold=0.5", &c), TG_OK);
    for (size_t n = 0; n <= MAX_N; n += n < 70 ? 1 : 93) {
        memset(r, 0, sizeof r);
        memset(sent, 0, sizeof sent);
        memset(total, 0, sizeof total);
        for (uint64_t t = 0; t < 6; t++) {
            size_t count, len;
            test_vector(g, n, TEST_DYADIC, t);
            for (size_t i = 0; i < n; i++) {
                total[i] += g[i];
                p[i] = r[0][i] + g[i];
                decoded[i] = sent[0][i];
            }
            assert_int_equal(tg_mxnet_2bit_encode(r[0], g, n, 0.5f, bytes, sizeof bytes), TG_OK);
            assert_int_equal(
                tg_mxnet_2bit_decode_add(bytes, tg_mxnet_2bit_bytes(n), n, 0.5f, sent[0]), TG_OK);
            assert_int_equal(tg_strom_encode(r[1], g, n, 0.5f, words, MAX_N, &count), TG_OK);
            assert_int_equal(tg_strom_decode_add(words, count, n, 0.5f, sent[1]), TG_OK);
            tg_array ap = tg_array_f32(p, n), adecoded = tg_array_f32(decoded, n);
            assert_int_equal(tg_codec_encode(c, NULL, &ap, frame, sizeof frame, &len), TG_OK);
            assert_int_equal(tg_frame_decode_add(frame, len, &adecoded), TG_OK);
            for (size_t i = 0; i < n; i++) {
                assert_true(sent[0][i] + r[0][i] == total[i]);
                assert_true(sent[1][i] == sent[0][i] && r[1][i] == r[0][i]);
                assert_true(decoded[i] == sent[0][i]);
            }
        }
    }
    tg_codec_destroy(c);
}

static void bad_words_are_refused(void **state)
{
    (void)state;
    float out[5] = {7, 7, 7, 7, 7};
    static const uint8_t bad[][4] = {{0x40}, {0xff, 0x20}, {0xff, 0xc0, 0, 3}, {0, 0x01}};
    static const uint8_t good[4] = {0xff, 0x80};
    for (size_t i = 0; i < TG_COUNT(bad); i++)
        assert_int_equal(tg_mxnet_2bit_decode_add(bad[i], 4, 5, 1, out), TG_E_CORRUPT);
    assert_int_equal(tg_mxnet_2bit_decode_add(good, 3, 5, 1, out), TG_E_CORRUPT);
    assert_int_equal(tg_mxnet_2bit_decode_add(good, 4, 17, 1, out), TG_E_CORRUPT);
    static const uint32_t far[] = {0, 0x80000004, 5}, near[] = {4, 0, 0x80000004, 4, 4};
    assert_int_equal(tg_strom_decode_add(far, 3, 5, 1, out), TG_E_CORRUPT);
    for (size_t i = 0; i < 5; i++)
        assert_true(out[i] == 7); /* nothing was written */
    /* in any order, with repetitions */
    assert_int_equal(tg_strom_decode_add(near, 5, 5, 1, out), TG_OK);
    assert_true(out[4] == 9 && out[0] == 8 && out[1] == 7);
    assert_int_equal(tg_mxnet_2bit_decode_add(good, 4, 5, 1, out), TG_OK);
    assert_true(out[0] == 9 && out[4] == 8);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    static const float thresholds[] = {0, -1, NAN, INFINITY};
    float r[2] = {1, 2}, g[2] = {3, 4};
    uint32_t words[2] = {0};
    size_t count;
    for (size_t i = 0; i < TG_COUNT(thresholds); i++) {
        float t = thresholds[i];
        assert_int_equal(tg_mxnet_2bit_encode(r, g, 2, t, words, 8), TG_E_ARG);
        assert_int_equal(tg_mxnet_2bit_decode_add(words, 4, 2, t, r), TG_E_ARG);
        assert_int_equal(tg_strom_encode(r, g, 2, t, words, 2, &count), TG_E_ARG);
        assert_int_equal(tg_strom_decode_add(words, 1, 2, t, r), TG_E_ARG);
    }
    size_t many = TG_MAX_ELEMENTS + 1;
    assert_int_equal(tg_strom_encode(r, g, many, 1, words, 2, &count), TG_E_ARG);
    assert_int_equal(tg_mxnet_2bit_encode(NULL, g, 2, 1, words, 8), TG_E_ARG);
    assert_int_equal(tg_strom_decode_add(NULL, 1, 2, 1, r), TG_E_ARG);
    assert_true(r[0] == 1 && r[1] == 2);
    assert_int_equal(tg_strom_decode_add(NULL, 0, 2, 1, r), TG_OK);
    assert_int_equal(tg_strom_decode_add(NULL, 1, 0, 1, NULL), TG_E_ARG);
    assert_int_equal(tg_strom_encode(NULL, NULL, 0, 1, NULL, 0, NULL), TG_E_ARG);
    assert_int_equal(tg_strom_encode(NULL, NULL, 0, 1, NULL, 0, &count), TG_OK);
    assert_int_equal(tg_mxnet_2bit_encode(NULL, NULL, 0, 1, NULL, 0), TG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mxnet_words),
        cmocka_unit_test(strom_words),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(bad_words_are_refused),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
