/* The caller's own optimizer: the same bits as if the session had it, for each strategy that allows
 * it; refusals; gradients and parameters that are not finite. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "session_external.h"

enum { RANKS = 4 };

static fixture_result inside[RANKS], outside_of[RANKS];

static fixture_job job_of(const char *strategy, const char *optimizer)
{
    fixture_job job = fixture_defaults();
    job.strategy = strategy;
    job.method = tg_registry_strategy_method(strategy);
    job.optimizer = optimizer;
    job.world = RANKS;
    job.steps = 13;
    job.bucket_bytes = 1400; /* three buckets */
    job.hash_every = 1;
    return job;
}

static void run(const fixture_job *job, fixture_result *result)
{
    fixture_run(job, result);
    for (int r = 0; r < job->world; r++)
        if (result[r].status != TG_OK)
            fail_msg("%s, %s, rank %d: %s", job->strategy, job->method, r, result[r].error);
    for (int r = 0; r < job->world; r++)
        assert_true(result[r].hash == result[0].hash);
}

/* Run the job both ways, and compare the parameters of every step. */
static void compare(fixture_job job, bool ends)
{
    job.trains = NULL;
    run(&job, inside);
    job.trains = outside_session;
    for (int apart = 0; apart < 2; apart++) {
        job.apart = apart;
        run(&job, outside_of);
        for (int r = 0; r < RANKS; r++)
            for (uint64_t t = 0; t < job.steps; t++)
                if (memcmp(inside[r].trail[t], outside_of[r].trail[t], sizeof inside[r].trail[t]))
                    fail_msg("%s, %s, %s%s: rank %d: other parameters after step %d", job.strategy,
                             job.method, job.optimizer, apart ? ", apart" : "", r, (int)t);
        if (ends) {
            assert_true(inside[0].hash == outside_of[0].hash);
            assert_memory_equal(inside[0].w, outside_of[0].w, sizeof inside[0].w);
        }
    }
}

static const char *const strategies[] = {
    "local:every=1",
    "local:every=3",
    "local:every=3,after=2",
    "local:every=3,after=1ep,momentum=reset",
    "fedavg:every=3,clients=0.75",
    "fedavg:every=3,clients=0.75,momentum=reset",
    "diloco:every=4",
    "streaming:every=4,fragments=3,overlap=2,alpha=0.5",
    "eager:every=3",
    "sparseloco:every=4",
    "gossip:mean=5",
    "gossip:overlap=2,mean=7",
    "dga:delay=4,every=2",
};

static void same_bits_as_inside(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"sgd:lr=0.25", "sgd:lr=0.125,momentum=0.75",
                                             "adamw:lr=0.1"};
    for (size_t i = 0; i < TG_COUNT(strategies); i++)
        for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
            fixture_job job = job_of(strategies[i], optimizers[o]);
            job.driver = o == 1 ? TG_DRIVER_INLINE : TG_DRIVER_THREAD;
            job.samples = o == 1;
            compare(job, true);
        }
}

/* Resumed from memory in the middle of rounds and of exchanges: the same bits. */
static void resumes_from_memory(void **state)
{
    (void)state;
    static const char *const others[] = {"pipe:width=3", "cd:warmup=3,k=3,eta_loc=0.25",
                                         "dga:delay=3", "dga:delay=4,every=2"};
    for (size_t i = 0; i < TG_COUNT(strategies) + TG_COUNT(others); i++)
        for (uint64_t at = 1; at < 9; at += 4) {
            const bool own = i < TG_COUNT(strategies);
            fixture_job job = job_of(own ? strategies[i] : others[i - TG_COUNT(strategies)],
                                     "sgd:lr=0.125,momentum=0.75");
            job.hash_every = 0;
            job.trains = outside_session;
            run(&job, inside);
            job.save_at = at;
            job.apart = at == 5;
            run(&job, outside_of);
            for (int r = 0; r < RANKS; r++)
                assert_memory_equal(inside[r].trail, outside_of[r].trail, sizeof inside[r].trail);
            assert_true(inside[0].hash == outside_of[0].hash);
        }
}

/* Means of gradients, which the caller's optimizer takes. Those that are late are not taken at the
 * end. */
static void same_bits_of_means(void **state)
{
    (void)state;
    static const char *const synchronous[] = {"ssgd", "pipe:width=1"};
    static const char *const late[] = {"pipe:width=3", "od:warmup=3,eta_loc=0.125,local=sgd",
                                       "cd:warmup=3,k=3,eta_loc=0.25"};
    for (size_t i = 0; i < TG_COUNT(synchronous); i++) {
        fixture_job job = job_of(synchronous[i], "adamw:lr=0.1");
        job.method = "topk:density=0.1";
        compare(job, true);
    }
    for (size_t i = 0; i < TG_COUNT(late); i++) {
        /* eta_loc is for the optimizer's lr, which outside is 1 */
        fixture_job job = job_of(late[i], "sgd:lr=0.25,momentum=0.5");
        job.method = "topk:density=0.1";
        job.hash_every = 0;
        compare(job, false);
    }
}

