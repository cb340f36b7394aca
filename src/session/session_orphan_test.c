/* A transport is destroyed before its sessions and reducers: their calls fail, other ranks do not
 * wait, and its memory is kept as long as they exist. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "one_tensor.h"

#include "telegrad/telegrad.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

enum { P = 2, EARLY = 1, N = 1000 };

/* SILENT: an exchange is under way to which the other rank contributes nothing. */
typedef enum moment { CREATED, BEGUN, UNDER_WAY, SILENT, MOMENTS } moment;

typedef struct rank {
    tg_transport *t;
    tg_driver driver;
    moment when;
    tg_status status;
    char error[512];
    float w[N], g[N], x[N], mean[N];
    uint32_t id;
    tg_session *s;
    tg_reducer *r; /* beside the session */
} rank;

static sem_t gone; /* SILENT: the transport has been destroyed */

static const char destroyed[] = "the transport was destroyed on this rank (1)";

static tg_status make(rank *k)
{
    const tg_session_config config = {.struct_size = sizeof config, .driver = k->driver};
    TG_TRY(tg_reducer_create("topk", k->t, N, NULL, &k->r));
    TG_TRY(tg_session_create(&config, k->t, &k->s));
    return one_tensor_add(k->s, k->w, k->g, N, &k->id);
}

static tg_status step(rank *k)
{
    TG_TRY(tg_session_grad_ready(k->s, k->id));
    return tg_session_step(k->s, NULL);
}

static tg_status play(rank *k, bool early)
{
    TG_TRY(make(k));
    if (early && k->when == CREATED)
        tg_transport_destroy(k->t);
    TG_TRY(tg_session_begin(k->s));
    TG_TRY(step(k));
    if (early && k->when == UNDER_WAY) {
        TG_TRY(tg_session_grad_ready(k->s, k->id));
        TG_TRY(tg_reducer_start(k->r, k->x, k->mean, NULL, NULL));
    }
    if (early && k->when == SILENT) {
        TG_TRY(tg_session_grad_ready(k->s, k->id));
        TG_TRY(tg_session_grad_wait(k->s, k->id)); /* it has begun */
    }
    if (!early && k->when == SILENT)
        (void)sem_wait(&gone);
    if (early)
        tg_transport_destroy(k->t);
    if (early && k->when == SILENT) {
        (void)sem_post(&gone);
        return tg_session_step(k->s, NULL);
    }
    if (early && k->when == UNDER_WAY) { /* they may have been done before */
        TG_TRY(tg_session_step(k->s, NULL));
        return step(k);
    }
    TG_TRY(step(k));
    TG_TRY(tg_reducer_mean(k->r, k->x, k->mean));
    return step(k);
}

/* All other calls report it as well. */
static tg_status afterwards(rank *k)
{
    uint64_t hash;
    double sum = 0;
    tg_reducer *other;
    const tg_status under_way = tg_reducer_wait(k->r); /* it may have been done before */
    if (under_way != TG_OK && under_way != TG_E_STATE)
        return under_way;
    tg_status status[] = {
        tg_reducer_wait(k->r),         tg_reducer_create("topk", k->t, N, NULL, &other),
        tg_session_sum(k->s, &sum, 1), tg_session_grad_wait(k->s, k->id),
        tg_session_finish(k->s),       tg_session_params_hash(k->s, &hash)};
    for (size_t i = 0; i < TG_COUNT(status); i++)
        if (status[i] != TG_E_STATE)
            return tg_fail(TG_E_ARG, "call %zu afterwards: %s", i, tg_status_name(status[i]));
    return TG_OK;
}

static void *run(void *arg)
{
    rank *k = arg;
    const bool early = k->t->rank == EARLY;
    k->status = play(k, early);
    snprintf(k->error, sizeof k->error, "%s", tg_error());
    if (early && strstr(k->error, destroyed) != NULL && afterwards(k) != TG_OK)
        snprintf(k->error, sizeof k->error, "%s", tg_error());
    if (!early)
        tg_transport_destroy(k->t); /* late enough to show an error */
    tg_reducer_destroy(k->r);
    tg_session_destroy(k->s);
    return NULL;
}

static void orphans(void **state)
{
    static const tg_driver drivers[] = {TG_DRIVER_INLINE, TG_DRIVER_THREAD};
    static rank k[P];
    (void)state;
    for (int i = 0; i < (int)TG_COUNT(drivers) * MOMENTS; i++) {
        tg_transport *t[P];
        pthread_t thread[P];
        assert_int_equal(tg_transport_inproc(P, t), TG_OK);
        for (int r = 0; r < P; r++) {
            k[r] = (rank){.t = t[r], .driver = drivers[i / MOMENTS], .when = (moment)(i % MOMENTS)};
            assert_int_equal(pthread_create(&thread[r], NULL, run, &k[r]), 0);
        }
        for (int r = 0; r < P; r++)
            pthread_join(thread[r], NULL);
        if (k[EARLY].status != TG_E_STATE || strstr(k[EARLY].error, destroyed) == NULL)
            fail_msg("case %d: %s %s", i, tg_status_name(k[EARLY].status), k[EARLY].error);
        if (k[0].status != TG_E_PEER || strstr(k[0].error, "rank 1") == NULL)
            fail_msg("case %d: %s %s", i, tg_status_name(k[0].status), k[0].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(orphans)};
    if (sem_init(&gone, 0, 0) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
