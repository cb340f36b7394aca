/* Workers that come to servers begin at the step of those that are there. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_house.h"

enum { N = 64 };

/* A worker with two tensors, each in a bucket of its own. */
typedef struct worker {
    tg_transport *t;
    tg_session *s;
    uint32_t id[2];
    float w[2][N], g[2][N];
    double density; /* in its last step */
} worker;

static worker *create(const house *h, uint64_t anew)
{
    worker *w = calloc(1, sizeof *w);
    const size_t shape[] = {N, 1};
    assert_non_null(w);
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "topk:density=0.125,warmup=16,exchange=star",
                                      .strategy = "server",
                                      .optimizer = "sgd:lr=1,momentum=0",
                                      .bucket_bytes = N * sizeof(float),
                                      .count_anew = anew};
    w->t = come(h);
    assert_int_equal(tg_session_create(&config, w->t, &w->s), TG_OK);
    for (int i = 0; i < 2; i++) {
        const tg_tensor tensor = {.struct_size = sizeof tensor,
                                  .name = i == 0 ? "a" : "b",
                                  .shape = shape,
                                  .ndim = 2,
                                  .param = tg_array_f32(w->w[i], N),
                                  .grad = tg_array_f32(w->g[i], N)};
        assert_int_equal(tg_session_add(w->s, &tensor, &w->id[i]), TG_OK);
    }
    return w;
}

static worker *arrive(const house *h, uint64_t anew)
{
    worker *w = create(h, anew);
    if (tg_session_begin(w->s) != TG_OK)
        fail_msg("%s", tg_error());
    return w;
}

static void make_ready(worker *w, int i)
{
    assert_int_equal(tg_session_grad_wait(w->s, w->id[i]), TG_OK);
    for (int k = 0; k < N; k++)
        w->g[i][k] = (float)(k + 1);
    assert_int_equal(tg_session_grad_ready(w->s, w->id[i]), TG_OK);
}

static void step(worker *w, int times)
{
    tg_step_info info = {.struct_size = sizeof info};
    for (int k = 0; k < times; k++) {
        const uint64_t now = tg_session_steps(w->s);
        make_ready(w, 1);
        make_ready(w, 0);
        if (tg_session_step(w->s, &info) != TG_OK)
            fail_msg("%s", tg_error());
        assert_int_equal(info.step, now);
        w->density = info.density;
    }
}

static void leave(house *h, worker *w)
{
    char event[32];
    snprintf(event, sizeof event, "worker %d (127.0.0.1) has left", w->t->seat);
    pthread_mutex_lock(&h->lock);
    h->events[0] = '\0';
    pthread_mutex_unlock(&h->lock);
    tg_session_destroy(w->s);
    tg_transport_destroy(w->t);
    free(w);
    await_event(h, event);
}

/* How many steps a worker that comes now has behind it. */
static uint64_t now(house *h)
{
    worker *w = arrive(h, 0);
    const uint64_t steps = tg_session_steps(w->s);
    leave(h, w);
    return steps;
}

static void open_house(house *h, int shards, const char *mode, const char *journal)
{
    *h = (house){.shards = shards,
                 .mode = mode,
                 .optimizer = "sgd:lr=1,momentum=0",
                 .journal = journal,
                 .journal_bytes = 3000};
    house_open(h);
}

static void test_joins(void **state)
{
    static const char *const modes[] = {"async", "async:staleness=3"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        house *h = calloc(1, sizeof *h);
        assert_non_null(h);
        open_house(h, 1 + i, modes[i], NULL);
        worker *first = arrive(h, 0);
        assert_int_equal(tg_session_steps(first->s), 0);
        step(first, 5);
        worker *second = arrive(h, 0);
        assert_int_equal(tg_session_steps(second->s), 5);
        assert_memory_equal(first->w, second->w, sizeof first->w);
        step(first, 1);
        step(second, 1);
        assert_true(second->density == first->density); /* of the same step of the warm-up */
        assert_true(second->density > 0.125);
        step(second, 2);
        assert_int_equal(now(h), 6); /* the slowest's */
        leave(h, first);
        assert_int_equal(now(h), 8);
        leave(h, second);
        assert_int_equal(now(h), 8); /* nobody is there */
        house_close(h);
        free(h);
    }
}

