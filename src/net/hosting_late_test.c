/* Servers whose steps have a deadline, and workers that are late. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "free_ports.h"
#include "net_house.h"

enum { N = 120, PROMPT = 2, STEPS = 10 };

/* A worker of one tensor, in a thread of its own. The gradient of its own step k is 1 at element
 * first + k. */
typedef struct worker {
    const house *h;
    const char *method;
    /* it begins when that one is there; NULL: at once. paced: it waits for it after each step, too,
     * which counts for no deadline */
    const struct worker *gate;
    bool paced;
    struct worker *other; /* in its late steps it sends its gradient once the other has made them */
    int late_every; /* 1: all own steps are late; 3: every third one, from the first; 0: none */
    int first;
    float w[N], g[N];
    double left;       /* what it has not sent: the norm's square */
    bool told_late[N]; /* own steps */
    int own, late;
    atomic_int here, done; /* done: steps of the job */
    char error[600];
    pthread_t thread;
} worker;

static void await_step(const worker *w, int step)
{
    for (int ms = 0; ms < 20000 && atomic_load(&w->done) < step; ms++)
        usleep(1000);
    assert_true(atomic_load(&w->done) >= step);
}

static tg_status work(worker *w, tg_session *s)
{
    uint32_t id;
    TG_TRY(one_tensor_begin(s, w->w, w->g, N, &id));
    atomic_store(&w->here, 1);
    for (int ms = 0; w->gate != NULL && ms < 20000 && !atomic_load(&w->gate->here); ms++)
        usleep(1000);
    for (uint64_t step; (step = tg_session_steps(s)) < STEPS;) {
        tg_step_info info = {.struct_size = sizeof info, .want_residual_norm = true};
        const bool waits = w->late_every > 0 && w->own % w->late_every == 0;
        TG_TRY(tg_session_grad_wait(s, id));
        memset(w->g, 0, sizeof w->g);
        w->g[w->first + w->own] = 1;
        if (waits)
            await_step(w->other, (int)step + 1);
        TG_TRY(tg_session_grad_ready(s, id));
        TG_TRY(tg_session_step(s, &info));
        if (info.step != step || info.late > 1 || (waits && info.late == 0))
            return tg_fail(TG_E_STATE, "step %llu, late %llu", (unsigned long long)info.step,
                           (unsigned long long)info.late);
        w->told_late[w->own++] = info.late > 0;
        w->late += info.late > 0;
        w->left = info.residual_norm * info.residual_norm;
        atomic_store(&w->done, (int)tg_session_steps(s));
        if (w->paced)
            await_step(w->gate, (int)step + 1);
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
                                      .timeout_ms = 30000};
    const tg_net_attach_config to = attach_config(w->h);
    tg_net *net;
    tg_transport *t = NULL;
    tg_session *s = NULL;
    if (attach(&to, &net, &t) != TG_OK || tg_session_create(&config, t, &s) != TG_OK ||
        work(w, s) != TG_OK)
        snprintf(w->error, sizeof w->error, "%s", tg_error());
    tg_session_destroy(s);
    tg_transport_destroy(t);
    return NULL;
}

/* Seats are given in the order of coming. */
static void run_all(house *h, worker *w, int count)
{
    for (int i = 0; i < count; i++) {
        char event[40];
        w[i].h = h;
        assert_int_equal(pthread_create(&w[i].thread, NULL, run, &w[i]), 0);
        snprintf(event, sizeof event, "worker %d (127.0.0.1) has come", i);
        await_event(h, event);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(w[i].thread, NULL);
        assert_string_equal(w[i].error, "");
    }
}

static house build(int shards, int min_workers, int64_t deadline_ms)
{
    return (house){.shards = shards,
                   .mode = "sync",
                   .optimizer = "sgd:lr=1,momentum=0",
                   .min_workers = min_workers,
                   .deadline_ms = deadline_ms,
                   .timeout_ms = 20000};
}

static const char *const methods[] = {"topk:density=0.5,exchange=star", "dense:exchange=star"};

static bool is(float x, float y)
{
    return !(x < y) && !(x > y);
}

/* One of several servers may have told the late worker that the last step is over before another
 * had made that step: its part is then of an earlier step. */
static void check_late(const worker *late, const worker *prompt, int shards)
{
    for (int i = 0; i < N; i++)
        if (!is(late->w[i], prompt->w[i]) && (shards == 1 || !is(late->w[i], 0)))
            fail_msg("element %d: %g, %g", i, (double)late->w[i], (double)prompt->w[i]);
}

