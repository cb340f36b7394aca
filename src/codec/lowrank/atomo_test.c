/* ATOMO: limits, the worked example, probabilities, the mean over many draws, refusals. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/lowrank/atomo_matrix.h"
#include "codec/codec_impl.h"
#include "each_level.h"
#include "from_hex.h"
#include <golden/golden_atomo.h> /* tests/golden */
#include "vectors.h"
#include "telegrad/random.h"
#include <stdio.h>
#include <string.h>

enum { MAX_N = 40000 };

static float x[MAX_N], out[MAX_N];
static uint8_t frame[12 + 4 * MAX_N];

/* Encode x as these segments and decode into out; the frame's bytes. */
static size_t code(tg_codec *c, const tg_segment *segments, size_t count, uint64_t step)
{
    size_t n = segments[count - 1].begin + segments[count - 1].n, len;
    const tg_encode_context ctx = {
        .struct_size = sizeof ctx,
        .rng = {.seed = 6, .purpose = TG_PURPOSE_TEST, .step = step},
        .segments = segments,
        .nsegments = count,
    };
    tg_array ax = tg_array_f32(x, n), aout = tg_array_f32(out, n);
    assert_int_equal(tg_codec_encode(c, &ctx, &ax, frame, tg_codec_bound(c, n), &len), TG_OK);
    assert_int_equal(tg_frame_decode(frame, len, &aout), TG_OK);
    return len;
}

static tg_codec *create(const char *spec)
{
    tg_codec *c = NULL;
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    return c;
}

static double distance(size_t n)
{
    double d = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)out[i] - (double)x[i]) * ((double)out[i] - (double)x[i]);
        norm += (double)x[i] * (double)x[i];
    }
    return sqrt(d / norm);
}

/* The sum of `rank` outer products of small vectors. */
static void low_rank(size_t rows, size_t cols, unsigned rank)
{
    static float u[4][MAX_N], v[4][MAX_N];
    memset(x, 0, sizeof x);
    for (unsigned k = 0; k < rank; k++) {
        test_vector(u[k], rows, TEST_GRADIENT, 2 * k);
        test_vector(v[k], cols, TEST_GRADIENT, 2 * k + 1);
        for (size_t i = 0; i < rows * cols; i++)
            x[i] += u[k][i / cols] * v[k][i % cols];
    }
}

/* With as many atoms as there are, or a rank at which atoms do not pay: the matrix itself. A
 * matrix with no more atoms than the rank keeps all of them with probability 1: the matrix up to
 * rounding. */
static void limits(void **state)
{
    (void)state;
    static const tg_segment shapes[] = {{0, 20 * 30, 20, 30, 0},
                                        {0, 30 * 20, 30, 20, 0},
                                        {0, 100 * 300, 100, 300, 0},
                                        {0, 300 * 100, 300, 100, 0}};
    tg_codec *full = create("atomo:rank=20"), *three = create("atomo");
    for (size_t i = 0; i < TG_COUNT(shapes); i++)
        for (uint64_t step = 0; step < 20; step++) {
            const tg_segment *s = &shapes[i];
            if (i < 2) {
                test_vector(x, s->n, TEST_GRADIENT, step);
                code(full, s, 1, step);
                assert_memory_equal(out, x, s->n * sizeof *x);
            }
            low_rank(s->rows, s->cols, 2);
            code(three, s, 1, step); /* possibly with atoms of the matrix's own rounding */
            if (distance(s->n) > 1e-6)
                fail_msg("%zu x %zu of rank 2: off by %g", s->rows, s->cols, distance(s->n));
        }
    tg_codec_destroy(full);
    tg_codec_destroy(three);
}

