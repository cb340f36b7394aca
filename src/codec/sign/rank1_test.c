/* Signs with magnitudes of rank one, and vectors as they are: limits, plain loops in f64 over
 * tensors that parts cut, threads, one pass, damaged frames. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "each_level.h"
#include "vectors.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { ALL = 130984, PARTS = 4 };

static const tg_segment tensors[] = {{0, 1000, 20, 50, 0},       {1000, 7, 7, 1, 0},
                                     {1007, 70000, 70, 1000, 0}, {71007, 6, 2, 3, 0},
                                     {71013, 900, 900, 1, 0},    {71913, 59071, 19, 3109, 0}};
static const char *const specs[] = {"sign:scale=row", "1bit:weights=yes"};

static float x[ALL], g[ALL], r[ALL], out[ALL], want[ALL];
static double weight[ALL];
static uint8_t frame[12 + 4 * ALL + PARTS * 12], other[sizeof frame];

static tg_codec *create(const char *spec)
{
    tg_codec *c = NULL;
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    return c;
}

static size_t encode(const char *spec, const tg_segment *segments, size_t nsegments, size_t n,
                     unsigned threads)
{
    tg_codec *c = create(spec);
    tg_encode_context ctx = {
        .struct_size = sizeof ctx, .segments = segments, .nsegments = nsegments};
    tg_array ax = tg_array_f32(x, n), aout = tg_array_f32(out, n);
    size_t len;
    assert_int_equal(tg_codec_set_threads(c, threads), TG_OK);
    assert_int_equal(tg_codec_encode(c, &ctx, &ax, frame, sizeof frame, &len), TG_OK);
    assert_int_equal(tg_frame_decode(frame, len, &aout), TG_OK);
    tg_codec_destroy(c);
    return len;
}

static float power(uint64_t *seed)
{
    return ldexpf(1, (int)(test_random(seed) % 40) - 20);
}

/* A power of two of each row times one of each column, with any signs; the largest number is up to
 * 1e23 times the smallest. */
static void rank_one_is_exact(void **state)
{
    (void)state;
    enum { ROWS = 61, COLS = 64 };
    static const tg_segment matrix = {0, ROWS * COLS, ROWS, COLS, 0};
    static float column[COLS];
    uint64_t seed = 3;
    for (size_t c = 0; c < COLS; c++)
        column[c] = power(&seed);
    for (size_t i = 0, row = 0; row < ROWS; row++) {
        const float own = power(&seed);
        for (size_t c = 0; c < COLS; c++, i++)
            x[i] = (test_random(&seed) & 1 ? 1.0f : -1.0f) * own * column[c];
    }
    encode("1bit:weights=yes", &matrix, 1, ROWS * COLS, 1);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        if (fabsf(out[i] - x[i]) > 2e-7f * fabsf(x[i]))
            fail_msg("element %zu is %g, not %g", i, (double)out[i], (double)x[i]);
}

/* ---- plain loops ----------------------------------------------------------------------------- */

/* Sums of w x and w^2, of elements >= 0 and < 0. */
typedef struct sums {
    double x[2], squares[2];
} sums;

static void add_up(sums *s, double w, float element)
{
    s->x[element < 0] += w * (double)element;
    s->squares[element < 0] += w * w;
}

/* `rows` elements, `stride` apart; their weights are 1 if `equal`. */
static void plain_column(const char *spec, size_t lo, size_t rows, size_t stride, bool equal)
{
    sums s = {{0, 0}, {0, 0}};
    for (size_t i = lo; i < lo + rows * stride; i += stride)
        add_up(&s, equal ? 1 : weight[i], x[i]);
    const double scale = (s.x[0] - s.x[1]) / (s.squares[0] + s.squares[1]);
    for (size_t i = lo; i < lo + rows * stride; i += stride) {
        const double w = equal ? 1 : weight[i];
        if (spec[0] == 's')
            want[i] = (float)((x[i] < 0 ? -scale : scale));
        else
            want[i] = (float)(w * s.x[x[i] < 0] / s.squares[x[i] < 0]);
    }
}

