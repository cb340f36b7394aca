/* Simulated steps whose times can be computed by hand; one actor in place of many ranks;
 * refusals. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "telegrad/telegrad.h"

#include <math.h>
#include <string.h>

#define MS INT64_C(1000000)
#define OK(call)                                   \
    do {                                           \
        if ((call) != TG_OK)                       \
            fail_msg("%s: %s", #call, tg_error()); \
    } while (0)

enum { TENSORS = 3 };

/* 20 ms per step: 5 forward, then 5 for each gradient, the last layer's first. */
static const tg_work work[] = {{TG_WORK_PARAM_WAIT, 0, 0},   {TG_WORK_PARAM_WAIT, 1, 0},
                               {TG_WORK_PARAM_WAIT, 2, 0},   {TG_WORK_COMPUTE, 0, 5 * MS},
                               {TG_WORK_COMPUTE, 0, 5 * MS}, {TG_WORK_GRAD_READY, 2, 0},
                               {TG_WORK_COMPUTE, 0, 5 * MS}, {TG_WORK_GRAD_READY, 1, 0},
                               {TG_WORK_COMPUTE, 0, 5 * MS}, {TG_WORK_GRAD_READY, 0, 0}};

static tg_simulation *make(const char *method, const char *strategy, tg_overlap overlap,
                           size_t bucket_bytes, tg_driver driver)
{
    static const size_t shape[TENSORS][2] = {{1000, 100}, {100, 100}, {1, 100}};
    static const char *const name[TENSORS] = {"a", "b", "c"};
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = method,
                                      .strategy = strategy,
                                      .optimizer = "sgd:lr=0.1",
                                      .steps_per_epoch = 100,
                                      .overlap = overlap,
                                      .driver = driver,
                                      .bucket_bytes = bucket_bytes};
    tg_sim_tensor given[TENSORS];
    tg_simulation *sim = NULL;
    for (size_t i = 0; i < TENSORS; i++)
        given[i] = (tg_sim_tensor){name[i], shape[i], 2};
    OK(tg_simulation_create(&config, given, TENSORS, &sim));
    return sim;
}

static tg_sim_run run_of(int world, double mbit, int64_t delay_ns, uint64_t steps)
{
    return (tg_sim_run){.struct_size = sizeof(tg_sim_run),
                        .world = world,
                        .link = {.struct_size = sizeof(tg_link),
                                 .up_bps = 1e6 * mbit,
                                 .down_bps = 1e6 * mbit,
                                 .delay_ns = delay_ns},
                        .work = work,
                        .nwork = sizeof work / sizeof work[0],
                        .steps = steps};
}

/* Milliseconds of all steps and of the drain after them. */
static double total(tg_simulation *sim, const tg_sim_run *run)
{
    tg_sim_end end = {.struct_size = sizeof end};
    OK(tg_simulation_run(sim, run, &end));
    return end.ns / 1e6;
}

static double play(const char *method, const char *strategy, const tg_sim_run *run)
{
    tg_simulation *sim = make(method, strategy, TG_OVERLAP_FULL, 0, TG_DRIVER_AUTO);
    const double ms = total(sim, run);
    tg_simulation_destroy(sim);
    return ms;
}

static void near(double a, double b, double most)
{
    if (!(fabs(a - b) <= most))
        fail_msg("%g: expected %g", a, b);
}

/* Two delays of 30 ms, bytes take no time. */
static void delays(void **state)
{
    (void)state;
    const tg_sim_run run = run_of(4, 0, 30 * MS, 10);
    near(play("dense", "ssgd", &run), 10 * 80, 1e-6);
    near(play("dense:exchange=allgather", "ssgd", &run), 10 * 50, 1e-6);
    near(play("dense", "od:warmup=0", &run), 20 + 9 * 60 + 60, 1e-6);
    near(play("dense", "local:every=5", &run), 2 * (5 * 20 + 60), 1e-6);
    near(play("dense", "dga:delay=3", &run), 10 * 20 + 60, 1e-6);
    near(play("dense", "pipe:width=1", &run), 10 * 80, 1e-6);
    near(play("2bit", "cd:k=5,warmup=0", &run), 20 + 9 * 60 + 60, 30 * 10);
}

