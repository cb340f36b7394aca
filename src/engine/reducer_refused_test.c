/* What reducers refuse, and with which words: malformed segments before anything is sent, settings
 * that differ between ranks, gradients that are not finite, vectors that overlap, and a transport
 * that has failed before. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "telegrad/reducer.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { P = 2, N = 12 };

static void says(const char *error, const char *text)
{
    if (strstr(error, text) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", error, text);
}

static void refused(tg_status status, tg_status want, const char *text)
{
    if (status != want)
        fail_msg("%s in place of %s (\"%s\")", tg_status_name(status), tg_status_name(want), text);
    says(tg_error(), text);
}

/* ---- segments -------------------------------------------------------------------------------- */

/* The transport belongs to two ranks, and the other one is not there: an answer that waited for it
 * would be TG_E_PEER. */
static void malformed_segments(void **state)
{
    static const struct {
        tg_segment segment[3];
        size_t count;
        const char *text;
    } bad[] = {
        {{{.begin = 1, .n = 11, .rows = 11, .cols = 1}},
         1,
         "tg_reducer_create: config->segments[0].begin=1: allowed: 0, where the vector begins"},
        {{{.begin = 0, .n = 4, .rows = 2, .cols = 2}, {.begin = 5, .n = 7, .rows = 7, .cols = 1}},
         2,
         "tg_reducer_create: config->segments[1].begin=5: allowed: 4, where segments[0] ends"},
        {{{.begin = 0, .n = 4, .rows = 2, .cols = 2}, {.begin = 4, .n = 0}},
         2,
         "tg_reducer_create: config->segments[1].n=0: allowed: 1 to 8"},
        {{{.begin = 0, .n = 13, .rows = 13, .cols = 1}},
         1,
         "tg_reducer_create: config->segments[0].n=13: allowed: 1 to 12"},
        {{{.begin = 0, .n = SIZE_MAX, .rows = 1, .cols = SIZE_MAX}}, 1, "segments[0].n="},
        {{{.begin = 0, .n = 12, .rows = 5, .cols = 2}},
         1,
         "tg_reducer_create: config->segments[0]: rows=5, cols=2: allowed: rows * cols = n, which "
         "is 12"},
        {{{.begin = 0, .n = 12, .rows = 0, .cols = 12}}, 1, "segments[0]: rows=0, cols=12"},
        {{{.begin = 0, .n = 4, .rows = 4, .cols = 1}, {.begin = 4, .n = 4, .rows = 4, .cols = 1}},
         2,
         "tg_reducer_create: config->segments end at element 8: allowed: n, which is 12"},
        {{{.begin = 0, .n = 12, .rows = 12, .cols = 1}},
         N + 1,
         "tg_reducer_create: config->nsegments=13: allowed: 1 to n, which is 12"},
    };
    static const int nodes[P] = {0, -7};
    (void)state;
    tg_transport *t[P];
    tg_reducer *r = NULL;
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const tg_reducer_config config = {
            .struct_size = sizeof config, .segments = bad[i].segment, .nsegments = bad[i].count};
        refused(tg_reducer_create("dense", t[0], N, &config, &r), TG_E_ARG, bad[i].text);
    }
    const tg_reducer_config config = {.struct_size = sizeof config, .nodes = nodes};
    refused(tg_reducer_create("dense", t[0], N, &config, &r), TG_E_ARG,
            "tg_reducer_create: config->nodes[1]=-7: allowed: 0 and up");
    assert_null(r);
    for (int i = 0; i < P; i++)
        tg_transport_destroy(t[i]);
}

/* ---- two ranks ------------------------------------------------------------------------------- */

typedef struct rank {
    tg_transport *t;
    tg_reducer_config config;
    const float *g;
    tg_status status;
    char error[1024];
} rank;

static void *one_mean(void *arg)
{
    rank *r = arg;
    float mean[N];
    tg_reducer *reducer = NULL;
    r->config.struct_size = sizeof r->config;
    r->status = tg_reducer_create("dense", r->t, N, &r->config, &reducer);
    if (r->status == TG_OK)
        r->status = tg_reducer_mean(reducer, r->g, mean);
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_reducer_destroy(reducer);
    tg_transport_destroy(r->t);
    return NULL;
}