static void plain_matrix(const char *spec, size_t lo, size_t rows, size_t cols)
{
    const bool sign = spec[0] == 's';
    const bool weighted = cols >= 16;
    if (!sign && rows < 3) {
        plain_column(spec, lo, rows * cols, 1, true);
        return;
    }
    for (size_t row = 0; row < rows; row++) {
        double sum = 0;
        for (size_t i = lo + row * cols; i < lo + (row + 1) * cols; i++)
            sum += fabs((double)x[i]) / (double)cols;
        for (size_t i = lo + row * cols; i < lo + (row + 1) * cols; i++)
            weight[i] = sum;
        if (sign)
            plain_column(spec, lo + row * cols, cols, 1, true);
    }
    for (size_t c = 0; !sign && c < cols; c++)
        plain_column(spec, lo + c, rows, cols, !weighted);
}

/* A piece [lo, hi) of the tensor: the end of a row, whole rows, the beginning of a row; a vector as
 * it is. */
static void plain_piece(const char *spec, const tg_segment *s, size_t lo, size_t hi)
{
    if (lo >= hi)
        return;
    if (s->cols == 1) {
        memcpy(want + lo, x + lo, (hi - lo) * sizeof *x);
        return;
    }
    const size_t first = s->begin + (lo - s->begin + s->cols - 1) / s->cols * s->cols;
    const size_t last = s->begin + (hi - s->begin) / s->cols * s->cols;
    if (first >= last) {
        plain_column(spec, lo, hi - lo, 1, true);
        return;
    }
    if (first > lo)
        plain_column(spec, lo, first - lo, 1, true);
    if (hi > last)
        plain_column(spec, last, hi - last, 1, true);
    plain_matrix(spec, first, (last - first) / s->cols, s->cols);
}

static const size_t cuts[][PARTS + 1] = {{0, ALL, ALL, ALL, ALL},
                                         {0, 16, 512, 1008, ALL},
                                         {0, 25, 2007, 5020, ALL},
                                         {0, 30507, 71500, 80000, ALL}};

static void make_parts(tg__part parts[PARTS], size_t cut, uint8_t *dst)
{
    for (size_t p = 0; p < PARTS; p++) {
        const size_t lo = cuts[cut][p], hi = cuts[cut][p + 1];
        parts[p] =
            (tg__part){.dst = dst + 12 * p + 4 * lo, .cap = 12 + 4 * (hi - lo), .lo = lo, .hi = hi};
    }
}

/* Equal up to rounding, for any cut. */
static void like_plain_loops(void **state)
{
    (void)state;
    tg_encode_context ctx = {
        .struct_size = sizeof ctx, .segments = tensors, .nsegments = TG_COUNT(tensors)};
    test_vector(x, ALL, TEST_GRADIENT, 1);
    for (size_t s = 0; s < TG_COUNT(specs); s++)
        for (size_t k = 0; k < TG_COUNT(cuts); k++) {
            tg_codec *c = create(specs[s]);
            tg__part parts[PARTS];
            tg__view view;
            make_parts(parts, k, frame);
            assert_int_equal(tg__codec_encode(c, &ctx, x, ALL, parts, PARTS, &view), TG_OK);
            for (size_t p = 0; p < PARTS; p++) {
                const size_t n = parts[p].hi - parts[p].lo;
                assert_int_equal(tg__frame_check(parts[p].dst, parts[p].len, n, c->ops->wire_id),
                                 TG_OK);
                tg__frame_decode(parts[p].dst, parts[p].len, out + parts[p].lo, NULL);
                for (size_t i = 0; i < TG_COUNT(tensors); i++)
                    plain_piece(specs[s], &tensors[i], TG__MAX(parts[p].lo, tensors[i].begin),
                                TG__MIN(parts[p].hi, tensors[i].begin + tensors[i].n));
            }
            assert_memory_equal(view.dense, out, sizeof out);
            for (size_t i = 0; i < ALL; i++)
                if (!(fabsf(out[i] - want[i]) <= 2e-6f * fabsf(want[i]) + 1e-8f))
                    fail_msg("%s, cut %zu: element %zu is %g, not %g", specs[s], k, i,
                             (double)out[i], (double)want[i]);
            tg_codec_destroy(c);
        }
}

