/* Invalid values within arguments are refused, and the message names the value. NULL and numbers
 * passed by value are tested by tests/arguments.py. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "telegrad/telegrad.h"
#include <math.h>
#include <string.h>

#define refused(call, word)                        \
    do {                                           \
        assert_int_equal(call, TG_E_ARG);          \
        assert_non_null(strstr(tg_error(), word)); \
    } while (0)

enum { N = 8 };
static const size_t shape[] = {N, 1, 1, 1, 1, 1, 1, 1, 1};
static float x[N] = {1, 2, 3, 4, 5, 6, 7, 8};

static void densities(void **state)
{
    (void)state;
    static const double bad[] = {NAN, -0.5, 1.5, INFINITY};
    uint8_t frame[256];
    size_t len;
    tg_codec *c;
    const tg_array a = tg_array_f32(x, N);
    assert_int_equal(tg_codec_create("topk:density=0.5", &c), TG_OK);
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        const tg_encode_context ctx = {.struct_size = sizeof ctx, .density = bad[i]};
        refused(tg_codec_encode(c, &ctx, &a, frame, sizeof frame, &len), "density");
    }
    tg_codec_destroy(c);
}

static void links_and_clocks(void **state)
{
    (void)state;
    tg_transport *t, *shaped;
    tg_link bad[] = {
        {.up_bps = (double)NAN}, {.down_bps = -1}, {.delay_ns = -1}, {.jitter_ns = INT64_MAX}};
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        refused(tg_transport_shaped(t, &bad[i], &shaped), "struct_size");
        bad[i].struct_size = sizeof bad[i];
        refused(tg_transport_shaped(t, &bad[i], &shaped), i < 2 ? "bps" : "_ns");
        refused(tg_transport_shaped_links(t, &bad[i], NULL, &shaped), "rank 0");
    }
    tg_clock clock = *tg_clock_monotonic();
    clock.now_ns = NULL;
    refused(tg_transport_inproc_clock(1, &clock, &shaped), "now_ns");
    tg_transport_destroy(t);
}

static void segments(void **state)
{
    (void)state;
    static const tg_segment one = {.begin = 0, .n = N, .rows = N, .cols = 1};
    static const size_t bad[] = {0, N + 1, SIZE_MAX};
    tg_transport *t;
    tg_reducer *r;
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        const tg_reducer_config config = {
            .struct_size = sizeof config, .segments = &one, .nsegments = bad[i]};
        refused(tg_reducer_create("dense", t, N, &config, &r), "nsegments");
    }
    tg_transport_destroy(t);
}

/* A transport that is not or wrongly filled in: the message has the name of the caller's
 * argument. */
static void transports(void **state)
{
    (void)state;
    const tg_session_config config = {.struct_size = sizeof config};
    const tg_link link = {.struct_size = sizeof link};
    tg_transport *real, zeroed = {0}, *t;
    tg_reducer *r;
    tg_session *s;
    refused(tg_reducer_create("dense", &zeroed, N, NULL, &r),
            "tg_reducer_create: transport->ops is NULL");
    refused(tg_session_create(&config, &zeroed, &s), "tg_session_create: transport->ops is NULL");
    refused(tg_transport_shaped(&zeroed, &link, &t), "tg_transport_shaped: inner->ops is NULL");
    refused(tg_transport_faulty(&zeroed, "fault:", &t), "tg_transport_faulty: inner->ops is NULL");
    assert_int_equal(tg_transport_inproc(1, &real), TG_OK);
    tg_transport bad = *real;
    bad.rank = 3;
    refused(tg_reducer_create("dense", &bad, N, NULL, &r),
            "tg_reducer_create: transport->rank=3, transport->size=1");
    bad = *real;
    bad.struct_size = 8;
    refused(tg_reducer_create("dense", &bad, N, NULL, &r), "transport->struct_size=8");
    tg_transport_ops ops = *real->ops;
    ops.poll = NULL;
    bad = *real;
    bad.ops = &ops;
    refused(tg_reducer_create("dense", &bad, N, NULL, &r), "transport->ops->poll is NULL");
    ops = *real->ops;
    ops.blamed = NULL;
    refused(tg_reducer_create("dense", &bad, N, NULL, &r), "blamed");
    tg_transport_destroy(real);
}

static void lists_that_are_not_there(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    static const uint32_t one = 1;
    tg_transport *t;
    tg_session *s;
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    tg_session_config config = {.struct_size = sizeof config, .nmetadata = 1};
    refused(tg_session_create(&config, t, &s), "config->metadata is NULL with nmetadata=1");
    config.metadata = none;
    refused(tg_session_create(&config, t, &s), "config->metadata[0] is NULL");
    config = (tg_session_config){.struct_size = sizeof config, .nrules = 1};
    refused(tg_session_create(&config, t, &s), "config->rules is NULL with nrules=1");
    config.rules = none;
    refused(tg_session_create(&config, t, &s), "config->rules[0] is NULL");
    config = (tg_session_config){.struct_size = sizeof config, .buckets = &one};
    refused(tg_session_create(&config, t, &s), "config->nbuckets=0: allowed: at least 1");
    config = (tg_session_config){.struct_size = sizeof config, .nbuckets = 2};
    refused(tg_session_create(&config, t, &s), "buckets is NULL with nbuckets=2");
    tg_reducer *r;
    const tg_reducer_config parts = {.struct_size = sizeof parts, .nsegments = 2};
    refused(tg_reducer_create("dense", t, N, &parts, &r), "segments is NULL with nsegments=2");
    tg_transport_destroy(t);

    uint8_t frame[256];
    size_t len;
    tg_codec *c;
    const tg_array a = tg_array_f32(x, N);
    const tg_encode_context ctx = {.struct_size = sizeof ctx, .nsegments = 2};
    assert_int_equal(tg_codec_create("terngrad", &c), TG_OK);
    refused(tg_codec_encode(c, &ctx, &a, frame, sizeof frame, &len),
            "segments is NULL with nsegments=2");
    tg_codec_destroy(c);
}

static void simulations(void **state)
{
    (void)state;
    const tg_session_config config = {.struct_size = sizeof config};
    tg_sim_tensor tensor = {"w", NULL, 1};
    tg_simulation *sim;
    tg_sim_exchange exchange = {.struct_size = sizeof exchange};
    tg_link link = {.struct_size = sizeof link, .up_bps = (double)NAN};
    refused(tg_simulation_create(&config, &tensor, 1, &sim), "shape");
    tensor.shape = shape;
    assert_int_equal(tg_simulation_create(&config, &tensor, 1, &sim), TG_OK);
    refused(tg_simulation_exchange(sim, 2, &link, &exchange), "up_bps");
    tg_sim_run run = {.struct_size = sizeof run, .world = 2, .steps = 1, .link = link};
    refused(tg_simulation_run(sim, &run, NULL), "up_bps");
    run.link.up_bps = 0;
    for (int rank = -1; rank <= 2; rank += 3) {
        run.rank = &rank;
        run.nranks = 1;
        refused(tg_simulation_run(sim, &run, NULL), "rank[0]");
    }
    tg_simulation_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(densities),  cmocka_unit_test(links_and_clocks),
        cmocka_unit_test(segments),   cmocka_unit_test(lists_that_are_not_there),
        cmocka_unit_test(transports), cmocka_unit_test(simulations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