/* The worked example of docs/wire-format.md: a matrix of rank 1, then a vector. */
static void example(void **state)
{
    (void)state;
    static const float half[] = {0.5f, 0.5f, -0.5f, 0.5f}, wide[] = {4, -8, 0, 2, 0, 1, 0, 16};
    static const uint8_t want[] = {
        0x0d, 0, 0, 0, 34, 0, 0, 0, 84,   0,    0,    0,     /* head */
        2,    0, 0, 0,                                       /* tensors */
        4,    0, 0, 0, 8,  0, 0, 0, 1,    0,    0,    0,     /* 4 x 8, one atom */
        2,    0, 0, 0, 1,  0, 0, 0, 0xff, 0xff, 0xff, 0xff}; /* 2 x 1, whole */
    static const tg_segment segments[] = {{0, 32, 4, 8, 0}, {32, 2, 2, 1, 0}};
    tg_codec *c = create("atomo:rank=2");
    for (size_t i = 0; i < 32; i++)
        x[i] = half[i / 8] * wide[i % 8] + 0.0f; /* no -0 */
    x[32] = 3;
    x[33] = -0.25f;
    assert_int_equal(code(c, segments, 2, 0), 12 + 84);
    assert_memory_equal(frame, want, sizeof want);
    assert_memory_equal(out, x, 34 * sizeof *x);
    float sign = 0, v;
    tg__floats_get(&sign, frame + sizeof want, 1);
    sign *= 2; /* u v^T = (-u) (-v)^T */
    for (size_t i = 0; i < 12; i++) {
        tg__floats_get(&v, frame + sizeof want + 4 * i, 1);
        assert_true(sign * v == (i < 4 ? half[i] : wide[i - 4]));
    }
    tg_codec_destroy(c);
}

static void probabilities(void **state)
{
    (void)state;
    static const struct {
        double s[4], rank, p[4];
    } cases[] = {{{1, 1, 1, 1}, 2, {0.5, 0.5, 0.5, 0.5}}, {{8, 1, 1, 0}, 1, {0.8, 0.1, 0.1, 0}},
                 {{8, 1, 1, 0}, 2, {1, 0.5, 0.5, 0}},    /* the 8 is set to 1 first */
                 {{100, 10, 1, 1}, 3, {1, 1, 0.5, 0.5}}, /* then the 10 */
                 {{5, 4, 3, 2}, 4, {1, 1, 1, 1}},         {{5, 4, 3, 2}, 9, {1, 1, 1, 1}},
                 {{5, 0, 0, 0}, 1, {1, 0, 0, 0}},         {{0, 0, 0, 0}, 3, {0, 0, 0, 0}}};
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg__atom atom[4];
        double total = 0;
        for (size_t k = 0; k < 4; k++) {
            atom[k] = (tg__atom){.s = cases[i].s[k]};
            total += cases[i].s[k];
        }
        assert_true(tg__atomo_probabilities(atom, 4, cases[i].rank) == total);
        for (size_t k = 0; k < 4; k++)
            if (fabs(atom[k].p - cases[i].p[k]) > 1e-15)
                fail_msg("case %zu: p[%zu]=%.17g", i, k, atom[k].p);
    }
}

/* The mean of many draws is the matrix: every element's z, and their chi-square. The number of
 * atoms drawn has mean `rank`. The matrix is so small that sometimes more atoms are drawn than
 * pay. */
static void mean_is_the_matrix(void **state)
{
    (void)state;
    enum { DRAWS = 40000, N = 7 * 16 };
    static const tg_segment s = {0, N, 7, 16, 0};
    static double sum[N], square[N];
    tg_codec *c = create("atomo:rank=3");
    memset(sum, 0, sizeof sum);
    memset(square, 0, sizeof square);
    test_vector(x, N, TEST_GRADIENT, 3);
    double kept = 0, whole = 0, worst = 0, chi = 0;
    for (uint64_t t = 0; t < DRAWS; t++) {
        size_t len = code(c, &s, 1, t);
        kept += frame[1] == TG__FORM_CODED ? (double)(len - 12 - 16) / (4 * (7 + 16)) : 0;
        whole += frame[1] == TG__FORM_DENSE;
        for (size_t i = 0; i < N; i++) {
            sum[i] += (double)out[i];
            square[i] += (double)out[i] * (double)out[i];
        }
    }
    for (size_t i = 0; i < N; i++) {
        double mean = sum[i] / DRAWS, variance = square[i] / DRAWS - mean * mean;
        double z = (mean - (double)x[i]) / sqrt(variance / DRAWS);
        worst = fmax(worst, fabs(z));
        chi += z * z;
    }
    if (worst > 4.5) /* 112 values: p = 0.0008 */
        fail_msg("an element is off by %g deviations", worst);
    assert_true(chi / N < 2.5); /* correlated, so only roughly 1 */
    assert_true(whole > 0 && whole < DRAWS / 4.0);
    kept += 5.2 * whole; /* 5, or slightly more */
    assert_true(kept / DRAWS > 2.95 && kept / DRAWS < 3.05);
    tg_codec_destroy(c);
}

/* Another stream draws other atoms; the same stream draws the same, whatever the neighbouring
 * tensors are. */
