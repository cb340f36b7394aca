/* Adaptive thresholds: they reach the requested density from any start, tensor by tensor, and
 * tolerate zeros. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "each_level.h"
#include "vectors.h"
#include <math.h>
#include <string.h>

enum { A = 4000, B = 1000, C = 40, N = A + B + C, SEGMENTS = 3, EACH = 2, FRAME_MAX = 12 + 4 * N };

static const tg_segment segments[SEGMENTS] = {{.n = A, .rows = A, .cols = 1},
                                              {.begin = A, .n = B, .rows = B, .cols = 1},
                                              {.begin = A + B, .n = C, .rows = C, .cols = 1}};
/* The gradients of the three differ in magnitude; a rule with one threshold would starve two of
 * them. */
static const float size[SEGMENTS] = {1e-3f, 1, 300};

typedef struct rank {
    tg_codec *c;
    float r[N], memory[EACH * SEGMENTS]; /* threshold and age of each */
    size_t sent[SEGMENTS];               /* of the last step */
} rank;

static rank w;
static float g[N], decoded[N];
static uint8_t frame[FRAME_MAX];

static void start(const char *spec)
{
    memset(&w, 0, sizeof w);
    assert_int_equal(tg_codec_create(spec, &w.c), TG_OK);
    assert_int_equal(tg_codec_memory(w.c), EACH);
}

/* Mean 0, variance 1, nearly normal. */
static float noise(uint64_t *state)
{
    float sum = 0;
    for (int i = 0; i < 3; i++)
        sum += (float)test_random(state) * 0x1p-31f - 1;
    return sum;
}

/* Noise with a drift in some of the elements, as gradients have; scale 0: zeros. */
static void step(uint64_t t, float scale)
{
    uint64_t state = t * 7919 + 1;
    const tg_encode_context ctx = {.struct_size = sizeof ctx,
                                   .gradient = g,
                                   .segments = segments,
                                   .nsegments = SEGMENTS,
                                   .memory = w.memory};
    memset(w.sent, 0, sizeof w.sent);
    for (size_t s = 0; s < SEGMENTS; s++)
        for (size_t i = segments[s].begin; i < segments[s].begin + segments[s].n; i++) {
            g[i] = scale * size[s] * (noise(&state) + (i % 5 == 0 ? 0.3f : 0));
            w.r[i] += g[i];
        }
    tg__part part = {.dst = frame, .cap = tg__codec_bound(w.c, N), .hi = N};
    assert_int_equal(tg__codec_encode(w.c, &ctx, w.r, N, &part, 1, NULL), TG_OK);
    assert_int_equal(tg__frame_check(frame, part.len, N, -1), TG_OK);
    tg__frame_decode(frame, part.len, decoded, NULL);
    size_t kept = 0;
    for (size_t s = 0; s < SEGMENTS; s++) {
        for (size_t i = segments[s].begin; i < segments[s].begin + segments[s].n; i++) {
            w.r[i] -= decoded[i];
            w.sent[s] += decoded[i] != 0;
        }
        kept += w.sent[s];
    }
    assert_int_equal(part.kept, kept);
}

/* The mean density of the following steps. */
static void densities(uint64_t from, uint64_t steps, double density[SEGMENTS])
{
    memset(density, 0, SEGMENTS * sizeof *density);
    for (uint64_t t = from; t < from + steps; t++) {
        step(t, 1);
        for (size_t s = 0; s < SEGMENTS; s++)
            density[s] += (double)w.sent[s] / (double)segments[s].n / (double)steps;
    }
}

static void finds_the_density(void **state)
{
    (void)state;
    /* start is 100 times too large for one of the tensors, and 100 times too small for another */
    static const struct {
        const char *spec;
        double target;
    } cases[] = {{"2bit:threshold=auto,target=0.1", 0.1},
                 {"2bit:threshold=auto,target=0.02", 0.02},
                 {"2bit:threshold=auto,target=0.1,lookahead=0", 0.1},
                 {"2bit:threshold=auto,target=0.02,lookahead=4", 0.02},
                 {"strom:target=0.05,start=450,lookahead=0", 0.05},
                 {"2bit:threshold=auto,target=0.1,start=300", 0.1},
                 {"2bit:threshold=auto,target=0.1,start=0.03", 0.1},
                 {"strom:target=0.05,start=450", 0.05},
                 {"strom:target=0.05,start=0.045", 0.05},
                 {"strom:target=0.02", 0.02}};
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        double density[SEGMENTS];
        start(cases[i].spec);
        densities(0, 60, density);
        densities(60, 100, density);
        for (size_t s = 0; s < SEGMENTS; s++)
            if (!(density[s] > cases[i].target * (s == 2 ? 0.5 : 0.8) &&
                  density[s] < cases[i].target * (s == 2 ? 2 : 1.25)))
                fail_msg("%s: tensor %zu: density %g", cases[i].spec, s, density[s]);
        tg_codec_destroy(w.c);
    }
}

