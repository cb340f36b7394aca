/* Coded answers: where they must have the bits of another computation, that nothing is lost in
 * servers' residuals, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "drawn_member.h"
#include "served_ranks.h"
#include "server/server_impl.h"
#include "telegrad/reducer.h"
#include "telegrad/registry.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4, STEPS = 7 };

typedef struct job {
    const char *method, *strategy, *mode, *optimizer;
    int ranks, servers;
    int nan_step; /* of rank 1; -1: none */
    bool rates;   /* the learning rate changes, and is 0 once */
    const int *nodes;
} job;

static void spoil(member *m, int step)
{
    static const double rate[STEPS] = {0.01, 0.01, 0.02, 0.005, 0, 0.005, 0.01};
    if (m->job->rates)
        assert_int_equal(tg_session_set_lr(m->session, rate[step]), TG_OK);
    if (m->rank == 1 && step == m->job->nan_step)
        m->g[MEMBER_N - 7] = NAN; /* in the last bucket, so others may be answered before */
}

static void be_member(tg_transport *t, void *arg)
{
    member *m = (member *)arg + t->rank;
    m->spoil = spoil;
    m->nodes = m->job->nodes;
    member_train(m, t, STEPS, m->job->method, m->job->strategy,
                 m->job->optimizer == NULL ? "sgd:lr=0.01,momentum=0.9" : m->job->optimizer);
}

/* m (MOST). Returns whether the combination exists. */
static bool run(const job *j, member *m, served_job *served)
{
    char what[256];
    *served = (served_job){.ranks = j->ranks,
                           .servers = j->servers,
                           .mode = j->mode,
                           .nodes = j->nodes,
                           .be_rank = be_member,
                           .arg = m};
    if (j->mode != NULL && strncmp(j->mode, "sum", 3) != 0)
        served->optimizer = j->optimizer;
    memset(m, 0, MOST * sizeof *m);
    for (int r = 0; r < j->ranks; r++)
        m[r].job = j;
    served_run(served);
    snprintf(what, sizeof what, "%s, %s, %d servers", j->method, j->strategy, j->servers);
    const bool exists = members_agree(m, j->ranks, what);
    for (int s = 0; exists && s < j->servers; s++)
        if (served->server[s].status != TG_OK)
            fail_msg("%s, server %d: %s", what, s, served->server[s].error);
    for (int r = 0; exists && r < j->ranks; r++)
        assert_int_equal(m[r].skipped, j->nan_step >= 0);
    return exists;
}

static uint64_t hash_of(const job *j)
{
    member *m = calloc(MOST, sizeof *m);
    served_job served;
    assert_non_null(m);
    if (!run(j, m, &served))
        fail_msg("%s, %s, %d servers: %s", j->method, j->strategy, j->servers, m[0].error);
    const uint64_t hash = m[0].hash;
    free(m);
    return hash;
}

/* As many servers as ranks have the blocks of ranks: the means that servers code are those that
 * owners code in two-way 1-bit SGD, also if a step is dropped and dense steps come between. */
static void has_the_bits_of_twoway(void **state)
{
    (void)state;
    static const char *const keys[] = {"", "threshold=mean,", "rescale=yes,"},
                             *const strategies[] = {"ssgd", "cd:k=3,warmup=2"};
    for (int ranks = 2; ranks <= MOST; ranks++)
        for (size_t k = 0; k < 3; k++)
            for (size_t s = 0; s < 2; s++) {
                char coded[80], owners[80];
                snprintf(coded, sizeof coded, "1bit:%sexchange=twoway", keys[k]);
                snprintf(owners, sizeof owners, "1bit:%stwoway=yes", keys[k]);
                job j = {coded, strategies[s],   NULL,   NULL, ranks,
                         ranks, s == 0 ? 3 : -1, k == 2, NULL};
                const uint64_t hash = hash_of(&j);
                j.method = owners;
                j.servers = 0;
                if (hash != hash_of(&j))
                    fail_msg("%s, %s, %d ranks: other bits", coded, strategies[s], ranks);
            }
}

/* What is coded without loss leaves no residual. */
static void all_elements_are_the_mean(void **state)
{
    (void)state;
    for (int servers = 1; servers <= 3; servers++)
        for (int nan = -1; nan < 4; nan += 4) {
            job j = {"topk:density=1,values=f32,exchange=twoway",
                     "ssgd",
                     NULL,
                     NULL,
                     3,
                     servers,
                     nan,
                     false,
                     NULL};
            const uint64_t hash = hash_of(&j);
            j.method = "topk:density=1,values=f32,exchange=star";
            assert_true(hash == hash_of(&j));
        }
}

