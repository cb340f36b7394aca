/* Servers that keep the parameters and code their answers: where they must have the bits of those
 * that do not, that all ranks have the same in each step, and that nothing is lost. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "drawn_member.h"
#include "served_ranks.h"
#include "telegrad/registry.h"
#include "tsan_skips.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4, BUSY = 7, REST = 250 };

typedef struct job {
    const char *method, *mode, *optimizer;
    int ranks, servers, steps; /* after BUSY steps, gradients are 0 */
    int nan_step;              /* of the second rank; -1: none */
    const int *nodes;
    int64_t deadline_ms;
    bool in_turn; /* each makes its step while the others wait */
    int parts;    /* gradients are multiples of 1 / parts; 0: 32 */
} job;

/* Where ranks make steps one by one: whose turn it is, and how often ranks have waited for all. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int turn, waited;
} order = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static uint64_t seen[MOST][BUSY]; /* hashes of what ranks have before their steps */

static uint64_t hash_of(const float *w)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < MEMBER_N; i++) {
        uint32_t bits;
        memcpy(&bits, &w[i], sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    }
    return hash;
}

static void await_turn(const member *m, bool was_mine)
{
    const int ranks = m->job->ranks;
    pthread_mutex_lock(&order.lock);
    order.turn = (order.turn + was_mine) % ranks;
    pthread_cond_broadcast(&order.changed);
    while (order.turn != m->rank)
        pthread_cond_wait(&order.changed, &order.lock);
    pthread_mutex_unlock(&order.lock);
}

/* All ranks have come here so often. */
static void await_all(const member *m, int times)
{
    pthread_mutex_lock(&order.lock);
    order.waited++;
    pthread_cond_broadcast(&order.changed);
    while (order.waited < times * m->job->ranks)
        pthread_cond_wait(&order.changed, &order.lock);
    pthread_mutex_unlock(&order.lock);
}

static bool is_apart(const job *j)
{
    return strncmp(j->mode, "async", 5) == 0 && strcmp(j->mode, "async:staleness=0") != 0;
}

/* Gradients of which sums and products with the rates of this test are exact. */
static void spoil(member *m, int step)
{
    if (is_apart(m->job) && (step == 0 || step == BUSY)) /* they have begun; are at rest */
        await_all(m, step == 0 ? 1 : 2);
    if (m->job->in_turn)
        await_turn(m, step > 0);
    const int parts = m->job->parts > 0 ? m->job->parts : 32;
    for (size_t i = 0; i < MEMBER_N; i++)
        m->g[i] = step < BUSY ? (float)(floor((double)m->g[i] * parts) / parts) : 0;
    if (m->rank == (m->job->ranks > 1) && step == m->job->nan_step)
        m->g[MEMBER_N - 7] = NAN; /* in the last bucket, so others may be answered before */
    if (step < BUSY)
        seen[m->rank][step] = hash_of(m->w);
}

static void be_member(tg_transport *t, void *arg)
{
    member *m = (member *)arg + t->rank;
    m->spoil = spoil;
    m->nodes = m->job->nodes;
    member_train(m, t, m->job->steps, m->job->method, "server", m->job->optimizer);
    pthread_mutex_lock(&order.lock);
    order.turn = (order.turn + m->job->in_turn) % m->job->ranks;
    pthread_cond_broadcast(&order.changed);
    pthread_mutex_unlock(&order.lock);
}

/* What only ranks that make steps together have: the same bits. */
static bool agree(const job *j, const member *m, const char *what)
{
    if (!j->in_turn && (j->steps == REST || !is_apart(j)))
        return members_agree(m, j->ranks, what);
    for (int r = 0; r < j->ranks; r++)
        if (m[r].status != TG_OK)
            fail_msg("%s, rank %d: %s", what, r, m[r].error);
    return true;
}

