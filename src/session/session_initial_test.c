/* Initial parameters with which training cannot start. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "telegrad/telegrad.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { P = 3, TENSORS = 3, N = 50 };

typedef struct rank {
    tg_transport *t;
    float value[TENSORS]; /* of element 7 of each tensor */
    tg_status status;
    char error[512];
    float w[TENSORS][N], g[TENSORS][N];
} rank;

static tg_status begin(rank *k)
{
    static const char *const names[] = {"first", "mask", "last"};
    static const size_t shape = N;
    const tg_session_config config = {.struct_size = sizeof config, .driver = TG_DRIVER_INLINE};
    tg_session *s;
    TG_TRY(tg_session_create(&config, k->t, &s));
    tg_status status = TG_OK;
    for (uint32_t i = 0; i < TENSORS && status == TG_OK; i++) {
        const tg_tensor t = {.struct_size = sizeof t,
                             .name = names[i],
                             .shape = &shape,
                             .ndim = 1,
                             .kind = i == 1 ? TG_TENSOR_RANK0 : TG_TENSOR_TRAINED,
                             .param = tg_array_f32(k->w[i], N),
                             .grad = tg_array_f32(k->g[i], i == 1 ? 0 : N)};
        uint32_t id;
        k->w[i][7] = k->value[i];
        status = tg_session_add(s, &t, &id);
    }
    if (status == TG_OK)
        status = tg_session_begin(s);
    tg_session_destroy(s);
    return status;
}

static void *run(void *arg)
{
    rank *k = arg;
    k->status = begin(k);
    snprintf(k->error, sizeof k->error, "%s", k->status == TG_OK ? "" : tg_error());
    return NULL;
}

/* value: on rank 0; others: on the other ranks. */
static void check(tg_transport *const *t, const float *value, const float *others,
                  const char *error)
{
    static rank k[P];
    pthread_t thread[P];
    for (int r = 0; r < P; r++) {
        k[r] = (rank){.t = t[r]};
        memcpy(k[r].value, r == 0 ? value : others, sizeof k[r].value);
        assert_int_equal(pthread_create(&thread[r], NULL, run, &k[r]), 0);
    }
    for (int r = 0; r < P; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < P; r++)
        if (k[r].status != (error == NULL ? TG_OK : TG_E_NONFINITE) ||
            strstr(k[r].error, error == NULL ? "" : error) == NULL)
            fail_msg("rank %d: %s %s", r, tg_status_name(k[r].status), k[r].error);
}

/* All ranks report the same error, and may begin again on the same transport. */
static void initial(void **state)
{
    static const float fine[TENSORS] = {1, 2, 3}, first[TENSORS] = {(float)NAN, 0, 0},
                       last[TENSORS] = {0, 0, -INFINITY}, mask[TENSORS] = {0, -INFINITY, 0};
    tg_transport *t[P];
    (void)state;
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    check(t, first, fine, "tensor \"first\": element 7 of rank 0's initial parameters is ");
    check(t, last, fine, "tensor \"last\": element 7 of rank 0's initial parameters is -inf");
    check(t, mask, fine, NULL);  /* a statistic */
    check(t, fine, first, NULL); /* not sent to any rank */
    for (int r = 0; r < P; r++)
        tg_transport_destroy(t[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(initial)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
