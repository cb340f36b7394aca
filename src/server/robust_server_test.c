/* Servers with a robust rule: the bits of exact limits over sessions, ranks whose gradients are not
 * finite, what is refused, and ranks that are missing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "drawn_member.h"
#include "served_ranks.h"
#include "base/mem.h"
#include "telegrad/random.h"
#include "telegrad/reducer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 7, MANY = 12, STEPS = 6 };

typedef struct job {
    const char *method, *mode;
    int ranks, servers;
    int spoilt; /* ranks whose `rest` has NaN in step 2 */
    bool later; /* ... or rather the matrix, whose bucket comes last */
    int first;  /* of these ranks */
} job;

static bool keeps(const job *j)
{
    return strncmp(j->mode, "sum", 3) != 0;
}

static void spoil(member *m, int step)
{
    if (step == 2 && m->rank >= m->job->first && m->rank < m->job->first + m->job->spoilt)
        m->g[m->job->later ? 5 : MEMBER_ROWS * MEMBER_COLS + 5] = NAN;
}

static void be_member(tg_transport *t, void *arg)
{
    member *m = (member *)arg + t->rank;
    m->spoil = spoil;
    member_train(m, t, STEPS, m->job->method, keeps(m->job) ? "server" : "ssgd",
                 "sgd:lr=0.01,momentum=0.9");
}

static void start(const job *j, served_job *served, member **m_p)
{
    *served = (served_job){.ranks = j->ranks,
                           .servers = j->servers,
                           .mode = j->mode,
                           .optimizer = keeps(j) ? "sgd:lr=0.01,momentum=0.9" : NULL,
                           .be_rank = be_member};
    served->arg = *m_p = calloc(MANY, sizeof **m_p);
    assert_non_null(*m_p);
    for (int r = 0; r < j->ranks; r++)
        (*m_p)[r].job = j;
    served_run(served);
}

/* Returns the hash, which all ranks must agree on. */
static uint64_t run(const job *j, uint64_t skipped)
{
    served_job served;
    member *m;
    start(j, &served, &m);
    for (int r = 0; r < j->ranks; r++)
        if (m[r].status != TG_OK || m[r].hash != m[0].hash || m[r].skipped != skipped)
            fail_msg("%s, %s, rank %d: %s (skipped %llu)", j->method, j->mode, r,
                     m[r].status != TG_OK     ? m[r].error
                     : m[r].hash != m[0].hash ? "other bits"
                                              : "",
                     (unsigned long long)m[r].skipped);
    for (int s = 0; s < j->servers; s++)
        if (served.server[s].status != TG_OK)
            fail_msg("%s, %s, server %d: %s", j->method, j->mode, s, served.server[s].error);
    const uint64_t hash = m[0].hash;
    free(m);
    return hash;
}

/* ---- exact limits ---------------------------------------------------------------------------- */

static void limits_are_the_mean(void **state)
{
    static const struct {
        const char *method, *mode, *mean;
        int ranks;
    } all[] = {{"dense:exchange=star", "sum:combine=trimmed,f=0", "sum", 5},
               {"topk:density=0.1,exchange=star", "sum:combine=trimmed,f=0", "sum", 5},
               {"int8:exchange=star", "sync:combine=trimmed,f=0", "sync", 3},
               {"fp16:exchange=star", "sum:combine=mean", "sum", 3},
               {"dense:exchange=star", "sum:combine=median", "sum", 1},
               {"int8:exchange=star", "sync:combine=median", "sync", 1},
               {"signsgd:exchange=star", "sum:combine=krum,f=1", "sum", 5}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(all); i++)
        for (int servers = 1; servers <= 2; servers++) {
            const job mean = {all[i].method, all[i].mean, all[i].ranks, servers, 0, false, 0};
            const job rule = {all[i].method, all[i].mode, all[i].ranks, servers, 0, false, 0};
            if (run(&mean, 0) != run(&rule, 0))
                fail_msg("%s, %s: other bits than the mean", all[i].method, all[i].mode);
        }
}

/* Servers that keep the parameters combine as those that do not; and two servers as one, where
 * elements count by themselves. */
