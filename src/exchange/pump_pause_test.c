/* Time in which this process does not run does not make a peer late: on a clock that the test sets,
 * over a transport that only lets time pass. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_fixture.h"
#include "telegrad/clock.h"

static const int64_t ms = 1000000, timeout = 1600 * 1000000;

/* The points at which the process can be stopped. */
typedef enum place { IN_POLL, IN_TEST, IN_SEND, BETWEEN_CALLS, PLACES } place;

typedef struct world {
    tg_transport t;
    tg_clock clock;
    int64_t now;
    place where;
    int64_t pause, next; /* pause for this long once the time is after `next` */
    int64_t every;       /* the time to the following pause */
    int64_t paused;      /* in total */
} world;

static int64_t now_ns(void *arg)
{
    world *w = arg;
    return w->now;
}

static void stop_here(world *w, place where)
{
    if (w->where != where || w->now < w->next)
        return;
    w->now += w->pause;
    w->paused += w->pause;
    w->next = w->now + w->every;
}

static tg_status post_send(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                           tg_request *req)
{
    (void)peer, (void)tag, (void)buf;
    req->word[0] = 1;
    req->word[1] = len;
    stop_here(t->impl, IN_SEND);
    return TG_OK;
}

static tg_status post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                           tg_request *req)
{
    (void)t, (void)peer, (void)tag, (void)buf, (void)cap;
    req->word[0] = 0;
    return TG_OK;
}

/* Sends complete at once; nothing is ever received. */
static tg_status test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    stop_here(t->impl, IN_TEST);
    *done_p = req->word[0] == 1;
    *len_p = (size_t)req->word[1];
    return TG_OK;
}

/* A process that is stopped while it sleeps notices when it is resumed. */
static tg_status poll(tg_transport *t, int64_t deadline_ns)
{
    world *w = t->impl;
    if (w->where == IN_POLL && deadline_ns > w->next && w->now < w->next)
        w->now = w->next;
    stop_here(w, IN_POLL);
    w->now = TG__MAX(w->now, deadline_ns);
    return TG_OK;
}

static bool shut(tg_transport *t)
{
    (void)t;
    return true;
}

static const tg_transport_ops ops = {
    .struct_size = sizeof ops,
    .name = "still",
    .post_send = post_send,
    .post_recv = post_recv,
    .test = test,
    .poll = poll,
    .shut = shut,
};

/* The time that this process ran until it gave up the peer. step_ns: how long the driver lets each
 * call run. */
static int64_t wait_in(world *w, int64_t step_ns)
{
    static const fixture_case c = {"allgather", "f32", 10};
    tg_codec *codec = NULL;
    tg__flight f = {0};
    tg__pump p;
    const int64_t begin = 1000 * ms;
    w->now = begin;
    w->next += begin;
    w->clock = (tg_clock){.struct_size = sizeof w->clock, .arg = w, .now_ns = now_ns};
    w->t = (tg_transport){.struct_size = sizeof w->t,
                          .ops = &ops,
                          .impl = w,
                          .rank = 0,
                          .size = 2,
                          .clock = &w->clock};
    assert_int_equal(fixture_create(&c, 0, 2, &codec, &f.x), TG_OK);
    tg__pump_init(&p, &w->t, 5, timeout);
    assert_int_equal(fixture_encode(f.x, 0), TG_OK);
    assert_int_equal(tg__pump_launch(&p, &f), TG_OK);
    tg_status status = TG_OK;
    while (status == TG_OK) {
        status = tg__pump_run(&p, step_ns == INT64_MAX ? INT64_MAX : w->now + step_ns);
        stop_here(w, BETWEEN_CALLS);
        if (w->now - begin - w->paused > 100 * timeout)
            fail_msg("nobody is given up");
    }
    assert_int_equal(status, TG_E_PEER);
    assert_non_null(strstr(tg_error(), "rank 1 sent nothing for 1.6 s"));
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    return w->now - begin - w->paused;
}

/* A wait lasts for the timeout, counting only time in which this process ran. */
static void pauses_do_not_count(void **state)
{
    static const int64_t lengths[] = {200, 1500, 1700, 10000, 3600000};
    static const int64_t steps[] = {1, 100, 100000, INT64_MAX};
    (void)state;
    for (size_t l = 0; l < TG_COUNT(lengths); l++)
        for (size_t s = 0; s < TG_COUNT(steps); s++)
            for (place where = IN_POLL; where < PLACES; where++)
                for (int64_t every = 300; every < 1600; every += 300)
                    for (int64_t first = 1; first < 1600; first += 333) {
                        world w = {.where = where,
                                   .pause = lengths[l] * ms,
                                   .next = first * ms,
                                   .every = every * ms};
                        const int64_t step = steps[s] == INT64_MAX ? steps[s] : steps[s] * ms;
                        const int64_t ran = wait_in(&w, step);
                        /* Of each pause, the rest of a sleep counts, and so does what is too short
                         * to detect. */
                        const int64_t most = 2 * (timeout / 64 + ms);
                        const int64_t pauses = w.paused / w.pause + 1;
                        if (ran < timeout - pauses * most || ran > timeout + most)
                            fail_msg("pauses of %lld ms from %lld every %lld, place %d, calls of "
                                     "%lld ms: given up after %.3f s",
                                     (long long)lengths[l], (long long)first, (long long)every,
                                     (int)where, (long long)steps[s], (double)ran * 1e-9);
                    }
}

/* Without pauses a wait lasts exactly the timeout. */
static void no_pause(void **state)
{
    (void)state;
    world w = {.where = PLACES};
    assert_int_equal(wait_in(&w, INT64_MAX), timeout);
    w = (world){.where = PLACES};
    const int64_t ran = wait_in(&w, 7 * ms);
    assert_true(ran >= timeout && ran < timeout + 8 * ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pauses_do_not_count),
                                       cmocka_unit_test(no_pause)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
