/* Lists of keys: what is taken off while the job runs, and keys without a name. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include "telegrad/telegrad.h"
#include "telegrad/tools.h"
#include "transport_suite.h"
#include "transport_tools.h"
#include <poll.h>
#include <stdatomic.h>

static double now_s(void)
{
    return (double)tg_now_ns(tg_clock_monotonic()) / 1e9;
}

static atomic_int ready;
static atomic_bool told; /* the list has been replaced */
static double ended[NET_RANKS_MAX];
static int blamed[NET_RANKS_MAX];
static net_job job;

/* Each rank waits for another one, which sends nothing: 0 for 1, 1 for 0, 2 for 3, 3 for 2. */
static void *wait_for_each_other(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    const int rank = r->t->rank, other = rank ^ 1;
    char byte;
    tg_request req;
    r->ok = suite_barrier(&s, -1) && suite_recv(&s, other, 5, &byte, 1, &req) == TG_OK;
    atomic_fetch_add(&ready, 1);
    const tg_status status = r->ok ? suite_wait(&s, &req, NULL) : TG_OK;
    r->ok = status == TG_E_PEER;
    ended[rank] = now_s();
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    blamed[rank] = r->t->ops->blamed(r->t, other);
    /* What is posted afterwards fails, too. */
    tg_status late = suite_recv(&s, other, 6, &byte, 1, &req);
    if (late == TG_OK)
        late = suite_wait(&s, &req, NULL);
    r->ok = r->ok && late == TG_E_PEER;
    while (!atomic_load(&told))
        usleep(1000);
    tg_transport_destroy(r->t);
    return NULL;
}

/* At most a minute. */
static void wait_until_ready(void)
{
    for (int tries = 0; tries < 60000 && atomic_load(&ready) < job.size; tries++)
        usleep(1000);
    for (int r = 0; r < job.size && atomic_load(&ready) < job.size; r++)
        print_error("rank %d: %s\n", r, job.rank[r].error);
    assert_int_equal(atomic_load(&ready), job.size);
}

static tg_keys *list_without(int out)
{
    char list[NET_RANKS_MAX * (TG_KEY_TEXT + 1)] = "", text[TG_KEY_TEXT];
    tg_keys *keys;
    for (int r = 1; r < job.size; r++) {
        tg_key_text(job.key[r], text);
        if (r != out)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s\n", text);
    }
    assert_int_equal(tg_keys_parse(list, &keys), TG_OK);
    return keys;
}

/* Relayed or not: rank 2 is told, and all others are told of it. */
static void a_key_is_taken_off(void **state)
{
    (void)state;
    for (int relayed = 0; relayed < 2; relayed++) {
        net_job_begin(&job, 4, false);
        for (int r = 1; r < 4; r++)
            job.rank[r].config.advertise = relayed ? "tcp://127.0.0.1:1" : NULL;
        atomic_store(&ready, 0);
        atomic_store(&told, false);
        for (int r = 0; r < 4; r++)
            net_rank_start(&job.rank[r], wait_for_each_other);
        wait_until_ready();
        tg_keys *same = list_without(0), *fewer = list_without(2);
        assert_int_equal(tg_net_allow(job.rank[0].net, same), TG_OK);
        usleep(200000);
        const double before = now_s();
        assert_int_equal(tg_net_allow(job.rank[1].net, fewer), TG_E_STATE);
        assert_int_equal(tg_net_allow(job.rank[0].net, fewer), TG_OK);
        atomic_store(&told, true);
        for (int r = 0; r < 4; r++)
            pthread_join(job.rank[r].thread, NULL);
        net_job_check(&job);
        static const char *const says[] = {
            "rank 2 is disconnected: its key was removed from the list of allowed keys",
            "rank 0 has disconnected rank 2: its key was removed from the list of allowed keys",
            "rank 0 has disconnected this rank (2): its key was removed from the list",
            "rank 0 has disconnected rank 2: its key was removed from the list of allowed keys"};
        for (int r = 0; r < 4; r++) {
            if (!strstr(job.rank[r].error, says[r]))
                fail_msg("rank %d: %s", r, job.rank[r].error);
            print_message("rank %d after %.3f s: %s\n", r, ended[r] - before, job.rank[r].error);
            assert_true(ended[r] > before && ended[r] < before + 20);
        }
        assert_int_equal(blamed[1], 2);
        tg_keys_destroy(same);
        tg_keys_destroy(fewer);
        net_job_end(&job);
    }
}

/* ---- somebody else is faster ----------------------------------------------------------------- */

/* Between a rank and rank 0: what rank 0 sends is held up. */
typedef struct way {
    int listener, port;
    atomic_bool holds, ends;
    pthread_t thread;
} way;

