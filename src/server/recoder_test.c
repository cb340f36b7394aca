/* Recoders by hand: what they refuse, steps that are dropped, and residuals that overflow. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "server/gathering.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 100, ROOM = 600 };

typedef struct bench {
    tg__recoder *list;
    tg__gathering *g; /* without ranks */
    uint8_t coding[200];
    union {
        uint8_t bytes[ROOM];
        float align;
    } answer;
    uint8_t frame[ROOM];
} bench;

static bench *make(void)
{
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->g = calloc(1, sizeof *b->g);
    assert_non_null(b->g);
    return b;
}

static void release(bench *b)
{
    tg__recoders_free(b->list);
    free(b->g);
    free(b);
}

static void put_real(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    tg__put64(at, bits);
}

/* A message of a vector that is one tensor. */
static void say(bench *b, unsigned flags, const char *spec, double factor)
{
    const bool first = (flags & TG__STAR_FIRST) != 0;
    const size_t len = strlen(spec);
    uint8_t *at = b->coding;
    b->g->n = N;
    b->g->codec = TG__ID_topk;
    b->g->flags = 0;
    b->g->answer = b->answer.bytes;
    b->g->star = (tg__star){.flags = (uint16_t)(TG__STAR_CODED | flags), .coding = TG__CODING_STEP};
    memset(at, 0, sizeof b->coding);
    put_real(at, 0.1);
    put_real(at + 8, factor);
    if (!first)
        return;
    b->g->star.coding = (uint32_t)(TG__CODING_FIRST + len + TG__CODING_SEGMENT);
    tg__put32(at + 32, (uint32_t)len);
    tg__put32(at + 36, 1);
    memcpy(at + TG__CODING_FIRST, spec, len);
    at += TG__CODING_FIRST + len;
    tg__put32(at, N);
    tg__put32(at + 4, 10);
    tg__put32(at + 8, 10);
}

/* Code a vector; sum (N) gets the decoded values. Returns false if it is dropped. */
static bool code_vector(bench *b, const char *spec, unsigned flags, double factor,
                        const float *value, float *sum)
{
    size_t len;
    say(b, flags, spec, factor);
    assert_int_equal(tg__recoder_open(&b->list, b->g, b->coding), TG_OK);
    assert_int_equal(tg__recoder_compare(b->g->recoder, b->coding, b->g->star.coding), TG_OK);
    assert_true(tg__recoder_room(b->g->recoder) <= ROOM);
    memcpy(tg__gathering_values(b->g), value, N * sizeof *value);
    assert_int_equal(tg__recoder_code(b->g->recoder, b->g, b->frame, ROOM, &len), TG_OK);
    assert_int_equal(tg__frame_check(b->frame, len, N, TG__ID_topk), TG_OK);
    tg__frame_decode_add(b->frame, len, sum, NULL);
    return (b->g->flags & TG__FLAG_NONFINITE) == 0;
}

/* The same for a vector of equal values. */
static bool code(bench *b, unsigned flags, double factor, float value, float *sum)
{
    float all[N];
    for (int i = 0; i < N; i++)
        all[i] = value;
    return code_vector(b, "topk:density=0.1,values=f32", flags, factor, all, sum);
}

static int count(const float *sum, float value)
{
    int k = 0;
    for (int i = 0; i < N; i++)
        k += sum[i] == value;
    return k;
}

/* With lookahead the mean of the step decides: 0.5 + 2 * 0.5 goes before residuals of 1. */
static void the_last_mean_decides(void **state)
{
    (void)state;
    for (int ahead = 0; ahead < 2; ahead++) {
        const char *spec =
            ahead ? "topk:density=0.1,values=f32" : "topk:density=0.1,values=f32,lookahead=0";
        bench *b = make();
        float sum[N] = {0}, mean[N];
        for (int i = 0; i < N; i++)
            mean[i] = 1;
        assert_true(code_vector(b, spec, TG__STAR_FIRST, 1, mean, sum));
        assert_int_equal(count(sum, 1), 10);
        assert_true(sum[0] == 1 && sum[9] == 1);
        memset(mean, 0, sizeof mean);
        mean[0] = 0.5f;
        assert_true(code_vector(b, spec, 0, 1, mean, sum));
        assert_true(sum[0] == (ahead ? 1.5f : 1));
        assert_int_equal(count(sum, 1), ahead ? 18 : 20);
        release(b);
    }
}