/* r += g, encode, r -= decoded: in one pass as in three. */
static void one_pass(void **state)
{
    (void)state;
    tg_encode_context ctx = {
        .struct_size = sizeof ctx, .segments = tensors, .nsegments = TG_COUNT(tensors)};
    test_vector(g, ALL, TEST_GRADIENT, 5);
    for (size_t s = 0; s < TG_COUNT(specs); s++)
        for (size_t k = 0; k < TG_COUNT(cuts); k++) {
            tg_codec *c = create(specs[s]);
            tg__part parts[PARTS], again[PARTS];
            tg__view view;
            test_vector(r, ALL, TEST_GRADIENT, 6);
            for (size_t i = 0; i < ALL; i++)
                x[i] = r[i] + g[i];
            make_parts(parts, k, frame);
            make_parts(again, k, other);
            assert_int_equal(tg__codec_encode(c, &ctx, x, ALL, parts, PARTS, &view), TG_OK);
            assert_int_equal(c->ops->settle(c, &ctx, r, g, ALL, again, PARTS), TG_OK);
            for (size_t p = 0; p < PARTS; p++) {
                assert_int_equal(parts[p].len, again[p].len);
                assert_memory_equal(parts[p].dst, again[p].dst, parts[p].len);
            }
            for (size_t i = 0; i < ALL; i++)
                want[i] = x[i] - view.dense[i];
            assert_memory_equal(r, want, sizeof want);
            tg_codec_destroy(c);
        }
}

/* The error of each column is no larger than the column: no residual can grow by itself. With means
 * of rows times means of columns it could: here in the first row, first column. */
static void columns_never_grow(void **state)
{
    (void)state;
    enum { SIDE = 200 };
    static const tg_segment matrix = {0, SIDE * SIDE, SIDE, SIDE, 0};
    static const enum test_vector kinds[] = {TEST_GRADIENT, TEST_RARE, TEST_TIES, TEST_EQUAL};
    for (size_t kind = 0; kind <= TG_COUNT(kinds); kind++) {
        for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
            x[i] = i < SIDE || i % SIDE == 0 ? 1 : 0;
        if (kind < TG_COUNT(kinds))
            test_vector(x, (size_t)SIDE * SIDE, kinds[kind], 8);
        encode("1bit:weights=yes", &matrix, 1, (size_t)SIDE * SIDE, 1);
        for (size_t c = 0; c < SIDE; c++) {
            double norm = 0, error = 0;
            for (size_t i = c; i < (size_t)SIDE * SIDE; i += SIDE) {
                norm += (double)x[i] * (double)x[i];
                error += ((double)x[i] - (double)out[i]) * ((double)x[i] - (double)out[i]);
            }
            if (!(error <= norm * (1 + 1e-6)))
                fail_msg("kind %zu: column %zu: error %g, norm %g", kind, c, error, norm);
        }
    }
}

/* Vectors are sent as they are up to a 32nd of all elements, and if the tensors are known. */
static void few_vectors_are_sent_as_they_are(void **state)
{
    (void)state;
    enum { N = 6400, FEW = N / 32 };
    test_vector(x, N, TEST_GRADIENT, 9);
    x[0] = -0.0f;
    for (size_t s = 0; s < TG_COUNT(specs); s++)
        for (size_t more = 0; more < 3; more++) {
            const size_t n = FEW + more % 2;
            const tg_segment two[] = {{0, n, n, 1, 0}, {n, N - n, 1, N - n, 0}};
            encode(specs[s], more == 2 ? NULL : two, more == 2 ? 0 : 2, N, 1);
            assert_true((memcmp(out, x, n * sizeof *x) == 0) == (more == 0));
        }
}

/* Threads and decoding in ranges give the same bits. */
static void threads_and_ranges(void **state)
{
    (void)state;
    test_vector(x, ALL, TEST_GRADIENT, 2);
    tg__pool *pool;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        size_t len = encode(specs[s], tensors, TG_COUNT(tensors), ALL, 1);
        memcpy(other, frame, len);
        memcpy(want, out, sizeof out);
        for (unsigned threads = 2; threads <= 5; threads += 3) {
            assert_int_equal(encode(specs[s], tensors, TG_COUNT(tensors), ALL, threads), len);
            assert_memory_equal(frame, other, len);
        }
        memset(out, 0, sizeof out);
        tg__frame_decode(frame, len, out, pool);
        assert_memory_equal(out, want, sizeof out);
        tg__frame_decode_add(frame, len, out, pool);
        for (size_t i = 0; i < ALL; i++)
            assert_true(out[i] == 2 * want[i]);
    }
    tg__pool_destroy(pool);
}

/* ---- extremes and damage --------------------------------------------------------------------- */