/* m (MOST). Returns whether the combination exists. */
static bool run(const job *j, member *m, served_job *served)
{
    char what[256];
    *served = (served_job){.ranks = j->ranks,
                           .servers = j->servers,
                           .mode = j->mode,
                           .optimizer = j->optimizer,
                           .nodes = j->nodes,
                           .deadline_ms = j->deadline_ms,
                           .be_rank = be_member,
                           .arg = m};
    memset(m, 0, MOST * sizeof *m);
    for (int r = 0; r < j->ranks; r++)
        m[r].job = j;
    order.turn = order.waited = 0;
    served_run(served);
    snprintf(what, sizeof what, "%s, %s, %d servers", j->method, j->mode, j->servers);
    const bool exists = agree(j, m, what);
    for (int s = 0; exists && s < j->servers; s++)
        if (served->server[s].status != TG_OK)
            fail_msg("%s, server %d: %s", what, s, served->server[s].error);
    for (int r = 0; exists && !is_apart(j) && r < j->ranks; r++)
        for (int step = 0; step < BUSY && step < j->steps; step++)
            if (seen[r][step] != seen[0][step])
                fail_msg("%s: rank %d has other bits in step %d", what, r, step);
    return exists;
}

/* What all have in the end. */
static uint64_t end_of(const job *j)
{
    member *m = calloc(MOST, sizeof *m);
    served_job served;
    assert_non_null(m);
    if (!run(j, m, &served))
        fail_msg("%s, %s: %s", j->method, j->mode, m[0].error);
    uint64_t hash = 0;
    for (int r = 0; r < j->ranks; r++)
        hash = hash * 31 + m[r].hash;
    free(m);
    return hash;
}

static const char exact[] = "sgd:lr=0.5,momentum=0.5";

/* What is coded without loss is the update. */
static void lossless_is_not_coded(void **state)
{
    static const int nodes[] = {0, 0, 1, 1};
    (void)state;
    for (int servers = 1; servers <= 3; servers += 2)
        for (int k = 0; k < 8; k++) {
            job j = {.method = "topk:density=1,values=f32,exchange=twoway",
                     .mode = k % 2 == 0 ? "sync" : "async:staleness=0",
                     .optimizer = exact,
                     .ranks = 4,
                     .servers = servers,
                     .steps = BUSY,
                     .nan_step = k / 2 % 2 == 0 ? -1 : 3,
                     .nodes = k == 4 || k == 6 ? nodes : NULL,
                     .deadline_ms = k == 5 || k == 7 ? 30000 : 0};
            const uint64_t hash = end_of(&j);
            j.method = "topk:density=1,values=f32,exchange=star";
            if (hash != end_of(&j))
                fail_msg("%d servers, case %d: other bits", servers, k);
        }
}

/* The same of ranks that make steps one by one, in turn: each gets the update of all, also after a
 * gradient that is not applied, and with the compensation of what others have changed meanwhile. */
static void lossless_in_turn(void **state)
{
    static const char *const modes[] = {"async", "async:staleness=1", "async:compensate=0.5",
                                        "async:staleness=2,compensate=0.5"};
    (void)state;
    for (int servers = 1; servers <= 3; servers += 2)
        for (int k = 0; k < 8; k++) {
            job j = {.method = "topk:density=1,values=f32,exchange=twoway",
                     .mode = modes[k / 2],
                     .optimizer = "sgd:lr=0.5,momentum=0",
                     .ranks = k < 4 ? 3 : 2, /* products take bits */
                     .servers = servers,
                     .steps = k < 4 ? BUSY : 2,
                     .nan_step = k % 2 == 0 ? -1 : 1,
                     .in_turn = true,
                     .parts = k < 4 ? 32 : 4};
            const uint64_t hash = end_of(&j);
            j.method = "topk:density=1,values=f32,exchange=star";
            if (hash != end_of(&j))
                fail_msg("%d servers, case %d: other bits", servers, k);
        }
}

