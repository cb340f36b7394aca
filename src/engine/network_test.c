/* Measurements of the network: on emulated links they match the links' settings. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "hostile_transport.h"
#include "engine/handshake.h"
#include "engine/network.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { P = 8 };

typedef struct rank {
    tg_transport *t;
    const char *link; /* NULL: none */
    const int *nodes; /* NULL: one level */
    tg_driver driver;
    int64_t timeout_ns;
    tg__network net;
    tg_status status;
    char error[300];
} rank;

static rank ranks[P];

static tg_status measure(rank *r)
{
    tg_link link;
    tg__engine *e;
    tg__nodes *nodes;
    if (r->link != NULL) {
        TG_TRY(tg_link_parse(r->link, &link));
        TG_TRY(r->nodes == NULL ? tg_transport_shaped(r->t, &link, &r->t)
                                : tg_transport_shaped_nodes(r->t, &link, r->nodes, &r->t));
    }
    TG_TRY(tg__nodes_create("network", r->nodes, r->t->rank, r->t->size, &nodes));
    TG_TRY(tg__engine_create(r->t, r->driver, r->timeout_ns, NULL, &e));
    const tg_status status = tg__network_measure(e, nodes, &r->net);
    assert_true(tg__engine_destroy(e));
    tg__nodes_destroy(nodes);
    return status;
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    r->status = measure(r);
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_transport_destroy(r->t);
    return NULL;
}

static void run(int size, const char *link, const int *nodes, tg_driver driver, int64_t timeout_ms)
{
    tg_transport *t[P];
    pthread_t thread[P];
    memset(ranks, 0, sizeof ranks);
    assert_int_equal(tg_transport_inproc(size, t), TG_OK);
    for (int i = 0; i < size; i++) {
        ranks[i] = (rank){.t = t[i],
                          .link = link,
                          .nodes = nodes,
                          .driver = driver,
                          .timeout_ns = timeout_ms * INT64_C(1000000)};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < size; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < size; i++) {
        if (ranks[i].status != TG_OK)
            fail_msg("rank %d: %s", i, ranks[i].error);
        assert_memory_equal(&ranks[i].net, &ranks[0].net, sizeof ranks[0].net);
    }
}

/* As precisely as is possible on a machine that also does other work. */
static void as_the_link(void **state)
{
    static const struct {
        int size;
        const char *link;
        double delay, mbit;
        tg_driver driver;
    } cases[] = {{2, "2mbit,2ms", 0.002, 2, TG_DRIVER_INLINE},
                 {4, "2mbit,30ms", 0.03, 2, TG_DRIVER_AUTO}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(cases[i].size, cases[i].link, NULL, cases[i].driver, 20000);
        const double delay = ranks[0].net.delay, mbit = 8e-6 / ranks[0].net.byte;
        print_message("%s: %.2f ms, %.2f Mbit/s\n", cases[i].link, 1e3 * delay, mbit);
        assert_true(delay > 0.5 * cases[i].delay && delay < cases[i].delay + 1);
        assert_true(mbit > 0.1 * cases[i].mbit && mbit < 10 * cases[i].mbit);
    }
}

/* Ranks of a node do not matter, neither their number nor their fast links: the link is between the
 * nodes. Ranks that are not leaders wait longer than a timeout. */
static void between_nodes(void **state)
{
    static const int halves[] = {0, 0, 0, 0, 1, 1, 1, 1}, mixed[] = {2, 0, 2, 1, 0, 2},
                     one[] = {0, 0, 0};
    (void)state;
    run(8, "1mbit,2ms", halves, TG_DRIVER_INLINE, 20000);
    double mbit = 8e-6 / ranks[0].net.byte;
    print_message("two nodes: %.2f Mbit/s\n", mbit);
    assert_true(mbit > 0.75 && mbit < 1.25);
    run(6, "1mbit,60ms", mixed, TG_DRIVER_AUTO, 500);
    mbit = 8e-6 / ranks[0].net.byte;
    print_message("three nodes: %.2f Mbit/s, %.2f ms\n", mbit, 1e3 * ranks[0].net.delay);
    assert_true(mbit > 0.75 && mbit < 1.25 && ranks[0].net.delay > 0.055);
    run(3, NULL, one, TG_DRIVER_INLINE, 20000);
    assert_true(ranks[0].net.delay == 0 && ranks[0].net.byte == 0);
}

static void without_a_link(void **state)
{
    (void)state;
    run(3, NULL, NULL, TG_DRIVER_AUTO, 20000);
    assert_true(ranks[0].net.delay >= 0 && ranks[0].net.byte >= 0);
    run(1, NULL, NULL, TG_DRIVER_INLINE, 20000);
    assert_true(ranks[0].net.delay == 0 && ranks[0].net.byte == 0);
}

/* Rank 1 of 3 reports its seconds (8 bytes, after the 9 exchanges of a measurement with 2 messages
 * each) with a wrong length, as nonsense, or differently to each rank. */
typedef struct lie {
    size_t len;
    double seconds;
    bool to_one; /* the other rank receives the truth */
    const char *text;
} lie;

static void tell_a_lie(void *arg, uint64_t number, uint16_t *flags_p, uint8_t *payload,
                       size_t *len_p)
{
    const lie *l = arg;
    (void)flags_p;
    if (number < 18 || number > (l->to_one ? 18 : 19))
        return;
    assert_int_equal(*len_p, sizeof l->seconds);
    *len_p = l->len;
    memcpy(payload, &l->seconds, sizeof l->seconds);
}

static void no_nonsense(void **state)
{
    static const tg_driver drivers[] = {TG_DRIVER_THREAD, TG_DRIVER_INLINE};
    lie lies[] = {{7, 0.1, false, ""},
                  {0, 0.1, false, ""},
                  {9, 0.1, false, ""},
                  {8, -1, false, ""},
                  {8, (double)NAN, false, ""},
                  {8, (double)INFINITY, false, ""},
                  {8, 3600, true, "how long exchanges took"}};
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        for (size_t d = 0; d < 2; d++) {
            tg_transport *t[3];
            pthread_t thread[3];
            memset(ranks, 0, sizeof ranks);
            assert_int_equal(tg_transport_inproc(3, t), TG_OK);
            t[1] = hostile_transport(t[1], tell_a_lie, &lies[i]);
            for (int r = 0; r < 3; r++) {
                ranks[r] =
                    (rank){.t = t[r], .driver = drivers[d], .timeout_ns = INT64_C(20000000000)};
                assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &ranks[r]), 0);
            }
            for (int r = 0; r < 3; r++)
                pthread_join(thread[r], NULL);
            for (int r = 0; r < 3; r += 2)
                if (ranks[r].status == TG_OK || strstr(ranks[r].error, "rank 1") == NULL ||
                    strstr(ranks[r].error, lies[i].text) == NULL)
                    fail_msg("lie %zu, rank %d: %s", i, r, ranks[r].error);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_link), cmocka_unit_test(no_nonsense),
                                       cmocka_unit_test(between_nodes),
                                       cmocka_unit_test(without_a_link)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