/* A start that is a hundred times too large or too small is corrected within a few dozen steps. */
static void recovers_from_a_wrong_start(void **state)
{
    (void)state;
    static const float wrong[] = {100, 0.01f};
    for (size_t i = 0; i < TG_COUNT(wrong); i++) {
        double density[SEGMENTS];
        start("2bit:threshold=auto,target=0.1");
        densities(0, 60, density);
        for (size_t s = 0; s < SEGMENTS; s++)
            w.memory[EACH * s] *= wrong[i];
        for (size_t s = 0; s < SEGMENTS; s++)
            w.memory[EACH * s + 1] = 0; /* as at the start */
        densities(60, 40, density);
        densities(100, 20, density);
        for (size_t s = 0; s < 2; s++)
            if (!(density[s] > 0.07 && density[s] < 0.14))
                fail_msg("x %g: tensor %zu: density %g", (double)wrong[i], s, density[s]);
        tg_codec_destroy(w.c);
    }
}

/* If fewer elements have a gradient than the target requests, the threshold does not fall until
 * only outdated values are sent: the residual stays within a few gradients. */
static void an_unreachable_density_keeps_the_residual_small(void **state)
{
    (void)state;
    const tg_encode_context ctx = {.struct_size = sizeof ctx, .memory = w.memory};
    start("2bit:threshold=auto,target=0.1");
    uint64_t seed = 6;
    float most = 0;
    for (uint64_t t = 0; t < 600; t++) {
        for (size_t i = 0; i < N; i += 20)
            w.r[i] += noise(&seed) + 0.3f;
        tg__part part = {.dst = frame, .cap = tg__codec_bound(w.c, N), .hi = N};
        assert_int_equal(tg__codec_encode(w.c, &ctx, w.r, N, &part, 1, NULL), TG_OK);
        tg__frame_decode(frame, part.len, decoded, NULL);
        for (size_t i = 0; i < N; i++) {
            w.r[i] -= decoded[i];
            most = t >= 100 && fabsf(w.r[i]) > most ? fabsf(w.r[i]) : most;
        }
    }
    if (!(most < 15))
        fail_msg("%g", (double)most);
    tg_codec_destroy(w.c);
}

/* Zeros change nothing: neither before the first gradient nor between two. */
static void zeros_change_nothing(void **state)
{
    (void)state;
    static const char *const specs[] = {"2bit:threshold=auto", "strom:start=0.5", "strom"};
    for (size_t i = 0; i < TG_COUNT(specs); i++) {
        float before[EACH * SEGMENTS];
        start(specs[i]);
        for (uint64_t t = 0; t < 200; t++)
            step(t, 0);
        for (size_t s = 0; s < SEGMENTS; s++)
            assert_true(w.memory[EACH * s] == 0);
        for (uint64_t t = 0; t < 40; t++)
            step(t, 1);
        memset(w.r, 0, sizeof w.r);
        memcpy(before, w.memory, sizeof before);
        for (uint64_t t = 0; t < 500; t++)
            step(t, 0);
        assert_memory_equal(before, w.memory, sizeof before);
        tg_codec_destroy(w.c);
    }
}

/* For any memory and any vector, thresholds stay positive and finite. */
static void bounds(void **state)
{
    (void)state;
    static const float memory[] = {1e-38f, 1e-45f, 3e38f, INFINITY, -1, NAN};
    static const float scale[] = {1e-38f, 1e30f};
    for (size_t i = 0; i < TG_COUNT(memory); i++)
        for (size_t j = 0; j < TG_COUNT(scale); j++) {
            start("2bit:threshold=auto");
            for (size_t s = 0; s < SEGMENTS; s++)
                w.memory[EACH * s] = memory[i];
            for (uint64_t t = 0; t < 20; t++) {
                step(t, scale[j]);
                for (size_t s = 0; s < SEGMENTS; s++)
                    assert_true(w.memory[EACH * s] >= 1e-30f && w.memory[EACH * s] <= 1e30f);
            }
            tg_codec_destroy(w.c);
        }
}