static void modes_are_alike(void **state)
{
    static const char *const method = "dense:exchange=star";
    static const char *const rules[] = {"median", "trimmed,f=2", "krum,f=1", "clipped"};
    (void)state;
    for (size_t k = 0; k < TG_COUNT(rules); k++) {
        char mode[3][64];
        snprintf(mode[0], sizeof mode[0], "sum:combine=%s", rules[k]);
        snprintf(mode[1], sizeof mode[1], "sync:combine=%s", rules[k]);
        snprintf(mode[2], sizeof mode[2], "async:staleness=0,combine=%s", rules[k]);
        const uint64_t expected = run(&(job){method, mode[0], MOST, 1, 0, false, 0}, 0);
        for (int m = 1; m < 3; m++)
            if (run(&(job){method, mode[m], MOST, 1, 0, false, 0}, 0) != expected)
                fail_msg("%s: other bits", mode[m]);
        if (k < 2 && run(&(job){method, mode[0], MOST, 2, 0, false, 0}, 0) != expected)
            fail_msg("%s: other bits with two servers", mode[0]);
    }
}

/* ---- ranks that are not finite --------------------------------------------------------------- */

/* The others go on, and so does the rank itself. With more than the rule bears, the step is
 * dropped; with strategy server, buckets alone. */
static void ranks_are_left_out(void **state)
{
    static const struct {
        const char *method, *mode;
        int most; /* ranks that the rule bears, of MOST */
    } all[] = {{"dense:exchange=star", "sum:combine=median", 3},
               {"int8:exchange=star", "sum:combine=trimmed,f=1", 1},
               {"topk:density=0.1,exchange=star", "sum:combine=krum,f=2", 2},
               {"dgc:density=0.1,warmup=1,exchange=star", "sum:combine=clipped", 3},
               {"powersgd:rank=2,exchange=star", "sum:combine=median", 3},
               {"dense:exchange=star", "sync:combine=krum,f=2", 2},
               {"fp16:exchange=star", "async:staleness=0,combine=median", 3}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(all); i++) {
        job j = {all[i].method, all[i].mode, MOST, 1, 0, i % 2 == 0, 0};
        const uint64_t all_in = run(&j, 0);
        j.spoilt = 1;
        const uint64_t one_out = run(&j, 0);
        j.spoilt = all[i].most;
        const uint64_t most_out = run(&j, 0);
        j.spoilt = all[i].most + 1;
        const uint64_t dropped = run(&j, 1);
        if (one_out == dropped || most_out == dropped || all_in == dropped)
            fail_msg("%s, %s: dropped or not, all is one", j.method, j.mode);
    }
}

/* Ranks of cltk first exchange their choices among themselves, so all learn of the flag, repeat it,
 * and are too many to be left out. */
static void a_round_among_ranks_drops_the_step(void **state)
{
    (void)state;
    for (int ranks = 7; ranks <= MANY; ranks += 5)
        (void)run(
            &(job){"cltk:density=0.1,exchange=star", "sum:combine=median", ranks, 1, 1, false, 3},
            1);
}