/* With the envelopes' bytes, at 8 Mbit/s: a byte takes a microsecond. */
static void bytes(void **state)
{
    (void)state;
    tg_simulation *sim =
        make("dense:exchange=allgather", "ssgd", TG_OVERLAP_NONE, 0, TG_DRIVER_AUTO);
    tg_sim_run run = run_of(3, 8, 7 * MS, 4);
    tg_sim_exchange x = {.struct_size = sizeof x};
    OK(tg_simulation_exchange(sim, 3, &run.link, &x));
    assert_int_equal(x.elements, 110100);
    assert_true(x.bytes[1] > 2 * 4 * 110100.0 && x.bytes[1] < 2.01 * 4 * 110100.0);
    near(total(sim, &run), 4 * (20 + 7 + x.bytes[1] / 1e3), 1e-3);
    near(x.wire_ns[1] / 1e6, 7 + x.bytes[1] / 1e3, 1e-3);
    tg_simulation_destroy(sim);
}

/* A sum with two delays, cut into slices: the first delay overlaps what other slices send. */
static void slices(void **state)
{
    (void)state;
    tg_simulation *sim = make("dense", "ssgd", TG_OVERLAP_NONE, 0, TG_DRIVER_AUTO);
    tg_sim_run run = run_of(2, 8, 7 * MS, 4);
    tg_sim_exchange x = {.struct_size = sizeof x};
    OK(tg_simulation_exchange(sim, 2, &run.link, &x));
    near(total(sim, &run), 4 * (20 + 7 + x.bytes[1] / 1e3), 1e-3);
    run.link.delay_ns = 500 * MS;               /* longer than a slice */
    const double hidden = x.bytes[1] / 1e3 / 4; /* half of a round's bytes */
    near(total(sim, &run), 4 * (20 + 2 * 500 - hidden + x.bytes[1] / 1e3), 1e-3);
    tg_simulation_destroy(sim);
}

/* One bucket per tensor: exchanges begin as gradients become complete; the first layer's is the
 * last and largest. */
static void overlaps(void **state)
{
    (void)state;
    const tg_sim_run run = run_of(2, 8, 0, 6);
    const struct {
        tg_overlap overlap;
        double least, most; /* ms per step: bytes take 881 */
    } is[] = {{TG_OVERLAP_NONE, 20 + 880, 20 + 886},
              {TG_OVERLAP_BACKWARD, 20 + 870, 20 + 880},
              {TG_OVERLAP_FULL, 20 + 870, 20 + 880}};
    for (size_t i = 0; i < 3; i++) {
        tg_simulation *sim =
            make("dense:exchange=allgather", "ssgd", is[i].overlap, 4, TG_DRIVER_AUTO);
        const double ms = total(sim, &run) / 6;
        if (ms < is[i].least / 2 || ms > is[i].most)
            fail_msg("overlap %zu: %g ms", i, ms);
        tg_simulation_destroy(sim);
    }
}

/* Coding in parallel to computing, and in sequence. */
static void coding(void **state)
{
    (void)state;
    const tg_bucket_cost cost = {.struct_size = sizeof cost,
                                 .encode_ns = {0, 4 * MS},
                                 .finish_ns = {0, 3 * MS},
                                 .apply_ns = 2 * MS};
    const tg_sim_run run = run_of(4, 0, 30 * MS, 10);
    for (int inline_coding = 0; inline_coding < 2; inline_coding++) {
        const tg_driver driver = inline_coding ? TG_DRIVER_INLINE : TG_DRIVER_AUTO;
        tg_simulation *sim = make("2bit", "ssgd", TG_OVERLAP_NONE, 0, driver);
        OK(tg_simulation_set_costs(sim, &cost, 1));
        tg_sim_run own = run;
        const double waits = 20 + 4 + 30 + 3 + 2; /* one delay: allgather */
        near(total(sim, &own), 10 * waits, 1e-6);
        own.strategy = "pipe:width=2";
        /* Two steps take 59 ms: the second one computes while the first one's exchange is in
         * flight, and waits for the remainder. The last exchange is drained. */
        near(total(sim, &own), inline_coding ? 5 * 59 + 24 + 3 + 2 : 5 * 59 + 20 + 2, 1e-6);
        tg_simulation_destroy(sim);
    }
    tg_simulation *sim = make("2bit", "ssgd", TG_OVERLAP_NONE, 0, TG_DRIVER_AUTO);
    assert_int_equal(tg_simulation_set_costs(sim, &cost, 0), TG_E_MISMATCH);
    tg_simulation_destroy(sim);
}

static double twice_if_three(void *arg, int rank, uint64_t step)
{
    (void)arg;
    return rank == 3 && step >= 4 ? 2 : 1;
}

