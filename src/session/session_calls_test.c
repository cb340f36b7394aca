/* Calls in the wrong order or with wrong arguments are refused by name and have no effect. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session/session_impl.h"
#include "telegrad/telegrad.h"
#include <pthread.h>
#include <string.h>

typedef struct alone { /* a session of one rank with two tensors in buckets of their own */
    tg_transport *t;
    tg_session *s;
    float w[2], g[2];
    uint32_t id[2];
} alone;

static void alone_start(alone *a, tg_session_config config)
{
    static const size_t one[] = {1};
    static const char *const names[] = {"a", "b"};
    memset(a, 0, sizeof *a);
    config.struct_size = sizeof config;
    config.optimizer = "sgd:lr=1";
    config.bucket_bytes = 4;
    assert_int_equal(tg_transport_inproc(1, &a->t), TG_OK);
    assert_int_equal(tg_session_create(&config, a->t, &a->s), TG_OK);
    assert_int_equal(tg_session_begin(a->s), TG_E_STATE); /* nothing to train: not final */
    for (int i = 0; i < 2; i++) {
        tg_tensor t = {.struct_size = sizeof t,
                       .name = names[i],
                       .shape = one,
                       .ndim = 1,
                       .param = tg_array_f32(&a->w[i], 1),
                       .grad = tg_array_f32(&a->g[i], 1)};
        assert_int_equal(tg_session_add(a->s, &t, &a->id[i]), TG_OK);
        assert_int_equal(tg_session_add(a->s, &t, &a->id[i]), TG_E_ARG);
    }
    assert_int_equal(tg_session_grad_ready(a->s, a->id[0]), TG_E_STATE);
    assert_int_equal(tg_session_begin(a->s), TG_OK);
}

static void alone_stop(alone *a)
{
    tg_session_destroy(a->s);
    tg_transport_destroy(a->t);
}

/* Calls in the wrong order are refused without effect, and the step can be completed. */
static void test_order_of_calls(void **state)
{
    (void)state;
    alone a;
    uint64_t hash;
    double x[1] = {3};
    alone_start(&a, (tg_session_config){.method = "dense"});
    assert_int_equal(tg_session_begin(a.s), TG_E_STATE);
    a.g[0] = a.g[1] = 0.5f;
    assert_int_equal(tg_session_grad_ready(a.s, a.id[1]), TG_OK);
    assert_int_equal(tg_session_grad_ready(a.s, a.id[1]), TG_E_STATE);
    assert_int_equal(tg_session_grad_ready(a.s, 7), TG_E_ARG);
    assert_int_equal(tg_session_finish(a.s), TG_E_STATE);
    assert_int_equal(tg_session_eval_begin(a.s), TG_E_STATE);
    assert_int_equal(tg_session_save(a.s, "/tmp", NULL, 0), TG_E_STATE);
    tg_step_info info, before;
    memset(&info, 7, sizeof info);
    info.struct_size = sizeof info;
    info.want_residual_norm = false;
    memcpy(&before, &info, sizeof info);
    assert_int_equal(tg_session_step(a.s, &info), TG_E_STATE);
    assert_non_null(strstr(tg_error(), "\"a\""));
    assert_memory_equal(&info, &before, sizeof info); /* written only on success */
    assert_int_equal(tg_session_set_lr(a.s, -1), TG_E_ARG);
    assert_int_equal(tg_session_set_lr(a.s, 2),
                     TG_OK); /* counts for the bucket exchanged already */
    assert_int_equal(tg_session_grad_ready(a.s, a.id[0]), TG_OK);
    assert_int_equal(tg_session_step(a.s, NULL), TG_OK);
    assert_true(a.w[0] == -1 && a.w[1] == -1);
    assert_int_equal(tg_session_eval_begin(a.s), TG_OK);
    assert_int_equal(tg_session_grad_ready(a.s, a.id[0]), TG_E_STATE);
    assert_int_equal(tg_session_eval_end(a.s), TG_OK);
    assert_int_equal(tg_session_eval_end(a.s), TG_E_STATE);
    assert_int_equal(tg_session_sum(a.s, x, 1), TG_OK);
    assert_true(x[0] == 3);
    assert_int_equal(tg_session_sum(a.s, NULL, 1), TG_E_ARG);
    assert_int_equal(tg_session_params_hash(a.s, &hash), TG_OK);
    assert_int_equal(tg_session_finish(a.s), TG_OK);
    alone_stop(&a);
}