/* Without memory every call is a first call; a fixed threshold needs no memory. */
static void without_memory(void **state)
{
    (void)state;
    tg_codec *c;
    assert_int_equal(tg_codec_create("2bit:threshold=0.25", &c), TG_OK);
    assert_int_equal(tg_codec_memory(c), 0);
    tg_codec_destroy(c);
    start("2bit:threshold=auto,start=4");
    static const float x[] = {-9, 3.9f, 4, 0};
    float out[4];
    tg_array ax = tg_array_f32(x, 4), aout = tg_array_f32(out, 4);
    for (int i = 0; i < 3; i++) {
        size_t len;
        assert_int_equal(tg_codec_encode(w.c, NULL, &ax, frame, sizeof frame, &len), TG_OK);
        assert_int_equal(tg_frame_decode(frame, len, &aout), TG_OK);
        assert_true(out[0] == -4 && out[1] == 0 && out[2] == 4 && out[3] == 0);
    }
    tg_codec_destroy(w.c);
}

/* Keys of auto are refused with a fixed threshold, unless they have the default value. */
static void keys_of_auto(void **state)
{
    (void)state;
    static const char *const bad[] = {"2bit:threshold=0.5,target=0.2", "2bit:start=1",
                                      "strom:threshold=1,start=2"};
    tg_codec *c;
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        assert_int_equal(tg_codec_create(bad[i], &c), TG_E_SPEC);
        assert_non_null(strstr(tg_error(), "only with threshold=auto"));
    }
    assert_int_equal(tg_codec_create("2bit:threshold=0.5,start=0,target=0.1", &c), TG_OK);
    tg_codec_destroy(c);
}

/* The result does not depend on the threads that encode or decode, or on where parts are cut. */
static void threads_and_parts(void **state)
{
    (void)state;
    enum { BIG = 400000, CUT = 65537 };
    static const tg_segment cut[] = {{.n = 70001, .rows = 70001, .cols = 1},
                                     {.begin = 70001, .n = BIG - 70001, .rows = 1, .cols = 1}};
    static float x[BIG], one[BIG], two[BIG];
    static uint8_t a[12 + 4 * BIG], b[24 + 4 * BIG];
    uint64_t seed = 5;
    for (size_t i = 0; i < BIG; i++)
        x[i] = noise(&seed) * (i < 70001 ? 1 : 100);
    const char *const specs[] = {"2bit:threshold=auto", "strom", "2bit:threshold=0.5"};
    tg__pool *pool;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        tg_codec *c;
        assert_int_equal(tg_codec_create(specs[s], &c), TG_OK);
        tg_encode_context ctx = {.struct_size = sizeof ctx, .segments = cut, .nsegments = 2};
        tg__part part = {.dst = a, .cap = sizeof a, .hi = BIG}, again = part, parts[2];
        again.dst = b;
        assert_int_equal(tg__codec_encode(c, &ctx, x, BIG, &part, 1, NULL), TG_OK);
        assert_int_equal(tg_codec_set_threads(c, 3), TG_OK);
        assert_int_equal(tg__codec_encode(c, &ctx, x, BIG, &again, 1, NULL), TG_OK);
        assert_int_equal(part.len, again.len);
        assert_memory_equal(a, b, part.len);
        for (size_t i = 0; i < BIG; i++)
            one[i] = two[i] = i % 3 ? 1 : -0.0f;
        tg__frame_decode_add(a, part.len, one, NULL);
        tg__frame_decode_add(a, part.len, two, pool);
        assert_memory_equal(one, two, sizeof one);
        tg__frame_decode(a, part.len, one, NULL);
        tg__frame_decode(a, part.len, two, pool);
        assert_memory_equal(one, two, sizeof one);
        parts[0] = (tg__part){.dst = b, .cap = 12 + 4 * CUT, .hi = CUT};
        parts[1] = (tg__part){
            .dst = b + parts[0].cap, .cap = sizeof b - parts[0].cap, .lo = CUT, .hi = BIG};
        assert_int_equal(tg__codec_encode(c, &ctx, x, BIG, parts, 2, NULL), TG_OK);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(
                tg__frame_check(parts[i].dst, parts[i].len, parts[i].hi - parts[i].lo, -1), TG_OK);
            tg__frame_decode(parts[i].dst, parts[i].len, two + parts[i].lo, pool);
        }
        assert_memory_equal(one, two, sizeof one);
        tg_codec_destroy(c);
    }
    tg__pool_destroy(pool);
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_density),
        cmocka_unit_test(recovers_from_a_wrong_start),
        cmocka_unit_test(an_unreachable_density_keeps_the_residual_small),
        cmocka_unit_test(zeros_change_nothing),
        cmocka_unit_test(bounds),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(keys_of_auto),
        cmocka_unit_test(threads_and_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