static void draws_are_keyed(void **state)
{
    (void)state;
    static const tg_segment two[] = {{0, 600, 20, 30, 0}, {600, 600, 20, 30, 0}};
    static float first[600];
    tg_codec *c = create("atomo:rank=2");
    test_vector(x, 1200, TEST_GRADIENT, 1);
    memcpy(x + 600, x, 600 * sizeof *x);
    code(c, two, 2, 0);
    memcpy(first, out, sizeof first);
    assert_memory_not_equal(out + 600, first, sizeof first); /* same matrix, other tensor */
    x[700] += 1;
    code(c, two, 2, 0);
    assert_memory_equal(out, first, sizeof first);
    code(c, two, 2, 1);
    assert_memory_not_equal(out, first, sizeof first);
    tg_codec_destroy(c);
}

/* Matrices of zeros, with rows of zeros, with values at the ends of f32's range. */
static void odd_matrices(void **state)
{
    (void)state;
    static const tg_segment s = {0, 4000, 40, 100, 0};
    tg_codec *c = create("atomo");
    memset(x, 0, sizeof x);
    assert_int_equal(code(c, &s, 1, 0), 12);
    x[1234] = -5;
    code(c, &s, 1, 0);
    assert_memory_equal(out, x, 4000 * sizeof *x);
    for (unsigned v = 0; v < TEST_VECTORS; v++)
        for (uint64_t step = 0; step < 5; step++) {
            test_vector(x, 4000, (enum test_vector)v, step);
            code(c, &s, 1, step);
            for (size_t i = 0; i < 4000; i++)
                assert_true(isfinite(out[i]));
        }
    for (size_t i = 0; i < 4000; i++)
        x[i] = i % 3 ? 3e38f : -3e38f; /* the atoms overflow f32 */
    code(c, &s, 1, 0);
    assert_memory_equal(out, x, 4000 * sizeof *x);
    for (size_t i = 0; i < 4000; i++)
        x[i] *= 1e-45f; /* subnormal products, normal atoms */
    code(c, &s, 1, 0);
    x[17] = NAN; /* the inner function does not check */
    tg__part part = {.dst = frame, .cap = sizeof frame, .hi = 4000};
    const tg_encode_context ctx = {.struct_size = sizeof ctx, .segments = &s, .nsegments = 1};
    assert_int_equal(tg__codec_encode(c, &ctx, x, 4000, &part, 1, NULL), TG_OK);
    tg_codec_destroy(c);
}

/* A part may hold whole tensors; a part that cuts a matrix is refused. */
static void parts(void **state)
{
    (void)state;
    static const tg_segment s[] = {
        {0, 4000, 40, 100, 0}, {4000, 50, 50, 1, 0}, {4050, 4000, 100, 40, 0}};
    static uint8_t other[12 + 4 * MAX_N];
    static float piece[MAX_N];
    tg_codec *c = create("atomo");
    test_vector(x, 8050, TEST_GRADIENT, 8);
    code(c, s, 3, 0);
    const tg_encode_context ctx = {.struct_size = sizeof ctx,
                                   .rng = {.seed = 6, .purpose = TG_PURPOSE_TEST},
                                   .segments = s,
                                   .nsegments = 3};
    tg__part two[] = {{.dst = frame, .cap = sizeof frame, .hi = 4020},
                      {.dst = other, .cap = sizeof other, .lo = 4020, .hi = 8050}};
    assert_int_equal(tg__codec_encode(c, &ctx, x, 8050, two, 2, NULL), TG_OK);
    for (size_t i = 0; i < 2; i++) {
        size_t n = two[i].hi - two[i].lo;
        assert_int_equal(tg__frame_check(two[i].dst, two[i].len, n, TG__ID_atomo), TG_OK);
        tg__frame_decode(two[i].dst, two[i].len, piece, NULL);
        assert_memory_equal(piece, out + two[i].lo, n * sizeof *piece);
    }
    two[0].hi = two[1].lo = 1000;
    assert_int_equal(tg__codec_encode(c, &ctx, x, 8050, two, 2, NULL), TG_E_UNSUPPORTED);
    assert_non_null(strstr(tg_error(), "allgather"));
    tg_codec_destroy(c);
}