/* Every method that has it, with several servers, slices, strategies, rules and nodes: all ranks
 * have the same bits. */
static void all_ranks_agree(void **state)
{
    (void)state;
    static const int nodes[] = {5, 5, 1, 1};
    member *m = calloc(MOST, sizeof *m);
    size_t count;
    int done = 0;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_METHOD, &count);
    assert_non_null(m);
    for (size_t i = 0; i < count; i++)
        for (int servers = 1; servers <= 2; servers++) {
            char method[80];
            served_job served;
            snprintf(method, sizeof method, "%s:exchange=twoway", list[i]->name);
            done += run(&(job){method, "ssgd", NULL, NULL, 4, servers, 3, false, NULL}, m, &served);
            done += run(&(job){method, "cd:k=2,warmup=1", "sum:combine=krum,f=0", NULL, 4, servers,
                               -1, false, NULL},
                        m, &served);
            done += run(&(job){method, "local:every=2", NULL, NULL, 4, servers, -1, false, nodes},
                        m, &served);
        }
    free(m);
    assert_int_equal(done, 11 * 6 - 2); /* local refuses dgc, which has momentum */
}

/* With f = 0 the trimmed mean is the mean, and a single node's sum is that of its ranks. */
static void rules_and_nodes(void **state)
{
    (void)state;
    static const int nodes[] = {0, 0, 1, 1};
    job j = {"int8:exchange=twoway", "ssgd", NULL, NULL, 4, 2, -1, false, NULL};
    const uint64_t hash = hash_of(&j);
    j.mode = "sum:combine=trimmed,f=0";
    assert_true(hash == hash_of(&j));
    j = (job){
        "topk:density=1,values=f32,exchange=twoway", "ssgd", NULL, NULL, 4, 1, -1, false, nodes};
    const uint64_t sums = hash_of(&j);
    j.method = "topk:density=1,values=f32,exchange=star";
    assert_true(sums == hash_of(&j));
}

/* ---- reducers: what was sent ----------------------------------------------------------------- */

enum { N = 1000, BUSY = 12, DROPPED = 5, REST = 500 };

typedef struct sums {
    const char *method;
    int steps;
    bool takes_back;
    tg_status status;
    char error[400];
    double given[N], got[N]; /* sums of finite steps' gradients, and of the means */
    float first[N];          /* the first mean */
} sums;

/* What is taken back, and memory in other units. */
static tg_status take_back(sums *s, tg_transport *t)
{
    const tg_reducer_config config = {.struct_size = sizeof config, .steps_per_epoch = 10};
    tg_reducer *r;
    float g[N], mean[N];
    TG_TRY(tg_reducer_create(s->method, t, N, &config, &r));
    tg_status status = TG_OK;
    for (int step = 0; step < REST && status == TG_OK; step++) {
        for (size_t i = 0; i < N; i++) {
            g[i] = step < 8 ? (float)((int)(i * 7 + (size_t)(step + t->rank)) % 16 - 8) : 0;
            s->given[i] += (double)g[i] * (step < 6 ? 4 : 1);
        }
        if (step == 6)
            assert_int_equal(tg_reducer_scale(r, 4), TG_OK);
        status = tg_reducer_mean(r, g, mean);
        for (size_t i = 0; status == TG_OK && step != 3 && i < N; i++)
            s->got[i] += (double)mean[i] * (step < 6 ? 4 : 1);
        if (step == 3)
            assert_int_equal(tg_reducer_undo(r), TG_OK);
    }
    tg_reducer_destroy(r);
    return status;
}

static tg_status reduce(sums *s, tg_transport *t)
{
    const tg_reducer_config config = {.struct_size = sizeof config, .steps_per_epoch = 10};
    tg_reducer *r;
    float g[N], mean[N];
    TG_TRY(tg_reducer_create(s->method, t, N, &config, &r));
    tg_status status = TG_OK;
    for (int step = 0; step < s->steps && status == TG_OK; step++) {
        const tg_rng_key key = {.seed = 3,
                                .purpose = TG_PURPOSE_TEST,
                                .rank = (uint32_t)t->rank,
                                .step = (uint64_t)step};
        const bool dropped = step == DROPPED && s->steps > DROPPED;
        for (size_t i = 0; i < N; i++) {
            g[i] = step < BUSY ? (float)(floor(tg_rng_normal(&key, i) * 16) / 16) : 0;
            s->given[i] += (dropped && t->rank == 1) || step >= BUSY ? 0 : (double)g[i];
        }
        if (dropped && t->rank == 1)
            g[3] = NAN;
        status = tg_reducer_mean(r, g, mean);
        if (status == TG_E_NONFINITE && dropped) {
            status = TG_OK;
            continue;
        }
        for (size_t i = 0; status == TG_OK && i < N; i++)
            s->got[i] += (double)mean[i];
        if (step == 0)
            memcpy(s->first, mean, sizeof mean);
    }
    tg_reducer_destroy(r);
    return status;
}

