/* Host names: those that take long to look up, have several addresses, or change. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include <dlfcn.h>
#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>

static atomic_int asked, slow, slow_most; /* slow: lookups under way, and the most at a time */
static atomic_int wrong_masks;            /* threads that look up block what they must not */

/* The program's own resolver. "slow.test" takes 4 s; "several.test" is 127.0.0.9, where nobody
 * listens, and 127.0.0.1; "changes.test" is 127.0.0.9 at first. Others are the system's. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found_p)
{
    int (*own)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&own = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!host || !strstr(host, ".test") || (hints->ai_flags & AI_NUMERICHOST))
        return own(host, port, hints, found_p);
    const int times = atomic_fetch_add(&asked, 1);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (sigismember(&blocked, SIGTERM) != 1 || sigismember(&blocked, SIGSEGV) != 0)
        atomic_fetch_add(&wrong_masks, 1);
    if (strcmp(host, "slow.test") == 0) {
        const int now = atomic_fetch_add(&slow, 1) + 1;
        if (now > atomic_load(&slow_most))
            atomic_store(&slow_most, now);
        usleep(4000000);
        atomic_fetch_sub(&slow, 1);
    }
    if (strcmp(host, "changes.test") == 0)
        return own(times < 4 ? "127.0.0.9" : "127.0.0.1", port, hints, found_p);
    if (strcmp(host, "several.test") != 0)
        return own("127.0.0.1", port, hints, found_p);
    const int error = own("127.0.0.9", port, hints, found_p);
    return error ? error : own("127.0.0.1", port, hints, &(*found_p)->ai_next);
}

static int port_of(const net_job *job)
{
    return atoi(strrchr(job->address[0], ':') + 1);
}

/* All ranks but the first call this host. */
static void join_at(const char *host, int size)
{
    net_job job;
    char address[64];
    atomic_store(&asked, 0);
    net_job_begin(&job, size, false);
    snprintf(address, sizeof address, "tcp://%s:%d", host, port_of(&job));
    for (int r = 1; r < size; r++)
        job.rank[r].config.join = address;
    net_job_run(&job, net_rank_visits);
    net_job_check(&job);
    net_job_end(&job);
}

static void all_addresses_are_tried(void **state)
{
    (void)state;
    join_at("several.test", 3);
}

static void names_are_looked_up_again(void **state)
{
    (void)state;
    join_at("changes.test", 2);
    assert_true(atomic_load(&asked) > 4);
    assert_int_equal(atomic_load(&wrong_masks), 0);
}

/* Ranks that advertise a name: the others look it up, and try each of its addresses. */
static void members_may_have_names(void **state)
{
    (void)state;
    net_job job;
    char port[FREE_PORTS_MAX][32], listens[2][48], address[2][64];
    net_job_begin(&job, 4, false);
    find_ports(2, port);
    for (int i = 0; i < 2; i++) {
        const char *number = strrchr(port[i], ':');
        snprintf(listens[i], sizeof listens[i], "tcp://127.0.0.1%s", number);
        snprintf(address[i], sizeof address[i], "tcp://several.test%s", number);
        job.rank[i + 1].config.listen = listens[i];
        job.rank[i + 1].config.advertise = address[i];
    }
    net_job_run(&job, net_rank_visits);
    net_job_check(&job);
    net_job_end(&job);
}

/* A member whose name is slow to look up has rank 1 call it back again and again: each time it asks
 * for the relay, connects itself, and hangs up. Rank 1 has one lookup of it under way. */
static void a_member_is_looked_up_once_at_a_time(void **state)
{
    (void)state;
    net_job job;
    hand member;
    uint8_t body[TG__JOIN_MAX], nonce[TG__NONCE_BYTES] = {0};
    char address[TG__ADDRESS_MAX];
    tg__pack p = {.at = body, .end = body + sizeof body};
    net_job_begin(&job, 3, false);
    for (int r = 0; r < 2; r++)
        net_rank_start(&job.rank[r], net_rank_stays);
    hand_call(&member, job.address[0], job.key[2]);
    tg__pack_number(&p, 4, 2);
    tg__pack_number(&p, 4, 0);
    tg__pack_number(&p, 2, 9);
    tg__pack_number(&p, 8, 1);
    tg__pack_text(&p, "");
    tg__pack_text(&p, "tcp://slow.test:9");
    assert_true(hand_ask(&member, TG__SAID_JOIN, body, (size_t)(p.at - body)));
    hand_roster(&member, 1, nonce, address);
    atomic_store(&slow_most, 0);
    for (int i = 0; i < 10; i++) {
        hand relayed, direct;
        hand_call(&relayed, job.address[0], job.key[2]);
        p = (tg__pack){.at = body, .end = body + sizeof body};
        tg__pack_bytes(&p, nonce, sizeof nonce);
        tg__pack_number(&p, 4, 2);
        tg__pack_number(&p, 4, 1);
        assert_int_equal(tg__caller_say(&relayed.c, TG__SAID_RELAY, body, TG__PAIR_BYTES), TG_OK);
        (void)hand_hear(&relayed, 0.1); /* nothing comes, but rank 1 is invited */
        hand_call(&direct, address, job.key[2]);
        assert_true(hand_hello(&direct, nonce, 2, 1));
        hand_end(&direct);
        hand_end(&relayed);
    }
    assert_int_equal(atomic_load(&slow_most), 1);
    hand_end(&member);
    for (int r = 0; r < 2; r++)
        pthread_join(job.rank[r].thread, NULL);
    net_job_end(&job);
}

static double asks_until;

static bool stops(void *arg)
{
    (void)arg;
    return hand_seconds() > asks_until;
}

/* The deadline, and the wish to stop, count while a name is looked up; also that of an address to
 * listen at. */
static void slow_names_do_not_hold_up(void **state)
{
    (void)state;
    for (int stopped = 0; stopped < 2; stopped++)
        for (int listens = 0; listens < 2; listens++) {
            net_job job;
            tg_net *net = NULL;
            net_job_begin(&job, 2, false);
            tg_net_config *c = &job.rank[1 - listens].config;
            *(listens ? &c->listen : &c->join) = "tcp://slow.test:4242";
            c->timeout_s = stopped ? 60 : 0.5;
            c->stop = stopped ? stops : NULL;
            const double before = hand_seconds();
            asks_until = before + 0.5;
            assert_int_equal(tg_net_join(c, &net), stopped ? TG_E_STOPPED : TG_E_PEER);
            assert_true(hand_seconds() - before < 2);
            assert_non_null(strstr(tg_error(), "to be looked up"));
            net_job_end(&job);
        }
    usleep(4500000); /* until the last one is answered: nobody waits for it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_addresses_are_tried),
        cmocka_unit_test(names_are_looked_up_again),
        cmocka_unit_test(members_may_have_names),
        cmocka_unit_test(a_member_is_looked_up_once_at_a_time),
        cmocka_unit_test(slow_names_do_not_hold_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
