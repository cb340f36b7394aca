/* What the meeting point and those who wait there are told: a list of keys that changes, calls that
 * failed, ranks that do not come, and ranks that leave again. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include "net/refusals.h"
#include "telegrad/tools.h"
#include "transport_suite.h"
#include "transport_tools.h"
#include <stdatomic.h>

/* What rank 0's user sees and does. */
typedef struct watcher {
    pthread_mutex_t mutex;
    char told[64][800];
    int tells;
    char waits[600];
    _Atomic(tg_keys *) list;
    atomic_bool stops;
} watcher;

static void on_refused(void *arg, const char *text)
{
    watcher *w = arg;
    (void)tg_fail(TG_E_ARG, "the user's own calls leave texts, too");
    pthread_mutex_lock(&w->mutex);
    if (w->tells < 64)
        snprintf(w->told[w->tells], sizeof w->told[0], "%s", text);
    w->tells++;
    pthread_mutex_unlock(&w->mutex);
}

static void on_wait(void *arg, const char *text)
{
    watcher *w = arg;
    pthread_mutex_lock(&w->mutex);
    snprintf(w->waits, sizeof w->waits, "%s", text);
    pthread_mutex_unlock(&w->mutex);
}

static const tg_keys *allow_now(void *arg)
{
    return atomic_load(&((watcher *)arg)->list);
}

static bool stops(void *arg)
{
    return atomic_load(&((watcher *)arg)->stops);
}

static void watch(watcher *w, tg_net_config *c)
{
    *w = (watcher){.tells = 0};
    pthread_mutex_init(&w->mutex, NULL);
    c->on_refused = on_refused;
    c->on_wait = on_wait;
    c->allow_now = allow_now;
    c->stop = stops;
    c->on_refused_arg = c->on_wait_arg = c->allow_now_arg = c->stop_arg = w;
}

/* Wait until a text with both was told. NULL is in every text. */
static void assert_told(watcher *w, const char *one, const char *other)
{
    for (int tries = 0; tries < 1000; tries++) {
        pthread_mutex_lock(&w->mutex);
        bool found = false;
        for (int i = 0; i < w->tells && i < 64; i++)
            found |= (!one || strstr(w->told[i], one)) && (!other || strstr(w->told[i], other));
        pthread_mutex_unlock(&w->mutex);
        if (found)
            return;
        usleep(10000);
    }
    for (int i = 0; i < w->tells && i < 64; i++)
        print_error("told: %s\n", w->told[i]);
    fail_msg("nobody was told of \"%s\" and \"%s\"", one ? one : "", other ? other : "");
}

static void assert_waits_for(watcher *w, const char *part)
{
    for (int tries = 0; tries < 1000; tries++) {
        pthread_mutex_lock(&w->mutex);
        const bool found = strstr(w->waits, part) != NULL;
        pthread_mutex_unlock(&w->mutex);
        if (found)
            return;
        usleep(10000);
    }
    fail_msg("waits for \"%s\", not for \"%s\"", w->waits, part);
}

static void mark_of(const tg_key_pair *key, char mark[TG_KEY_TEXT])
{
    char text[TG_KEY_TEXT];
    tg_key_text(key, text);
    assert_int_equal(tg_key_fingerprint(text, mark), TG_OK);
}

static tg_keys *list_of(const net_job *job, int first, int last)
{
    char lines[NET_RANKS_MAX * (TG_KEY_TEXT + 16)] = "", text[TG_KEY_TEXT];
    tg_keys *keys;
    for (int r = first; r <= last; r++) {
        tg_key_text(job->key[r], text);
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s the\trank-%d\n", text, r);
    }
    assert_int_equal(tg_keys_parse(lines, &keys), TG_OK);
    return keys;
}

/* ---- a list that changes --------------------------------------------------------------------- */

/* A key that is put on the list counts at once, and one that is taken off does not any more, also
 * if its owner has joined. */
static void a_list_that_changes(void **state)
{
    (void)state;
    net_job job;
    static watcher w;
    char mark[TG_KEY_TEXT];
    net_job_begin(&job, 3, false);
    tg_keys *first = list_of(&job, 1, 1), *second = list_of(&job, 2, 2), *all = list_of(&job, 1, 2);
    watch(&w, &job.rank[0].config);
    job.rank[0].config.allow = first;
    net_rank_start(&job.rank[0], net_rank_visits);
    net_rank_start(&job.rank[2], net_rank_visits); /* it is not on the list */
    pthread_join(job.rank[2].thread, NULL);
    net_expect(&job.rank[2], TG_E_PEER, "does not accept this rank's key");
    mark_of(job.key[2], mark);
    assert_told(&w, mark, "it is not on the list of allowed keys");
    net_rank_start(&job.rank[1], net_rank_visits);
    assert_waits_for(&w, "1 of 2 other ranks");
    atomic_store(&w.list, second);
    pthread_join(job.rank[1].thread, NULL);
    net_expect(&job.rank[1], TG_E_PEER,
               "this rank's key was removed from the list of allowed keys");
    mark_of(job.key[1], mark);
    assert_told(&w, mark, "it is not on the list of allowed keys");
    net_rank_start(&job.rank[2], net_rank_visits);
    assert_waits_for(&w, "1 of 2 other ranks");
    atomic_store(&w.list, all);
    net_rank_start(&job.rank[1], net_rank_visits);
    for (int r = 0; r < 3; r++)
        pthread_join(job.rank[r].thread, NULL);
    net_job_check(&job);
    tg_keys_destroy(first);
    tg_keys_destroy(second);
    tg_keys_destroy(all);
    net_job_end(&job);
}