static void be_reducer(tg_transport *t, void *arg)
{
    sums *s = (sums *)arg + t->rank;
    s->status = s->takes_back ? take_back(s, t) : reduce(s, t);
    if (s->status != TG_OK)
        snprintf(s->error, sizeof s->error, "%s", tg_error());
}

static atomic_bool holds;

/* All messages have been summed: they no longer count as held, with the codings in them. */
static void look_held(const tg_server *server)
{
    for (int r = 0; r < server->ranks; r++)
        if (server->in[r].held != 0)
            atomic_store(&holds, true);
}

/* s (MOST) */
static void sum_up(const char *method, int ranks, int servers, int steps, sums *s)
{
    served_job served = {
        .ranks = ranks, .servers = servers, .be_rank = be_reducer, .arg = s, .look = look_held};
    memset(s, 0, MOST * sizeof *s);
    for (int r = 0; r < ranks; r++) {
        s[r].method = method;
        s[r].steps = steps;
        s[r].takes_back = steps == 0;
    }
    served_run(&served);
    for (int r = 0; r < ranks; r++) {
        if (s[r].status != TG_OK)
            fail_msg("%s, rank %d, %d servers: %s", method, r, servers, s[r].error);
        assert_memory_equal(s[r].got, s[0].got, sizeof s[r].got);
    }
    assert_false(atomic_load(&holds));
}

/* Once gradients are zero for long enough, all residuals are empty: what was sent is the sum of all
 * gradients, but for the one that was not finite. */
static void nothing_is_lost(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        double slack;
    } all[] = {{"topk:density=0.02,values=f32,exchange=twoway", 0},
               {"topk:density=0.02,values=fp16,scope=tensor,exchange=twoway", 0},
               {"topk:density=0.05,values=f32,warmup=6,exchange=twoway", 0},
               {"dgc:density=0.02,values=f32,warmup=0,momentum=0,exchange=twoway", 0},
               {"fp16:feedback=residual,exchange=twoway", 0},
               {"2bit:threshold=0.0625,exchange=twoway", 0.125},
               {"topk:density=0.05,values=int8,exchange=twoway", 1e-4}};
    sums *s = calloc(MOST, sizeof *s);
    assert_non_null(s);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int ranks = 2; ranks <= 4; ranks += 2)
            for (int servers = 1; servers <= 3; servers += 2) {
                sum_up(all[i].method, ranks, servers, REST, s);
                for (size_t e = 0; e < N; e++) {
                    double given = 0;
                    for (int r = 0; r < ranks; r++)
                        given += s[r].given[e];
                    if (fabs(s[0].got[e] - given / ranks) > all[i].slack)
                        fail_msg("%s, %d ranks, %d servers: element %zu: %.9g of %.9g",
                                 all[i].method, ranks, servers, e, s[0].got[e], given / ranks);
                }
            }
    free(s);
}

static void means_are_taken_back(void **state)
{
    (void)state;
    sums *s = calloc(MOST, sizeof *s);
    assert_non_null(s);
    for (int servers = 1; servers <= 2; servers++) {
        sum_up("topk:density=0.05,values=f32,exchange=twoway", 2, servers, 0, s);
        for (size_t e = 0; e < N; e++)
            if (s[0].got[e] != (s[0].given[e] + s[1].given[e]) / 2)
                fail_msg("%d servers: element %zu: %.9g of %.9g", servers, e, s[0].got[e],
                         (s[0].given[e] + s[1].given[e]) / 2);
    }
    free(s);
}

/* The first step has no residuals yet: servers with the blocks of ranks answer what their owners
 * send in reducescatter, random numbers included. */
