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

/* Offer parameters, which the journal has then, and vanish. */
static void offer_and_vanish(const house *h)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer = h->optimizer};
    static float w[TOKENS], g[TOKENS];
    guest who = enter(h, 30);
    tg_session *s;
    uint32_t id;
    assert_int_equal(who.t->seat, 0);
    assert_int_equal(tg_session_create(&config, who.t, &s), TG_OK);
    assert_int_equal(one_tensor_begin(s, w, g, TOKENS, &id), TG_OK);
    lose(&who, 0);
    tg_session_destroy(s);
    tg_transport_destroy(who.t);
}

/* The server was started again, and the worker of seat 0 may be back. */
static void test_expected(void **state)
{
    char folder[] = "/tmp/tg-house-XXXXXX", command[60];
    house *h = calloc(1, sizeof *h);
    (void)state;
    assert_true(h && mkdtemp(folder));
    *h = (house){
        .shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0", .journal = folder};
    house_open(h);
    offer_and_vanish(h);
    await_event(h, "has left");
    house_again(h);
    guest all[SEATS];
    for (int i = 0; i < SEATS; i++) {
        all[i] = enter(h, 0);
        assert_int_equal(all[i].t->seat, (i + 1) % SEATS); /* the last one gets seat 0 */
    }
    for (int i = 0; i < SEATS; i++)
        tg_transport_destroy(all[i].t);
    house_close(h);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
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

static int lost_after_ms(const guest *g)
{
    int ms = -1;
    socklen_t len = sizeof ms;
    assert_int_equal(getsockopt(g->net->stream[1]->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &len),
                     0);
    return ms;
}

/* A worker that can call again notices that the server's machine has vanished, before its session's
 * wait is over (60 s). */
static void test_watched(void **state)
{
    house *h = calloc(1, sizeof *h);
    (void)state;
    assert_non_null(h);
    *h = (house){.shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0"};
    house_open(h);
    const guest again = enter(h, 600), once = enter(h, 0);
    assert_in_range(lost_after_ms(&again), 1, 30000);
    assert_int_equal(lost_after_ms(&once), 0);
    tg_transport_destroy(again.t);
    tg_transport_destroy(once.t);
    house_close(h);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_watched),
                                       cmocka_unit_test(test_expected),
                                       cmocka_unit_test(test_taken_elsewhere)};
    tg__local_off = true; /* else memory goes on when a connection is shut */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
