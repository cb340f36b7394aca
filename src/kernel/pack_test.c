/* Packed codes by hand, and round trips at every width; the quantisers' random numbers one by
 * one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/philox.h"
#include "each_level.h"
#include "kernel/element.h"
#include "kernel/pack.h"
#include <math.h>

enum { N = 3 * 512 + 77 };

static uint32_t next(uint32_t *state)
{
    *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
    return *state >> 8;
}

/* Element e of a plane of w bits is in word e % L at bit w (e / L). */
static void planes_by_hand(void **state)
{
    (void)state;
    int8_t codes[512], back[512];
    uint8_t bytes[512];
    for (size_t i = 0; i < 512; i++)
        codes[i] = (int8_t)(i % 16 - 8);
    codes[17] = 5;
    tg__kernel()->pack(bytes, codes, 512, 4);
    for (size_t word = 0; word < 16; word++) /* element `word` of each 16 */
        assert_int_equal(tg__get32(bytes + 4 * word), ((word + 8) % 16) * UINT32_C(0x11111111) ^
                                                          (word == 1 ? (9u ^ 5u) << 4 : 0));
    /* 10 elements of 4 bits: 2 words, 5 elements in each */
    static const int8_t ten[] = {1, 2, 3, 4, 5, 6, 7, 0, -1, -2};
    tg__kernel()->pack(bytes, ten, 10, 4);
    assert_int_equal(tg__packed_bytes(10, 4), 8);
    assert_int_equal(tg__get32(bytes), 0x000f7531);
    assert_int_equal(tg__get32(bytes + 4), 0x000e0642);
    tg__kernel()->unpack(back, bytes, 10, 4);
    assert_memory_equal(back, ten, 10);
    /* 3 elements of 3 bits: 1 word of low pairs, 1 of high bits */
    static const int8_t three[] = {-1, 2, -4};
    tg__kernel()->pack(bytes, three, 3, 3);
    assert_int_equal(tg__packed_bytes(3, 3), 8);
    assert_int_equal(tg__get32(bytes), 3 | 2 << 2);
    assert_int_equal(tg__get32(bytes + 4), 1 | 1 << 2);
}

static void there_and_back(void **state)
{
    (void)state;
    static int8_t codes[N], back[N];
    static uint8_t bytes[N + 64];
    uint32_t seed = 1;
    for (unsigned width = 1; width <= 8; width++) {
        for (size_t n = 0; n <= N; n += n < 600 ? 1 : 97) {
            for (size_t i = 0; i < n; i++)
                codes[i] = (int8_t)((int)(next(&seed) % (1u << width)) - (int)(1u << (width - 1)));
            size_t size = tg__packed_bytes(n, width);
            assert_true(8 * size >= n * width && 8 * size <= n * width + 3 * 32);
            memset(bytes, 0xa5, sizeof(bytes));
            tg__kernel()->pack(bytes, codes, n, width);
            assert_int_equal(bytes[size], 0xa5);
            assert_true(tg__pack_clean(bytes, n, width));
            tg__kernel()->unpack(back, bytes, n, width);
            assert_memory_equal(back, codes, n);
            for (size_t bit = 0; n % 512 && n < 520 && width < 8 && bit < 8 * size; bit++) {
                /* each bit belongs to an element, or is detected */
                bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                tg__kernel()->unpack(back, bytes, n, width);
                assert_true(memcmp(back, codes, n) != 0 || !tg__pack_clean(bytes, n, width));
                bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                bit += n > 40 ? 30 : 0;
            }
        }
    }
}

/* code = floor((t + draw) / 65536) with the draw of the element's index, however the calls are
 * split. */
static void draws_one_by_one(void **state)
{
    (void)state;
    enum { COUNT = 700 };
    static const uint64_t firsts[] = {0, 128, 5, 1000 * 128 + 127};
    static float x[COUNT];
    static int8_t codes[COUNT];
    uint32_t seed = 7;
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)((int)(next(&seed) % 2001) - 1000) / 128;
    for (unsigned c = 0; c < 8; c++) {
        tg__draws d = {.key = {3, 4}, .rounds = c % 2 ? 7 : 10, .first = firsts[c / 2]};
        tg__kernel()->quant_random(codes, x, COUNT, 0.5f, 4, &d);
        for (size_t i = 0; i < COUNT; i++) {
            uint64_t at = d.first + i, e = at % 128;
            const uint32_t counter[4] = {(uint32_t)(at / 128 * 16 + e % 16), 0, 0, 0};
            uint32_t word[4];
            tg__philox_rounds(counter, d.key, d.rounds, word);
            double draw = word[e / 32] >> (e / 16 % 2 ? 16 : 0) & 0xffff;
            double t = fmin(4, fmax(-4, (double)x[i] / 2));
            assert_int_equal(codes[i], (int)floor((t * 65536 + draw) / 65536));
        }
    }
}

/* Random123's known answer for 7 rounds (kat_vectors). */
static void seven_rounds(void **state)
{
    (void)state;
    const uint32_t zero[4] = {0}, key[2] = {0};
    uint32_t out[4];
    tg__philox_rounds(zero, key, 7, out);
    assert_int_equal(out[0], 0x5f6fb709);
    assert_int_equal(out[1], 0x0d893f64);
    assert_int_equal(out[2], 0x4f121f81);
    assert_int_equal(out[3], 0x4f730a48);
}

static void rounding_and_limits(void **state)
{
    (void)state;
    static const float x[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 200, -200, NAN, INFINITY, -INFINITY};
    static const int8_t want[] = {0, 2, 2, 0, -2, 127, -127, 127, 127, -127};
    int8_t codes[sizeof(want)];
    tg__kernel()->quant_nearest(codes, x, sizeof(want), 1, 127);
    assert_memory_equal(codes, want, sizeof(want));
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_by_hand),      cmocka_unit_test(there_and_back),
        cmocka_unit_test(draws_one_by_one),    cmocka_unit_test(seven_rounds),
        cmocka_unit_test(rounding_and_limits),
    };
    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