/* Every byte of the heads matters. */
static void refusals(void **state)
{
    (void)state;
    static const tg_segment s[] = {{0, 4000, 40, 100, 0}, {4000, 50, 50, 1, 0}};
    static uint8_t good[12 + 4 * MAX_N];
    tg_codec *c = create("atomo:rank=2");
    test_vector(x, 4050, TEST_GRADIENT, 8);
    size_t len = 0;
    for (uint64_t step = 0; len < 1000; step++) /* at least one atom */
        len = code(c, s, 2, step);
    memcpy(good, frame, len);
    tg_array a = tg_array_f32(out, 4050);
    for (size_t bit = 0; bit < 8 * (12 + 4 + 24); bit++) {
        good[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (bit / 8 != 0)
            assert_int_not_equal(tg_frame_decode(good, len, &a), TG_OK);
        good[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < len; cut += cut < 60 ? 1 : 61) {
        memcpy(frame, good, len);
        assert_int_equal(tg_frame_decode(frame, cut, &a), TG_E_CORRUPT);
        if (cut < 12)
            continue;
        tg__put32(frame + 8, (uint32_t)(cut - 12));
        assert_int_equal(tg_frame_decode(frame, cut, &a), TG_E_CORRUPT);
    }
    tg__put32(good + 12 + 4 + 24 + 40, 0x7f800000); /* an infinite factor */
    assert_int_equal(tg_frame_decode(good, len, &a), TG_E_CORRUPT);
    tg_codec_destroy(c);
}

/* ---- produced by independent code (tools/golden_atomo.py) ------------------------------------ */

static void golden_frames(void **state)
{
    (void)state;
    for (size_t i = 0; i < TG_COUNT(golden_atomo_frames); i++) {
        size_t len = from_hex(frame, golden_atomo_frames[i].frame);
        size_t n = floats_from_hex(x, golden_atomo_frames[i].decoded);
        tg_array a = tg_array_f32(out, n);
        assert_int_equal(tg_frame_decode(frame, len, &a), TG_OK);
        assert_memory_equal(out, x, n * sizeof *x);
        for (size_t k = 0; k < n; k++)
            out[k] = 1;
        assert_int_equal(tg_frame_decode_add(frame, len, &a), TG_OK);
        for (size_t k = 0; k < n; k++)
            assert_true(out[k] == 1 + x[k]);
    }
}

static void golden_estimates(void **state)
{
    (void)state;
    static float want[MAX_N];
    for (size_t i = 0; i < TG_COUNT(golden_atomo_matrices); i++) {
        const struct golden_atomo_matrix *g = &golden_atomo_matrices[i];
        tg_segment segments[8];
        for (size_t k = 0; k < g->segment; k++) {
            segments[k] = (tg_segment){k, 1, 1, 1, 0};
            x[k] = (float)k;
        }
        segments[g->segment] =
            (tg_segment){g->segment, (size_t)g->rows * g->cols, g->rows, g->cols, 0};
        size_t n = floats_from_hex(x + g->segment, g->x), len;
        assert_int_equal(floats_from_hex(want, g->estimate), n);
        char spec[32];
        snprintf(spec, sizeof spec, "atomo:rank=%u", g->rank);
        tg_codec *c = create(spec);
        const tg_encode_context ctx = {
            .struct_size = sizeof ctx,
            .rng = {.seed = 30, .purpose = TG_PURPOSE_TEST, .step = g->step},
            .segments = segments,
            .nsegments = g->segment + 1,
        };
        tg_array ax = tg_array_f32(x, n + g->segment), a = tg_array_f32(out, n + g->segment);
        assert_int_equal(tg_codec_encode(c, &ctx, &ax, frame, sizeof frame, &len), TG_OK);
        assert_int_equal(tg_frame_decode(frame, len, &a), TG_OK);
        if (frame[1] == TG__FORM_CODED)
            assert_int_equal(tg__get32(frame + 12 + 4 + 12 * g->segment + 8), g->kept);
        for (size_t k = 0; k < n; k++)
            if (fabs((double)out[g->segment + k] - (double)want[k]) > 2e-6)
                fail_msg("matrix %zu, element %zu: %.9g, not %.9g", i, k,
                         (double)out[g->segment + k], (double)want[k]);
        tg_codec_destroy(c);
    }
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits),          cmocka_unit_test(example),
        cmocka_unit_test(probabilities),   cmocka_unit_test(mean_is_the_matrix),
        cmocka_unit_test(draws_are_keyed), cmocka_unit_test(odd_matrices),
        cmocka_unit_test(parts),           cmocka_unit_test(refusals),
        cmocka_unit_test(golden_frames),   cmocka_unit_test(golden_estimates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
