/* Calls in the wrong order or with wrong arguments are refused by name and do no harm. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "telegrad/telegrad.h"
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
    assert_int_equal(tg_grad_ready(a->s, a->id[0]), TG_E_STATE);
    assert_int_equal(tg_session_begin(a->s), TG_OK);
}

static void alone_stop(alone *a)
{
    tg_session_destroy(a->s);
    tg_transport_destroy(a->t);
}

/* Calls out of order are refused without harm, and the step can be completed. */
static void test_order_of_calls(void **state)
{
    (void)state;
    alone a;
    uint64_t hash;
    double x[1] = {3};
    alone_start(&a, (tg_session_config){.method = "dense"});
    assert_int_equal(tg_session_begin(a.s), TG_E_STATE);
    a.g[0] = a.g[1] = 0.5f;
    assert_int_equal(tg_grad_ready(a.s, a.id[1]), TG_OK);
    assert_int_equal(tg_grad_ready(a.s, a.id[1]), TG_E_STATE);
    assert_int_equal(tg_grad_ready(a.s, 7), TG_E_ARG);
    assert_int_equal(tg_session_finish(a.s), TG_E_STATE);
    assert_int_equal(tg_eval_begin(a.s), TG_E_STATE);
    assert_int_equal(tg_session_save(a.s, "/tmp", NULL, 0), TG_E_STATE);
    assert_int_equal(tg_step(a.s, NULL), TG_E_STATE);
    assert_non_null(strstr(tg_error(), "\"a\""));
    assert_int_equal(tg_session_set_lr(a.s, -1), TG_E_ARG);
    assert_int_equal(tg_session_set_lr(a.s, 2),
                     TG_OK); /* counts for the bucket exchanged already */
    assert_int_equal(tg_grad_ready(a.s, a.id[0]), TG_OK);
    assert_int_equal(tg_step(a.s, NULL), TG_OK);
    assert_true(a.w[0] == -1 && a.w[1] == -1);
    assert_int_equal(tg_eval_begin(a.s), TG_OK);
    assert_int_equal(tg_grad_ready(a.s, a.id[0]), TG_E_STATE);
    assert_int_equal(tg_eval_end(a.s), TG_OK);
    assert_int_equal(tg_eval_end(a.s), TG_E_STATE);
    assert_int_equal(tg_session_sum(a.s, x, 1), TG_OK);
    assert_true(x[0] == 3);
    assert_int_equal(tg_session_sum(a.s, NULL, 1), TG_E_ARG);
    assert_int_equal(tg_session_params_hash(a.s, &hash), TG_OK);
    assert_int_equal(tg_session_finish(a.s), TG_OK);
    alone_stop(&a);
}

/* A tensor that is never made ready counts as zero, after the last step's gradient has been read.
 */
static void test_unready_is_zero(void **state)
{
    (void)state;
    alone a;
    alone_start(&a, (tg_session_config){.strategy = "od:warmup=0,eta_loc=0",
                                        .on_unready = TG_UNREADY_ZERO});
    a.g[0] = a.g[1] = 0.5f;
    assert_int_equal(tg_grad_ready(a.s, a.id[0]), TG_OK);
    assert_int_equal(tg_grad_ready(a.s, a.id[1]), TG_OK);
    assert_int_equal(tg_step(a.s, NULL), TG_OK);
    assert_int_equal(tg_step(a.s, NULL), TG_OK);
    assert_true(a.g[0] == 0);
    assert_int_equal(tg_session_finish(a.s), TG_OK);
    assert_true(a.w[0] == -0.5f && a.w[1] == -0.5f);
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
    assert_non_null(strstr(tg_error(), "driver=77"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_calls),
        cmocka_unit_test(test_unready_is_zero),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
