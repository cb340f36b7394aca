/* Servers whose workers come and go, and whose steps take the gradients of all that are there. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "free_ports.h"
#include "net_house.h"

enum { N = 4096, WORKERS = 3 };

/* A worker that makes steps on a quadratic function of its own, in a thread of its own. */
typedef struct worker {
    const house *h;
    int number, steps; /* the step at which it ends */
    int step_ms;       /* what a gradient takes */
    int bad;           /* its gradients are not numbers */
    int vanish_after;  /* so many own steps its connections are cut; 0: never */
    int away_ms;       /* for so long it does nothing then */
    double again_s;
    const char *method;
    float w[2][N], g[2][N];
    uint64_t begun; /* the step that it began with */
    tg_net *net;
    atomic_int done; /* steps */
    tg_status status;
    char error[600];
    pthread_t thread;
} worker;

static tg_status add(tg_session *s, worker *w, int i, uint32_t *id_p)
{
    const size_t shape = N;
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = i == 0 ? "a" : "b",
                              .shape = &shape,
                              .ndim = 1,
                              .param = tg_array_f32(w->w[i], N),
                              .grad = tg_array_f32(w->g[i], N)};
    return tg_session_add(s, &tensor, id_p);
}

static void compute(worker *w, int i)
{
    for (int k = 0; k < N; k++) {
        const float at = (float)((k * 7 + w->number * 13 + i) % 101) / 50 - 1;
        w->g[i][k] = w->bad ? NAN : w->w[i][k] - at;
    }
}

static tg_status work(worker *w, tg_session *s)
{
    uint32_t id[2];
    for (int i = 0; i < 2; i++)
        TG_TRY(add(s, w, i, &id[i]));
    TG_TRY(tg_session_begin(s));
    w->begun = tg_session_steps(s);
    atomic_store(&w->done, (int)w->begun);
    for (int step = (int)w->begun; step < w->steps; step++) {
        for (int i = 1; i >= 0; i--) {
            TG_TRY(tg_session_grad_wait(s, id[i]));
            compute(w, i);
            TG_TRY(tg_session_grad_ready(s, id[i]));
            if (w->vanish_after == 0 || i == 0 || step - (int)w->begun != w->vanish_after)
                continue;
            for (int q = 0; q < w->h->shards; q++)
                (void)shutdown(w->net->stream[q + 1]->fd, SHUT_RDWR);
            usleep(1000 * (unsigned)w->away_ms);
        }
        TG_TRY(tg_session_step(s, NULL));
        atomic_store(&w->done, step + 1);
        usleep((unsigned)(1000 * w->step_ms));
    }
    return tg_session_finish(s);
}

static void *run(void *arg)
{
    worker *w = arg;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = w->method,
                                      .strategy = "server",
                                      .optimizer = w->h->optimizer,
                                      .bucket_bytes = N * sizeof(float),
                                      .driver = w->away_ms > 0 ? TG_DRIVER_INLINE : TG_DRIVER_AUTO,
                                      .timeout_ms = 30000};
    tg_net_attach_config to = attach_config(w->h);
    tg_transport *t = NULL;
    tg_session *s = NULL;
    to.again_s = w->again_s;
    w->status = attach(&to, &w->net, &t);
    if (w->status == TG_OK)
        w->status = tg_session_create(&config, t, &s);
    if (w->status == TG_OK)
        w->status = work(w, s);
    if (w->status != TG_OK)
        snprintf(w->error, sizeof w->error, "%s", tg_error());
    tg_session_destroy(s);
    tg_transport_destroy(t);
    return NULL;
}

static worker *start(const house *h, int number, int steps)
{
    worker *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->h = h;
    w->number = number;
    w->steps = steps;
    w->method = "dense:exchange=star";
    return w;
}

static void go(worker *w)
{
    assert_int_equal(pthread_create(&w->thread, NULL, run, w), 0);
}

