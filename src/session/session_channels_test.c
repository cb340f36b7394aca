/* Sessions and reducers on one transport give the same parameters and means as each by itself. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"

enum { WORLD = 3, STEPS = 8, MEAN_N = 700 };

typedef struct setting {
    bool session[2], reducer; /* those that take part */
    tg_driver driver[2];
    const char *link;
} setting;

typedef struct rank {
    const setting *set;
    tg_transport *t;
    int number;
    tg_status status;
    char error[512];
    uint64_t hash[2];
    float w[2][FIXTURE_N], mean[STEPS][MEAN_N];
    pthread_t thread;
} rank;

/* One session of a rank. */
typedef struct own {
    fixture_job job;
    tg_session *s;
    uint32_t id[FIXTURE_TENSORS];
    float w[FIXTURE_N], g[FIXTURE_N];
} own;

static const size_t offset[FIXTURE_TENSORS] = {0, 500, 520, 853};

static tg_status begin(const rank *r, own *o, int which)
{
    static const char *const method[] = {"topk:density=0.1", "powersgd"};
    static const char *const strategy[] = {"ssgd", "local:every=2"};
    tg_session_config config = {.struct_size = sizeof config,
                                .method = method[which],
                                .strategy = strategy[which],
                                .optimizer = "sgd:lr=0.25",
                                .seed = 11,
                                .steps_per_epoch = 4,
                                .timeout_ms = 30000,
                                .bucket_bytes = 1500,
                                .driver = r->set->driver[which]};
    o->job = fixture_defaults();
    TG_TRY(tg_session_create(&config, r->t, &o->s));
    if (r->number == 0)
        fixture_initial(o->w);
    TG_TRY(fixture_add_tensors(o->s, o->w, o->g, offset, o->id));
    return tg_session_begin(o->s);
}

static tg_status compute(const rank *r, own *o, uint64_t t)
{
    static _Thread_local float flat[FIXTURE_N];
    fixture_gradient(&o->job, r->number, t, o->w, flat);
    for (int i = FIXTURE_TENSORS - 1; i >= 0; i--) {
        TG_TRY(tg_session_grad_wait(o->s, o->id[i]));
        memcpy(o->g + offset[i], flat + offset[i],
               fixture_shape[i][0] * fixture_shape[i][1] * sizeof(float));
        TG_TRY(tg_session_grad_ready(o->s, o->id[i]));
    }
    return TG_OK;
}

static tg_status apply(own *o)
{
    tg_step_info info = {.struct_size = sizeof info};
    return tg_session_step(o->s, &info);
}

/* In each step all have something in flight; ranks apply and wait in different orders. */
static tg_status train(rank *r, own o[2], tg_reducer *reducer)
{
    float g[MEAN_N];
    for (uint64_t t = 0; t < STEPS; t++) {
        const tg_rng_key key = {
            .seed = 8, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r->number, .step = t};
        for (size_t i = 0; i < MEAN_N; i++)
            g[i] = (float)tg_rng_normal(&key, i);
        for (int k = 0; k < 3; k++) {
            const int which = (k + r->number) % 3;
            if (which < 2 && o[which].s != NULL)
                TG_TRY(compute(r, &o[which], t));
            if (which == 2 && reducer != NULL)
                TG_TRY(tg_reducer_start(reducer, g, r->mean[t], NULL, NULL));
        }
        for (int k = 0; k < 3; k++) {
            const int which = (2 * k + r->number + (int)t) % 3;
            if (which < 2 && o[which].s != NULL)
                TG_TRY(apply(&o[which]));
            if (which == 2 && reducer != NULL)
                TG_TRY(tg_reducer_wait(reducer));
        }
    }
    for (int which = 0; which < 2; which++) {
        if (o[which].s == NULL)
            continue;
        TG_TRY(tg_session_finish(o[which].s));
        TG_TRY(tg_session_params_hash(o[which].s, &r->hash[which]));
        memcpy(r->w[which], o[which].w, sizeof o[which].w);
    }
    return TG_OK;
}

