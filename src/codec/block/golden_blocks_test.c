/* Frames of blocktopk and dct produced by independent code (tools/golden_blocks.py): the library
 * writes the same bytes, and reads them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "each_level.h"
#include "from_hex.h"
#include <golden/golden_blocks.h> /* tests/golden */
#include <string.h>

enum { MAX_N = MAX_BYTES / 4, MAX_TENSORS = 4 };

static void frames(void **state)
{
    (void)state;
    static uint8_t want[MAX_BYTES], got[MAX_BYTES];
    static float x[MAX_N], decoded[MAX_N], out[MAX_N];
    unsigned wrong = 0;
    for (size_t i = 0; i < TG_COUNT(golden_blocks); i++) {
        const struct golden_blocks *f = &golden_blocks[i];
        const size_t n = floats_from_hex(x, f->x), len = from_hex(want, f->frame);
        size_t got_len = 0;
        assert_int_equal(floats_from_hex(decoded, f->decoded), n);
        tg_segment segments[MAX_TENSORS];
        tg_encode_context ctx = {.struct_size = sizeof ctx, .segments = segments};
        for (size_t at = 0; at < n; at += segments[ctx.nsegments++].n) {
            const size_t rows = f->rows[ctx.nsegments], cols = f->cols[ctx.nsegments];
            segments[ctx.nsegments] =
                (tg_segment){.begin = at, .n = rows * cols, .rows = rows, .cols = cols};
        }
        tg_codec *c;
        tg_array ax = tg_array_f32(x, n), aout = tg_array_f32(out, n);
        assert_int_equal(tg_codec_create(f->spec, &c), TG_OK);
        assert_int_equal(tg_codec_encode(c, &ctx, &ax, got, sizeof got, &got_len), TG_OK);
        tg_codec_destroy(c);
        assert_int_equal(tg_frame_decode(want, len, &aout), TG_OK);
        const bool same = len == got_len && memcmp(want, got, len) == 0 &&
                          memcmp(out, decoded, n * sizeof(float)) == 0;
        if (!same)
            print_error("%s, tensor of %u x %u first: another frame, or other values\n", f->spec,
                        f->rows[0], f->cols[0]);
        wrong += !same;
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