/* ---- calls that failed ----------------------------------------------------------------------- */

static void say_raw(const char *address, const void *bytes, size_t len)
{
    const int fd = net_connect(address);
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
    assert_true(hand_is_closed(fd, 5));
    close(fd);
}

static void calls_that_failed_are_told(void **state)
{
    (void)state;
    net_job job;
    hand h;
    static watcher w;
    tg_key_pair *stranger;
    char mark[TG_KEY_TEXT], one[TG_KEY_TEXT];
    assert_int_equal(tg_key_create(&stranger), TG_OK);
    mark_of(stranger, mark);
    net_job_begin(&job, 4, false);
    mark_of(job.key[1], one);
    watch(&w, &job.rank[0].config);
    net_rank_start(&job.rank[0], net_rank_visits);
    say_raw(job.address[0], "GET / HTTP/1.0\r\n\r\n", 18);
    assert_told(&w, "a call from 127.0.0.1 failed: it does not speak", NULL);
    say_raw(job.address[0], "tgnet\1\1\0\0\0\0\0", 12);
    assert_told(&w, "a call from 127.0.0.1 failed", "a rank without keys");
    hand_call(&h, job.address[0], stranger);
    assert_false(hand_join(&h, 1, "", 9));
    assert_told(&w, mark, "it is not on the list of allowed keys");
    hand_end(&h);
    hand_call(&h, job.address[0], job.key[1]);
    assert_true(hand_join(&h, 1, "another", 9));
    assert_told(&w, one, "job \"another\": this meeting point is for job \"\"");
    hand_end(&h);
    net_rank_start(&job.rank[1], net_rank_visits);
    assert_waits_for(&w, "2 of 3 other ranks (not here: rank-2, rank-3)");
    hand_call(&h, job.address[0], job.key[1]);
    assert_true(hand_join(&h, 1, "", 9));
    assert_told(&w, one, "rank 1 is taken");
    hand_end(&h);
    for (int r = 2; r < 4; r++)
        net_rank_start(&job.rank[r], net_rank_visits);
    for (int r = 0; r < 4; r++)
        pthread_join(job.rank[r].thread, NULL);
    net_job_check(&job);
    net_job_end(&job);

    net_job_begin(&job, 2, true);
    watch(&w, &job.rank[0].config);
    net_rank_start(&job.rank[0], net_rank_visits);
    say_raw(job.address[0], "tgnet\7\2\0\0\0\0\0", 12);
    assert_told(&w, "a call from 127.0.0.1 failed", "version 7 of the protocol, and this rank 1");
    net_rank_start(&job.rank[1], net_rank_visits);
    for (int r = 0; r < 2; r++)
        pthread_join(job.rank[r].thread, NULL);
    net_job_check(&job);
    net_job_end(&job);
    tg_key_destroy(stranger);
}

