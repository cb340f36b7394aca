/* Frames too long for one message: the window, the messages, and all-gathers of such frames. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_ranks.h"
#include "exchange/stream.h"
#include "wire/frame.h"
#include "telegrad/clock.h"

/* ---- window ---------------------------------------------------------------------------------- */

/* One run over a link that takes unit_ns per unit, with a one-way delay of delay_ns. Returns when
 * it ended. */
static int64_t play(tg__window *w, uint32_t count, double unit_ns, double delay_ns, int64_t now)
{
    tg__window_start(w, count, now);
    while (w->from < w->count) {
        assert_true(w->to > w->from && w->to <= w->count);
        assert_true(w->to - w->from <= TG__WINDOW_MOST);
        now += (int64_t)TG__MAX(unit_ns, delay_ns / w->open);
        tg__window_pass(w, now);
    }
    return now;
}

static void test_window(void **state)
{
    tg__window w;
    tg__owned owned = {0};
    int64_t now = 1000;
    (void)state;
    assert_int_equal(tg__window_init(&w, &owned, 400), TG_OK);
    for (int i = 0; i < 5; i++)
        now = play(&w, 100, 20e6, 50e6, now);
    assert_true(w.open >= TG__WINDOW_LEAST && w.open < 7); /* 2.5 units take one delay */
    for (int i = 0; i < 3; i++)
        now = play(&w, 400, 0.4e6, 20e6, now);
    assert_true(w.open > 50); /* as many take one delay */
    for (int i = 0; i < 17; i++)
        now = play(&w, 20, 0.4e6, 20e6, now);
    assert_true(w.open <= 20); /* otherwise it would learn nothing any more */

    assert_int_equal(tg__window_init(&w, &owned, 100), TG_OK);
    tg__window_start(&w, 3, 0);
    assert_int_equal(w.to, 3);
    tg__window_grow(&w, 100, 0); /* another rank has more to send */
    assert_int_equal(w.to, TG__WINDOW_FIRST);
    while (w.from < w.count)
        tg__window_pass(&w, 0);
    assert_true(w.open == TG__WINDOW_FIRST); /* the time was not known */
    tg__owned_free(&owned);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void test_names(void **state)
{
    static const uint32_t counts[] = {1, 64, 65, 1000, TG__UNITS};
    (void)state;
    for (size_t c = 0; c < TG_COUNT(counts); c++) {
        int64_t last = -1;
        for (uint32_t i = 0; i < counts[c]; i++) {
            tg__wish wish = {0};
            tg__stream_name(&wish, i, counts[c]);
            const int64_t name = (int64_t)wish.slice * 64 + wish.round;
            assert_true(wish.slice < 64 && wish.round < 64 && name > last);
            assert_true(counts[c] > 64 || (wish.slice == i && wish.round == 0));
            last = name;
        }
    }
    assert_int_equal(tg__stream_unit(4, 1000), 16384);
    assert_int_equal(tg__stream_unit(64, 1000), 8192);
    assert_true(tg__units(TG_MAX_ELEMENTS, tg__stream_unit(4, TG_MAX_ELEMENTS)) <= TG__UNITS);
}

enum { UNIT = 1024, CAP = 5000 };

/* Receive a message of len bytes that continues the frame. */
static tg_status come(tg__incoming *in, uint8_t *room, const uint8_t *frame, size_t len)
{
    tg__wish wish;
    assert_true(tg__incoming_wants(in, 2, room, CAP, UNIT, &wish));
    assert_false(tg__incoming_wants(in, 2, room, CAP, UNIT, &wish));
    assert_int_equal(wish.slice, in->here / UNIT);
    memset(wish.msg, 0xee, TG__ENVELOPE_BYTES);
    memcpy(wish.msg + TG__ENVELOPE_BYTES, frame + in->here, TG__MIN(len, wish.len));
    return tg__incoming_take(in, 2, room, len, CAP, UNIT);
}

static void test_incoming(void **state)
{
    static uint8_t room[TG__ENVELOPE_BYTES + CAP], frame[CAP];
    tg__incoming in = {0};
    tg__wish wish;
    (void)state;
    for (size_t i = 0; i < CAP; i++)
        frame[i] = (uint8_t)(i * 7 % 251);
    tg__frame_head(frame, 1, TG__FORM_CODED, 0, 9, 4500 - TG__FRAME_HEAD);
    assert_int_equal(come(&in, room, frame, 2 * UNIT), TG_OK);
    assert_int_equal(come(&in, room, frame, UNIT), TG_OK);
    assert_int_equal(come(&in, room, frame, 4500 - 3 * UNIT), TG_OK);
    assert_int_equal(in.here, 4500);
    assert_false(tg__incoming_wants(&in, 2, room, CAP, UNIT, &wish));
    assert_memory_equal(room + TG__ENVELOPE_BYTES, frame, 4500);

    /* the frame's bytes stated in its head, the first message's bytes */
    static const size_t bad[][2] = {{4500, 2 * UNIT + 1},       {4500, 4501}, {CAP + 1, UNIT},
                                    {4500, TG__FRAME_HEAD - 1}, {4500, 0},    {UNIT, 2 * UNIT}};
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        in = (tg__incoming){0};
        tg__frame_head(frame, 1, TG__FORM_CODED, 0, 9, bad[i][0] - TG__FRAME_HEAD);
        assert_int_equal(come(&in, room, frame, bad[i][1]), TG_E_CORRUPT);
        assert_non_null(strstr(tg_error(), "rank 2"));
    }
}

/* ---- all-gathers ----------------------------------------------------------------------------- */