/* A rank alone has all that the servers have sent: async is sync. */
static void alone_is_in_step(void **state)
{
    static const char *const methods[] = {"topk:density=0.05",
                                          "topk:density=0.05,values=fp16,warmup=3",
                                          "2bit:threshold=auto",
                                          "dgc:density=0.05,warmup=2",
                                          "int8",
                                          "strom:threshold=auto,target=0.05",
                                          "1bit",
                                          "qsgd",
                                          "fp16:feedback=residual"};
    static const char *const modes[] = {"async", "async:staleness=3"};
    (void)state;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (int servers = 1; servers <= 2; servers++)
            for (int nan = -1; nan <= 3; nan += 4) {
                char method[100];
                if (tsan_skips(i, 2 * (size_t)(servers - 1) + (nan > 0), 4))
                    continue;
                snprintf(method, sizeof method, "%s%cexchange=twoway", methods[i],
                         strchr(methods[i], ':') ? ',' : ':');
                job j = {.method = method,
                         .mode = "sync",
                         .optimizer = "sgd:lr=0.01,momentum=0.9",
                         .ranks = 1,
                         .servers = servers,
                         .steps = 2 * BUSY,
                         .nan_step = nan};
                const uint64_t hash = end_of(&j);
                j.mode = modes[servers - 1];
                if (hash != end_of(&j))
                    fail_msg("%s, %d servers: other bits", method, servers);
            }
}

/* Every method that has it, with several servers, nodes and rules. Rounds, in which a deadline
 * could end, have the bits of sums that wait for all. */
static void all_ranks_agree(void **state)
{
    static const int nodes[] = {5, 5, 1, 1};
    member *m = calloc(MOST, sizeof *m);
    size_t count;
    int done = 0;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_METHOD, &count);
    (void)state;
    assert_non_null(m);
    for (size_t i = 0; i < count; i++)
        for (int servers = 1; servers <= 2; servers++) {
            char method[80];
            served_job served;
            if (tsan_skips(i, (size_t)servers - 1, 2))
                continue;
            snprintf(method, sizeof method, "%s:exchange=twoway", list[i]->name);
            job j = {.method = method,
                     .mode = "sync",
                     .optimizer = "sgd:lr=0.01,momentum=0.9",
                     .ranks = 4,
                     .servers = servers,
                     .steps = BUSY,
                     .nan_step = 3};
            if (!run(&j, m, &served))
                continue;
            const uint64_t hash = m[0].hash;
            j.deadline_ms = 30000;
            assert_true(run(&j, m, &served));
            if (m[0].hash != hash)
                fail_msg("%s: other bits with a deadline", method);
            j.deadline_ms = 0;
            j.nodes = nodes;
            done += run(&j, m, &served);
            j.nodes = NULL;
            j.nan_step = -1;
            j.mode = "sync:combine=krum,f=0";
            j.optimizer = "adam:lr=0.01";
            done += run(&j, m, &served);
        }
    free(m);
    const int expected = 11 * 4 - 2; /* adam has no momentum that dgc could take over */
    assert_int_equal(done, UNDER_TSAN ? expected / 2 : expected);
}

/* Once gradients are zero for long enough, workers have all of the update: what servers had not
 * sent is what they have kept. */
static void nothing_is_lost(void **state)
{
    static const char *const all[] = {
        "topk:density=0.05,values=f32", "topk:density=0.05,values=fp16,scope=tensor",
        "topk:density=0.05,values=f32,warmup=3", "fp16:feedback=residual"};
    static const char *const modes[] = {"sync", "async", "async:staleness=2"};
    static const int nodes[] = {5, 5, 1, 1};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int k = 0; k < 6; k++) {
            char method[100];
            const int servers = k < 3 ? 1 : 3;
            if (tsan_skips(i, (size_t)k % 3, 3))
                continue;
            snprintf(method, sizeof method, "%s,exchange=twoway", all[i]);
            job j = {.method = method,
                     .mode = modes[k % 3],
                     .optimizer = "sgd:lr=0.5,momentum=0",
                     .ranks = k % 3 == 0 ? 2 : 4,
                     .servers = servers,
                     .steps = REST,
                     .nan_step = -1,
                     .nodes = k == 4 ? nodes : NULL};
            const uint64_t hash = end_of(&j);
            j.method = "dense:exchange=star";
            if (hash != end_of(&j))
                fail_msg("%s, %s, %d servers: not all has been sent", method, j.mode, servers);
        }
}

