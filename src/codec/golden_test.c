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
#include <golden/golden_sparse.h> /* tests/golden */
#include <golden/golden_vectors.h>
#include "wire/envelope.h"
#include <string.h>

enum { MAX_BYTES = 4096 };

static size_t from_hex(uint8_t *dst, const char *hex)
{
    size_t len = strlen(hex) / 2;
    assert_true(len <= MAX_BYTES);
    for (size_t i = 0; i < len; i++) {
        unsigned byte = 0;
        for (size_t j = 0; j < 2; j++) {
            char c = hex[2 * i + j];
            byte = byte * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        dst[i] = (uint8_t)byte;
    }
    return len;
}

static size_t floats_from_hex(float *dst, const char *hex)
{
    static uint8_t bytes[MAX_BYTES];
    size_t n = from_hex(bytes, hex) / sizeof(float);
    tg__floats_get(dst, bytes, n);
    return n;
}

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