static void begins_as_reducescatter(void **state)
{
    (void)state;
    static const char *const all[] = {"topk:density=0.1,values=f32",
                                      "topk:density=0.1,values=fp16,scope=tensor",
                                      "dgc:density=0.1,warmup=4",
                                      "fp16",
                                      "bf16:feedback=residual",
                                      "int8",
                                      "qsgd"};
    sums *s = calloc(MOST, sizeof *s);
    float first[N];
    assert_non_null(s);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int ranks = 2; ranks <= 4; ranks += 2) {
            char method[100];
            const char *mark = strchr(all[i], ':') ? "," : ":";
            snprintf(method, sizeof method, "%s%sexchange=reducescatter", all[i], mark);
            sum_up(method, ranks, 0, 1, s);
            memcpy(first, s[0].first, sizeof first);
            snprintf(method, sizeof method, "%s%sexchange=twoway", all[i], mark);
            sum_up(method, ranks, ranks, 1, s);
            for (size_t e = 0; e < N; e++)
                if (memcmp(&first[e], &s[0].first[e], sizeof first[e]) != 0)
                    fail_msg("%s, %d ranks: element %zu is %.9g, not %.9g", method, ranks, e,
                             (double)s[0].first[e], (double)first[e]);
        }
    free(s);
}

/* ---- bytes and refusals ---------------------------------------------------------------------- */

/* Bytes that a server sends: about as many as it gets. */
static void answers_are_short(void **state)
{
    (void)state;
    member *m = calloc(MOST, sizeof *m);
    served_job coded, dense;
    assert_non_null(m);
    assert_true(
        run(&(job){"topk:density=0.01,exchange=twoway", "ssgd", NULL, NULL, 4, 1, -1, false, NULL},
            m, &coded));
    assert_true(
        run(&(job){"topk:density=0.01,exchange=star", "ssgd", NULL, NULL, 4, 1, -1, false, NULL}, m,
            &dense));
    const tg_server_stats *c = &coded.server[0].stats, *d = &dense.server[0].stats;
    assert_true(d->bytes_out > (uint64_t)4 * 4 * MEMBER_N * STEPS);
    assert_true(c->bytes_out < c->bytes_in && c->bytes_out > c->bytes_in / 3);
    assert_true(20 * c->bytes_out < d->bytes_out);
    free(m);
}

static void refuse(const job *j, tg_status status, const char *rank, const char *server)
{
    member *m = calloc(MOST, sizeof *m);
    served_job served = {.ranks = j->ranks,
                         .servers = j->servers,
                         .mode = j->mode,
                         .optimizer = j->mode == NULL ? NULL : "sgd:lr=1",
                         .be_rank = be_member,
                         .arg = m};
    assert_non_null(m);
    for (int r = 0; r < j->ranks; r++)
        m[r].job = j;
    served_run(&served);
    if (m[0].status != status || strstr(m[0].error, rank) == NULL)
        fail_msg("%s: %s: %s, not %s", j->method, tg_status_name(m[0].status), m[0].error, rank);
    if (server != NULL && strstr(served.server[0].error, server) == NULL)
        fail_msg("%s: %s, not %s", j->method, served.server[0].error, server);
    free(m);
}

static void refusals(void **state)
{
    (void)state;
    refuse(&(job){"topk:exchange=twoway", "ssgd", NULL, NULL, 2, 0, -1, false, NULL},
           TG_E_UNSUPPORTED, "exchange=twoway: this job has no server", NULL);
    refuse(&(job){"topk:exchange=twoway", "ssgd", "sync", "sgd:lr=1", 2, 1, -1, false, NULL},
           TG_E_PEER, "", "came before its parameters");
    refuse(&(job){"topk:exchange=twoway", "pipe:width=2", NULL, NULL, 2, 1, -1, false, NULL},
           TG_E_UNSUPPORTED, "exchange=twoway allows one exchange in flight, not 2", NULL);
    refuse(&(job){"1bit:twoway=yes,exchange=twoway", "ssgd", NULL, NULL, 2, 1, -1, false, NULL},
           TG_E_SPEC, "twoway=yes with exchange=twoway: allowed: direct", NULL);
    refuse(&(job){"signsgd:exchange=twoway", "ssgd", NULL, NULL, 2, 1, -1, false, NULL}, TG_E_SPEC,
           "exchange=twoway", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_bits_of_twoway),
        cmocka_unit_test(all_elements_are_the_mean),
        cmocka_unit_test(all_ranks_agree),
        cmocka_unit_test(rules_and_nodes),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(begins_as_reducescatter),
        cmocka_unit_test(answers_are_short),
        cmocka_unit_test(means_are_taken_back),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