static void residuals_go_on(void **state)
{
    (void)state;
    bench *b = make();
    float sum[N] = {0}, none[N] = {0};
    assert_true(code(b, TG__STAR_FIRST, 1, 1, sum));
    assert_int_equal(count(sum, 1), 10);
    assert_true(code(b, 0, 1, 0, sum));
    assert_int_equal(count(sum, 1), 20);
    assert_true(code(b, 0, 0, 0, sum)); /* a step that changes nothing */
    assert_int_equal(count(sum, 1), 20);
    assert_true(code(b, 0, 1, 5, none)); /* is not applied */
    assert_true(code(b, TG__STAR_DROPPED, 1, 0, sum));
    assert_int_equal(count(sum, 1), 30);
    assert_true(code(b, 0, 2, 0, sum)); /* what is left is doubled */
    assert_int_equal(count(sum, 2), 10);
    assert_true(code(b, TG__STAR_FIRST, 1, 0, none)); /* of another session: nothing is left */
    memset(none, 0, sizeof none);
    assert_true(code(b, 0, 1, 0, none));
    assert_int_equal(count(none, 0), N);
    release(b);
}

static void huge_residuals_begin_anew(void **state)
{
    (void)state;
    bench *b = make();
    float sum[N] = {0};
    assert_true(code(b, TG__STAR_FIRST, 1, 3e38f, sum));
    memset(sum, 0, sizeof sum);
    assert_false(code(b, 0, 1, 3e38f, sum)); /* the sum is infinite */
    assert_int_equal(count(sum, 0), N);
    assert_true(code(b, TG__STAR_DROPPED, 1, 3e38f, sum));
    assert_int_equal(count(sum, 3e38f), 10);
    memset(sum, 0, sizeof sum);
    assert_false(code(b, TG__STAR_DROPPED, 1, NAN, sum));
    assert_true(code(b, TG__STAR_DROPPED, 1, 1, sum));
    assert_int_equal(count(sum, 1), 10);
    release(b);
}

static void refuse(bench *b, tg_status status, const char *part)
{
    const tg_status got = tg__recoder_open(&b->list, b->g, b->coding);
    if (got != status || strstr(tg_error(), part) == NULL)
        fail_msg("%s: %s, not %s: %s", tg_status_name(got), tg_error(), tg_status_name(status),
                 part);
}

static void refusals(void **state)
{
    (void)state;
    static const char *const topk = "topk:density=0.1,values=f32";
    bench *b = make();
    float sum[N] = {0};
    say(b, 0, topk, 1);
    refuse(b, TG_E_CORRUPT, "whose answers' coding was not sent");
    say(b, TG__STAR_FIRST, "topk:density=7", 1);
    refuse(b, TG_E_SPEC, "density=7");
    say(b, TG__STAR_FIRST, "nonesuch", 1);
    refuse(b, TG_E_SPEC, "nonesuch");
    say(b, TG__STAR_FIRST, "2bit", 1);
    refuse(b, TG_E_CORRUPT, "answers in codec 2bit to frames of codec topk");
    say(b, TG__STAR_FIRST, topk, -1);
    refuse(b, TG_E_CORRUPT, "factor -1");
    say(b, TG__STAR_FIRST, topk, 1);
    put_real(b->coding, NAN);
    refuse(b, TG_E_CORRUPT, "density nan");
    say(b, TG__STAR_FIRST, topk, 1);
    tg__put32(b->coding + 36, UINT32_MAX);
    refuse(b, TG_E_CORRUPT, "4294967295 tensors");
    say(b, TG__STAR_FIRST, topk, 1);
    tg__put32(b->coding + 32, UINT32_MAX);
    refuse(b, TG_E_CORRUPT, "a spec of 4294967295");
    say(b, TG__STAR_FIRST, topk, 1);
    tg__put32(b->coding + b->g->star.coding - 8, 11);
    refuse(b, TG_E_CORRUPT, "100 elements, 11 x 10");
    say(b, TG__STAR_FIRST, topk, 1);
    b->g->star.coding--;
    refuse(b, TG_E_CORRUPT, "a coding of");
    assert_true(code(b, TG__STAR_FIRST, 1, 1, sum));
    say(b, 0, topk, 1);
    b->g->star.coding = 3;
    refuse(b, TG_E_CORRUPT, "a coding of 3 bytes: expected 16");
    say(b, 0, topk, 1);
    assert_int_equal(tg__recoder_open(&b->list, b->g, b->coding), TG_OK);
    refuse(b, TG_E_CORRUPT, "came before the last one's answer");
    b->coding[3] ^= 1;
    assert_int_equal(tg__recoder_compare(b->g->recoder, b->coding, b->g->star.coding),
                     TG_E_MISMATCH);
    tg__recoder_leave(b->g->recoder, b->g);
    assert_true(code(b, 0, 1, 1, sum));
    release(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_mean_decides),
        cmocka_unit_test(residuals_go_on),
        cmocka_unit_test(huge_residuals_begin_anew),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