static void run(rank r[P])
{
    tg_transport *t[P];
    pthread_t thread[P];
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int i = 0; i < P; i++) {
        r[i].t = t[i];
        assert_int_equal(pthread_create(&thread[i], NULL, one_mean, &r[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
}

static void mismatch(const tg_reducer_config *a, const tg_reducer_config *b, const char *text)
{
    rank r[P] = {{.config = *a}, {.config = *b}};
    run(r);
    for (int i = 0; i < P; i++)
        assert_int_equal(r[i].status, TG_E_MISMATCH);
    says(r[0].error, text);
}

/* The message names the setting, and says what each rank has. */
static void different_settings(void **state)
{
    static const int nodes[P] = {3, 3};
    static const tg_segment one[] = {{.n = 12, .rows = 12, .cols = 1}},
                            two[] = {{.n = 8, .rows = 4, .cols = 2, .dims = 2},
                                     {.begin = 8, .n = 4, .rows = 4, .cols = 1, .dims = 1}},
                            other[] = {{.n = 8, .rows = 2, .cols = 4, .dims = 2},
                                       {.begin = 8, .n = 4, .rows = 4, .cols = 1, .dims = 1}};
    (void)state;
    const tg_reducer_config plain = {0}, placed = {.nodes = nodes}, seeded = {.seed = 9},
                            whole = {.segments = one, .nsegments = 1},
                            parts = {.segments = two, .nsegments = 2},
                            turned = {.segments = other, .nsegments = 2};
    mismatch(&plain, &placed, "rank 0 has nodes=none, rank 1 has nodes=ranks 0-1 on node 0");
    mismatch(&placed, &plain, "rank 0 has nodes=ranks 0-1 on node 0, rank 1 has nodes=none");
    mismatch(&plain, &seeded, "rank 0 has seed=0, rank 1 has seed=9");
    mismatch(&plain, &parts, "rank 0 has segments=none, rank 1 has segments=2");
    mismatch(&whole, &parts, "rank 0 has segments=1, rank 1 has segments=2");
    mismatch(&parts, &turned,
             "rank 0 has segment 0=8 elements as 4 x 2 with dims 2, "
             "rank 1 has segment 0=8 elements as 2 x 4 with dims 2");
}

/* This rank's message has its number, the element and the value; the other one's says who failed
 * only if it knows. */
static void nonfinite(void **state)
{
    static const float good[N] = {1, 2, 3}, bad[N] = {1, 2, 3, 4, 5, -INFINITY, NAN};
    (void)state;
    rank r[P] = {{.g = good}, {.g = bad}};
    run(r);
    for (int i = 0; i < P; i++)
        assert_int_equal(r[i].status, TG_E_NONFINITE);
    says(r[1].error, "rank 1: element 5 of the gradient is -inf");
    says(r[0].error, "a gradient is not finite on another rank");
}

/* ---- one rank -------------------------------------------------------------------------------- */

static void overlap(void **state)
{
    (void)state;
    float x[3 * N] = {0};
    char bytes[(N + 1) * sizeof(float)] = {0};
    float *odd;
    const void *between = bytes + (((uintptr_t)bytes % 4) == 0 ? 1 : 0);
    memcpy(&odd, &between, sizeof odd);
    tg_transport *t;
    tg_reducer *r;
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    assert_int_equal(tg_reducer_create("dense", t, N, NULL, &r), TG_OK);
    refused(tg_reducer_mean(r, x, x + 1), TG_E_ARG,
            "tg_reducer_mean: mean begins 4 bytes after g: it must be g itself, or at least "
            "48 bytes away");
    refused(tg_reducer_mean(r, x + N - 1, x), TG_E_ARG, "mean begins 44 bytes before g");
    refused(tg_reducer_start(r, x, x + 1, NULL, NULL), TG_E_ARG, "tg_reducer_start: mean begins");
    refused(tg_reducer_mean(r, odd, x), TG_E_ARG, "must be aligned to 4 bytes");
    refused(tg_reducer_mean(r, x, odd), TG_E_ARG, "must be aligned to 4 bytes");
    assert_int_equal(tg_reducer_mean(r, x, x), TG_OK);
    assert_int_equal(tg_reducer_mean(r, x, x + N), TG_OK);
    assert_int_equal(tg_reducer_mean(r, x + N, x), TG_OK);
    tg_reducer_destroy(r);
    tg_transport_destroy(t);
}

/* A transport that has failed: what is created later fails too, with the first cause. */
static void after_a_failure(void **state)
{
    (void)state;
    tg_transport *t[P];
    tg_reducer *r = NULL;
    char first[1024];
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    tg_transport_destroy(t[1]);
    assert_int_equal(tg_reducer_create("dense", t[0], N, NULL, &r), TG_E_PEER);
    snprintf(first, sizeof first, "%s", tg_error());
    says(first, "rank 1");
    for (int again = 0; again < 2; again++)
        refused(tg_reducer_create("dense", t[0], N, NULL, &r), TG_E_PEER, first);
    tg_transport_destroy(t[0]);
}

/* ---- stop ------------------------------------------------------------------------------------ */

typedef struct stopping {
    tg_transport *t;
    volatile sig_atomic_t *stop; /* set once both reducers exist, unless the other rank comes */
    pthread_barrier_t *both_made;
    bool comes, other_comes; /* average at once */
    tg_status status;
    char error[1024];
} stopping;

static void *mean_or_wait(void *arg)
{
    stopping *s = arg;
    float x[N] = {1};
    tg_reducer *r = NULL;
    const tg_reducer_config config = {.struct_size = sizeof config, .stop = s->stop};
    s->status = tg_reducer_create("dense", s->t, N, &config, &r);
    pthread_barrier_wait(s->both_made);
    if (s->stop != NULL)
        *s->stop = !s->other_comes;
    if (s->status == TG_OK && s->comes)
        s->status = tg_reducer_mean(r, x, x);
    snprintf(s->error, sizeof s->error, "%s", tg_error());
    pthread_barrier_wait(s->both_made);
    if (s->status == TG_OK && !s->comes) {
        s->status = tg_reducer_mean(r, x, x);
        snprintf(s->error, sizeof s->error, "%s", tg_error());
    }
    tg_reducer_destroy(r);
    return NULL;
}

/* config.stop, set directly as a signal handler does it: nothing happens while it is 0, and a
 * second after it is set, a call that still waits fails. */
static void stop_is_set(void **state)
{
    (void)state;
    static volatile sig_atomic_t stop;
    pthread_barrier_t both_made;
    pthread_t thread;
    tg_transport *t[P];
    for (int comes = 1; comes >= 0; comes--) {
        assert_int_equal(tg_transport_inproc(P, t), TG_OK);
        assert_int_equal(pthread_barrier_init(&both_made, NULL, P), 0);
        stopping a = {.t = t[0],
                      .stop = &stop,
                      .both_made = &both_made,
                      .comes = true,
                      .other_comes = comes != 0},
                 b = {.t = t[1], .both_made = &both_made, .comes = comes != 0};
        const int64_t begin = tg_now_ns(tg_clock_monotonic());
        assert_int_equal(pthread_create(&thread, NULL, mean_or_wait, &b), 0);
        mean_or_wait(&a);
        pthread_join(thread, NULL);
        assert_int_equal(a.status, comes ? TG_OK : TG_E_STOPPED);
        assert_int_equal(b.status, comes ? TG_OK : TG_E_PEER);
        if (!comes) {
            says(a.error, "stopped on request of this rank (0)");
            says(b.error, "rank 0");
            assert_true(tg_now_ns(tg_clock_monotonic()) - begin >= INT64_C(1000000000));
        }
        pthread_barrier_destroy(&both_made);
        for (int i = 0; i < P; i++)
            tg_transport_destroy(t[i]);
    }
}

/* ---- destroyed on another thread ------------------------------------------------------------- */

static void *destroy(void *t)
{
    tg_transport_destroy(t);
    return NULL;
}

static void on_another_thread(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, body, arg), 0);
    pthread_join(thread, NULL);
}

/* A transport that is bound to a thread is destroyed by another one, which may not touch it: the
 * reducer fails at its next call, and only then the other rank learns of it. */
static void destroyed_elsewhere(void **state)
{
    (void)state;
    static const char why[] = "the transport was destroyed on this rank (0) while a reducer";
    tg_transport *t[P];
    tg_reducer *r = NULL;
    rank other = {.g = (const float[N]){0}};
    pthread_t thread;
    float x[N] = {0};
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    t[0]->any_thread = false;
    other.t = t[1];
    assert_int_equal(pthread_create(&thread, NULL, one_mean, &other), 0);
    assert_int_equal(tg_reducer_create("dense", t[0], N, NULL, &r), TG_OK);
    on_another_thread(destroy, t[0]);
    refused(tg_reducer_mean(r, x, x), TG_E_STATE, why);
    pthread_join(thread, NULL); /* before the reducer, which frees the transport, is destroyed */
    assert_int_equal(other.status, TG_E_PEER);
    says(other.error, "rank 0");
    refused(tg_reducer_mean(r, x, x), TG_E_STATE, why);
    tg_reducer_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_segments), cmocka_unit_test(different_settings),
        cmocka_unit_test(nonfinite),          cmocka_unit_test(overlap),
        cmocka_unit_test(after_a_failure),    cmocka_unit_test(destroyed_elsewhere),
        cmocka_unit_test(stop_is_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