/* Ranks that behave the same take the time of one, for any number; a slow one delays all. */
static void ranks(void **state)
{
    (void)state;
    static const int both[] = {0, 3}, all[] = {0, 1, 2, 3};
    tg_simulation *sim = make("dense", "ssgd", TG_OVERLAP_FULL, 0, TG_DRIVER_AUTO);
    tg_sim_run run = run_of(4, 0, 30 * MS, 8);
    run.pace = twice_if_three;
    run.rank = both;
    run.nranks = 2;
    near(total(sim, &run), 4 * 80 + 4 * 100, 1e-6);
    run.rank = all;
    run.nranks = 4;
    near(total(sim, &run), 4 * 80 + 4 * 100, 1e-6);
    tg_simulation_destroy(sim);
    run = run_of(10000, 0, 30 * MS, 200);
    near(play("dense", "ssgd", &run), 200 * 80, 1e-6);
    near(play("dense", "fedavg:every=5,clients=0.1", &run), 40 * (5 * 20 + 60), 2000);
}

/* The wire never gets slower at a higher rate, or faster with a longer delay. */
static void monotone(void **state)
{
    (void)state;
    static const char *const strategies[] = {"ssgd",          "od:warmup=0",    "dga:delay=4",
                                             "local:every=4", "diloco:every=6", "eager:every=3",
                                             "pipe:width=3"};
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        tg_simulation *sim = make("fp16", strategies[i], TG_OVERLAP_FULL, 100000, TG_DRIVER_AUTO);
        double last = INFINITY;
        for (double mbit = 0.1; mbit < 1e5; mbit *= 3) {
            const tg_sim_run run = run_of(4, mbit, 10 * MS, 24);
            const double ms = total(sim, &run);
            assert_true(ms <= last);
            last = ms;
        }
        last = 0;
        for (int64_t delay = MS; delay < 1000 * MS; delay *= 3) {
            const tg_sim_run run = run_of(4, 100, delay, 24);
            const double ms = total(sim, &run);
            assert_true(ms >= last && ms >= 24 * 20);
            last = ms;
        }
        tg_simulation_destroy(sim);
    }
}

/* A million ranks that all send to all over 100 bit/s: steps of 1100 years. */
static void outlasts_64_bits(void **state)
{
    (void)state;
    tg_simulation *sim =
        make("dense:exchange=allgather", "ssgd", TG_OVERLAP_NONE, 0, TG_DRIVER_AUTO);
    tg_sim_run run = run_of(1000000, 0.0001, 7 * MS, 3);
    tg_sim_exchange x = {.struct_size = sizeof x};
    tg_sim_end end = {.struct_size = sizeof end};
    OK(tg_simulation_exchange(sim, run.world, &run.link, &x));
    assert_true(x.bytes[1] > 4.4e11 && x.wire_ns[1] > 2e19);
    near(x.wire_ns[1] / (8e9 / 100 * x.bytes[1] + 7 * MS), 1, 1e-9);
    OK(tg_simulation_run(sim, &run, &end));
    near(end.ns / (3 * (20 * MS + x.wire_ns[1])), 1, 1e-9);
    tg_simulation_destroy(sim);
}

static void refuses(void **state)
{
    (void)state;
    const tg_session_config external = {.struct_size = sizeof external, .optimizer = "external"};
    const tg_sim_tensor one = {.name = "w"};
    tg_simulation *none = NULL;
    assert_int_equal(tg_simulation_create(&external, &one, 1, &none), TG_E_UNSUPPORTED);
    assert_non_null(strstr(tg_error(), "takes the steps itself"));
    tg_simulation *sim = make("dgc", "ssgd", TG_OVERLAP_FULL, 0, TG_DRIVER_AUTO);
    tg_sim_run run = run_of(0, 0, 0, 1);
    assert_int_equal(tg_simulation_run(sim, &run, NULL), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "world=0: allowed: 1 to 1000000"));
    run.world = 2;
    run.strategy = "local:every=4"; /* DGC's momentum needs gradients */
    assert_int_equal(tg_simulation_run(sim, &run, NULL), TG_E_UNSUPPORTED);
    assert_non_null(strstr(tg_error(), "strategy \"local:every=4"));
    run.strategy = "nothing";
    assert_int_equal(tg_simulation_run(sim, &run, NULL), TG_E_SPEC);
    run.strategy = "cd";
    OK(tg_simulation_run(sim, &run, NULL));
    tg_simulation_destroy(sim);
    sim = make("powersgd", "ssgd", TG_OVERLAP_FULL, 0, TG_DRIVER_AUTO);
    run.strategy = "dga:delay=4";
    assert_int_equal(tg_simulation_run(sim, &run, NULL), TG_E_UNSUPPORTED);
    tg_simulation_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays),   cmocka_unit_test(bytes),
        cmocka_unit_test(slices),   cmocka_unit_test(overlaps),
        cmocka_unit_test(coding),   cmocka_unit_test(ranks),
        cmocka_unit_test(monotone), cmocka_unit_test(outlasts_64_bits),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