/* A tensor that is never made ready counts as zero, once the last step's gradient has been read. */
static void test_unready_is_zero(void **state)
{
    (void)state;
    alone a;
    alone_start(&a, (tg_session_config){.strategy = "od:warmup=0,eta_loc=0",
                                        .on_unready = TG_UNREADY_ZERO});
    a.g[0] = a.g[1] = 0.5f;
    assert_int_equal(tg_session_grad_ready(a.s, a.id[0]), TG_OK);
    assert_int_equal(tg_session_grad_ready(a.s, a.id[1]), TG_OK);
    assert_int_equal(tg_session_step(a.s, NULL), TG_OK);
    assert_int_equal(tg_session_step(a.s, NULL), TG_OK);
    assert_true(a.g[0] == 0);
    assert_int_equal(tg_session_finish(a.s), TG_OK);
    assert_true(a.w[0] == -0.5f && a.w[1] == -0.5f);
    alone_stop(&a);
}

/* A strategy that requests more exchanges than the session has room for ends the session: nothing
 * is dropped silently. */
static void test_too_many_exchanges(void **state)
{
    (void)state;
    alone a;
    alone_start(&a, (tg_session_config){.method = "dense"});
    a.s->actions.cap = 0;
    a.g[0] = a.g[1] = 0.5f;
    assert_int_equal(tg_session_grad_ready(a.s, a.id[1]), TG_E_STATE);
    assert_non_null(strstr(tg_error(), "strategy \"ssgd\" returned more than 0 exchanges"));
    a.s->actions.cap = 2; /* too late: the session has failed */
    assert_int_equal(tg_session_grad_ready(a.s, a.id[0]), TG_E_STATE);
    assert_int_equal(tg_session_step(a.s, NULL), TG_E_STATE);
    assert_true(a.w[0] == 0 && a.w[1] == 0);
    alone_stop(&a);
}

static void test_arguments(void **state)
{
    (void)state;
    tg_transport *t;
    tg_session *s = NULL;
    tg_session_config config = {.struct_size = sizeof config};
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    assert_int_equal(tg_session_create(NULL, t, &s), TG_E_ARG);
    assert_int_equal(tg_session_create(&config, NULL, &s), TG_E_ARG);
    config.timeout_ms = INT64_MAX;
    assert_int_equal(tg_session_create(&config, t, &s), TG_E_ARG);
    config.timeout_ms = -1;
    assert_int_equal(tg_session_create(&config, t, &s), TG_E_ARG);
    config.timeout_ms = 0;
    config.driver = (tg_driver)77;
    assert_int_equal(tg_session_create(&config, t, &s), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "driver=77: allowed: 0 to 2"));
    config.driver = TG_DRIVER_AUTO;
    config.struct_size = 3;
    assert_int_equal(tg_session_create(&config, t, &s), TG_E_ARG);
    assert_null(s);
    config.struct_size = sizeof config;
    config.method = "dgc:nesterov=no";
    config.optimizer = "sgd:lr=1,momentum=0.5,nesterov=yes";
    assert_int_equal(tg_session_create(&config, t, &s), TG_E_SPEC);
    config.method = "dgc";
    config.optimizer = "sgd:lr=1,momentum=1";
    assert_int_equal(tg_session_create(&config, t, &s), TG_E_SPEC);
    config.optimizer = NULL;
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    uint32_t id;
    tg_tensor bad = {.struct_size = sizeof bad, .name = "x", .ndim = 1};
    assert_int_equal(tg_session_add(s, NULL, &id), TG_E_ARG);
    assert_int_equal(tg_session_add(s, &bad, &id), TG_E_ARG);
    tg_session_destroy(s);
    tg_transport_destroy(t);
}

