/* Envelopes: sealed messages can be opened, and every damaged or unexpected field gives its own
 * error. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "wire/envelope.h"
#include <string.h>

enum { PAYLOAD = 37, TOTAL = TG__ENVELOPE_BYTES + PAYLOAD };

static const tg__envelope sent = {.session = UINT64_C(0x1122334455667788),
                                  .step = 1234567890123,
                                  .sender = 3,
                                  .slice = 9,
                                  .flags = TG__FLAG_CLOSES | TG__FLAG_STOP,
                                  .bucket = 7,
                                  .round = 2,
                                  .channel = 5};

static void seal(uint8_t *msg, const tg__envelope *e)
{
    for (size_t i = 0; i < PAYLOAD; i++)
        msg[TG__ENVELOPE_BYTES + i] = (uint8_t)(i * 11 + 1);
    tg__envelope_seal(msg, e, PAYLOAD);
}

static tg_status open_as(const uint8_t *msg, size_t len, const tg__envelope *want)
{
    uint16_t flags = 0xffff;
    size_t payload = SIZE_MAX;
    tg_status status = tg__envelope_open(msg, len, want, &flags, &payload);
    if (status != TG_OK) { /* outputs are written only on success */
        assert_int_equal(flags, 0xffff);
        assert_true(payload == SIZE_MAX);
        assert_non_null(strstr(tg_error(), "rank 3"));
    }
    return status;
}

static void opens_what_was_sealed(void **state)
{
    (void)state;
    uint8_t msg[TOTAL];
    seal(msg, &sent);
    tg__envelope want = sent;
    want.flags = 0; /* ignored */
    uint16_t flags;
    size_t len;
    assert_int_equal(tg__envelope_open(msg, sizeof(msg), &want, &flags, &len), TG_OK);
    assert_int_equal(flags, TG__FLAG_CLOSES | TG__FLAG_STOP);
    assert_int_equal(len, PAYLOAD);
    tg__envelope_seal(msg, &sent, 0);
    assert_int_equal(tg__envelope_open(msg, TG__ENVELOPE_BYTES, &want, &flags, &len), TG_OK);
    assert_int_equal(len, 0);
}

static void lies_as_specified(void **state)
{
    (void)state;
    uint8_t msg[TOTAL];
    seal(msg, &sent);
    static const uint8_t head[44] = {
        'T',  'G',  'E',  '1',                          /* magic */
        3,    0,    6,    0,                            /* version, flags */
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* session */
        0xcb, 0x04, 0xfb, 0x71, 0x1f, 0x01, 0,    0,    /* step */
        3,    0,    0,    0,    7,    0,    2,    0,    /* sender, bucket, round */
        9,    0,    5,    0,    37,   0,    0,    0,    /* slice, channel, length ... */
        0,    0,    0,    0,
    };
    assert_memory_equal(msg, head, sizeof(head));
}

static void refuses_every_damaged_byte(void **state)
{
    (void)state;
    uint8_t msg[TOTAL];
    for (size_t at = 0; at < TOTAL; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            seal(msg, &sent);
            msg[at] ^= (uint8_t)(1u << bit);
            tg_status want = at == 4 || at == 5 ? TG_E_VERSION : TG_E_CORRUPT;
            assert_int_equal(open_as(msg, TOTAL, &sent), want);
        }
    }
}

static void refuses_every_other_length(void **state)
{
    (void)state;
    uint8_t msg[TOTAL + 1] = {0};
    seal(msg, &sent);
    for (size_t len = 0; len <= TOTAL + 1; len++)
        assert_int_equal(open_as(msg, len, &sent), len == TOTAL ? TG_OK : TG_E_CORRUPT);
}

static void refuses_what_is_not_expected(void **state)
{
    (void)state;
    uint8_t msg[TOTAL];
    static const struct {
        const char *field;
        tg_status status;
    } cases[] = {{"session", TG_E_MISMATCH}, {"sender", TG_E_PEER}, {"step", TG_E_PEER},
                 {"bucket", TG_E_PEER},      {"round", TG_E_PEER},  {"slice", TG_E_PEER},
                 {"flags", TG_E_CORRUPT},    {"channel", TG_E_PEER}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tg__envelope other = sent;
        other.session ^= i == 0;
        other.sender ^= (uint32_t)(i == 1);
        other.step ^= i == 2 ? UINT64_C(1) << 40 : 0;
        other.bucket ^= i == 3 ? 0x100 : 0;
        other.round ^= i == 4 ? 1 : 0;
        other.slice ^= i == 5 ? 1 << 10 : 0;
        other.flags |= i == 6 ? 32 : 0;
        other.channel ^= i == 7 ? 0x100 : 0;
        seal(msg, &other);
        assert_int_equal(open_as(msg, TOTAL, &sent), cases[i].status);
        assert_non_null(strstr(tg_error(), cases[i].field));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_what_was_sealed),
        cmocka_unit_test(lies_as_specified),
        cmocka_unit_test(refuses_every_damaged_byte),
        cmocka_unit_test(refuses_every_other_length),
        cmocka_unit_test(refuses_what_is_not_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
