/* A request to stop during setup: a setup that takes long ends soon; a short one continues to the
 * first step. Two requests also end a wait in a step. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "one_tensor.h"

#include "telegrad/telegrad.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* At 1 Mbit/s the parameters take a minute. */
enum { P = 2, N = 2000000, TIMEOUT_MS = 600000 };

typedef enum how { BY_CALL, BY_FLAG, TWICE } how;

typedef struct scene {
    tg_driver driver;
    how how;
    int asks;           /* the rank that asks to stop */
    const char *link;   /* NULL: none */
    bool early, absent; /* early: asked before begin; absent: the other rank does not begin */
    size_t n;           /* parameters; 0: N */
} scene;

typedef struct rank {
    const scene *scene;
    tg_transport *t;
    tg_session *s;
    volatile sig_atomic_t stop;
    float *w, *g;
    tg_status status;
    char error[512];
    bool stopped; /* by the first step */
} rank;

static void ask(rank *k)
{
    for (int i = 0; k->scene->how != BY_FLAG && i < (k->scene->how == TWICE ? 2 : 1); i++)
        tg_session_request_stop(k->s);
    if (k->scene->how == BY_FLAG)
        __atomic_store_n(&k->stop, 1, __ATOMIC_RELAXED);
}

static void *ask_later(void *arg)
{
    const tg_clock *clock = tg_clock_monotonic();
    clock->sleep_until_ns(clock->arg, tg_now_ns(clock) + 200000000);
    ask(arg);
    return NULL;
}

static tg_status make(rank *k)
{
    const size_t n = k->scene->n == 0 ? N : k->scene->n;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .driver = k->scene->driver,
                                      .timeout_ms = TIMEOUT_MS,
                                      .stop = &k->stop};
    uint32_t id;
    TG_TRY(tg_session_create(&config, k->t, &k->s));
    return one_tensor_add(k->s, k->w, k->g, n, &id);
}

static tg_status wait_for_end(const rank *k)
{
    const tg_clock *clock = k->t->clock;
    while (k->t->ops->blamed(k->t, k->scene->asks) == TG_NOT_LEFT)
        clock->sleep_until_ns(clock->arg, tg_now_ns(clock) + 10000000);
    return tg_fail(TG_E_PEER, "rank %d has left", k->scene->asks);
}

static tg_status play(rank *k)
{
    tg_step_info info = {.struct_size = sizeof info};
    const bool away = k->scene->absent && k->t->rank != k->scene->asks;
    if (!away || k->scene->how == TWICE)
        TG_TRY(tg_session_begin(k->s));
    if (away)
        return wait_for_end(k);
    TG_TRY(tg_session_grad_ready(k->s, 0));
    TG_TRY(tg_session_step(k->s, &info));
    k->stopped = info.stop;
    return tg_session_finish(k->s);
}

static void *run(void *arg)
{
    rank *k = arg;
    pthread_t thread;
    const bool asks = k->t->rank == k->scene->asks;
    k->status = make(k);
    if (k->status == TG_OK && asks && k->scene->early)
        ask(k);
    const bool later = k->status == TG_OK && asks && !k->scene->early &&
                       pthread_create(&thread, NULL, ask_later, k) == 0;
    if (k->status == TG_OK)
        k->status = play(k);
    snprintf(k->error, sizeof k->error, "%s", k->status == TG_OK ? "" : tg_error());
    if (later)
        pthread_join(thread, NULL);
    tg_session_destroy(k->s);
    return NULL;
}

static void shape(tg_transport **t, const char *text)
{
    tg_link link = {.struct_size = sizeof link};
    assert_int_equal(tg_link_parse(text, &link), TG_OK);
    assert_int_equal(tg_transport_shaped(*t, &link, t), TG_OK);
}

static void play_scene(const scene *of, rank *k)
{
    tg_transport *t[P];
    pthread_t thread[P];
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int r = 0; r < P; r++) {
        if (of->link != NULL)
            shape(&t[r], of->link);
        k[r] = (rank){
            .scene = of, .t = t[r], .w = calloc(N, sizeof(float)), .g = calloc(N, sizeof(float))};
        assert_true(k[r].w != NULL && k[r].g != NULL);
        assert_int_equal(pthread_create(&thread[r], NULL, run, &k[r]), 0);
    }
    for (int r = 0; r < P; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < P; r++) {
        tg_transport_destroy(t[r]);
        free(k[r].w);
        free(k[r].g);
    }
}

/* The rank that asked is told so; the other rank's error names it. */
static void slow(void **state)
{
    static const scene scenes[] = {
        {TG_DRIVER_THREAD, BY_CALL, 0, "1mbit", false, false, 0},
        {TG_DRIVER_INLINE, BY_FLAG, 0, "1mbit", true, false, 0},
        {TG_DRIVER_INLINE, BY_CALL, 1, "1mbit", false, false, 0},
        {TG_DRIVER_THREAD, BY_FLAG, 1, NULL, false, true, 0},
        {TG_DRIVER_INLINE, BY_FLAG, 0, NULL, true, true, 0},
        /* a step, in which the other rank is absent */
        {TG_DRIVER_INLINE, TWICE, 0, NULL, false, true, 10},
        {TG_DRIVER_THREAD, TWICE, 1, NULL, false, true, 10},
    };
    (void)state;
    for (size_t i = 0; i < TG_COUNT(scenes); i++) {
        rank k[P];
        char name[32];
        play_scene(&scenes[i], k);
        const rank *asked = &k[scenes[i].asks], *other = &k[1 - scenes[i].asks];
        snprintf(name, sizeof name, "rank %d has left", scenes[i].asks);
        if (asked->status != TG_E_STOPPED || strstr(asked->error, "stopped on request") == NULL)
            fail_msg("scene %zu: %s %s", i, tg_status_name(asked->status), asked->error);
        if (other->status != TG_E_PEER || strstr(other->error, name) == NULL)
            fail_msg("scene %zu: %s %s", i, tg_status_name(other->status), other->error);
    }
}

/* If asked before, all ranks stop after the first step. */
static void quick(void **state)
{
    static const scene scenes[] = {{TG_DRIVER_THREAD, BY_FLAG, 1, NULL, true, false, 10},
                                   {TG_DRIVER_INLINE, BY_CALL, 0, NULL, true, false, 10}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(scenes); i++) {
        rank k[P];
        int tries = 0;
        do /* on a busy machine it may take a second */
            play_scene(&scenes[i], k);
        while (k[scenes[i].asks].status == TG_E_STOPPED && ++tries < 20);
        for (int r = 0; r < P; r++)
            if (k[r].status != TG_OK || !k[r].stopped)
                fail_msg("scene %zu: %s %s", i, tg_status_name(k[r].status), k[r].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slow), cmocka_unit_test(quick)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
