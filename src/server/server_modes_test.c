/* Servers that keep parameters: limiting cases, token gradients, and the bound of staleness. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "drawn_member.h"
#include "served_ranks.h"
#include "one_tensor.h"
#include "base/mem.h"
#include "telegrad/random.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 4, STEPS = 6 };

typedef struct job {
    const char *method, *strategy, *optimizer, *mode;
    int ranks, servers;
} job;

static void be_member(tg_transport *t, void *arg)
{
    member *m = (member *)arg + t->rank;
    member_train(m, t, STEPS, m->job->method, m->job->strategy, m->job->optimizer);
}

/* spoil    changes gradients; NULL: nothing
 * Returns  the members, for free() */
static member *start_spoiled(const job *j, void (*spoil)(member *m, int step), served_job *served)
{
    member *m = calloc(MOST, sizeof *m);
    *served = (served_job){.ranks = j->ranks,
                           .servers = j->servers,
                           .mode = j->mode,
                           .optimizer = j->mode == NULL ? NULL : j->optimizer,
                           .be_rank = be_member,
                           .arg = m};
    assert_non_null(m);
    for (int r = 0; r < j->ranks; r++)
        m[r].job = j, m[r].spoil = spoil;
    served_run(served);
    return m;
}

static member *start(const job *j, served_job *served)
{
    return start_spoiled(j, NULL, served);
}

/* Two modes mean the same if their normal forms are equal. */
static void test_normal(void **state)
{
    static const struct {
        const char *mode, *normal;
    } cases[] = {
        {"sync", "sync:combine=mean"},
        {"dist_sync", "sync:combine=mean"},
        {"sync:combine=mean", "sync:combine=mean"},
        {"dist_async", "async:compensate=0,combine=mean"},
        {"async:compensate=4e-2,staleness=04", "async:staleness=4,compensate=0.04,combine=mean"},
    };
    char text[100];
    (void)state;
    for (size_t k = 0; k < TG_COUNT(cases); k++) {
        assert_int_equal(tg_server_mode_normal(cases[k].mode, text, sizeof text), TG_OK);
        assert_string_equal(text, cases[k].normal);
        assert_int_equal(tg_server_mode_normal(cases[k].mode, text, strlen(text)), TG_E_ARG);
        assert_non_null(strstr(tg_error(), "allowed: at least"));
    }
    assert_int_equal(tg_server_mode_normal("async:stale=4", text, sizeof text), TG_E_SPEC);
    assert_int_equal(tg_server_mode_normal("sync", NULL, 0), TG_E_ARG);
}

static uint64_t run(const job *j)
{
    char what[256];
    served_job served;
    member *m = start(j, &served);
    snprintf(what, sizeof what, "%s, %s", j->method, j->optimizer);
    if (!members_agree(m, j->ranks, what))
        fail_msg("%s: %s", what, m->error);
    for (int s = 0; s < j->servers; s++)
        if (served.server[s].status != TG_OK)
            fail_msg("%s, %s, server %d: %s", j->method, j->optimizer, s, served.server[s].error);
    const uint64_t hash = m[0].hash;
    free(m);
    return hash;
}

static const char *const optimizers[] = {"sgd:lr=0.01",
                                         "sgd:lr=0.01,momentum=0.9,weight_decay=0.01",
                                         "adam:lr=0.01", "adamw:lr=0.01,weight_decay=0.1"};