static tg_status run_rank(rank *r, own o[2], tg_reducer **reducer_p)
{
    const tg_reducer_config config = {
        .struct_size = sizeof config, .seed = 4, .steps_per_epoch = 10, .timeout_ms = 30000};
    if (r->set->session[0])
        TG_TRY(begin(r, &o[0], 0));
    if (r->set->reducer)
        TG_TRY(tg_reducer_create("dgc:density=0.1,warmup=0", r->t, MEAN_N, &config, reducer_p));
    if (r->set->session[1])
        TG_TRY(begin(r, &o[1], 1));
    return train(r, o, *reducer_p);
}

static void *rank_main(void *arg)
{
    rank *r = arg;
    own *o = calloc(2, sizeof *o);
    tg_reducer *reducer = NULL;
    r->status = run_rank(r, o, &reducer);
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    if (r->number == 1)
        tg_reducer_destroy(reducer);
    tg_session_destroy(o[r->number % 2].s);
    tg_session_destroy(o[1 - r->number % 2].s);
    if (r->number != 1)
        tg_reducer_destroy(reducer);
    free(o);
    return NULL;
}

static void run(const setting *set, rank *ranks)
{
    tg_transport *t[WORLD];
    assert_int_equal(tg_transport_inproc(WORLD, t), TG_OK);
    for (int i = 0; i < WORLD; i++) {
        tg_link link = {.struct_size = sizeof link};
        if (set->link != NULL) {
            assert_int_equal(tg_link_parse(set->link, &link), TG_OK);
            assert_int_equal(tg_transport_shaped(t[i], &link, &t[i]), TG_OK);
        }
        memset(&ranks[i], 0, sizeof ranks[i]);
        ranks[i].set = set;
        ranks[i].t = t[i];
        ranks[i].number = i;
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < WORLD; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < WORLD; i++) {
        if (ranks[i].status != TG_OK)
            fail_msg("rank %d: %s: %s", i, tg_status_name(ranks[i].status), ranks[i].error);
        tg_transport_destroy(t[i]);
    }
}

static void test_together(void **state)
{
    static rank alone[3][WORLD], all[WORLD];
    static const setting one[3] = {{.session = {true}, .driver = {TG_DRIVER_INLINE}},
                                   {.session = {false, true}, .driver = {0, TG_DRIVER_THREAD}},
                                   {.reducer = true}};
    static const setting together[] = {
        {{true, true}, true, {TG_DRIVER_INLINE, TG_DRIVER_INLINE}, NULL},
        {{true, true}, true, {TG_DRIVER_THREAD, TG_DRIVER_THREAD}, NULL},
        {{true, true}, true, {TG_DRIVER_INLINE, TG_DRIVER_THREAD}, NULL},
        {{true, true}, true, {TG_DRIVER_THREAD, TG_DRIVER_INLINE}, "200mbit,1ms"},
        {{true, true}, false, {TG_DRIVER_THREAD, TG_DRIVER_INLINE}, NULL},
        {{true, false}, true, {TG_DRIVER_THREAD}, NULL},
        {{true, false}, true, {TG_DRIVER_INLINE}, NULL},
    };
    (void)state;
    for (int k = 0; k < 3; k++)
        run(&one[k], alone[k]);
    for (size_t k = 0; k < sizeof together / sizeof *together; k++) {
        run(&together[k], all);
        for (int i = 0; i < WORLD; i++) {
            for (int which = 0; which < 2; which++)
                if (together[k].session[which]) {
                    assert_int_equal(all[i].hash[which], alone[which][0].hash[which]);
                    assert_memory_equal(all[i].w[which], alone[which][0].w[which],
                                        sizeof all[i].w[which]);
                }
            if (together[k].reducer)
                assert_memory_equal(all[i].mean, alone[2][0].mean, sizeof all[i].mean);
        }
    }
}