/* A row and a column of the largest floats: their weight times their value would be infinite. */
static void huge_values(void **state)
{
    (void)state;
    enum { SIDE = 50 };
    static const tg_segment matrix = {0, SIDE * SIDE, SIDE, SIDE, 0};
    static const float sizes[] = {FLT_MAX, 1e38f, FLT_MIN, 1e-45f};
    for (size_t k = 0; k < TG_COUNT(sizes); k++)
        for (size_t s = 0; s < TG_COUNT(specs); s++) {
            for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
                x[i] = i < SIDE || i % SIDE == 0 ? (i % 3 ? sizes[k] : -sizes[k]) : 0;
            encode(specs[s], &matrix, 1, (size_t)SIDE * SIDE, 1);
            for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
                assert_true(isfinite(out[i]));
        }
}

static void refused(const char *spec, const tg_segment *segments, size_t count, size_t at,
                    uint32_t value, const char *say)
{
    const size_t n = segments[count - 1].begin + segments[count - 1].n;
    size_t len = encode(spec, segments, count, n, 1);
    tg__put32(frame + at, value);
    assert_int_equal(tg__frame_check(frame, len, n, -1), TG_E_CORRUPT);
    if (strstr(tg_error(), say) == NULL)
        fail_msg("%s: \"%s\" lacks \"%s\"", spec, tg_error(), say);
}

static void damage_is_found(void **state)
{
    (void)state;
    /* a vector of 40 and a matrix of 40 x 50 */
    static const tg_segment two[] = {{0, 40, 40, 1, 0}, {40, 2000, 40, 50, 0}};
    enum { STRIPS = 12, ROWS = 16, COLS = 20, ROWS_2 = 24, PLAIN = 32, WEIGHTS = 192 };
    enum { VALUES = WEIGHTS + 160 };
    test_vector(x, 2040, TEST_GRADIENT, 4);
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        refused(specs[s], two, 2, STRIPS, 0, "0 strips");
        refused(specs[s], two, 2, ROWS, 2, "elements");
        refused(specs[s], two, 2, COLS, 0, "cols=0");
        refused(specs[s], two, 2, COLS, 39, "n=2040");
        refused(specs[s], two, 2, ROWS_2, 0, "n=2040");
        refused(specs[s], two, 2, ROWS_2, 0xffffffff, "rows=4294967295");
        refused(specs[s], two, 2, PLAIN, 0x7f800000, "must be finite");
        refused(specs[s], two, 2, PLAIN, 0xff800000, "must be finite");
        refused(specs[s], two, 2, PLAIN, 0x7fc00001, "must be finite");
        refused(specs[s], two, 2, WEIGHTS, 0x80000000, ">= 0");
        refused(specs[s], two, 2, WEIGHTS, 0x7f800000, "must be finite");
    }
    refused("1bit:weights=yes", two, 2, VALUES, 0x7f800000, "must be finite");
    refused("1bit:weights=yes", two, 2, WEIGHTS, 0x7f7fffff, "is not finite");
    /* rows = 0 without the aux that allows it */
    const size_t len = encode("1bit:weights=yes", two, 2, 2040, 1);
    tg__put32(frame, tg__get32(frame) - (UINT32_C(1) << 16));
    assert_int_equal(tg__frame_check(frame, len, 2040, -1), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "rows=0"));
}

/* Infinity in a vector that is sent as it is. */
static void infinity_is_refused(void **state)
{
    (void)state;
    static const tg_segment two[] = {{0, 40, 40, 1, 0}, {40, 2000, 40, 50, 0}};
    tg_encode_context ctx = {.struct_size = sizeof ctx, .segments = two, .nsegments = 2};
    for (size_t s = 0; s < TG_COUNT(specs); s++)
        for (size_t bad = 0; bad < 2; bad++) {
            tg_codec *c = create(specs[s]);
            tg__part part = {.dst = frame, .cap = sizeof frame, .lo = 0, .hi = 2040};
            test_vector(r, 2040, TEST_GRADIENT, 4);
            test_vector(g, 2040, TEST_GRADIENT, 5);
            r[bad ? 777 : 7] = g[bad ? 777 : 7] = FLT_MAX;
            assert_int_equal(c->ops->settle(c, &ctx, r, g, 2040, &part, 1), TG_E_NONFINITE);
            tg_codec_destroy(c);
        }
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_one_is_exact),
        cmocka_unit_test(like_plain_loops),
        cmocka_unit_test(one_pass),
        cmocka_unit_test(columns_never_grow),
        cmocka_unit_test(threads_and_ranges),
        cmocka_unit_test(few_vectors_are_sent_as_they_are),
        cmocka_unit_test(huge_values),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(infinity_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