/* sync, and async with staleness 0, have the bits of ssgd over servers that sum. */
static void sync_is_ssgd(void **state)
{
    static const char *const methods[] = {
        "dense", "topk:density=0.1", "2bit:threshold=0.25", "dgc:density=0.1,warmup=2", "signsgd",
        "fp16"};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(methods); i++)
        for (size_t k = 0; k < TG_COUNT(optimizers); k++) {
            char star[96];
            if (strncmp(methods[i], "dgc", 3) == 0 && k >= 2)
                continue; /* it owns the momentum: no adaptive optimizer */
            snprintf(star, sizeof star, "%s%cexchange=star", methods[i],
                     strchr(methods[i], ':') ? ',' : ':');
            for (int servers = 1; servers <= 2; servers++) {
                job j = {star, "ssgd", optimizers[k], NULL, 3, servers};
                const uint64_t expected = run(&j);
                j.strategy = "server";
                j.mode = servers == 1 ? "sync" : "async:staleness=0";
                if (run(&j) != expected)
                    fail_msg("%s, %s: other bits with %d servers", methods[i], optimizers[k],
                             servers);
            }
        }
}

/* async with one rank is training alone. */
static void async_alone_is_sequential(void **state)
{
    (void)state;
    for (size_t k = 0; k < TG_COUNT(optimizers); k++) {
        job j = {"topk:density=0.1", "ssgd", optimizers[k], NULL, 1, 0};
        const uint64_t expected = run(&j);
        j = (job){"topk:density=0.1", "server", optimizers[k], "async", 1, 2};
        assert_true(run(&j) == expected);
        j.mode = "async:staleness=3,compensate=0.5"; /* nothing has changed meanwhile */
        assert_true(run(&j) == expected);
    }
}

/* ---- token gradients ------------------------------------------------------------------------- */

enum { TOKEN_STEPS = 40, TOKENS = MOST * TOKEN_STEPS + 1 };

typedef struct tokens {
    const char *method;
    int64_t bound;          /* of staleness; -1: none */
    atomic_int begun[MOST]; /* steps that a rank has begun to push */
    atomic_int ended;       /* ranks whose tokens have been answered */
    float w[MOST][TOKENS];
    char error[MOST][400];
} tokens;

static void step_of(tokens *p, int rank, int step)
{
    if (rank == 1 && step % 4 == 0) /* a straggler */
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    p->begun[rank]++;
}

/* Whoever is answered is at most `bound` steps ahead of what the others have pushed. */
static void check_bound(tokens *p, int rank, int step)
{
    for (int other = 0; p->bound >= 0 && other < MOST; other++)
        if (p->begun[other] + p->bound < step + 1)
            fail_msg("rank %d was answered in step %d; rank %d had begun %d", rank, step, other,
                     p->begun[other]);
}

static tg_status spend(tokens *p, tg_transport *t, tg_session *s, float *g)
{
    uint32_t id;
    TG_TRY(one_tensor_begin(s, p->w[t->rank], g, TOKENS, &id));
    for (int step = 0; step <= TOKEN_STEPS; step++) {
        TG_TRY(tg_session_grad_wait(s, id));
        memset(g, 0, TOKENS * sizeof *g);
        if (step < TOKEN_STEPS)
            g[t->rank * TOKEN_STEPS + step] = 1;
        else /* all tokens are with the servers: the last answer has them all */
            while (p->ended < MOST)
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        step_of(p, t->rank, step);
        TG_TRY(tg_session_grad_ready(s, id));
        TG_TRY(tg_session_step(s, NULL));
        check_bound(p, t->rank, step);
        p->ended += step == TOKEN_STEPS - 1;
    }
    return tg_session_finish(s);
}

static void be_spender(tg_transport *t, void *arg)
{
    tokens *p = arg;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = p->method,
                                      .strategy = "server",
                                      .optimizer = "sgd:lr=1"};
    float g[TOKENS];
    tg_session *s;
    if (tg_session_create(&config, t, &s) == TG_OK && spend(p, t, s, g) == TG_OK)
        p->error[t->rank][0] = '\0';
    else
        snprintf(p->error[t->rank], sizeof p->error[0], "%s", tg_error());
    tg_session_destroy(s);
}

