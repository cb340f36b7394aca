/* Two sessions of a transport, each in a thread of its own, save again and again: each gets what
 * servers have for it, and nothing of the other's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "served_ranks.h"
#include "telegrad/telegrad.h"
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, SERVERS = 2, SESSIONS = 2, N = 200000, SAVES = 12 };

typedef struct own {
    tg_session *s;
    float w[N], g[N];
    tg_status status;
    char error[600];
    pthread_t thread;
} own;

static own all[RANKS][SESSIONS];

static tg_status begin(own *o, tg_transport *t)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "topk:density=0.05,exchange=twoway",
                                      .optimizer = "sgd:lr=0.01",
                                      .timeout_ms = 20000};
    const size_t shape = N;
    uint32_t id;
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = "w",
                              .shape = &shape,
                              .ndim = 1,
                              .param = tg_array_f32(o->w, N),
                              .grad = tg_array_f32(o->g, N)};
    TG_TRY(tg_session_create(&config, t, &o->s));
    TG_TRY(tg_session_add(o->s, &tensor, &id));
    return tg_session_begin(o->s);
}

static tg_status step(own *o, int number)
{
    for (int i = 0; i < N; i++)
        o->g[i] = (float)((i * 7 + number) % 1001) - 500;
    TG_TRY(tg_session_grad_ready(o->s, 0));
    return tg_session_step(o->s, NULL);
}

static tg_status save(own *o)
{
    const void *bytes;
    size_t len;
    TG_TRY(tg_session_save_memory(o->s, &bytes, &len));
    void *first = malloc(len);
    assert_non_null(first);
    memcpy(first, bytes, len);
    const size_t first_len = len;
    tg_status status = TG_OK;
    for (int i = 0; i < SAVES && status == TG_OK; i++) {
        status = tg_session_save_memory(o->s, &bytes, &len);
        if (status == TG_OK && (len != first_len || memcmp(bytes, first, len) != 0))
            status = tg_fail(TG_E_CORRUPT, "save %d has other bytes", i);
    }
    free(first);
    return status;
}

static void *save_often(void *arg)
{
    own *o = arg;
    o->status = save(o);
    if (o->status != TG_OK)
        snprintf(o->error, sizeof o->error, "%s", tg_error());
    return NULL;
}

static void be_rank(tg_transport *t, void *arg)
{
    own *o = all[t->rank];
    (void)arg;
    for (int k = 0; k < SESSIONS; k++) {
        o[k].status = begin(&o[k], t);
        if (o[k].status == TG_OK)
            o[k].status = step(&o[k], k * 100 + t->rank);
        if (o[k].status != TG_OK)
            snprintf(o[k].error, sizeof o[k].error, "%s", tg_error());
    }
    for (int k = 0; k < SESSIONS; k++)
        assert_int_equal(pthread_create(&o[k].thread, NULL, save_often, &o[k]), 0);
    for (int k = 0; k < SESSIONS; k++)
        pthread_join(o[k].thread, NULL);
    for (int k = 0; k < SESSIONS; k++)
        tg_session_destroy(o[k].s);
}

static void each_has_its_own(void **state)
{
    served_job job = {.ranks = RANKS, .servers = SERVERS, .be_rank = be_rank};
    (void)state;
    served_run(&job);
    for (int r = 0; r < RANKS; r++)
        for (int k = 0; k < SESSIONS; k++)
            if (all[r][k].status != TG_OK)
                fail_msg("rank %d, session %d: %s", r, k, all[r][k].error);
    for (int q = 0; q < SERVERS; q++)
        if (job.server[q].status != TG_OK)
            fail_msg("server %d: %s", q, job.server[q].error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_has_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
