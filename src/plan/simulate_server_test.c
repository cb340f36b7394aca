/* Parameter servers in simulated runs: times that can be computed by hand, 10,000 ranks, links and
 * paces that differ, the bound of staleness, refusals. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "telegrad/telegrad.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)
#define OK(call)                                   \
    do {                                           \
        if ((call) != TG_OK)                       \
            fail_msg("%s: %s", #call, tg_error()); \
    } while (0)

/* 20 ms of computing. */
static const tg_work work[] = {
    {TG_WORK_PARAM_WAIT, 0, 0}, {TG_WORK_COMPUTE, 0, 20 * MS}, {TG_WORK_GRAD_READY, 0, 0}};

/* A matrix of n elements, a multiple of 100. */
static tg_simulation *make(const char *method, const char *strategy, size_t n)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = method,
                                      .strategy = strategy,
                                      .optimizer = "sgd:lr=0.1",
                                      .steps_per_epoch = 100,
                                      .overlap = TG_OVERLAP_FULL};
    const size_t shape[] = {n / 100, 100};
    const tg_sim_tensor tensor = {"w", shape, 2};
    tg_simulation *sim = NULL;
    OK(tg_simulation_create(&config, &tensor, 1, &sim));
    return sim;
}

static tg_link link_of(const char *text)
{
    tg_link l = {.struct_size = sizeof l};
    if (text != NULL)
        OK(tg_link_parse(text, &l));
    return l;
}

static tg_sim_run run_of(int world, const char *link, const char *server, const char *mode)
{
    return (tg_sim_run){.struct_size = sizeof(tg_sim_run),
                        .world = world,
                        .link = link_of(link),
                        .work = work,
                        .nwork = TG_COUNT(work),
                        .steps = 40,
                        .servers = 1,
                        .server_mode = mode,
                        .server = link_of(server)};
}

/* Milliseconds of a step, in the long run. */
static double step_ms(const char *method, const char *strategy, size_t n, const tg_sim_run *run)
{
    tg_simulation *sim = make(method, strategy, n);
    tg_sim_end first = {.struct_size = sizeof first}, all = first;
    tg_sim_run longer = *run;
    longer.steps = 5 * run->steps;
    OK(tg_simulation_run(sim, run, &first));
    OK(tg_simulation_run(sim, &longer, &all));
    tg_simulation_destroy(sim);
    return (all.ns - first.ns) / 1e6 / (double)(longer.steps - run->steps);
}

static void near(double a, double b, double most)
{
    if (!(fabs(a - b) <= most))
        fail_msg("%g: expected %g", a, b);
}

static double at_pace(void *arg, int rank, uint64_t step)
{
    (void)step;
    return ((const double *)arg)[rank];
}

/* Two delays, and all that a link carries: 4 MB up, or down; at a server, those of all ranks. */
static void bounds(void **state)
{
    (void)state;
    enum { N = 1000000 };
    const struct {
        const char *link, *server;
        int world, servers;
        double most;                     /* ms: the longest of what links carry */
    } is[] = {{"30ms", NULL, 16, 1, 60}, /* 32 of 64 slices at a time: twice two delays */
              {"up=100mbit,down=1gbit,delay=30ms", NULL, 16, 1, 320},
              {"up=1gbit,down=100mbit,delay=30ms", NULL, 16, 1, 320},
              {"1gbit,30ms", "1gbit", 16, 1, 16 * 32},
              {"1gbit,30ms", "1gbit", 16, 4, 4 * 32},
              {"1gbit,30ms", "1gbit", 16, 16, 32},
              {"1gbit,30ms", "10gbit", 10000, 100, 10000 * 3.2 / 100},
              {"1gbit", "up=1gbit,down=4gbit,delay=30ms", 16, 1, 16 * 32}};
    for (size_t i = 0; i < TG_COUNT(is); i++) {
        tg_sim_run run = run_of(is[i].world, is[i].link, is[i].server, "sum");
        run.servers = is[i].servers;
        const double ms = step_ms("dense", "ssgd", N, &run), least = 20 + 60 + is[i].most;
        /* slices: a part of the shorter one follows */
        if (!(ms >= least && ms <= 60 + 20 + 1.55 * is[i].most + 1))
            fail_msg("%zu: %g ms: expected %g and a little more", i, ms, least);
        near(step_ms("dense", "ssgd", N, &run), ms, 1e-9);
        run.server_mode = "sync"; /* the same exchanges */
        near(step_ms("dense", "server", N, &run), ms, 1e-9);
    }
}

/* One rank is twice as slow: in step all wait for it; async, three make a step in 20 ms and one in
 * 40. */
static void stragglers(void **state)
{
    (void)state;
    double pace[4] = {1, 1, 1, 2};
    static const int both[] = {0, 3};
    tg_sim_run run = run_of(4, NULL, NULL, "async");
    run.pace = at_pace;
    run.arg = pace;
    run.rank = both;
    run.nranks = 2;
    near(step_ms("dense", "server", 1000, &run), 4 / (3 / 20.0 + 1 / 40.0), 0.3);
    run.server_mode = "sync";
    near(step_ms("dense", "server", 1000, &run), 40, 1e-6);
    for (int s = 0; s <= 8; s++) {
        char mode[32];
        snprintf(mode, sizeof mode, "async:staleness=%d", s);
        run.server_mode = mode;
        near(step_ms("dense", "server", 1000, &run), 40, s == 0 ? 1e-6 : 0.6);
    }
}