static bool forward(int from, int to)
{
    uint8_t bytes[4096];
    const ssize_t n = recv(from, bytes, sizeof bytes, 0);
    return n > 0 && send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

static void *stand_between(void *arg)
{
    way *w = arg;
    struct pollfd p[2] = {{.fd = w->listener, .events = POLLIN}};
    (void)poll(p, 1, 20000);
    p[0].fd = accept(w->listener, NULL, NULL);
    p[1].fd = net_connect(job.address[0]);
    while (!atomic_load(&w->ends)) {
        p[1].events = atomic_load(&w->holds) ? 0 : POLLIN;
        (void)poll(p, 2, 5);
        if (((p[0].revents & POLLIN) && !forward(p[0].fd, p[1].fd)) ||
            ((p[1].revents & POLLIN) && !forward(p[1].fd, p[0].fd)))
            break;
    }
    close(p[0].fd);
    close(p[1].fd);
    return NULL;
}

/* Rank 0's word does not reach one of the ranks, which learns from another one why the job ends: of
 * ranks 2 and 3 each waits for the other. */
static void the_reason_comes_another_way(void **state)
{
    (void)state;
    for (int held = 2; held <= 3; held++) {
        way w = {.listener = -1};
        char address[48];
        net_job_begin(&job, 4, false);
        assert_true(hand_listen("127.0.0.1", &w.listener, &w.port));
        snprintf(address, sizeof address, "tcp://127.0.0.1:%d", w.port);
        job.rank[held].config.join = address;
        atomic_store(&ready, 0);
        atomic_store(&told, false);
        assert_int_equal(pthread_create(&w.thread, NULL, stand_between, &w), 0);
        for (int r = 0; r < 4; r++)
            net_rank_start(&job.rank[r], wait_for_each_other);
        wait_until_ready();
        atomic_store(&w.holds, true);
        usleep(20000);
        tg_keys *fewer = list_without(2);
        assert_int_equal(tg_net_allow(job.rank[0].net, fewer), TG_OK);
        atomic_store(&told, true);
        pthread_join(job.rank[held].thread, NULL);
        atomic_store(&w.ends, true);
        for (int r = 0; r < 4; r++)
            if (r != held)
                pthread_join(job.rank[r].thread, NULL);
        pthread_join(w.thread, NULL);
        net_job_check(&job);
        const char *says[] = {
            "rank 2 is disconnected: its key was removed from the list of allowed keys",
            "rank 0 has disconnected rank 2: its key was removed from the list of allowed keys",
            held == 2
                ? "rank 0 has disconnected this rank (2): its key was removed from the list of "
                  "allowed keys, says rank "
                : "rank 0 has disconnected this rank (2): its key was removed from the list",
            held == 3
                ? "rank 0 has disconnected rank 2: its key was removed from the list of allowed "
                  "keys, says rank 2"
                : "rank 0 has disconnected rank 2: its key was removed from the list"};
        for (int r = 0; r < 4; r++)
            if (!strstr(job.rank[r].error, says[r]))
                fail_msg("rank %d is held up: rank %d: %s", held, r, job.rank[r].error);
        tg_keys_destroy(fewer);
        close(w.listener);
        net_job_end(&job);
    }
}

/* ---- with a session over it ------------------------------------------------------------------ */

static void *train(void *arg)
{
    net_rank *r = arg;
    static const float zeros[4][64];
    if (!net_rank_join(r))
        return NULL;
    tg_reducer *reducer = NULL;
    float mean[64];
    tg_status status = tg_reducer_create("dense:exchange=ring", r->t, 64, NULL, &reducer);
    for (int step = 0; step < 100000 && status == TG_OK; step++) {
        status = tg_reducer_mean(reducer, zeros[r->t->rank], mean);
        if (step == 20)
            atomic_fetch_add(&ready, 1);
    }
    r->ok = status == TG_E_PEER;
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    while (!atomic_load(&told))
        usleep(1000);
    tg_reducer_destroy(reducer);
    tg_transport_destroy(r->t);
    return NULL;
}

/* In a ring rank 0 exchanges nothing with rank 2, and yet all learn why the job ends. */
static void all_name_the_rank(void **state)
{
    (void)state;
    net_job_begin(&job, 4, false);
    atomic_store(&ready, 0);
    atomic_store(&told, false);
    for (int r = 0; r < 4; r++)
        net_rank_start(&job.rank[r], train);
    wait_until_ready();
    tg_keys *fewer = list_without(2);
    assert_int_equal(tg_net_allow(job.rank[0].net, fewer), TG_OK);
    atomic_store(&told, true);
    for (int r = 0; r < 4; r++)
        pthread_join(job.rank[r].thread, NULL);
    for (int r = 0; r < 4; r++) {
        print_message("rank %d: %s\n", r, job.rank[r].error);
        if (!job.rank[r].ok || !strstr(job.rank[r].error, r == 2 ? "this rank (2)" : "rank 2"))
            fail_msg("rank %d: %s", r, job.rank[r].error);
    }
    tg_keys_destroy(fewer);
    net_job_end(&job);
}

/* A key without a name on the list is told by its fingerprint. */
static void a_key_without_a_name_is_told(void **state)
{
    (void)state;
    char text[TG_KEY_TEXT], mark[TG_KEY_TEXT], words[2 * TG_KEY_TEXT];
    tg_keys *list;
    net_job_begin(&job, 2, false);
    tg_key_text(job.key[1], text);
    assert_int_equal(tg_key_fingerprint(text, mark), TG_OK);
    assert_int_equal(tg_keys_parse(text, &list), TG_OK);
    job.rank[0].config.allow = list;
    job.rank[0].config.timeout_s = 0.2;
    net_rank_start(&job.rank[0], net_rank_visits);
    pthread_join(job.rank[0].thread, NULL);
    snprintf(words, sizeof words, "key %s has not joined within 0.2 s", mark);
    net_expect(&job.rank[0], TG_E_PEER, words);
    tg_keys_destroy(list);
    net_job_end(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_taken_off),
        cmocka_unit_test(the_reason_comes_another_way),
        cmocka_unit_test(all_name_the_rank),
        cmocka_unit_test(a_key_without_a_name_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
