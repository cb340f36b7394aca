/* Every code point and every sequence of up to three bytes; of four bytes, those at the ends of
 * ranges. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "telegrad/tools.h"

static size_t encode(uint32_t code, char text[4])
{
    if (code < 0x80) {
        text[0] = (char)code;
        return 1;
    }
    const size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, code >>= 6)
        text[i] = (char)(0x80 | (code & 0x3f));
    text[0] = (char)((0xf00u >> size & 0xff) | code);
    return size;
}

static void every_code_is_decoded(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char text[4];
        uint32_t got = 1;
        const size_t size = encode(code, text);
        if (code >= 0xd800 && code < 0xe000) { /* surrogates */
            assert_int_equal(tg_utf8_decode(text, size, &got), 0);
            assert_int_equal(got, 1);
            continue;
        }
        assert_int_equal(tg_utf8_decode(text, size, &got), size);
        assert_int_equal(got, code);
        assert_int_equal(tg_utf8_decode(text, size - 1, &got), 0);
        assert_int_equal(tg_utf8_decode(text, size, NULL), size);
    }
}

/* All code points are accepted, so there may be no more accepted sequences than code points. */
static void nothing_else_is_accepted(void **state)
{
    (void)state;
    size_t accepted[5] = {0};
    for (uint32_t x = 0; x < 1u << 24; x++) {
        const char text[3] = {(char)(x >> 16), (char)(x >> 8), (char)x};
        const size_t size = tg_utf8_decode(text, sizeof text, NULL);
        assert_true(size <= sizeof text);
        accepted[size]++;
    }
    assert_int_equal(accepted[1], 0x80 << 16);
    assert_int_equal(accepted[2], (0x800 - 0x80) << 8);
    assert_int_equal(accepted[3], 0x10000 - 0x800 - 0x800);

    static const uint8_t edges[] = {0, 0x7f, 0x80, 0xbf, 0xc0, 0xff};
    size_t four = 0;
    for (uint32_t x = 0; x < 1u << 16; x++) {
        for (size_t i = 0; i < TG_COUNT(edges) * TG_COUNT(edges); i++) {
            const char text[4] = {(char)(x >> 8), (char)x, (char)edges[i / TG_COUNT(edges)],
                                  (char)edges[i % TG_COUNT(edges)]};
            four += tg_utf8_decode(text, sizeof text, NULL) == 4;
        }
    }
    /* two of the edges are inside, counted twice */
    assert_int_equal(four, (0x10ffff + 1 - 0x10000) / 0x1000 * 4);
}

static void nothing_is_no_character(void **state)
{
    (void)state;
    assert_int_equal(tg_utf8_decode("x", 0, NULL), 0);
    assert_int_equal(tg_utf8_decode(NULL, 1, NULL), 0);
    assert_int_equal(tg_utf8_decode("", 1, NULL), 1); /* a zero is a character */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_code_is_decoded),
                                       cmocka_unit_test(nothing_else_is_accepted),
                                       cmocka_unit_test(nothing_is_no_character)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