/* Each token is applied once: every element of each rank's last parameters is -1. */
static void tokens_are_applied_once(void **state)
{
    static const struct {
        const char *method, *mode;
        int64_t bound;
    } all[] = {{"dense:exchange=star", "async", -1},
               {"dense:exchange=star", "async:staleness=2", 2},
               {"dense:exchange=star", "async:staleness=1", 1},
               {"topk:density=1,exchange=star", "async:staleness=3", 3},
               {"dense:exchange=star", "async:compensate=0", -1}};
    (void)state;
    tokens *p = malloc(sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < TG_COUNT(all); i++)
        for (int servers = 1; servers <= 2; servers++) {
            memset(p, 0, sizeof *p);
            p->method = all[i].method;
            p->bound = all[i].bound;
            served_job served = {.ranks = MOST,
                                 .servers = servers,
                                 .mode = all[i].mode,
                                 .optimizer = "sgd:lr=1",
                                 .be_rank = be_spender,
                                 .arg = p};
            served_run(&served);
            for (int r = 0; r < MOST; r++) {
                if (p->error[r][0])
                    fail_msg("%s, %s, rank %d: %s", all[i].method, all[i].mode, r, p->error[r]);
                for (int e = 0; e < MOST * TOKEN_STEPS; e++)
                    if (p->w[r][e] > -1 || p->w[r][e] < -1)
                        fail_msg("%s, %s, rank %d: token %d: %g", all[i].method, all[i].mode, r, e,
                                 (double)p->w[r][e]);
            }
        }
    free(p);
}

/* ---- updates that are not finite ------------------------------------------------------------- */

static void be_nan(member *m, int step)
{
    if (step == 3)
        m->g[7] = NAN;
}

static void be_huge(member *m, int step)
{
    if (step == 3)
        m->g[7] = 1e25f;
}

/* A finite gradient whose update would make parameters, or the optimizer's memory, not finite, is
 * skipped as one that is not finite itself: then all has the same bits. */
static void spoiling_updates_are_skipped(void **state)
{
    static const char *const spoiled[] = {"sgd:lr=1e20", "sgd:lr=1e20,momentum=0.9",
                                          "adam:lr=0.01" /* only its second moment */};
    (void)state;
    for (size_t k = 0; k < TG_COUNT(spoiled); k++)
        for (int ranks = 1; ranks <= 2; ranks++) {
            uint64_t hash[2];
            for (int i = 0; i < 2; i++) {
                const job j = {.method = "dense:exchange=star",
                               .strategy = "server",
                               .optimizer = spoiled[k],
                               .mode = ranks == 1 ? "async" : "sync",
                               .ranks = ranks,
                               .servers = 1};
                served_job served;
                member *m = start_spoiled(&j, i == 0 ? be_nan : be_huge, &served);
                if (m->status != TG_OK)
                    fail_msg("%s: %s", spoiled[k], m->error);
                hash[i] = m->hash;
                assert_int_equal(m->skipped, 1);
                for (size_t e = 0; e < MEMBER_N; e++)
                    assert_true(isfinite(m->w[e]));
                assert_true(served.server[0].stats.unfit > 0);
                free(m);
            }
            if (hash[0] != hash[1])
                fail_msg("%s, %d ranks: other bits", spoiled[k], ranks);
        }
}

/* By MXNet's names: the bits of the modes that they mean. */
static void names_of_mxnet(void **state)
{
    static const char *const all[][2] = {
        {"dist_sync", "sync"},
        {"dist_sync:combine=median", "sync:combine=median"},
        {"dist_async:staleness=0", "async:staleness=0"},
    };
    (void)state;
    for (size_t i = 0; i < TG_COUNT(all); i++) {
        job j = {"dense:exchange=star", "server", "sgd:lr=0.01,momentum=0.9", all[i][0], 3, 2};
        const uint64_t hash = run(&j);
        j.mode = all[i][1];
        assert_true(hash == run(&j));
    }
}

/* ---- refused --------------------------------------------------------------------------------- */

