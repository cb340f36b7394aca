/* Answers of servers that keep the parameters and code them: what a rank has after each, and what
 * it refuses. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "exchange/star.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 90, SERVERS = 2, WISHES = 4 * SERVERS };

typedef struct bench {
    tg_codec *topk, *f32;
    tg__exchange *x;
    float w[N], g[N];
    uint8_t *answer[SERVERS]; /* where answers are received: envelope, frame, tail */
} bench;

static int make(void **state)
{
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    assert_int_equal(tg_codec_create("topk:density=0.1,values=f32", &b->topk), TG_OK);
    assert_int_equal(tg_codec_create("f32", &b->f32), TG_OK);
    assert_int_equal(tg__exchange_create_served(tg__exchange_find("twoway"), 0, 1, SERVERS, N,
                                                b->topk, &tg__combine_mean, &b->x),
                     TG_OK);
    b->x->keeps = true;
    *state = b;
    return 0;
}

static int release(void **state)
{
    bench *b = *state;
    tg__exchange_destroy(b->x);
    tg_codec_destroy(b->topk);
    tg_codec_destroy(b->f32);
    free(b);
    return 0;
}

static void start(bench *b)
{
    tg__wish wish[WISHES];
    tg__exchange *x = b->x;
    x->into = b->w;
    x->factor = 1;
    assert_int_equal(tg__codec_encode(b->topk, NULL, b->g, N, x->parts, x->nparts, NULL), TG_OK);
    assert_int_equal(x->ops->start(x), TG_OK);
    const size_t count = x->ops->wants(x, wish, WISHES);
    assert_int_equal(count, 2 * SERVERS);
    for (size_t i = 0; i < count; i++)
        if (wish[i].send)
            assert_int_equal(x->ops->done(x, wish[i].id, wish[i].len), TG_OK);
        else
            b->answer[wish[i].id] = wish[i].msg;
}

/* A frame of equal values for a server's part, in its place. Returns its length. */
static size_t put(bench *b, int server, tg_codec *codec, float value)
{
    const tg__part *of = &b->x->parts[server];
    const size_t n = of->hi - of->lo;
    float values[N];
    tg__part part = {.dst = b->answer[server] + TG__ENVELOPE_BYTES,
                     .cap = tg__codec_bound(codec, n),
                     .lo = 0,
                     .hi = n};
    for (size_t i = 0; i < n; i++)
        values[i] = value;
    assert_int_equal(tg__codec_encode(codec, NULL, values, n, &part, 1, NULL), TG_OK);
    return part.len;
}

static tg_status answer(bench *b, int server, float value, enum tg__star_holds holds,
                        uint64_t number, uint64_t step)
{
    const size_t len = put(b, server, holds == TG__STAR_CHANGE ? b->topk : b->f32, value);
    tg__star_put_tail(b->answer[server] + TG__ENVELOPE_BYTES + len,
                      &(tg__star_tail){holds, number, step});
    return b->x->ops->done(b->x, (uint32_t)server, len + TG__STAR_TAIL);
}

static int count(const bench *b, float value)
{
    int k = 0;
    for (int i = 0; i < N; i++)
        k += b->w[i] == value;
    return k;
}

static void answers_change_parameters(void **state)
{
    bench *b = *state;
    const int half = (int)(b->x->parts[0].hi - b->x->parts[0].lo);
    float result[N];
    start(b); /* what it has may have any number at first */
    assert_int_equal(answer(b, 0, 4, TG__STAR_CHANGE, 7, 0), TG_OK);
    assert_int_equal(answer(b, 1, 1, TG__STAR_WHOLE, 3, 0), TG_OK);
    assert_true(b->x->ops->finished(b->x) && !b->x->is_late);
    const int sent = count(b, 4);
    assert_in_range(sent, 1, half - 1);
    assert_int_equal(count(b, 1), N - half);
    start(b);
    assert_int_equal(answer(b, 0, 5, TG__STAR_LATE, 9, 12), TG_OK);
    assert_int_equal(answer(b, 1, 1, TG__STAR_CHANGE, 4, 0), TG_OK);
    assert_true(b->x->is_late && b->x->late[0] && !b->x->late[1]);
    assert_int_equal(b->x->step, 12);
    assert_int_equal(count(b, 5), half);
    assert_in_range(count(b, 2), 1, N - half - 1);
    start(b); /* behind a late one */
    assert_int_equal(answer(b, 0, 1, TG__STAR_CHANGE, 10, 0), TG_OK);
    assert_int_equal(answer(b, 1, 9, TG__STAR_WHOLE, 4, 0), TG_OK);
    assert_true(!b->x->is_late);
    assert_int_equal(count(b, 6), sent);
    assert_int_equal(count(b, 9), N - half);
    b->x->ops->result(b->x, b->w);
    b->x->ops->result(b->x, result);
    assert_memory_equal(result, b->w, sizeof result);
}