static void await_step(worker *w, int step)
{
    for (int ms = 0; ms < 20000 && atomic_load(&w->done) < step; ms++)
        usleep(1000);
    assert_true(atomic_load(&w->done) >= step);
}

static void join(worker *w)
{
    pthread_join(w->thread, NULL);
    if (w->status != TG_OK)
        fail_msg("worker %d: %s", w->number, w->error);
}

static house *build(const char *mode, int shards, int min_workers)
{
    house *h = calloc(1, sizeof *h);
    assert_non_null(h);
    *h = (house){.shards = shards,
                 .mode = mode,
                 .optimizer = "sgd:lr=0.1,momentum=0.9",
                 .min_workers = min_workers,
                 .timeout_ms = 20000};
    return h;
}

static void tear_down(house *h)
{
    house_close(h);
    free(h);
}

/* The same job by ranks that stay, in threads, with one server. */
typedef struct rank {
    worker w;
    tg_transport *t;
    tg_status status;
} rank;

static void *be_rank(void *arg)
{
    rank *r = arg;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = r->w.method,
                                      .strategy = "server",
                                      .optimizer = "sgd:lr=0.1,momentum=0.9",
                                      .bucket_bytes = N * sizeof(float)};
    tg_session *s = NULL;
    r->status = tg_transport_worker(r->t, 1, &r->t);
    if (r->status == TG_OK)
        r->status = tg_session_create(&config, r->t, &s);
    if (r->status == TG_OK)
        r->status = work(&r->w, s);
    if (r->status != TG_OK)
        snprintf(r->w.error, sizeof r->w.error, "%s", tg_error());
    tg_session_destroy(s);
    tg_transport_destroy(r->t);
    return NULL;
}

static void run_ranks(const char *mode, const char *method, int steps, float w[2][N])
{
    tg_transport *t[WORKERS + 1];
    pthread_t thread[WORKERS];
    rank *r = calloc(WORKERS, sizeof *r);
    tg_server *server;
    const tg_server_config config = {
        .struct_size = sizeof config, .mode = mode, .optimizer = "sgd:lr=0.1,momentum=0.9"};
    assert_non_null(r);
    assert_int_equal(tg_transport_inproc(WORKERS + 1, t), TG_OK);
    assert_int_equal(tg_server_create(t[WORKERS], 1, &config, &server), TG_OK);
    for (int i = 0; i < WORKERS; i++) {
        r[i].w.number = i;
        r[i].w.steps = steps;
        r[i].w.method = method;
        r[i].t = t[i];
        assert_int_equal(pthread_create(&thread[i], NULL, be_rank, &r[i]), 0);
    }
    assert_int_equal(tg_server_run(server), TG_OK);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(thread[i], NULL);
        assert_string_equal(r[i].w.error, "");
    }
    tg_server_destroy(server);
    tg_transport_destroy(t[WORKERS]);
    memcpy(w, r[0].w.w, sizeof r[0].w.w);
    free(r);
}

/* Workers that stay have the bits of ranks that never change. */
static void test_bits(void **state)
{
    static const struct {
        const char *mode, *method;
        int shards;
    } cases[] = {{"sync", "dense:exchange=star", 1},
                 {"sync", "dense:exchange=star", 2},
                 {"async:staleness=0", "topk:density=0.1,exchange=star", 1},
                 {"sync", "2bit:exchange=star", 2},
                 {"sync", "qsgd:exchange=star", 1},
                 {"sync", "topk:density=0.1,exchange=twoway", 1},
                 {"async:staleness=0", "2bit:exchange=twoway", 1},
                 {"sync:combine=clipped", "dgc:density=0.1,exchange=twoway", 1}};
    static float expected[2][N];
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        house *h = build(cases[k].mode, cases[k].shards, WORKERS);
        worker *w[WORKERS];
        house_open(h);
        run_ranks(cases[k].mode, cases[k].method, 12, expected);
        for (int i = 0; i < WORKERS; i++) {
            char event[32];
            w[i] = start(h, i, 12);
            w[i]->method = cases[k].method;
            w[i]->step_ms = i;
            go(w[i]); /* seats are given in the order of coming */
            snprintf(event, sizeof event, "worker %d (127.0.0.1) has come", i);
            await_event(h, event);
        }
        for (int i = 0; i < WORKERS; i++) {
            join(w[i]);
            assert_int_equal(w[i]->begun, 0);
            if (memcmp(w[i]->w, expected, sizeof expected) != 0)
                fail_msg("%s, %s: worker %d has other bits", cases[k].mode, cases[k].method, i);
            free(w[i]);
        }
        tear_down(h);
    }
}

