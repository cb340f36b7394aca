/* Ranks that call different functions of their sessions at the same point: both end with an error,
 * at once, and the first one says so. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "one_tensor.h"

#include "telegrad/session.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { P = 2, N = 1000 };

typedef struct rank {
    tg_transport *t;
    bool differs; /* calls something else in the place of the second step */
    const char *dir;
    tg_status status;
    char error[1024];
} rank;

static tg_status one_step(tg_session *s, uint32_t id)
{
    TG_TRY(tg_session_grad_ready(s, id));
    return tg_session_step(s, NULL);
}

static tg_status train(const rank *r, tg_session *s)
{
    static float w[P][N], g[P][N];
    const int me = r->t->rank;
    double x = 1;
    uint32_t id;
    TG_TRY(one_tensor_begin(s, w[me], g[me], N, &id));
    TG_TRY(one_step(s, id));
    if (!r->differs)
        return one_step(s, id);
    return r->dir != NULL ? tg_session_save(s, r->dir, NULL, 0) : tg_session_sum(s, &x, 1);
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    const tg_session_config config = {.struct_size = sizeof config, .timeout_ms = 60000};
    tg_session *s;
    r->status = tg_session_create(&config, r->t, &s);
    if (r->status != TG_OK)
        return NULL;
    r->status = train(r, s);
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_session_destroy(s);
    return NULL;
}

static void play(const char *dir)
{
    static const char why[] = "the two ranks called different functions, or in another order";
    tg_transport *t[P];
    pthread_t thread[P];
    rank r[P] = {{.dir = dir}, {.dir = dir, .differs = true}};
    const int64_t begin = tg_now_ns(tg_clock_monotonic());
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int i = 0; i < P; i++) {
        r[i].t = t[i];
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &r[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < P; i++) {
        assert_true(r[i].status == TG_E_PEER || r[i].status == TG_E_CORRUPT);
        tg_transport_destroy(t[i]);
    }
    if (strstr(r[0].error, why) == NULL && strstr(r[1].error, why) == NULL)
        fail_msg("rank 0: %s; rank 1: %s", r[0].error, r[1].error);
    assert_true(tg_now_ns(tg_clock_monotonic()) - begin < INT64_C(50000000000)); /* no timeout */
}

static void step_and_sum(void **state)
{
    (void)state;
    play(NULL);
}

static void step_and_save(void **state)
{
    char dir[] = "/tmp/telegrad-order-XXXXXX", command[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    play(dir);
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(step_and_sum),
                                       cmocka_unit_test(step_and_save)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
