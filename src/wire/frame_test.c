/* Heads of frames: split returns what was written, and refuses invalid heads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "wire/frame.h"

enum { N = 5 };

static void split_gives_what_was_written(void **state)
{
    (void)state;
    uint8_t frame[TG__FRAME_HEAD + 9] = {0};
    tg__frame_head(frame, 200, TG__FORM_CODED, 0xabcd, N, 9);
    static const uint8_t head[] = {200, 0, 0xcd, 0xab, N, 0, 0, 0, 9, 0, 0, 0};
    assert_memory_equal(frame, head, sizeof(head));
    tg__frame f;
    assert_int_equal(tg__frame_split(frame, sizeof(frame), N, &f), TG_OK);
    assert_int_equal(f.codec, 200);
    assert_int_equal(f.form, TG__FORM_CODED);
    assert_int_equal(f.aux, 0xabcd);
    assert_int_equal(f.n, N);
    assert_ptr_equal(f.payload, frame + TG__FRAME_HEAD);
    assert_int_equal(f.payload_len, 9);
}

static tg_status split(uint8_t form, uint16_t aux, size_t n, size_t payload, size_t arrived)
{
    uint8_t frame[64] = {0};
    tg__frame_head(frame, 1, form, aux, n, payload);
    tg__frame f;
    return tg__frame_split(frame, arrived, N, &f);
}

static void forms_have_their_sizes(void **state)
{
    (void)state;
    assert_int_equal(split(TG__FORM_DENSE, 0, N, 4 * N, 12 + 4 * N), TG_OK);
    assert_int_equal(split(TG__FORM_DENSE, 0, N, 4 * N - 1, 12 + 4 * N - 1), TG_E_CORRUPT);
    assert_int_equal(split(TG__FORM_DENSE, 1, N, 4 * N, 12 + 4 * N), TG_E_CORRUPT);
    assert_int_equal(split(TG__FORM_ZERO, 0, N, 0, 12), TG_OK);
    assert_int_equal(split(TG__FORM_ZERO, 0, N, 1, 13), TG_E_CORRUPT);
    assert_int_equal(split(TG__FORM_ZERO, 1, N, 0, 12), TG_E_CORRUPT);
    assert_int_equal(split(3, 0, N, 0, 12), TG_E_CORRUPT);
}

static void other_counts_and_lengths_are_refused(void **state)
{
    (void)state;
    assert_int_equal(split(TG__FORM_CODED, 0, N + 1, 3, 15), TG_E_MISMATCH);
    for (size_t len = 0; len < 30; len++)
        assert_int_equal(split(TG__FORM_CODED, 0, N, 3, len), len == 15 ? TG_OK : TG_E_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_gives_what_was_written),
        cmocka_unit_test(forms_have_their_sizes),
        cmocka_unit_test(other_counts_and_lengths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