/* One who comes begins at the others' step, and one who leaves is not missed: all who are there
 * have the same parameters. */
static void test_members(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        house *h = build("sync", 1 + k % 2, 0);
        house_open(h);
        worker *first = start(h, 0, 150), *second = start(h, 1, 100), *third = start(h, 2, 150);
        if (k > 1)
            first->method = second->method = third->method = "topk:density=0.05,exchange=twoway";
        first->step_ms = second->step_ms = third->step_ms = 5;
        go(first);
        await_step(first, 5); /* alone */
        go(second);
        await_step(second, 10);
        go(third);
        join(second);
        join(first);
        join(third);
        assert_in_range(second->begun, 5, 90);
        assert_in_range(third->begun, second->begun + 1, 145);
        assert_memory_equal(first->w, third->w, sizeof first->w);
        free(first);
        free(second);
        free(third);
        tear_down(h);
    }
}

/* Nothing is done by fewer than asked for; once a step has begun, those who are left end it. */
static void test_min_workers(void **state)
{
    (void)state;
    house *h = build("sync", 1, 2);
    house_open(h);
    worker *first = start(h, 0, 20), *second = start(h, 1, 10), *third = start(h, 2, 20);
    go(first);
    usleep(300000);
    assert_int_equal(atomic_load(&first->done), 0);
    go(second);
    join(second);
    usleep(300000);
    assert_int_equal(atomic_load(&first->done), 10);
    go(third);
    join(third);
    join(first);
    assert_int_equal(third->begun, 10);
    assert_memory_equal(first->w, third->w, sizeof first->w);
    free(first);
    free(second);
    free(third);
    tear_down(h);
}

/* One that vanishes is waited for: it may be back in time, and then it is as if it had never been
 * away. If not, the others go on, and it is refused when it comes. One that cannot come back is not
 * waited for. */
static void test_vanished(void **state)
{
    static const struct {
        int away_ms;
        double again_s;
        const char *error;
    } cases[] = {{300, 30, ""}, {2500, 30, "goes on without it"}, {0, 0, "connection"}};
    (void)state;
    for (int k = 0; k < 6; k++) {
        house *h = build("sync", 1 + k % 2, 0);
        h->timeout_ms = 1000;
        house_open(h);
        worker *first = start(h, 0, 100), *second = start(h, 1, 100);
        second->vanish_after = 5;
        second->again_s = cases[k % 3].again_s;
        second->away_ms = cases[k % 3].away_ms;
        if (k > 2)
            first->method = second->method = "topk:density=0.05,exchange=twoway";
        first->step_ms = 5;
        go(first);
        await_event(h, "worker 0 (127.0.0.1) has come");
        go(second);
        pthread_join(second->thread, NULL);
        join(first);
        if ((second->status == TG_OK) != (k % 3 == 0) || !strstr(second->error, cases[k % 3].error))
            fail_msg("%d: %s", k, second->error);
        if (k % 3 == 0)
            assert_memory_equal(first->w, second->w, sizeof first->w);
        free(first);
        free(second);
        tear_down(h);
    }
}