static const fixture_case longs[] = {{"allgather", "f32", 130001},
                                     {"allgather", "fp16", 120001},
                                     {"allgather", "int8", 100000},
                                     {"allgather", "topk:density=0.2", 70000},
                                     {"allgather", "sign", 600000}};

/* All at once, in two steps. */
static tg_status run_longs(job *j)
{
    enum { LONGS = TG_COUNT(longs) };
    tg__flight f[LONGS] = {{0}};
    tg_codec *codec[LONGS];
    tg__pump p;
    tg_status status = TG_OK;
    const int rank = j->t->rank, size = j->t->size;
    float *dst = malloc(600000 * sizeof *dst);
    tg__pump_init(&p, j->t, 5, 60000 * ms);
    for (int i = 0; i < LONGS; i++)
        TG_TRY(fixture_create(&longs[i], rank, size, &codec[i], &f[i].x));
    for (uint64_t step = 0; step < 2 && status == TG_OK; step++) {
        for (int i = 0; i < LONGS; i++) {
            f[i].step = step;
            f[i].bucket = (uint16_t)i;
            f[i].sequence = (uint32_t)step * LONGS + (uint32_t)i;
            TG_TRY(fixture_encode(f[i].x, step));
            TG_TRY(tg__pump_launch(&p, &f[i]));
        }
        while (p.active)
            TG_TRY(tg__pump_run(&p, INT64_MAX));
        for (int i = 0; i < LONGS && status == TG_OK; i++) {
            f[i].x->ops->result(f[i].x, dst);
            status = fixture_compare(&longs[i], rank, size, step, dst);
        }
    }
    for (int i = 0; i < LONGS; i++) {
        tg__flight_fini(&f[i]);
        tg__exchange_destroy(f[i].x);
        tg_codec_destroy(codec[i]);
    }
    tg__pump_fini(&p);
    free(dst);
    return status;
}

static void test_long_frames(void **state)
{
    static const int sizes[] = {2, 5};
    (void)state;
    job jobs[MAX_RANKS];
    for (size_t i = 0; i < TG_COUNT(sizes); i++) {
        run_ranks(sizes[i], run_longs, NULL, -1, NULL, jobs);
        all_ok(jobs, sizes[i]);
    }
    run_ranks(3, run_longs, NULL, -1, "2gbit,delay=500us,jitter=500us", jobs);
    all_ok(jobs, 3);
}

/* Frames of very different lengths: a rank with a short frame must not hold up one with a long
 * frame. */
static tg_status run_unlike(job *j)
{
    const fixture_case c = {"allgather", "f32", 150000};
    tg_codec *codec = NULL;
    tg__flight f = {0};
    tg__pump p;
    const int rank = j->t->rank, size = j->t->size;
    float *dst = malloc(c.n * sizeof *dst);
    tg__pump_init(&p, j->t, 5, 60000 * ms);
    TG_TRY(fixture_create(&c, rank, size, &codec, &f.x));
    tg_status status = TG_OK;
    for (int loud = 0; loud < size && status == TG_OK; loud++) {
        f.sequence = (uint32_t)loud;
        TG_TRY(fixture_encode(f.x, 0));
        if (rank != loud) {
            f.x->parts[0].len = TG__FRAME_HEAD;
            tg__frame_head(f.x->parts[0].dst, TG__ID_f32, TG__FORM_ZERO, 0, c.n, 0);
        }
        TG_TRY(fixture_wait(&p, &f));
        f.x->ops->result(f.x, dst);
        for (size_t i = 0; i < c.n && status == TG_OK; i++)
            if (dst[i] != fixture_value(loud, 0, i) * (1.0f / (float)size))
                status =
                    tg_fail(TG_E_STATE, "element %zu of rank %d's: %a", i, loud, (double)dst[i]);
    }
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    free(dst);
    return status;
}

static void test_unlike_frames(void **state)
{
    (void)state;
    job jobs[MAX_RANKS];
    run_ranks(3, run_unlike, NULL, -1, NULL, jobs);
    all_ok(jobs, 3);
}

/* While nothing arrives, no more is sent than the window allows, whatever the transport accepts. */
static void test_bound(void **state)
{
    enum { SIZE = 4 };
    const fixture_case c = {"allgather", "f32", 400000};
    tg_transport *t[SIZE];
    tg_codec *codec = NULL;
    tg__flight f = {0};
    tg__pump p;
    (void)state;
    assert_int_equal(tg_transport_inproc(SIZE, t), TG_OK);
    tg__pump_init(&p, t[0], 5, 60000 * ms);
    assert_int_equal(fixture_create(&c, 0, SIZE, &codec, &f.x), TG_OK);
    assert_int_equal(fixture_encode(f.x, 0), TG_OK);
    assert_int_equal(tg__pump_launch(&p, &f), TG_OK);
    for (int i = 0; i < 10; i++)
        assert_int_equal(tg__pump_run(&p, tg_now_ns(t[0]->clock)), TG_OK);
    const uint64_t unit = tg__stream_unit(SIZE, 4 * c.n) + TG__ENVELOPE_BYTES;
    assert_true(f.bytes_sent > 0 && f.bytes_sent <= (SIZE - 1) * TG__WINDOW_FIRST * unit);
    for (int r = SIZE - 1; r >= 0; r--)
        (void)t[r]->ops->shut(t[r]);
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    for (int r = 0; r < SIZE; r++)
        tg_transport_destroy(t[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window),        cmocka_unit_test(test_names),
        cmocka_unit_test(test_incoming),      cmocka_unit_test(test_long_frames),
        cmocka_unit_test(test_unlike_frames), cmocka_unit_test(test_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