/* Means that finish has dropped are not those of the next steps: no rank takes its own gradient for
 * one. */
static void goes_on_after_finish(void **state)
{
    (void)state;
    static const char *const late[] = {"pipe:width=2", "od:warmup=3,eta_loc=0.125,local=sgd",
                                       "cd:warmup=3,k=3,eta_loc=0.25"};
    for (size_t i = 0; i < TG_COUNT(late); i++)
        for (uint64_t at = 5; at < 8; at++) {
            fixture_job job = job_of(late[i], "sgd:lr=0.25,momentum=0.5");
            job.finish_at = at;
            job.apart = at == 6;
            job.trains = outside_session;
            run(&job, outside_of);
        }
}

/* A gradient that some rank's caller leaves out. Gossip with overlap then takes z out of x and puts
 * it back, which is exact for such data only. */
static void leaves_out_a_gradient(void **state)
{
    (void)state;
    for (size_t i = 0; i < TG_COUNT(strategies); i++)
        for (int rank = 0; rank < 3; rank += 2) {
            const bool exact = strstr(strategies[i], "gossip:overlap") != NULL;
            fixture_job job = job_of(strategies[i], exact ? "sgd:lr=0.25" : "adamw:lr=0.1");
            job.dyadic = exact;
            job.nan_rank = rank;
            job.nan_step = rank == 0 ? 1 : 6; /* the first may be synchronous */
            compare(job, true);
        }
}

/* dga exchanges updates in place of gradients: the same bits where sums are exact. */
static void delayed_averaging_of_updates(void **state)
{
    (void)state;
    static const char *const specs[] = {"dga:delay=0", "dga", "dga:delay=3"};
    for (size_t i = 0; i < TG_COUNT(specs); i++) {
        fixture_job job = job_of(specs[i], "sgd:lr=0.25");
        job.dyadic = true;
        compare(job, true);
    }
}

/* A mean after each step of SGD is synchronous SGD. */
static void each_step_is_synchronous(void **state)
{
    (void)state;
    fixture_job job = job_of("ssgd", "sgd:lr=0.25");
    job.dyadic = true;
    run(&job, inside);
    job = job_of("local:every=1", "sgd:lr=0.25");
    job.dyadic = true;
    job.trains = outside_session;
    run(&job, outside_of);
    assert_true(inside[0].hash == outside_of[0].hash);
}

/* Which calls of nine steps touch the parameters, in the first bucket and in the second. */
static void says_what_it_touches(void **state)
{
    (void)state;
    static const struct {
        const char *strategy, *deliver[2], *step[2];
    } cases[] = {
        {"local:every=3", {".........", "........."}, {"..+..+..+", "..+..+..+"}},
        {"local:every=3,after=2", {"++.......", "++......."}, {"++..+..+.", "++..+..+."}},
        {"diloco:every=4", {".........", "........."}, {"...+...+.", "...+...+."}},
        {"streaming:every=4,fragments=2,overlap=1",
         {"....+...+", "..+...+.."},
         {"...+...+.", ".+...+..."}},
        {"eager:every=3", {"+++++++++", "+++++++++"}, {"+++++++++", "+++++++++"}},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg_transport *t;
        tg_session *s;
        uint32_t id[2];
        float w[2] = {0};
        const tg_session_config config = {.struct_size = sizeof config,
                                          .optimizer = "external",
                                          .strategy = cases[i].strategy,
                                          .bucket_bytes = sizeof w[0]};
        assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
        assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
        for (int b = 0; b < 2; b++) {
            const tg_tensor x = {
                .struct_size = sizeof x, .name = b ? "v" : "w", .param = tg_array_f32(w + b, 1)};
            assert_int_equal(tg_session_add(s, &x, id + b), TG_OK);
            assert_int_equal(tg_session_touches(s, id[b]), 0);
        }
        assert_int_equal(tg_session_begin(s), TG_OK);
        assert_int_equal(tg_session_touches(s, 2), 0);
        for (int step = 0; step < 9; step++) {
            tg_turn turn = {.struct_size = sizeof turn};
            for (int b = 0; b < 2; b++) {
                const uint32_t touches = tg_session_touches(s, id[b]);
                const bool deliver = touches & TG_TOUCHES_IN_DELIVER,
                           own = touches & TG_TOUCHES_IN_STEP;
                if (deliver != (cases[i].deliver[b][step] == '+') ||
                    own != (cases[i].step[b][step] == '+'))
                    fail_msg("%s: step %d, bucket %d: %u", cases[i].strategy, step, b, touches);
                if (tg_session_gradient(s, id[b]) != NULL)
                    assert_int_equal(tg_session_grad_ready(s, id[b]), TG_OK);
            }
            assert_int_equal(tg_session_deliver(s, &turn), TG_OK);
            assert_int_equal(tg_session_step(s, NULL), TG_OK);
        }
        tg_session_destroy(s);
        tg_transport_destroy(t);
    }
}

