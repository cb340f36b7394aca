/* Costs of a session's work: the results of measuring, which must change nothing else; and steps on
 * a virtual clock, whose times can be computed by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "one_tensor.h"

#include "base/virtual_clock.h"
#include "telegrad/telegrad.h"

#include <math.h>
#include <string.h>

#define US INT64_C(1000)

enum { P = 3, N = 4096, STEPS = 4 };

typedef struct job {
    const char *method, *strategy;
    tg_driver driver;
    bool measure;
    const tg_bucket_cost *cost; /* NULL: none */
    const int64_t *compute_ns;  /* (P) time to compute a gradient; NULL: 0 */
} job;

typedef struct rank {
    const job *job;
    const tg_clock *clock;
    tg_transport *transport;
    tg_clock_thread *thread;
    float w[N], g[N];
    tg_status status;
    char error[256];
    uint64_t hash;
    tg_step_info info; /* of the last step */
    int64_t took_ns;   /* time of all steps */
    int computed;      /* of those, the steps that were not idle */
    tg_bucket_cost measured;
} rank;

static tg_status measure(rank *r, tg_session *s)
{
    size_t count = 0;
    tg_bucket_cost cost = {.struct_size = sizeof cost};
    TG_TRY(tg_session_measure(s, 0, NULL, &count));
    assert_int_equal(count, 1);
    TG_TRY(tg_session_measure(s, 1, &cost, &count));
    r->measured = cost;
    assert_int_equal(tg_session_set_costs(s, &cost, 2), TG_E_MISMATCH);
    return TG_OK;
}

static float gradient(int of_rank, int step, int i)
{
    return (float)((i * 7 + step * 5 + of_rank) % 31 - 15);
}

static tg_status train(rank *r, tg_session *s)
{
    const job *j = r->job;
    uint32_t id;
    TG_TRY(one_tensor_add(s, r->w, r->g, N, &id));
    assert_int_equal(tg_session_set_costs(s, &(tg_bucket_cost){0}, 1), TG_E_STATE);
    TG_TRY(tg_session_begin(s));
    if (j->measure)
        TG_TRY(measure(r, s));
    if (j->cost != NULL)
        TG_TRY(tg_session_set_costs(s, j->cost, 1));
    const int64_t start_ns = tg_now_ns(r->clock);
    for (int step = 0; step < STEPS; step++) {
        TG_TRY(tg_session_param_wait(s, id));
        TG_TRY(tg_session_grad_wait(s, id));
        if (!tg_session_idle(s)) {
            r->computed++;
            tg_clock_work(r->clock, j->compute_ns == NULL ? 0 : j->compute_ns[r->transport->rank]);
            for (int i = 0; i < N; i++)
                r->g[i] = gradient(r->transport->rank, step, i);
            TG_TRY(tg_session_grad_ready(s, id));
        }
        r->info = (tg_step_info){.struct_size = sizeof r->info};
        TG_TRY(tg_session_step(s, &r->info));
    }
    TG_TRY(tg_session_finish(s));
    r->took_ns = tg_now_ns(r->clock) - start_ns;
    return tg_session_params_hash(s, &r->hash);
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = r->job->method,
                                      .strategy = r->job->strategy,
                                      .optimizer = "sgd:lr=0.125,momentum=0.5",
                                      .driver = r->job->driver};
    tg_session *s = NULL;
    memset(r->w, 0, sizeof r->w);
    r->status = tg_session_create(&config, r->transport, &s);
    if (r->status == TG_OK)
        r->status = train(r, s);
    strncpy(r->error, tg_error(), sizeof r->error - 1);
    tg_session_destroy(s);
    return NULL;
}

/* All ranks, on a virtual clock or, with `real`, on the default one. */
static void run(const job *j, bool real, rank *r)
{
    tg_transport *transport[P];
    tg_clock *made = NULL;
    if (!real)
        assert_int_equal(tg_clock_virtual_create(5 * US, &made), TG_OK);
    const tg_clock *clock = real ? tg_clock_monotonic() : made;
    assert_int_equal(tg_transport_inproc_clock(P, clock, transport), TG_OK);
    assert_int_equal(tg_clock_enter(clock, 0), TG_OK);
    for (int i = 0; i < P; i++) {
        r[i] = (rank){.job = j, .clock = clock, .transport = transport[i]};
        if (i > 0)
            assert_int_equal(tg_clock_thread_start(clock, 2 * (uint64_t)i, "rank", run_rank, &r[i],
                                                   &r[i].thread),
                             TG_OK);
    }
    run_rank(&r[0]);
    tg_clock_leave(clock);
    for (int i = 1; i < P; i++)
        tg_clock_thread_join(clock, r[i].thread);
    for (int i = 0; i < P; i++) {
        if (r[i].status != TG_OK)
            fail_msg("rank %d: %s", i, r[i].error);
        assert_true(r[i].hash == r[0].hash);
        tg_transport_destroy(transport[i]);
    }
    tg_clock_virtual_destroy(made);
}

static rank one[P], other[P];

/* Frames have the same number of bytes, at least 100, on all ranks, so an exchange takes the same
 * time everywhere. */