/* Of a flood only the first are told, and how many were not. */
static void floods_are_told_briefly(void **state)
{
    (void)state;
    static const int64_t second = 1000000000;
    static tg__refusals r;
    int told = 0;
    for (int i = 0; i < 100000; i++) { /* 100 s, from as many addresses */
        char host[32];
        snprintf(host, sizeof host, "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
        told += tg__refusals_add(&r, 5 * second + i * (second / 1000), host, NULL, "why") != NULL;
    }
    assert_in_range(told, TG__REFUSALS_AT_ONCE, TG__REFUSALS_AT_ONCE + 10);
    const char *last = tg__refusals_add(&r, 200 * second, "10.0.0.7", NULL, "why");
    assert_non_null(last);
    assert_non_null(strstr(last, "a call from 10.0.0.7 failed: why (after "));
    assert_null(tg__refusals_add(&r, 250 * second, "10.0.0.7", NULL, "why")); /* the same */
    last = tg__refusals_add(&r, 261 * second, "10.0.0.7", NULL, "why");
    assert_non_null(last);
    assert_non_null(strstr(last, "(after 1 more, which were not shown)"));
}

/* ---- ranks that do not come ------------------------------------------------------------------ */

/* One that has joined learns from rank 0 who has not, whichever of them gives up first. */
static void the_missing_one_is_named(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        net_job job;
        static watcher w;
        net_job_begin(&job, 3, false);
        watch(&w, &job.rank[1].config);
        job.rank[0].config.timeout_s = first == 0 ? 1.5 : 2.5;
        job.rank[1].config.timeout_s = first == 0 ? 20 : 1.5;
        tg_keys *list = list_of(&job, 1, 2);
        job.rank[0].config.allow = list;
        net_rank_start(&job.rank[0], net_rank_visits);
        net_rank_start(&job.rank[1], net_rank_visits);
        assert_waits_for(&w, "1 of 2 other ranks (not here: the?rank-2) to join");
        pthread_join(job.rank[1].thread, NULL);
        pthread_join(job.rank[0].thread, NULL);
        net_expect(&job.rank[1], TG_E_PEER, "the?rank-2 has not joined within 1.5 s");
        net_expect(&job.rank[0], TG_E_PEER,
                   first == 0
                       ? "the?rank-2 has not joined within 1.5 s"
                       : "2 of 2 other ranks (not here: the?rank-1, the?rank-2) have not joined");
        tg_keys_destroy(list);
        if (first == 1)
            assert_non_null(strstr(job.rank[0].error, "it has left again: joining timed out: "
                                                      "the?rank-2 has not joined within 1.5 s"));
        net_job_end(&job);
    }
}

/* Without a list of keys ranks are named, if they are known. */
static void the_missing_rank_is_named(void **state)
{
    (void)state;
    net_job job;
    net_job_begin(&job, 3, true);
    job.rank[0].config.timeout_s = 1.5;
    net_rank_start(&job.rank[0], net_rank_visits);
    net_rank_start(&job.rank[1], net_rank_visits);
    for (int r = 0; r < 2; r++) {
        pthread_join(job.rank[r].thread, NULL);
        net_expect(&job.rank[r], TG_E_PEER, "rank 2 has not joined within 1.5 s");
    }
    net_job_end(&job);
}

/* ---- ranks that leave again ------------------------------------------------------------------ */

/* One that is interrupted while it waits says so, and may come again; one whose meeting point was
 * interrupted calls on. */
static void interrupted_ones_come_again(void **state)
{
    (void)state;
    net_job job;
    static watcher w[2];
    net_job_begin(&job, 3, false);
    for (int r = 0; r < 2; r++)
        watch(&w[r], &job.rank[r].config);
    net_rank_start(&job.rank[0], net_rank_visits);
    net_rank_start(&job.rank[1], net_rank_visits);
    assert_waits_for(&w[0], "1 of 2 other ranks");
    atomic_store(&w[1].stops, true);
    pthread_join(job.rank[1].thread, NULL);
    net_expect(&job.rank[1], TG_E_STOPPED, "joining was stopped while waiting for 1 of 2 other");
    assert_told(&w[0], "it has left again: it was interrupted", NULL);
    atomic_store(&w[1].stops, false);
    net_rank_start(&job.rank[1], net_rank_visits);
    assert_waits_for(&w[0], "1 of 2 other ranks");
    atomic_store(&w[0].stops, true);
    pthread_join(job.rank[0].thread, NULL);
    net_expect(&job.rank[0], TG_E_STOPPED, "joining was stopped");
    assert_waits_for(&w[1], "the meeting point");
    atomic_store(&w[0].stops, false);
    net_rank_start(&job.rank[0], net_rank_visits);
    net_rank_start(&job.rank[2], net_rank_visits);
    for (int r = 0; r < 3; r++)
        pthread_join(job.rank[r].thread, NULL);
    net_job_check(&job);
    net_job_end(&job);
}

/* While ranks connect with each other, one gives up: all learn why. */
static void the_reason_is_passed_on(void **state)
{
    (void)state;
    net_job job;
    hand two;
    static watcher w;
    net_job_begin(&job, 3, false);
    watch(&w, &job.rank[1].config);
    net_rank_start(&job.rank[0], net_rank_visits);
    net_rank_start(&job.rank[1], net_rank_visits);
    hand_call(&two, job.address[0], job.key[2]); /* it joins, and then connects with nobody */
    assert_true(hand_join(&two, 2, "", 9) && tg__caller_kind(&two.c) == TG__SAID_ROSTER);
    assert_waits_for(&w, "rank 2");
    atomic_store(&w.stops, true);
    pthread_join(job.rank[1].thread, NULL);
    pthread_join(job.rank[0].thread, NULL);
    net_expect(&job.rank[1], TG_E_STOPPED, "joining was stopped");
    net_expect(&job.rank[0], TG_E_PEER,
               "rank 1 has left while ranks connected to each other: it was interrupted");
    do
        tg__caller_next(&two.c);
    while (hand_hear(&two, 5) && tg__caller_kind(&two.c) != TG__SAID_LEAVES);
    tg_status status;
    char text[TG__TEXT_MAX];
    assert_true(tg__net_read_leaves(&two.c, &status, text));
    assert_non_null(strstr(text, "rank 1 has left while ranks connected to each other: it was"));
    hand_end(&two);
    net_job_end(&job);
}