/* Each mistake by itself, and what its message must contain. */
static void test_tensor_arguments(void **state)
{
    (void)state;
    static float w[12], g[12];
    const size_t shape[9] = {3, 4, 1, 1, 1, 1, 1, 1, 1}, empty[2] = {3, 0};
    char long_name[300];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const tg_tensor good = {.struct_size = sizeof good,
                            .name = "w",
                            .shape = shape,
                            .ndim = 2,
                            .param = tg_array_f32(w, 12),
                            .grad = tg_array_f32(g, 12)};
    struct {
        tg_tensor t;
        tg_status status;
        const char *says;
    } wrong[20];
    for (size_t i = 0; i < TG_COUNT(wrong); i++) {
        wrong[i].t = good;
        wrong[i].status = TG_E_ARG;
    }
    wrong[0].t.struct_size = 8, wrong[0].says = "tg_session_add: t->struct_size=8: allowed: 136";
    wrong[1].t.name = NULL, wrong[1].says = "no name";
    wrong[2].t.name = "a=b", wrong[2].says = "\"a=b\" of 3 bytes: allowed";
    wrong[3].t.name = long_name, wrong[3].says = "of 299 bytes: allowed: 1 to 200";
    wrong[4].t.kind = (tg_tensor_kind)7, wrong[4].says = "kind=7: allowed: 0 to 2";
    wrong[5].t.ndim = 9, wrong[5].says = "ndim=9: allowed: 0 to 8";
    wrong[6].t.shape = NULL, wrong[6].says = "shape is NULL, and ndim=2";
    wrong[7].t.shape = empty, wrong[7].says = "dimension 1 is 0";
    wrong[8].t.grad.n = 11, wrong[8].says = "gradient has 11 elements";
    wrong[9].t.param.struct_size = 0, wrong[9].says = "parameter: struct_size=0";
    wrong[10].t.param.dtype = (tg_dtype)3, wrong[10].says = "dtype=3: this build has TG_F32";
    wrong[11].t.grad.memory = TG_CUDA, wrong[11].says = "device memory";
    wrong[10].status = wrong[11].status = TG_E_UNSUPPORTED;
    wrong[12].t.grad.data = w, wrong[12].says = "overlaps its parameter";
    wrong[13].t.param.data = g + 11, wrong[13].says = "overlaps its parameter";
    wrong[14].t.param.data = (char *)w + 2, wrong[14].says = "aligned to 4 bytes";
    wrong[15].t.name = "",
    wrong[15].says = "name \"\" of 0 bytes: allowed: 1 to 200 bytes of UTF-8";
    wrong[16].t.name = "layer\xff", wrong[16].says = "of 6 bytes: allowed: 1 to 200 bytes of UTF-8";
    wrong[17].t.name = "a\nb", wrong[17].says = "without = and control characters";
    wrong[18].t.name = "\x1b[31m", wrong[18].says = "without = and control characters";
    wrong[19].t.name = "__metadata__", wrong[19].says = "not __metadata__";

    tg_transport *t;
    tg_session *s;
    const tg_session_config config = {.struct_size = sizeof config};
    uint32_t id = 77;
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    for (size_t i = 0; i < TG_COUNT(wrong); i++) {
        if (tg_session_add(s, &wrong[i].t, &id) != wrong[i].status ||
            strstr(tg_error(), wrong[i].says) == NULL)
            fail_msg("%zu: %s", i, tg_error());
        assert_int_equal(id, 77);
    }
    assert_int_equal(tg_session_add(s, &good, &id), TG_OK);
    assert_int_equal(id, 0);
    tg_session_destroy(s);
    tg_transport_destroy(t);
}

/* Tensors that share memory would be updated twice, or overwrite each other's gradients. */
static void test_shared_memory(void **state)
{
    static float w[2][3], g[2][3];
    static const size_t n = 3;
    const struct {
        float *param, *grad; /* of the second tensor */
        const char *says;    /* NULL: accepted */
    } second[] = {{w[0], g[1], "tensors \"a\" and \"b\": their parameters share memory"},
                  {w[0] + 2, g[1], "tensors \"a\" and \"b\": their parameters share memory"},
                  {w[1], w[0], "the gradient of tensor \"b\" overlaps the parameters of \"a\""},
                  {g[0], g[1], "the gradient of tensor \"a\" overlaps the parameters of \"b\""},
                  {w[1], g[0], NULL}}; /* one after another in the same place */
    (void)state;
    for (size_t i = 0; i < TG_COUNT(second); i++) {
        const tg_session_config config = {.struct_size = sizeof config};
        tg_transport *t;
        tg_session *s;
        assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
        assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
        for (int k = 0; k < 2; k++) {
            uint32_t id;
            const tg_tensor one = {.struct_size = sizeof one,
                                   .name = k == 0 ? "a" : "b",
                                   .shape = &n,
                                   .ndim = 1,
                                   .param = tg_array_f32(k == 0 ? w[0] : second[i].param, n),
                                   .grad = tg_array_f32(k == 0 ? g[0] : second[i].grad, n)};
            assert_int_equal(tg_session_add(s, &one, &id), TG_OK);
        }
        assert_int_equal(tg_session_begin(s), second[i].says == NULL ? TG_OK : TG_E_ARG);
        if (second[i].says != NULL && strstr(tg_error(), second[i].says) == NULL)
            fail_msg("%zu: %s", i, tg_error());
        tg_session_destroy(s);
        tg_transport_destroy(t);
    }
}