/* Each step of a rank takes 1 to 3 times as long, at random: with a bound of 8 nearly nobody
 * waits. */
static double at_random(void *arg, int rank, uint64_t step)
{
    const tg_rng_key key = {
        .seed = 1, .purpose = TG_PURPOSE_FAULT, .rank = (uint32_t)rank, .step = step};
    (void)arg;
    return 1 + 2 * tg_rng_uniform(&key, 0);
}

static void many(void **state)
{
    (void)state;
    static int all[10000];
    for (int r = 0; r < 10000; r++)
        all[r] = r;
    tg_sim_run run = run_of(10000, "30ms", NULL, "async");
    run.pace = at_random;
    run.steps = 10;
    near(step_ms("dense", "server", 1000, &run), 40 + 60, 1);
    run.server_mode = "async:staleness=8";
    const double bounded = step_ms("dense", "server", 1000, &run);
    assert_true(bounded >= 99 && bounded < 115);
    run.server_mode = "sync";
    run.rank = all;
    run.nranks = 10000;
    near(step_ms("dense", "server", 1000, &run), 60 + 60, 0.1);
}

/* The server's link carries 8 Mbit, that is 1000 ms of it, for each step of 100 ranks, async or in
 * step; one rank's slow link holds up only those in step. */
static void links(void **state)
{
    (void)state;
    tg_link own[100];
    tg_sim_run run = run_of(100, "100mbit,10ms", "8mbit,10ms", "async");
    near(step_ms("topk:density=0.01", "server", 2500, &run), 1006, 5);
    run.server_mode = "sync";
    near(step_ms("topk:density=0.01", "server", 2500, &run), 1006 + 40, 5);
    for (int r = 0; r < 100; r++)
        own[r] = link_of(r == 7 ? "100mbit,500ms" : "100mbit,10ms");
    run = run_of(100, "100mbit,10ms", "1gbit,10ms", "sync");
    run.links = own;
    near(step_ms("fp16", "server", 2500, &run), 20 + 1000, 15);
    run.server_mode = "async";
    run.steps = 200; /* each run ends up to a second after the last step of the others */
    near(step_ms("fp16", "server", 2500, &run), 100 / (99 / 42.0 + 1 / 1022.0), 2);
}

/* The answers of servers that code are as short as what ranks send. */
static void coded_answers(void **state)
{
    (void)state;
    enum { N = 1000000 };
    tg_sim_run run = run_of(8, "up=1gbit,down=10mbit,delay=10ms", NULL, NULL);
    near(step_ms("int8:exchange=star", "ssgd", N, &run), 20 + 20 + 8 + 3200, 10);
    near(step_ms("int8:exchange=twoway", "ssgd", N, &run), 20 + 20 + 8 + 803, 10);
    run.server_mode = "sync";
    near(step_ms("int8:exchange=twoway", "server", N, &run), 20 + 20 + 8 + 803, 10);
    run = run_of(8, NULL, "up=100mbit,down=1gbit,delay=10ms", NULL);
    near(step_ms("int8:exchange=twoway", "ssgd", N, &run), 20 + 20 + 8 * (80.3 + 0), 30);
}

static void refuses(void **state)
{
    (void)state;
    tg_simulation *sim = make("dense", "ssgd", 100);
    tg_sim_run run = run_of(4, NULL, NULL, NULL);
    const struct {
        int64_t servers;
        const char *mode, *words;
        tg_status status;
    } is[] = {{-1, NULL, "servers=-1: allowed: 0 to 256", TG_E_ARG},
              {257, NULL, "servers=257", TG_E_ARG},
              {0, "sum", "require servers", TG_E_ARG},
              {1, "later", "later", TG_E_SPEC},
              {1, "async", "requires an optimizer", TG_E_SPEC}};
    for (size_t i = 0; i < TG_COUNT(is); i++) {
        run.servers = is[i].servers;
        run.server_mode = is[i].mode;
        assert_int_equal(tg_simulation_run(sim, &run, NULL), is[i].status);
        if (strstr(tg_error(), is[i].words) == NULL)
            fail_msg("%s: lacks \"%s\"", tg_error(), is[i].words);
    }
    run.servers = 0;
    run.server_mode = NULL;
    run.strategy = "server";
    assert_int_equal(tg_simulation_run(sim, &run, NULL), TG_E_UNSUPPORTED);
    tg_simulation_destroy(sim);
    sim = make("powersgd", "server", 10000);
    run = run_of(4, NULL, NULL, "async");
    assert_int_equal(tg_simulation_run(sim, &run, NULL), TG_E_UNSUPPORTED);
    assert_non_null(strstr(tg_error(), "methods of one round"));
    tg_simulation_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds), cmocka_unit_test(stragglers),    cmocka_unit_test(many),
        cmocka_unit_test(links),  cmocka_unit_test(coded_answers), cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