/* Rank 2 says something else than that it is connected: the job ends at once. */
static void other_words_than_linked(void **state)
{
    (void)state;
    net_job job;
    hand two;
    net_job_begin(&job, 3, false);
    net_rank_start(&job.rank[0], net_rank_visits);
    net_rank_start(&job.rank[1], net_rank_visits);
    const double begun = hand_seconds();
    hand_call(&two, job.address[0], job.key[2]);
    assert_true(hand_join(&two, 2, "", 9) && tg__caller_kind(&two.c) == TG__SAID_ROSTER);
    assert_true(hand_ask(&two, TG__SAID_WELCOME, "", 0));
    assert_int_equal(tg__caller_kind(&two.c), TG__SAID_LEAVES);
    for (int r = 0; r < 2; r++) {
        pthread_join(job.rank[r].thread, NULL);
        net_expect(&job.rank[r], TG_E_PEER, "rank 2 sent a malformed message while ranks conn");
    }
    assert_true(hand_seconds() - begun < 15); /* joining may take 20 s here */
    hand_end(&two);
    net_job_end(&job);
}

/* ---- ranks that leave before they begin ------------------------------------------------------ */

/* Whoever leaves before it has a transport, or shuts it, says why, and the others are told. */
static void *receive_one(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    tg_request req;
    char byte;
    r->status = suite_recv(&s, 2, 5, &byte, 1, &req);
    if (r->status == TG_OK)
        r->status = suite_wait(&s, &req, NULL);
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_transport_destroy(r->t);
    return NULL;
}

static void *leave_early(void *arg)
{
    net_rank *r = arg;
    r->status = tg_net_join(&r->config, &r->net);
    if (r->status == TG_OK)
        tg_net_leave(r->net, "a.idx: No such\nfile");
    return NULL;
}

static void *shut_early(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    (void)tg_fail(TG_E_NOMEM, "out of memory: 5 weights");
    (void)r->t->ops->shut(r->t);
    tg_transport_destroy(r->t);
    return NULL;
}

static void early_leavers_say_why(void **state)
{
    (void)state;
    static const struct {
        void *(*leaves)(void *rank);
        const char *why;
    } ways[] = {{leave_early, "rank 2 has left: a.idx: No such?file"},
                {shut_early, "rank 2 has left: out of memory: 5 weights"}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        net_job job;
        net_job_begin(&job, 3, i == 0);
        for (int r = 0; r < 3; r++)
            assert_int_equal(pthread_create(&job.rank[r].thread, NULL,
                                            r == 2 ? ways[i].leaves : receive_one, &job.rank[r]),
                             0);
        for (int r = 0; r < 3; r++)
            pthread_join(job.rank[r].thread, NULL);
        for (int r = 0; r < 2; r++)
            net_expect(&job.rank[r], TG_E_PEER, ways[i].why);
        net_job_end(&job);
    }
}

/* ---- another key than expected --------------------------------------------------------------- */

static void both_fingerprints_are_shown(void **state)
{
    (void)state;
    net_job job;
    char wrong[TG_KEY_TEXT], found[TG_KEY_TEXT], expected[TG_KEY_TEXT], text[200];
    net_job_begin(&job, 2, false);
    tg_key_text(job.key[1], wrong);
    mark_of(job.key[0], found);
    mark_of(job.key[1], expected);
    job.rank[0].config.timeout_s = 1;
    job.rank[1].config.peer_key = wrong;
    net_rank_start(&job.rank[0], net_rank_visits);
    net_rank_start(&job.rank[1], net_rank_visits);
    pthread_join(job.rank[1].thread, NULL);
    pthread_join(job.rank[0].thread, NULL);
    snprintf(text, sizeof text, "its key is %s, but the expected one (peer_key) is %s", found,
             expected);
    net_expect(&job.rank[1], TG_E_PEER, text);
    net_expect(&job.rank[0], TG_E_PEER, "it does not accept this rank's key");
    net_job_end(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_that_changes),       cmocka_unit_test(calls_that_failed_are_told),
        cmocka_unit_test(floods_are_told_briefly),   cmocka_unit_test(the_missing_one_is_named),
        cmocka_unit_test(the_missing_rank_is_named), cmocka_unit_test(interrupted_ones_come_again),
        cmocka_unit_test(the_reason_is_passed_on),   cmocka_unit_test(other_words_than_linked),
        cmocka_unit_test(early_leavers_say_why),     cmocka_unit_test(both_fingerprints_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