static void refuses(const job *j, tg_status status, const char *part)
{
    served_job served;
    member *m = start(j, &served);
    const char *of_server = j->servers > 0 ? served.server[0].error : "";
    if ((m[0].status != status || strstr(m[0].error, part) == NULL) &&
        strstr(of_server, part) == NULL)
        fail_msg("%s: %s (server: %s); expected %s: %s", tg_status_name(m[0].status), m[0].error,
                 of_server, tg_status_name(status), part);
    free(m);
}

static void combinations_are_refused(void **state)
{
    (void)state;
    refuses(&(job){"dense:exchange=direct", "server", "sgd:lr=1", "sync", 2, 1}, TG_E_UNSUPPORTED,
            "methods of one round with exchange=star");
    refuses(&(job){"powersgd:rank=1,exchange=star", "server", "sgd:lr=1", "sync", 2, 1},
            TG_E_UNSUPPORTED, "methods of one round");
    refuses(&(job){"dense:exchange=star", "server", "sgd:lr=1", NULL, 2, 1}, TG_E_PEER,
            "parameters came, but this server only sums");
    refuses(&(job){"dense:exchange=star", "ssgd", "sgd:lr=1", "sync", 2, 1}, TG_E_PEER,
            "came before its parameters");
    refuses(&(job){"dense", "server", "sgd:lr=1", NULL, 2, 0}, TG_E_UNSUPPORTED,
            "servers keep the parameters, but this job has none");
}

static void modes_are_checked(void **state)
{
    static const struct {
        const char *mode, *optimizer;
        tg_status status;
        const char *part;
    } all[] = {{"sum", "sgd:lr=1", TG_E_SPEC, "use no optimizer"},
               {"sync", NULL, TG_E_SPEC, "requires an optimizer"},
               {"asynchronous", "sgd:lr=1", TG_E_SPEC, "asynchronous"},
               {"async:staleness=-1", "sgd:lr=1", TG_E_SPEC, "staleness"},
               {"async:staleness=0,compensate=1", "sgd:lr=1", TG_E_SPEC, "no delay to compensate"},
               {"dist_async:staleness=0,compensate=1", "sgd:lr=1", TG_E_SPEC, "no delay to"},
               {"dist_sum", NULL, TG_E_SPEC, "unknown server mode \"dist_sum\""},
               {"dist_sync_device", "sgd:lr=1", TG_E_SPEC, "allowed: sum, sync, async"},
               {"dist_", "sgd:lr=1", TG_E_SPEC, "allowed: sum, sync, async"},
               {"sync", "lars:lr=1", TG_E_UNSUPPORTED, "element by element"},
               {"sync", "sgd:lr=1,clip=1", TG_E_UNSUPPORTED, "element by element"},
               {"sync", "nonsense", TG_E_SPEC, "nonsense"}};
    tg_transport *t[2];
    (void)state;
    assert_int_equal(tg_transport_inproc(2, t), TG_OK);
    for (size_t i = 0; i < TG_COUNT(all); i++) {
        const tg_server_config config = {
            .struct_size = sizeof config, .mode = all[i].mode, .optimizer = all[i].optimizer};
        tg_server *s;
        const tg_status status = tg_server_create(t[1], 1, &config, &s);
        if (status != all[i].status || strstr(tg_error(), all[i].part) == NULL)
            fail_msg("%s: %s: %s", all[i].mode, tg_status_name(status), tg_error());
    }
    tg_transport_destroy(t[0]);
    tg_transport_destroy(t[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal),
        cmocka_unit_test(sync_is_ssgd),
        cmocka_unit_test(async_alone_is_sequential),
        cmocka_unit_test(tokens_are_applied_once),
        cmocka_unit_test(spoiling_updates_are_skipped),
        cmocka_unit_test(names_of_mxnet),
        cmocka_unit_test(combinations_are_refused),
        cmocka_unit_test(modes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