static void refuse(bench *b, size_t len, tg_status status, const char *words)
{
    const tg_status is = b->x->ops->done(b->x, 0, len);
    if (is != status || strstr(tg_error(), words) == NULL || strstr(tg_error(), "server 0") == NULL)
        fail_msg("%s: %s, not %s", tg_status_name(is), tg_error(), words);
}

static void wrong_answers(void **state)
{
    bench *b = *state;
    start(b);
    assert_int_equal(answer(b, 0, 1, TG__STAR_WHOLE, 5, 0), TG_OK);
    float was[N];
    memcpy(was, b->w, sizeof was);
    const size_t coded = put(b, 0, b->topk, 1);
    uint8_t *tail = b->answer[0] + TG__ENVELOPE_BYTES + coded;
    tg__star_put_tail(tail, &(tg__star_tail){TG__STAR_CHANGE, 7, 0});
    refuse(b, coded + TG__STAR_TAIL, TG_E_CORRUPT,
           "a change that leads to parameters 7: this rank has 5");
    tg__star_put_tail(tail, &(tg__star_tail){TG__STAR_CHANGE, 5, 0});
    refuse(b, coded + TG__STAR_TAIL, TG_E_CORRUPT, "leads to parameters 5: this rank has 5");
    tg__star_put_tail(tail, &(tg__star_tail){TG__STAR_CHANGE, 6, 1});
    refuse(b, coded + TG__STAR_TAIL, TG_E_CORRUPT, "parameters 6, step 1");
    tg__star_put_tail(tail, &(tg__star_tail){TG__STAR_CHANGE, 0, 0});
    refuse(b, coded + TG__STAR_TAIL, TG_E_CORRUPT, "parameters 0, step 0");
    tg__star_put_tail(tail, &(tg__star_tail){TG__STAR_CHANGE, TG__STAR_STEP_MOST + 1, 0});
    refuse(b, coded + TG__STAR_TAIL, TG_E_CORRUPT, "allowed: 0 to 2^53");
    tg__star_put_tail(tail, &(tg__star_tail){TG__STAR_WHOLE, 6, 0});
    refuse(b, coded + TG__STAR_TAIL, TG_E_MISMATCH, "expected");
    tg__star_put_tail(tail, &(tg__star_tail){TG__STAR_LATE, 6, TG__STAR_STEP_MOST + 1});
    refuse(b, coded + TG__STAR_TAIL, TG_E_CORRUPT, "allowed: 0 to 2^53");
    for (uint32_t holds = 0; holds < 8; holds++) {
        tg__star_put_tail(tail, &(tg__star_tail){TG__STAR_CHANGE, 6, 0});
        tg__put32(tail, holds & 4 ? 1 : holds & 1 ? 4 : 0);
        tg__put32(tail + 4, holds & 4 ? 1 + holds : 0);
        refuse(b, coded + TG__STAR_TAIL, TG_E_CORRUPT, "an answer says that it is");
    }
    tg__star_put_tail(tail, &(tg__star_tail){TG__STAR_CHANGE, 6, 0});
    for (size_t len = 0; len < coded + TG__STAR_TAIL; len++)
        assert_int_not_equal(b->x->ops->done(b->x, 0, len), TG_OK);
    const size_t whole = put(b, 0, b->f32, 1);
    tg__star_put_tail(b->answer[0] + TG__ENVELOPE_BYTES + whole,
                      &(tg__star_tail){TG__STAR_CHANGE, 6, 0});
    refuse(b, whole + TG__STAR_TAIL, TG_E_MISMATCH, "expected");
    assert_memory_equal(was, b->w, sizeof was);
    put(b, 0, b->f32, 1);
    tg__f32_values(b->answer[0] + TG__ENVELOPE_BYTES)[3] = NAN;
    tg__star_put_tail(b->answer[0] + TG__ENVELOPE_BYTES + whole,
                      &(tg__star_tail){TG__STAR_WHOLE, 6, 0});
    refuse(b, whole + TG__STAR_TAIL, TG_E_CORRUPT, "its parameters are not finite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_change_parameters, make, release),
        cmocka_unit_test_setup_teardown(wrong_answers, make, release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
