/* Bytes produced by independent code (tools/make_golden.py): the library writes the same, and reads
 * them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "each_level.h"
#include "from_hex.h"
#include <golden/golden_sparse.h> /* tests/golden */
#include <golden/golden_vectors.h>
#include "wire/envelope.h"
#include <string.h>

static void check_frames(const struct golden_frame *list, size_t count)
{
    static uint8_t want[MAX_BYTES], got[MAX_BYTES];
    static float x[MAX_BYTES / 4], decoded[MAX_BYTES / 4], out[MAX_BYTES / 4];
    unsigned wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const struct golden_frame *f = &list[i];
        size_t n = floats_from_hex(x, f->x), len = from_hex(want, f->frame), got_len = 0;
        assert_int_equal(floats_from_hex(decoded, f->decoded), n);
        tg_codec *c;
        tg_array ax = tg_array_f32(x, n), aout = tg_array_f32(out, n);
        assert_int_equal(tg_codec_create(f->spec, &c), TG_OK);
        assert_int_equal(tg_codec_encode(c, NULL, &ax, got, sizeof(got), &got_len), TG_OK);
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

static void frames(void **state)
{
    (void)state;
    check_frames(golden_frames, TG_COUNT(golden_frames));
}

static void sparse_frames(void **state)
{
    (void)state;
    check_frames(golden_sparse, TG_COUNT(golden_sparse));
}

static void messages(void **state)
{
    (void)state;
    static uint8_t want[MAX_BYTES], got[MAX_BYTES];
    for (size_t i = 0; i < TG_COUNT(golden_messages); i++) {
        const struct golden_message *m = &golden_messages[i];
        size_t len = from_hex(want, m->message), payload;
        tg__envelope e = {.session = m->session,
                          .step = m->step,
                          .sender = m->sender,
                          .slice = m->slice,
                          .channel = m->channel,
                          .flags = m->flags,
                          .bucket = m->bucket,
                          .round = m->round};
        uint16_t flags;
        memcpy(got, want, len);
        memset(got, 0, TG__ENVELOPE_BYTES);
        tg__envelope_seal(got, &e, len - TG__ENVELOPE_BYTES);
        assert_memory_equal(got, want, len);
        assert_int_equal(tg__envelope_open(want, len, &e, &flags, &payload), TG_OK);
        assert_int_equal(flags, m->flags);
        assert_int_equal(payload, len - TG__ENVELOPE_BYTES);
    }
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames), cmocka_unit_test(sparse_frames),
                                       cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
