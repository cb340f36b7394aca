/* Which seats new workers get: not those of workers that may be back, and the same on all
 * servers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net/local.h"
#include "net_house.h"
#include "telegrad/clock.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* A worker that is connected, and sends nothing. */
typedef struct guest {
    tg_net *net;
    tg_transport *t;
} guest;

static guest enter(const house *h, double again_s)
{
    guest g;
    tg_net_attach_config to = attach_config(h);
    to.again_s = again_s;
    if (attach(&to, &g.net, &g.t) != TG_OK)
        fail_msg("%s", tg_error());
    return g;
}

static void lose(const guest *g, int server)
{
    assert_int_equal(shutdown(g->net->stream[server + 1]->fd, SHUT_RDWR), 0);
}

/* A worker that trains; the journal has its seat. */
typedef struct trainer {
    guest who;
    tg_session *session;
    uint32_t id;
    float w[TOKENS], g[TOKENS];
} trainer;

static void start(trainer *r, const house *h, int seat)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer = h->optimizer};
    r->who = enter(h, 30);
    assert_int_equal(r->who.t->seat, seat);
    assert_int_equal(tg_session_create(&config, r->who.t, &r->session), TG_OK);
    assert_int_equal(one_tensor_begin(r->session, r->w, r->g, TOKENS, &r->id), TG_OK);
}

static tg_status step(trainer *r)
{
    TG_TRY(tg_session_grad_wait(r->session, r->id));
    TG_TRY(tg_session_grad_ready(r->session, r->id));
    return tg_session_step(r->session, NULL);
}

static void end(trainer *r)
{
    tg_session_destroy(r->session);
    tg_transport_destroy(r->who.t);
}

/* The server was started again. The workers of seats 0 and 1 may be back, rather that of seat 0,
 * which has made more steps. */
static void test_expected(void **state)
{
    static trainer r[2];
    char folder[] = "/tmp/tg-house-XXXXXX", command[60];
    house *h = calloc(1, sizeof *h);
    (void)state;
    assert_true(h && mkdtemp(folder));
    *h = (house){
        .shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0", .journal = folder};
    house_open(h);
    for (int i = 0; i < 2; i++)
        start(&r[i], h, i);
    for (int i = 0; i < 3; i++)
        assert_int_equal(step(&r[0]), TG_OK);
    for (int i = 0; i < 2; i++) {
        lose(&r[i].who, 0);
        end(&r[i]);
    }
    await_event(h, "worker 0 (127.0.0.1) has left");
    await_event(h, "worker 1 (127.0.0.1) has left");
    house_again(h);
    guest all[SEATS];
    for (int i = 0; i < SEATS; i++) {
        static const int order[SEATS] = {2, 3, 1, 0};
        all[i] = enter(h, 0);
        assert_int_equal(all[i].t->seat, order[i]);
    }
    for (int i = 0; i < SEATS; i++)
        tg_transport_destroy(all[i].t);
    house_close(h);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
    free(h);
}

static void *leave_soon(void *arg)
{
    const guest *g = arg;
    usleep(300000);
    tg_transport_destroy(g->t);
    return NULL;
}

/* While a worker is away, others get all seats. It ends at once when it is told that its seat is
 * used. One that has sent nothing, and may look for another seat, is waited for. */
static void test_given_away(void **state)
{
    static trainer r, other;
    house *h = calloc(1, sizeof *h);
    guest all[SEATS];
    pthread_t thread;
    (void)state;
    assert_non_null(h);
    *h = (house){.shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0"};
    house_open(h);
    start(&r, h, 0);
    assert_int_equal(step(&r), TG_OK);
    lose(&r.who, 0);
    await_event(h, "worker 0 (127.0.0.1) has left");
    for (int i = 0; i < SEATS; i++)
        all[i] = enter(h, 0);
    assert_int_equal(all[SEATS - 1].t->seat, 0);
    assert_int_equal(pthread_create(&thread, NULL, leave_soon, &all[SEATS - 1]), 0);
    if (step(&r) != TG_OK)
        fail_msg("%s", tg_error());
    pthread_join(thread, NULL);
    pthread_mutex_lock(&h->lock);
    h->events[0] = '\0';
    pthread_mutex_unlock(&h->lock);
    lose(&r.who, 0);
    await_event(h, "worker 0 (127.0.0.1) has left");
    start(&other, h, 0);
    const int64_t from = tg_now_ns(tg_clock_monotonic());
    assert_int_equal(step(&r), TG_E_PEER);
    if (strstr(tg_error(), "called again") == NULL ||
        strstr(tg_error(), "seat 0 is taken by another worker") == NULL)
        fail_msg("%s", tg_error());
    assert_true(tg_now_ns(tg_clock_monotonic()) - from < INT64_C(20000000000)); /* of 30 s */
    end(&r);
    end(&other);
    for (int i = 0; i < SEATS - 1; i++)
        tg_transport_destroy(all[i].t);
    house_close(h);
    free(h);
}

/* Server 0 has seat 0 vacant, server 1 has not: a new worker gets another one. */
static void test_taken_elsewhere(void **state)
{
    house *h = calloc(1, sizeof *h);
    guest all[SEATS];
    (void)state;
    assert_non_null(h);
    *h = (house){.shards = 2, .mode = "async", .optimizer = "sgd:lr=1,momentum=0"};
    house_open(h);
    for (int i = 0; i < SEATS; i++)
        all[i] = enter(h, 0);
    lose(&all[0], 0);
    await_event(h, "worker 0 (127.0.0.1) has left");
    for (int i = 1; i < SEATS; i++) /* seat 0 has been vacant for longest */
        for (int q = 0; q < 2; q++)
            lose(&all[i], q);
    for (int i = 1; i < SEATS; i++) {
        char text[60];
        snprintf(text, sizeof text, "worker %d (127.0.0.1) has left", i);
        await_event(h, text);
    }
    const guest late = enter(h, 0);
    assert_in_range(late.t->seat, 1, SEATS - 1);
    tg_transport_destroy(late.t);
    for (int i = 0; i < SEATS; i++)
        tg_transport_destroy(all[i].t);
    house_close(h);
    free(h);
}

static int option_of(const guest *g, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(g->net->stream[1]->fd, IPPROTO_TCP, name, &value, &len), 0);
    return value;
}

/* A worker that can call again notices that the server's machine has vanished, before its session's
 * wait is over (60 s). On every connection, something is sent each minute. */
static void test_watched(void **state)
{
    house *h = calloc(1, sizeof *h);
    (void)state;
    assert_non_null(h);
    *h = (house){.shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0"};
    house_open(h);
    const guest again = enter(h, 600), once = enter(h, 0);
    assert_in_range(option_of(&again, TCP_USER_TIMEOUT), 1, 30000);
    assert_int_equal(option_of(&once, TCP_USER_TIMEOUT), 0);
    assert_in_range(option_of(&again, TCP_KEEPIDLE), 1, 10);
    assert_int_equal(option_of(&once, TCP_KEEPIDLE), 60);
    assert_int_equal(option_of(&once, TCP_KEEPINTVL), 60);
    tg_transport_destroy(again.t);
    tg_transport_destroy(once.t);
    house_close(h);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watched), cmocka_unit_test(test_expected),
        cmocka_unit_test(test_given_away), cmocka_unit_test(test_taken_elsewhere)};
    tg__local_off = true; /* else memory goes on when a connection is shut */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
