/* Memory of exchanges in flight: it corresponds to the number of exchanges that the strategy
 * allows, for any number of steps and however late the link makes them. And what a session leaves
 * behind when its transport cannot cancel what is posted. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "one_tensor.h"

#include "telegrad/telegrad.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { P = 2, N = 1 << 14, STEPS = 64 };

/* Not measured with sanitizers, which have a heap of their own, or with C libraries without
 * mallinfo2. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __GLIBC__ || \
    (__GLIBC__ == 2 && __GLIBC_MINOR__ < 33)
enum { COUNTS = false };

static size_t heap(void)
{
    return 0;
}
#else
enum { COUNTS = true };

/* Bytes allocated by the program, in all threads. */
static size_t heap(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
#endif

typedef struct rank {
    const char *method, *strategy, *optimizer;
    tg_transport *transport;
    int leave_after; /* gradients; -1: train to the end */
    size_t *used; /* (STEPS) bytes of the heap after each step, for all ranks; NULL: not wanted */
    tg_status status;
    char error[512];
} rank;

static pthread_barrier_t all_leave;

static tg_status train(rank *r, tg_session *s, float *w, float *g)
{
    uint32_t id;
    TG_TRY(one_tensor_begin(s, w, g, N, &id));
    if (r->leave_after >= 0) {
        const tg_status status = r->leave_after > 0 ? tg_session_grad_ready(s, id) : TG_OK;
        pthread_barrier_wait(&all_leave);
        return status;
    }
    for (size_t t = 0; t < STEPS; t++) {
        TG_TRY(tg_session_grad_wait(s, id));
        for (size_t i = 0; i < N; i++)
            g[i] = (float)((i * 7 + t * 3) % 11) - 5;
        TG_TRY(tg_session_grad_ready(s, id));
        TG_TRY(tg_session_step(s, NULL));
        if (r->used != NULL)
            r->used[t] = heap();
    }
    return tg_session_finish(s);
}

static tg_status session(rank *r)
{
    tg_link link;
    TG_TRY(tg_link_parse("1gbit,5ms", &link));
    TG_TRY(tg_transport_shaped(r->transport, &link, &r->transport));
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = r->method,
                                      .strategy = r->strategy,
                                      .optimizer = r->optimizer,
                                      .timeout_ms = 60000};
    tg_session *s;
    TG_TRY(tg_session_create(&config, r->transport, &s));
    float *w = calloc(N, sizeof *w), *g = calloc(N, sizeof *g);
    const tg_status status = train(r, s, w, g);
    tg_session_destroy(s);
    free(w);
    free(g);
    return status;
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    r->status = session(r);
    if (r->status != TG_OK)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_transport_destroy(r->transport);
    return NULL;
}

static void run(const char *method, const char *strategy, size_t *used)
{
    rank r[P];
    tg_transport *transport[P];
    pthread_t thread[P];
    assert_int_equal(tg_transport_inproc(P, transport), TG_OK);
    for (int i = 0; i < P; i++) {
        r[i] = (rank){.method = method,
                      .strategy = strategy,
                      .optimizer = "sgd:lr=0.1",
                      .leave_after = -1,
                      .transport = transport[i],
                      .used = i == 0 ? used : NULL};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &r[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < P; i++)
        if (r[i].status != TG_OK)
            fail_msg("%s, %s, rank %d: %s", method, strategy, i, r[i].error);
}

static size_t most(const size_t *used, size_t from, size_t to)
{
    size_t peak = 0;
    for (size_t t = from; t < to; t++)
        peak = used[t] > peak ? used[t] : peak;
    return peak;
}

/* The memory that a rank holds at most in the second half of a run, in units of a gradient: by
 * then, all exchanges that can be in flight are. */
static double held(const char *method, const char *strategy)
{
    static size_t used[STEPS];
    const size_t before = heap(), gradient = N * sizeof(float);
    run(method, strategy, used);
    const size_t early = most(used, 0, STEPS / 2), late = most(used, STEPS / 2, STEPS);
    if (late > early + gradient)
        fail_msg("%s, %s: %zu bytes, then %zu", method, strategy, early, late);
    return (double)(late - before) / (double)gradient / P;
}

/* docs/strategies.md states how much memory a step of delay takes. */
static void test_memory_by_delay(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        double least, most;
    } cases[] = {{"dense", 4.9, 5.1}, {"2bit", 6.5, 6.8}, {"2bit:threshold=0.5", 2.1, 2.3}};
    if (!COUNTS)
        skip();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const double few = held(cases[c].method, "dga:delay=4"),
                     many = held(cases[c].method, "dga:delay=16"), each = (many - few) / 12,
                     rounds = held(cases[c].method, "dga:delay=16,every=4");
        if (each < cases[c].least || each > cases[c].most)
            fail_msg("%s: %g gradients for a step of delay", cases[c].method, each);
        assert_true(rounds < few + 2); /* four in flight, and a block that fills */
    }
}

static bool (*real_shut)(tg_transport *t);

/* As over MPI: what is posted stays in use. */
static bool shut_in_use(tg_transport *t)
{
    (void)real_shut(t);
    return false;
}

/* Bytes that stay allocated when rank 0 destroys its session with an exchange under way, which rank
 * 1 never joins. */
static size_t left_behind(const char *optimizer)
{
    const size_t before = heap();
    tg_transport *transport[P];
    pthread_t thread[P];
    rank r[P];
    assert_int_equal(tg_transport_inproc(P, transport), TG_OK);
    tg_transport_ops ops = *transport[0]->ops;
    real_shut = ops.shut;
    ops.shut = shut_in_use;
    transport[0]->ops = &ops;
    for (int i = 0; i < P; i++) {
        r[i] = (rank){.method = "topk",
                      .strategy = "ssgd",
                      .optimizer = optimizer,
                      .leave_after = 1 - i,
                      .transport = transport[i]};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &r[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < P; i++)
        assert_int_equal(r[i].status, TG_OK);
    return heap() - before;
}

/* How far an exchange comes before rank 0 leaves depends on the scheduler, and with it whether one
 * message or two are left: the larger case of a few tries. */
static size_t most_left_behind(const char *optimizer)
{
    size_t largest = 0;
    for (int i = 0; i < 6; i++) {
        const size_t bytes = left_behind(optimizer);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

/* Only what owns message buffers stays: neither the optimizer's state nor the residual. */
static void test_left_behind(void **state)
{
    (void)state;
    if (!COUNTS)
        skip();
    pthread_barrier_init(&all_leave, NULL, P);
    (void)left_behind("sgd:lr=0.1"); /* what a thread keeps is there from now on */
    const size_t sgd = most_left_behind("sgd:lr=0.1"), adam = most_left_behind("adam:lr=0.1");
    assert_true(sgd > 0); /* it was under way */
    if (adam >= sgd + N * sizeof(float))
        fail_msg("%zu bytes with sgd, %zu with adam", sgd, adam);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_by_delay),
                                       cmocka_unit_test(test_left_behind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