static void the_mean_drops_the_step(void **state)
{
    (void)state;
    (void)run(&(job){"dense:exchange=star", "sum", MOST, 1, 1, false, 0}, 1);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void codecs_are_refused(void **state)
{
    static const struct {
        const char *method, *mode, *part; /* NULL: served */
    } all[] = {
        {"topk:density=0.1,exchange=star", "sum:combine=median",
         "combine=median with frames of "
         "codec topk"},
        {"2bit:threshold=0.25,exchange=star", "sync:combine=trimmed,f=1", "frames of codec 2bit"},
        {"terngrad:exchange=star", "sum:combine=median", "frames of codec terngrad"},
        {"qsgd:exchange=star", "sum:combine=median", "frames of codec qsgd"},
        {"adacomp:exchange=star", "sum:combine=median", "frames of codec adacomp"},
        {"topk:density=0.1,exchange=star", "sum:combine=krum,f=0", NULL},
        {"2bit:threshold=0.25,exchange=star", "sum:combine=clipped", NULL},
        {"1bit:exchange=star", "sum:combine=median", NULL},
        {"randomk:density=0.1,exchange=star", "sum:combine=median", NULL}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(all); i++) {
        const job j = {all[i].method, all[i].mode, 3, 1, 0, false, 0};
        served_job served;
        member *m;
        if (all[i].part == NULL) {
            (void)run(&j, 0);
            continue;
        }
        start(&j, &served, &m);
        if (served.server[0].status != TG_E_UNSUPPORTED ||
            strstr(served.server[0].error, all[i].part) == NULL || m[0].status != TG_E_PEER)
            fail_msg("%s, %s: %s", all[i].method, all[i].mode, served.server[0].error);
        free(m);
    }
}

static void rules_are_checked(void **state)
{
    static const struct {
        const char *mode;
        int ranks;
        const char *part; /* NULL: allowed */
    } all[] = {{"sum:combine=nonsense", 5, "allowed: mean, median, trimmed, krum, clipped"},
               {"sum:combine=trimmed", 5, "combine=trimmed requires f"},
               {"sum:combine=krum", 5, "combine=krum requires f"},
               {"sum:combine=median,f=1", 5, "combine=median has no f"},
               {"sum:f=1", 5, "combine=mean has no f"},
               {"sum:combine=median,tau=1", 5, "combine=median has no tau"},
               {"sum:combine=clipped,tau=0", 5, "tau"},
               {"sum:combine=trimmed,f=2", 5, NULL},
               {"sum:combine=trimmed,f=3", 5, "combine=trimmed,f=3 with 5 ranks: allowed: f=0..2"},
               {"sum:combine=krum,f=1", 5, NULL},
               {"sum:combine=krum,f=2", 5, "combine=krum,f=2 with 5 ranks: allowed: f=0..1"},
               {"sum:combine=krum,f=0", 2, "combine=krum with 2 ranks: allowed: 3 or more"},
               {"sum:combine=clipped,tau=auto", 1, NULL},
               {"async:combine=median", 5, "each gradient is applied as it comes"},
               {"async:staleness=2,combine=median", 5, "use staleness=0, or sync"},
               {"async:staleness=0,combine=median", 5, NULL}};
    tg_transport *t[6];
    (void)state;
    for (size_t i = 0; i < TG_COUNT(all); i++) {
        const tg_server_config config = {.struct_size = sizeof config,
                                         .mode = all[i].mode,
                                         .optimizer = all[i].mode[0] == 'a' ? "sgd:lr=1" : NULL};
        tg_server *s;
        assert_int_equal(tg_transport_inproc(all[i].ranks + 1, t), TG_OK);
        const tg_status status = tg_server_create(t[all[i].ranks], 1, &config, &s);
        if (all[i].part == NULL ? status != TG_OK
                                : status != TG_E_SPEC || strstr(tg_error(), all[i].part) == NULL)
            fail_msg("%s: %s: %s", all[i].mode, tg_status_name(status), tg_error());
        if (status == TG_OK)
            tg_server_destroy(s);
        for (int r = 0; r <= all[i].ranks; r++)
            tg_transport_destroy(t[r]);
    }
}

/* ---- ranks that are missing ------------------------------------------------------------------ */

typedef struct absence {
    bool silent; /* rank 1 stays without a word, otherwise it leaves */
    _Atomic int over;
} absence;

static void be_absent(tg_transport *t, void *arg)
{
    absence *a = arg;
    const tg_reducer_config config = {
        .struct_size = sizeof config, .timeout_ms = 20000, .steps_per_epoch = 10};
    float g[100] = {0};
    tg_reducer *r;
    assert_int_equal(tg_reducer_create("dense:exchange=star", t, 100, &config, &r), TG_OK);
    assert_int_equal(tg_reducer_mean(r, g, g), TG_OK);
    if (t->rank != 1) {
        assert_int_equal(tg_reducer_mean(r, g, g), TG_E_PEER);
        assert_non_null(strstr(tg_error(), "because of rank 1"));
        a->over++;
    }
    while (a->silent && a->over < 2)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    tg_reducer_destroy(r);
}

/* All others may be there already. */
static void who_is_missing_is_named(void **state)
{
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        absence a = {.silent = silent};
        served_job served = {.ranks = 3,
                             .servers = 1,
                             .mode = "sum:combine=median",
                             .timeout_ms = silent ? 300 : 20000,
                             .be_rank = be_absent,
                             .arg = &a};
        served_run(&served);
        assert_int_equal(served.server[0].status, TG_E_PEER);
        assert_non_null(strstr(served.server[0].error,
                               silent ? "rank 1 sent nothing for " : "rank 1 has left, but other"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_the_mean),
        cmocka_unit_test(modes_are_alike),
        cmocka_unit_test(ranks_are_left_out),
        cmocka_unit_test(a_round_among_ranks_drops_the_step),
        cmocka_unit_test(the_mean_drops_the_step),
        cmocka_unit_test(codecs_are_refused),
        cmocka_unit_test(rules_are_checked),
        cmocka_unit_test(who_is_missing_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