/* A worker that is silent does not hold back those that join, unless all are. */
static void test_hangs(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    assert_non_null(h);
    *h = (house){
        .shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0", .timeout_ms = 1000};
    house_open(h);
    worker *hangs = arrive(h, 0), *works;
    step(hangs, 2);
    works = arrive(h, 0);
    step(works, 7);
    assert_int_equal(now(h), 2);
    usleep(1200000);
    assert_int_equal(now(h), 2);
    step(works, 1);
    assert_int_equal(now(h), 10);
    step(hangs, 1);
    assert_int_equal(now(h), 3);
    leave(h, hangs);
    leave(h, works);
    house_close(h);
    free(h);
}

/* Of a step that a worker has left in the middle, parts were applied: it is made again. */
static void test_half_a_step(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    assert_non_null(h);
    open_house(h, 1, "async", NULL);
    worker *w = arrive(h, 0);
    step(w, 4);
    make_ready(w, 1);
    usleep(50000);
    leave(h, w);
    assert_int_equal(now(h), 4);
    house_close(h);
    free(h);
}

/* Whoever asks for it counts from 0, unless others are there. The parameters stay. */
static void test_anew(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    assert_non_null(h);
    open_house(h, 2, "async", NULL);
    worker *first = arrive(h, 1);
    assert_int_equal(tg_session_steps(first->s), 0);
    step(first, 3);
    worker *second = arrive(h, 1);
    assert_int_equal(tg_session_steps(second->s), 3);
    leave(h, second);
    float w[2][N];
    memcpy(w, first->w, sizeof w);
    leave(h, first);
    usleep(300000); /* until the other server has seen it, too */
    worker *third = arrive(h, 1);
    assert_int_equal(tg_session_steps(third->s), 0);
    assert_memory_equal(third->w, w, sizeof w);
    step(third, 2);
    leave(h, third);
    assert_int_equal(now(h), 2);
    house_close(h);
    free(h);
}

static uint64_t recovered(const house *h)
{
    for (int i = 0; i < TG_STALENESS; i++) /* what is replayed does not count again */
        assert_int_equal(h->began[0].staleness[i], 0);
    assert_int_equal(h->began[0].elements, 0);
    return h->began[0].recovered_step;
}

static void shell(const char *format, const char *a, const char *b)
{
    char command[300];
    snprintf(command, sizeof command, format, a, b);
    assert_int_equal(system(command), 0);
}

/* A server that is started again with its journal counts on, also one that died. */
static void test_journal(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h), *after = calloc(1, sizeof *after);
    char folder[] = "/tmp/tg-steps-XXXXXX", copy[40];
    assert_true(h && after && mkdtemp(folder));
    snprintf(copy, sizeof copy, "%s.copy", folder);
    open_house(h, 1, "async", folder);
    worker *slow = arrive(h, 0), *fast;
    step(slow, 3);
    fast = arrive(h, 0);
    step(fast, 20); /* snapshots are made meanwhile */
    worker *late = arrive(h, 0);
    assert_int_equal(tg_session_steps(late->s), 3);
    step(late, 2);
    step(slow, 6);
    house_copy(folder, copy); /* as if the machine had died now */
    open_house(after, 1, "async", copy);
    assert_int_equal(recovered(after), 23);
    worker *next = arrive(after, 0);
    assert_int_equal(tg_session_steps(next->s), 23);
    step(next, 2);
    leave(after, next);
    next = arrive(after, 1);
    step(next, 4);
    leave(after, next);
    house_again(after);
    assert_int_equal(recovered(after), 4);
    assert_int_equal(now(after), 4);
    house_close(after);
    leave(h, slow);
    leave(h, fast);
    leave(h, late);
    house_close(h);
    shell("rm -r '%s' '%s'", folder, copy);
    free(after);
    free(h);
}

/* Of two servers, one is started again without a journal after so many steps. */
static void try_one_anew(int steps)
{
    house *h = calloc(1, sizeof *h);
    char folder[] = "/tmp/tg-steps-XXXXXX";
    assert_true(h && mkdtemp(folder));
    open_house(h, 2, "async", folder);
    worker *first = arrive(h, 0);
    step(first, steps);
    leave(h, first);
    house_again(h);
    worker *w = create(h, 0);
    assert_int_equal(tg_session_begin(w->s), TG_E_MISMATCH);
    if (!strstr(tg_error(), "server 1 begins anew, but server 0 has made steps"))
        fail_msg("%s", tg_error());
    leave(h, w);
    house_close(h);
    shell("rm -r '%s'%s", folder, "");
    free(h);
}

/* Workers do not join half of a model. */
static void test_one_anew(void **state)
{
    (void)state;
    try_one_anew(2);
    try_one_anew(120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joins),       cmocka_unit_test(test_hangs),
        cmocka_unit_test(test_half_a_step), cmocka_unit_test(test_anew),
        cmocka_unit_test(test_journal),     cmocka_unit_test(test_one_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