static void refuses_with_a_reason(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"demo", NULL, "has no step that an external optimizer could"},
        {"local:momentum=average", NULL, "allowed: momentum=keep|reset"},
        {"dga:correct=no", NULL, "use correct=yes, or strategy pipe"},
        {"od", NULL, "allowed: local=sgd with eta_loc=RATE"},
        {"cd:eta_loc=0.1,local=dcasgd", NULL, "allowed: local=sgd with eta_loc=RATE"},
        {"ssgd", "dgc", "would treat its velocities as gradients"},
        {"local", "dgc", "would treat its velocities as gradients"},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        fixture_job job = job_of(cases[i][0], "sgd:lr=0.25");
        job.trains = outside_session;
        job.world = 2;
        if (cases[i][1] != NULL)
            job.method = cases[i][1];
        fixture_run(&job, outside_of);
        for (int r = 0; r < 2; r++)
            if (outside_of[r].status != TG_E_SPEC ||
                strstr(outside_of[r].error, cases[i][2]) == NULL)
                fail_msg("%s: status %d: %s", cases[i][0], (int)outside_of[r].status,
                         outside_of[r].error);
    }
}

static tg_session *alone(const char *optimizer, tg_transport *t, float *w, float *g)
{
    const tg_session_config config = {
        .struct_size = sizeof config, .optimizer = optimizer, .strategy = "local:every=2,after=1"};
    tg_session *s;
    uint32_t id;
    tg_tensor x = {.struct_size = sizeof x, .name = "w", .param = tg_array_f32(w, 1)};
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    if (g != NULL)
        x.grad = tg_array_f32(g, 1);
    assert_int_equal(tg_session_add(s, &x, &id), TG_OK);
    return s;
}

#define REFUSED(call, expected, text)         \
    do {                                      \
        assert_int_equal(call, expected);     \
        if (strstr(tg_error(), text) == NULL) \
            fail_msg("%s", tg_error());       \
    } while (0)

/* Calls in the wrong order change nothing. */
static void calls_in_order(void **state)
{
    (void)state;
    tg_transport *t;
    float w = 1, g = 0;
    uint32_t id;
    tg_turn turn = {.struct_size = sizeof turn};
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    tg_session *s = alone("external", t, &w, NULL);
    const tg_tensor second = {.struct_size = sizeof second,
                              .name = "v",
                              .param = tg_array_f32(&g, 1),
                              .grad = tg_array_f32(&g, 1)};
    REFUSED(tg_session_add(s, &second, &id), TG_E_ARG, "use tg_session_gradient");
    assert_null(tg_session_gradient(s, 0));
    REFUSED(tg_session_deliver(s, &turn), TG_E_STATE, "before tg_session_begin");
    assert_int_equal(tg_session_begin(s), TG_OK);
    assert_null(tg_session_gradient(s, 1));
    REFUSED(tg_session_step(s, NULL), TG_E_STATE, "without tg_session_deliver");
    REFUSED(tg_session_deliver(s, &turn), TG_E_STATE, "was never made ready");
    *tg_session_gradient(s, 0) = 0.5f;
    assert_int_equal(tg_session_grad_ready(s, 0), TG_OK);
    assert_int_equal(tg_session_deliver(s, &turn), TG_OK);
    assert_true(turn.moves == 1 && *tg_session_gradient(s, 0) == 0.5f);
    REFUSED(tg_session_deliver(s, &turn), TG_E_STATE, "twice in step 0");
    REFUSED(tg_session_eval_begin(s), TG_E_STATE, "in the middle of step 0");
    assert_int_equal(tg_session_step(s, NULL), TG_OK);
    assert_null(tg_session_gradient(s, 0)); /* from here on only parameters are averaged */
    assert_int_equal(tg_session_grad_ready(s, 0), TG_OK);
    assert_int_equal(tg_session_deliver(s, &turn), TG_OK);
    w = NAN; /* a round that is lost */
    assert_int_equal(tg_session_step(s, NULL), TG_OK);
    assert_int_equal(tg_session_deliver(s, &turn), TG_OK);
    assert_int_equal(tg_session_step(s, NULL), TG_OK);
    assert_true(w == 1 && tg_session_skipped(s) == 1);
    tg_session_destroy(s);
    s = alone(NULL, t, &w, &g);
    assert_int_equal(tg_session_begin(s), TG_OK);
    REFUSED(tg_session_deliver(s, &turn), TG_E_STATE, "which tg_session_step calls");
    assert_null(tg_session_gradient(s, 0));
    tg_session_destroy(s);
    tg_transport_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumes_from_memory),          cmocka_unit_test(same_bits_as_inside),
        cmocka_unit_test(same_bits_of_means),           cmocka_unit_test(leaves_out_a_gradient),
        cmocka_unit_test(delayed_averaging_of_updates), cmocka_unit_test(each_step_is_synchronous),
        cmocka_unit_test(refuses_with_a_reason),        cmocka_unit_test(calls_in_order),
        cmocka_unit_test(goes_on_after_finish),         cmocka_unit_test(says_what_it_touches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
