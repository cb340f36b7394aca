/* What `telegrad doctor` measures over emulated links, by a virtual clock, is what they are. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "command/doctor/doctor_measure.h"
#include "telegrad/tools.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 5

struct rank {
    tg_transport *t;
    struct doctor_measure how;
    struct doctor_link link[RANKS_MAX];
    char *text[RANKS_MAX];
    int pairs;
    tg_status status;
    char why[256];
};

static void ends(void *arg, int peer)
{
    struct rank *r = arg;
    assert_int_not_equal(peer, r->t->rank);
    r->pairs++;
}

static void *measure(void *arg)
{
    struct rank *r = arg;
    char mine[16];
    snprintf(mine, sizeof mine, "rank %d", r->t->rank);
    r->status = doctor_measure(r->t, &r->how, r->link);
    if (r->status == TG_OK)
        r->status = doctor_share(r->t, &r->how, mine, r->text);
    snprintf(r->why, sizeof r->why, "%s", tg_error());
    return NULL;
}

/* Measure with `size` ranks over these links. */
static void run(int size, const char *const *links, double timeout_s, struct rank *ranks)
{
    tg_transport *t[RANKS_MAX];
    tg_link link[RANKS_MAX];
    tg_clock *clock;
    tg_clock_thread *thread[RANKS_MAX];
    memset(ranks, 0, (size_t)size * sizeof *ranks);
    assert_int_equal(tg_clock_virtual_create(0, &clock), TG_OK);
    assert_int_equal(tg_transport_inproc_clock(size, clock, t), TG_OK);
    for (int r = 0; r < size; r++) {
        link[r].struct_size = sizeof link[r];
        assert_int_equal(tg_link_parse(links[r], &link[r]), TG_OK);
    }
    assert_int_equal(tg_clock_enter(clock, 0), TG_OK);
    for (int r = 0; r < size; r++) {
        ranks[r].how = (struct doctor_measure){
            .seconds = 1, .timeout_s = timeout_s, .end = ends, .arg = &ranks[r]};
        assert_int_equal(tg_transport_shaped_links(t[r], link, NULL, &ranks[r].t), TG_OK);
        assert_int_equal(
            tg_clock_thread_start(clock, 1 + (uint64_t)r, "rank", measure, &ranks[r], &thread[r]),
            TG_OK);
    }
    tg_clock_leave(clock);
    for (int r = 0; r < size; r++)
        tg_clock_thread_join(clock, thread[r]);
    for (int r = 0; r < size; r++)
        tg_transport_destroy(ranks[r].t);
    tg_clock_virtual_destroy(clock);
}

static void near(double is, double due, double share)
{
    if (!(fabs(is - due) <= share * due))
        fail_msg("%g is not within %g of %g", is, share, due);
}

/* Each direction of each pair has the rate of its slower end, and the longer of both delays. */
static void links_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *link;
        double up, down, delay;
    } of[RANKS_MAX] = {{"100mbit,20ms", 100e6, 100e6, 0.02},
                       {"20mbit,50ms", 20e6, 20e6, 0.05},
                       {"1gbit,1ms", 1e9, 1e9, 0.001},
                       {"up=200kbit,down=5mbit,delay=5ms", 200e3, 5e6, 0.005},
                       {"100mbit,20ms", 100e6, 100e6, 0.02}};
    struct rank ranks[RANKS_MAX];
    const char *links[RANKS_MAX];
    for (int r = 0; r < RANKS_MAX; r++)
        links[r] = of[r].link;
    for (int size = 2; size <= RANKS_MAX; size++) {
        run(size, links, 60, ranks);
        for (int r = 0; r < size; r++) {
            if (ranks[r].status != TG_OK)
                fail_msg("rank %d: %s", r, ranks[r].why);
            assert_int_equal(ranks[r].pairs, size - 1);
            for (int p = 0; p < size; p++) {
                char said[16];
                snprintf(said, sizeof said, "rank %d", p);
                assert_string_equal(ranks[r].text[p], said);
                free(ranks[r].text[p]);
                if (p == r)
                    continue;
                near(ranks[r].link[p].delay_s, fmax(of[r].delay, of[p].delay), 0.05);
                near(ranks[r].link[p].rate_bps, fmin(of[r].up, of[p].down), 0.05);
                assert_true(fabs(ranks[r].link[p].ahead_s) < 100);
            }
        }
    }
}

