/* Frames of the codecs sign and 1bit produced by independent code (tools/golden_signs.py): the
 * library writes the same, and reads them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "each_level.h"
#include "from_hex.h"
#include <golden/golden_signs.h> /* tests/golden */
#include <string.h>

static void frames(void **state)
{
    (void)state;
    static uint8_t want[MAX_BYTES], got[MAX_BYTES];
    static float x[MAX_BYTES / 4], decoded[MAX_BYTES / 4], out[MAX_BYTES / 4];
    for (size_t i = 0; i < TG_COUNT(golden_signs); i++) {
        const struct golden_sign *f = &golden_signs[i];
        size_t n = floats_from_hex(x, f->x), len = from_hex(want, f->frame), got_len = 0;
        size_t first = f->shape[0][0] * f->shape[0][1];
        assert_int_equal(floats_from_hex(decoded, f->decoded), n);
        const tg_segment tensors[] = {{0, first, f->shape[0][0], f->shape[0][1], 0},
                                      {first, n - first, f->shape[1][0], f->shape[1][1], 0}};
        tg_encode_context ctx = {
            .struct_size = sizeof ctx, .segments = tensors, .nsegments = TG_COUNT(tensors)};
        tg_codec *c;
        tg_array ax = tg_array_f32(x, n), aout = tg_array_f32(out, n);
        assert_int_equal(tg_codec_create(f->spec, &c), TG_OK);
        assert_int_equal(tg_codec_encode(c, &ctx, &ax, got, sizeof got, &got_len), TG_OK);
        tg_codec_destroy(c);
        assert_int_equal(tg_frame_decode(want, len, &aout), TG_OK);
        if (len != got_len || memcmp(want, got, len) != 0)
            fail_msg("%s, %s: another frame", f->name, f->spec);
        if (memcmp(out, decoded, n * sizeof(float)) != 0)
            fail_msg("%s, %s: other values", f->name, f->spec);
    }
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