/* ---- more exchanges at once than there are tags ---------------------------------------------- */

enum { CROWD = 300, CROWD_STEPS = 3 }; /* tensors, a bucket each, of two rounds */

typedef struct crowd_rank {
    tg_transport *t;
    tg_driver driver;
    int number;
    tg_status status;
    char error[512];
    uint64_t hash;
    pthread_t thread;
} crowd_rank;

static tg_status crowd(crowd_rank *r, tg_session *s, float *w, float *g)
{
    static const size_t shape[2] = {8, 8};
    uint32_t id[CROWD];
    char name[32];
    for (int i = 0; i < CROWD; i++) {
        snprintf(name, sizeof name, "t%d", i);
        const tg_tensor t = {.struct_size = sizeof t,
                             .name = name,
                             .shape = shape,
                             .ndim = 2,
                             .param = tg_array_f32(w + (size_t)i * 64, 64),
                             .grad = tg_array_f32(g + (size_t)i * 64, 64)};
        TG_TRY(tg_session_add(s, &t, &id[i]));
    }
    TG_TRY(tg_session_begin(s));
    for (uint64_t t = 0; t < CROWD_STEPS; t++) {
        tg_step_info info = {.struct_size = sizeof info};
        const tg_rng_key key = {
            .seed = 9, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r->number, .step = t};
        for (int i = CROWD - 1; i >= 0; i--) {
            TG_TRY(tg_session_grad_wait(s, id[i]));
            for (size_t k = 0; k < 64; k++)
                g[(size_t)i * 64 + k] = (float)tg_rng_normal(&key, (uint64_t)i * 64 + k);
            TG_TRY(tg_session_grad_ready(s, id[i]));
        }
        TG_TRY(tg_session_step(s, &info));
    }
    TG_TRY(tg_session_finish(s));
    return tg_session_params_hash(s, &r->hash);
}

static void *crowd_main(void *arg)
{
    crowd_rank *r = arg;
    tg_session_config config = {.struct_size = sizeof config,
                                .method = "powersgd:rank=1,min_ratio=1",
                                .seed = 1,
                                .timeout_ms = 60000,
                                .bucket_bytes = 4,
                                .driver = r->driver};
    tg_session *s = NULL;
    float *w = calloc(CROWD, 64 * sizeof *w), *g = calloc(CROWD, 64 * sizeof *g);
    r->status = tg_session_create(&config, r->t, &s);
    if (r->status == TG_OK)
        r->status = crowd(r, s, w, g);
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_session_destroy(s);
    free(w);
    free(g);
    return NULL;
}

/* 600 exchanges of a step share 512 tags: the last ones wait for the first. */
static void test_crowd(void **state)
{
    (void)state;
    static const tg_driver drivers[] = {TG_DRIVER_INLINE, TG_DRIVER_THREAD};
    uint64_t hash = 0;
    for (int k = 0; k < 2; k++) {
        tg_transport *t[2];
        crowd_rank ranks[2];
        assert_int_equal(tg_transport_inproc(2, t), TG_OK);
        for (int i = 0; i < 2; i++) {
            ranks[i] = (crowd_rank){.t = t[i], .driver = drivers[k], .number = i};
            assert_int_equal(pthread_create(&ranks[i].thread, NULL, crowd_main, &ranks[i]), 0);
        }
        for (int i = 0; i < 2; i++)
            pthread_join(ranks[i].thread, NULL);
        for (int i = 0; i < 2; i++) {
            if (ranks[i].status != TG_OK)
                fail_msg("rank %d: %s: %s", i, tg_status_name(ranks[i].status), ranks[i].error);
            tg_transport_destroy(t[i]);
            assert_true(hash == 0 || hash == ranks[i].hash);
            hash = ranks[i].hash;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_together),
                                       cmocka_unit_test(test_crowd)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
