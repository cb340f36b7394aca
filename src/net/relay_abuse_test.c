/* Members that abuse the relay: what they open is bounded, and joining ends when it is to end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include <dirent.h>
#include <stdatomic.h>

static atomic_bool stopped;

static bool stops(void *arg)
{
    (void)arg;
    return atomic_load(&stopped);
}

/* Descriptors of this process. */
static int descriptors(void)
{
    int count = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

/* One end of a relayed pair. */
static void ask(hand *h, const char *address, const uint8_t nonce[TG__NONCE_BYTES], int from,
                int to)
{
    uint8_t body[TG__PAIR_BYTES];
    tg__pack p = {.at = body, .end = body + sizeof body};
    tg__pack_bytes(&p, nonce, TG__NONCE_BYTES);
    tg__pack_number(&p, 4, (uint64_t)from);
    tg__pack_number(&p, 4, (uint64_t)to);
    hand_call(h, address, NULL);
    assert_int_equal(tg__caller_say(&h->c, TG__SAID_RELAY, body, sizeof body), TG_OK);
    (void)tg__caller_step(&h->c);
}

/* Ranks 1 and 2 have themselves connected again and again, and close nothing. The meeting point
 * keeps one connection of the two; stopped, it does not wait for it. */
static void a_pair_is_relayed_once(void **state)
{
    (void)state;
    enum { MANY = 60 };
    static hand one[MANY], two[MANY];
    hand h[3];
    net_job job;
    uint8_t nonce[TG__NONCE_BYTES] = {0};
    char address[TG__ADDRESS_MAX];
    net_job_begin(&job, 3, true);
    job.rank[0].config.stop = stops;
    net_rank_start(&job.rank[0], net_rank_stays);
    hand_call(&h[1], job.address[0], NULL);
    hand_say_join(&h[1], 1, "", 9);
    hand_call(&h[2], job.address[0], NULL);
    assert_true(hand_join(&h[2], 2, "", 9));
    assert_true(hand_hear(&h[1], 5));
    hand_roster(&h[2], 1, nonce, address);
    const int before = descriptors();
    int bridged = 0;
    for (int i = 0; i < MANY; i++) {
        ask(&two[i], job.address[0], nonce, 2, 1);
        ask(&one[i], job.address[0], nonce, 1, 2);
        bridged += hand_hear(&two[i], 5) && hand_hear(&one[i], 5) &&
                   tg__caller_kind(&one[i].c) == TG__SAID_BRIDGED;
    }
    const int more = descriptors() - before - 2 * MANY; /* those are this test's own */
    print_message("%d bridged, %d descriptors at the meeting point\n", bridged, more);
    assert_int_equal(bridged, MANY);
    assert_true(more < 20);
    const double begun = hand_seconds();
    atomic_store(&stopped, true);
    pthread_join(job.rank[0].thread, NULL);
    assert_int_equal(job.rank[0].status, TG_E_STOPPED);
    assert_true(hand_seconds() - begun < 3);
    for (int i = 0; i < MANY; i++) {
        hand_end(&one[i]);
        hand_end(&two[i]);
    }
    hand_end(&h[1]);
    hand_end(&h[2]);
    net_job_end(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_is_relayed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