/* A worker that is always late changes no bit, keeps what it has, and is where the others are. */
static void test_always_late(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        worker *w = calloc(PROMPT + 1, sizeof *w), *without = calloc(PROMPT, sizeof *w);
        house h = build(1 + k % 2, PROMPT + 1, 0), with = build(1 + k % 2, PROMPT, 20);
        assert_true(w != NULL && without != NULL);
        for (int i = 0; i <= PROMPT; i++) {
            w[i].method = methods[k];
            w[i].first = i * STEPS;
        }
        memcpy(without, w, PROMPT * sizeof *w);
        w[PROMPT].other = &w[0];
        w[PROMPT].late_every = 1;
        w[0].gate = &w[PROMPT];
        h.min_workers = PROMPT;
        house_open(&h);
        run_all(&h, without, PROMPT);
        house_close(&h);
        house_open(&with);
        run_all(&with, w, PROMPT + 1);
        for (int i = 0; i < PROMPT; i++) {
            assert_memory_equal(w[i].w, without[0].w, sizeof w->w);
            assert_int_equal(w[i].late, 0);
        }
        check_late(&w[PROMPT], &w[0], with.shards);
        assert_int_equal(w[PROMPT].late, w[PROMPT].own);
        assert_in_range(w[PROMPT].own, 1, STEPS);
        assert_int_equal(lround(w[PROMPT].left), k == 0 ? w[PROMPT].own : 0); /* its tokens */
        house_close(&with);
        assert_int_equal(with.late, with.shards * w[PROMPT].late);
        assert_int_equal(with.late_told, w[PROMPT].late);
        free(w);
        free(without);
    }
}

/* Every token was applied once, or is in the residual, or, without one, was said to be late. Where
 * the second worker takes part, the mean is over two. */
static void test_tokens(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        worker *w = calloc(2, sizeof *w);
        house h = build(k == 1 ? 1 : 2, 1, 100);
        assert_non_null(w);
        w[0].method = w[1].method = methods[k];
        w[1].first = STEPS;
        w[1].other = &w[0];
        w[1].late_every = 3;
        w[0].gate = &w[1];
        w[0].paced = true;
        house_open(&h);
        run_all(&h, w, 2);
        house_close(&h);
        int applied = 0, lost = 0;
        for (int i = 0; i < w[1].own; i++) {
            const float at = w[0].w[STEPS + i];
            assert_true(is(at, 0) || is(at, -0.5F));
            assert_true(k == 0 || is(at, w[1].told_late[i] ? 0 : -0.5F));
            applied += at < 0;
            lost += k == 1 && w[1].told_late[i];
        }
        assert_int_equal(applied + lost + lround(w[1].left), w[1].own);
        for (int i = 0; i < w[0].own; i++)
            assert_true(is(w[0].w[i], -0.5F) || is(w[0].w[i], -1));
        assert_true(w[1].late > 0 && w[1].late < w[1].own);
        free(w);
    }
}

/* A deadline that nobody misses changes no bit. */
static void test_in_time(void **state)
{
    (void)state;
    worker *w = calloc(2 * PROMPT, sizeof *w);
    assert_non_null(w);
    for (int k = 0; k < 2; k++) {
        house h = build(2, PROMPT, k * 15000);
        for (int i = 0; i < PROMPT; i++)
            w[k * PROMPT + i] = (worker){.method = methods[0], .first = i * STEPS};
        house_open(&h);
        run_all(&h, &w[k * PROMPT], PROMPT);
        house_close(&h);
    }
    for (int i = 1; i < 2 * PROMPT; i++)
        assert_memory_equal(w[i].w, w[0].w, sizeof w->w);
    free(w);
}

static void test_refused(void **state)
{
    static const struct {
        const char *mode;
        int64_t deadline_ms;
        const char *part;
    } cases[] = {{"async", 10, "deadline_ms=10 requires mode sync or async:staleness=0"},
                 {"sync", -1, "deadline_ms=-1: allowed: 0 to less than timeout_ms, 50000"},
                 {"sync", 50000, "deadline_ms=50000: allowed: 0 to less than timeout_ms, 50000"}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const tg_server_config c = {.struct_size = sizeof c,
                                    .mode = cases[k].mode,
                                    .optimizer = "sgd:lr=1",
                                    .deadline_ms = cases[k].deadline_ms};
        assert_int_not_equal(try_server(&c), TG_OK);
        if (!strstr(tg_error(), cases[k].part))
            fail_msg("%s: %s", cases[k].mode, tg_error());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_always_late),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_in_time),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