static bool at_once(void *arg)
{
    (void)arg;
    return true;
}

/* One that stops, or falls silent, does not leave the others waiting. */
static void one_that_stops(void **state)
{
    (void)state;
    tg_transport *t[2];
    struct doctor_link link[2];
    struct doctor_measure how = {.seconds = 1, .timeout_s = 0.2};
    assert_int_equal(tg_transport_inproc(2, t), TG_OK);
    assert_int_equal(doctor_measure(t[0], &how, link), TG_E_PEER);
    assert_non_null(strstr(tg_error(), "rank 1 has not answered for 0.2 s"));
    how.stop = at_once;
    assert_int_equal(doctor_measure(t[1], &how, link), TG_E_PEER); /* rank 0 has left */
    tg_transport_destroy(t[0]);
    tg_transport_destroy(t[1]);
    assert_int_equal(tg_transport_inproc(2, t), TG_OK);
    assert_int_equal(doctor_measure(t[1], &how, link), TG_E_STOPPED);
    tg_transport_destroy(t[0]);
    tg_transport_destroy(t[1]);
}

/* ---- a rank that lies ------------------------------------------------------------------------ */

enum { PING = 1, PONG, FOUND, PINGS = 16 };

struct liar {
    tg_transport *t;
    double found[3]; /* delay, jitter, clocks */
};

static void finish(tg_transport *t, tg_request *req)
{
    size_t len;
    for (bool done = false; !done;) {
        assert_int_equal(t->ops->poll(t, tg_now_ns(t->clock) + 1000000), TG_OK);
        assert_int_equal(t->ops->test(t, req, &done, &len), TG_OK);
    }
}

static void *lie(void *arg)
{
    struct liar *l = arg;
    tg_request req;
    double time = 0;
    for (int i = 0; i < PINGS; i++) {
        assert_int_equal(l->t->ops->post_send(l->t, 1, PING, &time, sizeof time, &req), TG_OK);
        finish(l->t, &req);
        assert_int_equal(l->t->ops->post_recv(l->t, 1, PONG, &time, sizeof time, &req), TG_OK);
        finish(l->t, &req);
    }
    assert_int_equal(l->t->ops->post_send(l->t, 1, FOUND, l->found, sizeof l->found, &req), TG_OK);
    finish(l->t, &req);
    return NULL;
}

/* What another rank says of the link is not believed if it cannot be. */
static void lies_are_found(void **state)
{
    (void)state;
    static const double said[][3] = {{NAN, 0, 0},      {-1, 0, 0},  {1e300, 0, 0},
                                     {61, 0, 0},       {0, NAN, 0}, {0, -1, 0},
                                     {0, INFINITY, 0}, {0, 0, NAN}, {0, 0, -INFINITY}};
    for (size_t i = 0; i < TG_COUNT(said); i++) {
        tg_transport *t[2];
        struct doctor_link link[2];
        struct doctor_measure how = {.seconds = 0.01, .timeout_s = 5};
        struct liar liar;
        pthread_t thread;
        assert_int_equal(tg_transport_inproc(2, t), TG_OK);
        liar.t = t[0];
        memcpy(liar.found, said[i], sizeof liar.found);
        assert_int_equal(pthread_create(&thread, NULL, lie, &liar), 0);
        assert_int_equal(doctor_measure(t[1], &how, link), TG_E_CORRUPT);
        assert_non_null(strstr(tg_error(), "rank 0 reports a delay of "));
        pthread_join(thread, NULL);
        tg_transport_destroy(t[0]);
        tg_transport_destroy(t[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_found),
        cmocka_unit_test(one_that_stops),
        cmocka_unit_test(lies_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