/* A caller who wants to begin without a checkpoint must create another session. */
static void test_failed_load_is_final(void **state)
{
    (void)state;
    alone a;
    alone_start(&a, (tg_session_config){.method = NULL});
    tg_session_destroy(a.s);
    static float w[3], g[3];
    const size_t n = 3;
    const tg_tensor one_tensor = {.struct_size = sizeof one_tensor,
                                  .name = "w",
                                  .shape = &n,
                                  .ndim = 1,
                                  .param = tg_array_f32(w, 3),
                                  .grad = tg_array_f32(g, 3)};
    const tg_session_config config = {.struct_size = sizeof config};
    const void *extra;
    size_t len;
    uint32_t id;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tg_session_create(&config, a.t, &a.s), TG_OK);
        assert_int_equal(tg_session_add(a.s, &one_tensor, &id), TG_OK);
        if (i == 1)
            break;
        assert_int_equal(tg_session_load(a.s, "/nowhere", &extra, &len), TG_E_IO);
        assert_int_equal(tg_session_begin(a.s), TG_E_IO);
        assert_non_null(strstr(tg_error(), "/nowhere"));
        tg_session_destroy(a.s);
    }
    assert_int_equal(tg_session_begin(a.s), TG_OK);
    alone_stop(&a);
}

enum { STATISTICS_RANKS = 3 };

typedef struct statistics_rank {
    tg_transport *t;
    tg_status status;
    float averaged[2], first[2]; /* [0] during an evaluation, [1] after it */
} statistics_rank;

static tg_status evaluate(statistics_rank *r, tg_session *s)
{
    static const size_t one[] = {1};
    float value[3] = {0}, g = 0;
    uint32_t id[3];
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"w", "mean", "count"};
        static const tg_tensor_kind kinds[] = {TG_TENSOR_TRAINED, TG_TENSOR_AVERAGED,
                                               TG_TENSOR_RANK0};
        tg_tensor t = {.struct_size = sizeof t,
                       .name = names[i],
                       .shape = one,
                       .ndim = 1,
                       .kind = kinds[i],
                       .param = tg_array_f32(&value[i], 1),
                       .grad = tg_array_f32(&g, 1)};
        TG_TRY(tg_session_add(s, &t, &id[i]));
    }
    TG_TRY(tg_session_begin(s));
    value[1] = value[2] = (float)(r->t->rank + 1);
    TG_TRY(tg_session_eval_begin(s));
    r->averaged[0] = value[1];
    r->first[0] = value[2];
    TG_TRY(tg_session_eval_end(s));
    r->averaged[1] = value[1];
    r->first[1] = value[2];
    return TG_OK;
}

static void *statistics_run(void *arg)
{
    statistics_rank *r = arg;
    tg_session *s = NULL;
    tg_session_config config = {.struct_size = sizeof config, .timeout_ms = 5000};
    r->status = tg_session_create(&config, r->t, &s);
    if (r->status == TG_OK)
        r->status = evaluate(r, s);
    tg_session_destroy(s);
    return NULL;
}

/* An evaluation sees the mean of a statistic, or rank 0's; afterwards each rank has its own value
 * again. */
static void test_statistics(void **state)
{
    (void)state;
    tg_transport *t[STATISTICS_RANKS];
    statistics_rank rank[STATISTICS_RANKS];
    pthread_t thread[STATISTICS_RANKS];
    memset(rank, 0, sizeof rank);
    assert_int_equal(tg_transport_inproc(STATISTICS_RANKS, t), TG_OK);
    for (int i = 0; i < STATISTICS_RANKS; i++) {
        rank[i].t = t[i];
        assert_int_equal(pthread_create(&thread[i], NULL, statistics_run, &rank[i]), 0);
    }
    for (int i = 0; i < STATISTICS_RANKS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < STATISTICS_RANKS; i++) {
        assert_int_equal(rank[i].status, TG_OK);
        assert_true(rank[i].averaged[0] == 2 && rank[i].averaged[1] == (float)(i + 1));
        assert_true(rank[i].first[0] == 1 && rank[i].first[1] == (float)(i + 1));
        tg_transport_destroy(t[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_calls),       cmocka_unit_test(test_unready_is_zero),
        cmocka_unit_test(test_too_many_exchanges),   cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_tensor_arguments),     cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_failed_load_is_final), cmocka_unit_test(test_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