/* A server that dies at any time has its bits again, and those of one that nobody killed. */
static void test_journal(void **state)
{
    static const struct {
        const char *mode, *method;
    } cases[] = {{"sync", "topk:density=0.1,exchange=star"},
                 {"sync", "topk:density=0.05,exchange=twoway"},
                 {"sync", "2bit:exchange=twoway"},
                 {"sync:combine=clipped", "dense:exchange=star"},
                 {"sync:combine=clipped,tau=0.5", "qsgd:exchange=twoway"}};
    static float expected[2][N];
    (void)state;
    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
        char folder[] = "/tmp/tg-rounds-XXXXXX", command[80];
        house *h = build(cases[k / 2].mode, 1, WORKERS);
        run_ranks(cases[k / 2].mode, cases[k / 2].method, 60, expected);
        worker *w[WORKERS];
        assert_non_null(mkdtemp(folder));
        h->journal = folder;
        h->journal_bytes = k % 2 == 0 ? 0 : 60000; /* many snapshots */
        house_open(h);
        for (int i = 0; i < WORKERS; i++) {
            char event[32];
            w[i] = start(h, i, 60);
            w[i]->method = cases[k / 2].method;
            w[i]->again_s = 30;
            w[i]->step_ms = 1;
            go(w[i]);
            snprintf(event, sizeof event, "worker %d (127.0.0.1) has come", i);
            await_event(h, event);
        }
        for (int turn = 1; turn <= 4; turn++) {
            await_step(w[turn % WORKERS], 12 * turn);
            house_again(h);
        }
        for (int i = 0; i < WORKERS; i++) {
            join(w[i]);
            if (memcmp(w[i]->w, expected, sizeof expected) != 0)
                fail_msg("%s, %s: worker %d has other bits", cases[k / 2].mode, cases[k / 2].method,
                         i);
            free(w[i]);
        }
        tear_down(h);
        snprintf(command, sizeof command, "rm -r '%s'", folder);
        assert_int_equal(system(command), 0);
    }
}

/* One whose gradients are not numbers: with a rule, the others go on as if it had not sent any;
 * without, no step is made. */
static void test_bad_one(void **state)
{
    static const char *const modes[] = {"sync:combine=trimmed,f=1", "sync:combine=median", "sync"};
    (void)state;
    for (int k = 0; k < 3; k++) {
        house *h = build(modes[k], 1, WORKERS);
        worker *w[WORKERS];
        h->optimizer = "sgd:lr=0.1,momentum=0";
        house_open(h);
        for (int i = 0; i < WORKERS; i++) {
            w[i] = start(h, i, 20);
            w[i]->bad = i == 1;
            go(w[i]);
        }
        for (int i = 0; i < WORKERS; i++) {
            join(w[i]);
            const bool moved = w[i]->w[0][3] > 0 || w[i]->w[0][3] < 0;
            assert_int_equal(moved, k < 2);
        }
        assert_memory_equal(w[0]->w, w[1]->w, sizeof w[0]->w);
        for (int i = 0; i < WORKERS; i++)
            free(w[i]);
        tear_down(h);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *mode;
        int min_workers;
        const char *part;
    } cases[] = {{"sync", 5, "min_workers=5: allowed: 0..4"},
                 {"sync", -1, "min_workers=-1: allowed"},
                 {"async", 2, "requires workers that come and go, or deadline_ms"},
                 {"sync:combine=krum,f=1", 0, "allowed: f=0..0"}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const tg_server_config c = {.struct_size = sizeof c,
                                    .mode = cases[k].mode,
                                    .optimizer = "sgd:lr=1",
                                    .min_workers = cases[k].min_workers};
        assert_int_not_equal(try_server(&c), TG_OK);
        if (!strstr(tg_error(), cases[k].part))
            fail_msg("%s: %s", cases[k].mode, tg_error());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),        cmocka_unit_test(test_members),
        cmocka_unit_test(test_min_workers), cmocka_unit_test(test_vanished),
        cmocka_unit_test(test_journal),     cmocka_unit_test(test_bad_one),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