static const tg_bucket_cost cost = {.struct_size = sizeof cost,
                                    .encode_ns = {70 * US, 300 * US},
                                    .start_ns = {3 * US, 5 * US},
                                    .finish_ns = {20 * US, 40 * US},
                                    .apply_ns = 500 * US};

static void a_step_takes_what_its_work_does(void **state)
{
    (void)state;
    static const tg_driver drivers[] = {TG_DRIVER_THREAD, TG_DRIVER_INLINE};
    for (int d = 0; d < 2; d++) {
        const job j = {.method = "topk:density=0.01", .driver = drivers[d], .cost = &cost};
        run(&j, false, one);
        for (int i = 0; i < P; i++) {
            assert_int_equal(one[i].info.encode_ns, 300 * US);
            assert_int_equal(one[i].info.decode_ns, 45 * US);
            assert_int_equal(one[i].info.exchange_ns, 45 * US);
            assert_int_equal(one[i].info.apply_ns, 500 * US);
            assert_int_equal(one[i].took_ns, STEPS * 845 * US);
        }
    }
}

static void decoding_is_by_bytes(void **state)
{
    (void)state;
    tg_bucket_cost bytes = cost;
    bytes.decode_byte_ps[1] = 1000 * 1000; /* a microsecond */
    const job j = {.method = "topk:density=0.01", .cost = &bytes};
    run(&j, false, one);
    const int64_t frames = one[0].info.decode_ns - 45 * US; /* of three ranks */
    const int64_t own = (int64_t)one[0].info.coded_bytes;   /* with its envelope */
    assert_true(frames > 2 * own * US && frames < 3 * own * US);
}

/* Delayed: the exchange overlaps the caller's work; one update each of the global parameters and
 * the rank's own. */
static void a_delayed_step_overlaps(void **state)
{
    (void)state;
    const job j = {.method = "topk:density=0.01", .strategy = "cd:k=3,warmup=0", .cost = &cost};
    run(&j, false, one);
    assert_int_equal(one[0].info.apply_ns, 1000 * US);
    /* Step 0 has no result yet. Computing takes no time, so all ranks wait for the previous
     * exchange. It is coded, except that the third step's result is dense (an exchange of two
     * rounds has one start and finish). */
    int64_t most = 500 * US + STEPS * (345 + 1000) * US;
    assert_true(one[0].took_ns > most / 2 && one[0].took_ns <= most);
}

/* A slow rank begins no step after the deadline, and contributes what it has. */
static void late_ranks_hand_in_less(void **state)
{
    (void)state;
    static const int64_t compute_ns[P] = {1000 * US, 1000 * US, 2000 * US};
    static const int computed[2][P] = {{4, 4, 4}, {4, 4, 2}};
    for (int deadline = 0; deadline < 2; deadline++) {
        const job j = {.method = "dense",
                       .strategy = deadline ? "fedavg:every=4,deadline=0.0035" : "fedavg:every=4",
                       .compute_ns = compute_ns};
        run(&j, false, one);
        for (int i = 0; i < P; i++) {
            assert_int_equal(one[i].computed, computed[deadline][i]);
            assert_int_equal(one[i].took_ns, (deadline ? 4000 : 8000) * US);
        }
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int k = 0; k < P; k++) {
                double w = 0, u = 0;
                for (int step = 0; step < computed[deadline][k]; step++) {
                    u = 0.5 * u + (double)gradient(k, step, i);
                    w -= 0.125 * u;
                }
                sum += w;
            }
            assert_true(fabs(one[0].w[i] - sum / P) < 1e-5);
        }
    }
}

static void measuring_changes_nothing(void **state)
{
    (void)state;
    static const char *const methods[] = {"dgc:density=0.01,warmup=0,momentum=0.5", "dense",
                                          "powersgd:rank=1"};
    for (size_t m = 0; m < 3; m++) {
        const job plain = {.method = methods[m]},
                  measured = {.method = methods[m], .measure = true, .cost = &cost};
        run(&plain, true, one);
        assert_true(one[0].took_ns > 0);
        run(&measured, false, other);
        assert_true(one[0].hash == other[0].hash);
        assert_true(other[0].measured.encode_ns[1] > 0);
        assert_true(other[0].measured.decode_byte_ps[1] > 0);
        assert_true(other[0].measured.apply_ns > 0);
        assert_int_equal(other[0].measured.encode_ns[0], 0); /* ssgd never goes dense */
        run(&plain, false, other);                           /* without costs, work takes no time */
        assert_int_equal(other[0].took_ns, 0);
        assert_true(one[0].hash == other[0].hash);
    }
    const job delayed = {.method = "2bit", .strategy = "cd:k=2,warmup=0", .measure = true};
    run(&delayed, false, one);
    assert_true(one[0].measured.encode_ns[0] > 0 && one[0].measured.encode_ns[1] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_takes_what_its_work_does),
        cmocka_unit_test(decoding_is_by_bytes),
        cmocka_unit_test(a_delayed_step_overlaps),
        cmocka_unit_test(late_ranks_hand_in_less),
        cmocka_unit_test(measuring_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