/* What a server of 4 ranks has counted. async: not in rounds */
static void check_figures(const tg_server_stats *s, bool async)
{
    uint64_t least = 0, most = 0, gradients = 0;
    for (size_t i = 0; i < TG_STALENESS; i++) { /* bin i: 2^(i-1) to 2^i - 1 */
        least += s->staleness[i] * (i == 0 ? 0 : UINT64_C(1) << (i - 1));
        most += s->staleness[i] * ((UINT64_C(1) << i) - 1);
        gradients += s->staleness[i];
    }
    assert_true(s->staleness_sum >= least && s->staleness_sum <= most);
    assert_true(async == (gradients > 0) && (async || s->staleness_sum == 0));
    assert_int_equal(s->parameters, MEMBER_N);
    assert_int_equal(s->elements - s->gradient_elements, 4 * MEMBER_N); /* what ranks offered */
    assert_int_equal(s->answer_elements, s->gradient_elements);
    assert_true(s->gradient_bytes + 4 * 4 * MEMBER_N < s->bytes_in);
}

/* Bytes that a server sends: about as many as it gets. */
static void answers_are_short(void **state)
{
    member *m = calloc(MOST, sizeof *m);
    served_job coded, whole;
    (void)state;
    assert_non_null(m);
    for (int k = 0; k < 2; k++) {
        job j = {.method = "topk:density=0.01,exchange=twoway",
                 .mode = k == 0 ? "sync" : "async",
                 .optimizer = exact,
                 .ranks = 4,
                 .servers = 1,
                 .steps = BUSY,
                 .nan_step = -1};
        assert_true(run(&j, m, &coded));
        j.method = "topk:density=0.01,exchange=star";
        assert_true(run(&j, m, &whole));
        const uint64_t offers = (uint64_t)4 * 4 * MEMBER_N;
        const tg_server_stats *c = &coded.server[0].stats, *w = &whole.server[0].stats;
        assert_true(w->bytes_out > offers * (BUSY + 1));
        assert_true(c->bytes_out > offers);
        check_figures(c, k > 0);
        check_figures(w, k > 0);
        assert_true(w->gradient_bytes < w->gradient_elements && c->answer_bytes < w->answer_bytes);
        assert_true(w->answer_bytes > 4 * w->answer_elements);
        const uint64_t changes = c->bytes_out - offers, answers = w->bytes_out - offers;
        if (k == 0)
            assert_true(10 * changes < answers);
        else /* the first answers may be whole, because others have made steps */
            assert_true(changes < offers + offers / 10 && 5 * changes < answers);
    }
    free(m);
}

static void refuse(job j, tg_status status, const char *rank, const char *server)
{
    member *m = calloc(MOST, sizeof *m);
    served_job served = {.ranks = 2,
                         .servers = 1,
                         .mode = j.mode,
                         .optimizer = exact,
                         .be_rank = be_member,
                         .arg = m};
    assert_non_null(m);
    j.optimizer = exact;
    j.ranks = 2;
    j.steps = 1;
    m[0].job = m[1].job = &j;
    served_run(&served);
    if (m[0].status != status || strstr(m[0].error, rank) == NULL)
        fail_msg("%s: %s: %s, not %s", j.method, tg_status_name(m[0].status), m[0].error, rank);
    if (strstr(served.server[0].error, server) == NULL)
        fail_msg("%s: %s, not %s", j.method, served.server[0].error, server);
    free(m);
}

static void refusals(void **state)
{
    (void)state;
    refuse((job){.method = "2bit:threshold=0.5,exchange=twoway", .mode = "sync"}, TG_E_UNSUPPORTED,
           "its threshold is for gradients", "");
    refuse((job){.method = "strom:threshold=0.5,exchange=twoway", .mode = "sync"}, TG_E_UNSUPPORTED,
           "allowed: threshold=auto, or exchange=star", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lossless_is_not_coded),
        cmocka_unit_test(lossless_in_turn),
        cmocka_unit_test(alone_is_in_step),
        cmocka_unit_test(all_ranks_agree),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(answers_are_short),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
