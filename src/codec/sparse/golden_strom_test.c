/* Frames of strom, adacomp and 2bit with several thresholds, produced by independent code
 * (tools/golden_strom.py): the library writes the same bytes, and reads them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "each_level.h"
#include "from_hex.h"
#include <golden/golden_strom.h> /* tests/golden */
#include <string.h>

enum { MAX_N = MAX_BYTES / 4, MAX_CUTS = 12 };

static void frames(void **state)
{
    (void)state;
    static uint8_t want[MAX_BYTES], got[MAX_BYTES];
    static float x[MAX_N], g[MAX_N], decoded[MAX_N], out[MAX_N];
    unsigned wrong = 0;
    for (size_t i = 0; i < TG_COUNT(golden_strom); i++) {
        const struct golden_strom *f = &golden_strom[i];
        size_t n = floats_from_hex(x, f->x), len = from_hex(want, f->frame), got_len = 0, at = 0;
        assert_int_equal(floats_from_hex(g, f->gradient), n);
        assert_int_equal(floats_from_hex(decoded, f->decoded), n);
        tg_segment segments[MAX_CUTS];
        tg_encode_context ctx = {.struct_size = sizeof(ctx), .segments = segments, .gradient = g};
        for (; at < n; at += f->cuts[ctx.nsegments++])
            segments[ctx.nsegments] = (tg_segment){.begin = at,
                                                   .n = f->cuts[ctx.nsegments],
                                                   .rows = f->cuts[ctx.nsegments],
                                                   .cols = 1};
        tg_codec *c;
        tg_array ax = tg_array_f32(x, n), aout = tg_array_f32(out, n);
        assert_int_equal(tg_codec_create(f->spec, &c), TG_OK);
        assert_int_equal(tg_codec_encode(c, &ctx, &ax, got, sizeof(got), &got_len), TG_OK);
        tg_codec_destroy(c);
        assert_int_equal(tg_frame_decode(want, len, &aout), TG_OK);
        bool same = len == got_len && memcmp(want, got, len) == 0 &&
                    memcmp(out, decoded, n * sizeof(float)) == 0;
        if (!same)
            print_error("%s, %s: another frame, or other values\n", f->name, f->spec);
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
