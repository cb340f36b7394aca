/* Codecs with one bit per element: hand-made vectors, plain loops over tensors that parts cut,
 * limits, threads, damaged frames. */
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
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 300000 };

static float x[MAX_N], out[MAX_N], want[MAX_N];
static uint8_t frame[12 + 4 * MAX_N], other[12 + 4 * MAX_N];

static tg_codec *create(const char *spec)
{
    tg_codec *c = NULL;
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    return c;
}

/* Encode x (n) into one frame; returns its bytes and leaves the decoded values in out. */
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

static void expect_bytes(const uint8_t *bytes, size_t size, size_t len)
{
    assert_int_equal(len, size);
    assert_memory_equal(frame, bytes, size);
}

static void expect_values(const float *values, size_t n)
{
    assert_memory_equal(out, values, n * sizeof *values);
}

static void sign_by_hand(void **state)
{
    (void)state;
    static const float v[] = {0, -0.0f, 3, -1, -2, 0, 0, 8, -0.5f};
    static const float signs[] = {1, 1, 1, -1, -1, 1, 1, 1, -1};
    static const uint8_t bytes[] = {9, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 0x18, 0x01};
    memcpy(x, v, sizeof v);
    expect_bytes(bytes, sizeof bytes, encode("sign", NULL, 0, 9, 1));
    expect_values(signs, 9);
}

/* Rows of zeros stay zero; a vector is one row; an all-zero vector is a zero frame. */
static void rows_by_hand(void **state)
{
    (void)state;
    static const tg_segment tensors[] = {{0, 12, 3, 4, 0}, {12, 4, 4, 1, 0}};
    static const float v[] = {1, -2, 3, -2, 0, 0, 0, 0, -1, 1, 1, 1, 0, 0, -6, 2};
    static const float rows[] = {2, -2, 2, -2, 0, 0, 0, 0, -1, 1, 1, 1, 2, 2, -2, 2};
    static const float tensor[] = {1, -1, 1, -1, 1, 1, 1, 1, -1, 1, 1, 1, 2, 2, -2, 2};
    static const uint8_t bytes[] = {9, 0, 1, 0,    16,   0, 0, 0, 40,   0,    0, 0, 2,
                                    0, 0, 0, 3,    0,    0, 0, 4, 0,    0,    0, 1, 0,
                                    0, 0, 4, 0,    0,    0, 0, 0, 0,    0x40, 0, 0, 0,
                                    0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0x0a, 0, 1, 4};
    memcpy(x, v, sizeof v);
    expect_bytes(bytes, sizeof bytes, encode("sign:scale=row", tensors, 2, 16, 1));
    expect_values(rows, 16);
    encode("sign:scale=tensor", tensors, 2, 16, 1);
    expect_values(tensor, 16);
    memset(x, 0, sizeof v);
    assert_int_equal(encode("sign:scale=row", tensors, 2, 16, 1), 12);
    assert_int_equal(frame[1], TG__FORM_ZERO);
}

/* Columns (4, -1, 2, -3), (1, 1, 1, 1); then a vector with an empty class. */
static void onebit_by_hand(void **state)
{
    (void)state;
    static const tg_segment tensors[] = {{0, 16, 8, 2, 0}, {16, 3, 3, 1, 0}};
    static const float v[] = {4, 1, -1, 1, 2, 1, -3, 1, 4, 1, -1, 1, 2, 1, -3, 1, 5, 0, 1};
    static const float zero[] = {3, 1, -2, 1, 3, 1, -2, 1, 3, 1, -2, 1, 3, 1, -2, 1, 2, 2, 2};
    /* column 0: mean 0.5, d 2.5; the vector: mean 2, d 2 */
    static const float mean[] = {3, 1, -2, 1, 3, 1, -2, 1, 3, 1, -2, 1, 3, 1, -2, 1, 4, 0, 0};
    memcpy(x, v, sizeof v);
    assert_int_equal(encode("1bit", tensors, 2, 19, 1), 12 + 4 + 16 + 4 * 6 + 9);
    expect_values(zero, 19);
    assert_int_equal(tg__get32(frame + 12), 2);
    for (size_t r = 0; r < 8; r++)
        assert_int_equal(frame[12 + 4 + 16 + 24 + r], r % 2);
    encode("1bit:threshold=mean", tensors, 2, 19, 1);
    expect_values(mean, 19);
}

/* Columns of two values with opposite signs are reproduced bit for bit, whatever the values; so are
 * rows of one magnitude with scales per row. */
static void lossless(void **state)
{
    (void)state;
    enum { ROWS = 301, COLS = 37, N = ROWS * COLS };
    static const tg_segment tensor = {0, N, ROWS, COLS, 0}, vector = {0, N, N, 1, 0};
    static float two[COLS][2];
    uint64_t seed = 5;
    test_vector(&two[0][0], (size_t)2 * COLS, TEST_WILD, 3);
    for (size_t i = 0; i < N; i++) {
        size_t c = i % COLS;
        bool low = test_random(&seed) % 3 == 0;
        x[i] = low ? -fabsf(two[c][0]) : fabsf(two[c][1]);
    }
    encode("1bit", &tensor, 1, N, 1);
    expect_values(x, N);
    for (size_t i = 0; i < N; i++)
        x[i] = i * 7919 % 5 < 2 ? -0.1f : 0.3f;
    encode("1bit", &vector, 1, N, 1);
    expect_values(x, N);
    for (size_t i = 0; i < N; i++)
        x[i] = (test_random(&seed) & 1 ? 1.0f : -1.0f) * fabsf(two[i / COLS % COLS][0]);
    encode("sign:scale=row", &tensor, 1, N, 1);
    expect_values(x, N);
}

/* ---- plain loops ----------------------------------------------------------------------------- */

static double mean_abs(size_t lo, size_t n)
{
    double sum = 0;
    for (size_t i = lo; i < lo + n; i++)
        sum += fabs((double)x[i]);
    return sum / (double)n;
}

static void plain_row(size_t lo, size_t n)
{
    double s = mean_abs(lo, n);
    for (size_t i = lo; i < lo + n; i++)
        want[i] = (float)(x[i] < 0 ? -s : s);
}

/* Column of n elements `stride` apart. */
static void plain_column(size_t lo, size_t n, size_t stride)
{
    double sum[2] = {0, 0}, count[2] = {0, 0};
    for (size_t k = 0; k < n; k++) {
        size_t low = x[lo + k * stride] < 0;
        sum[low] += (double)x[lo + k * stride];
        count[low]++;
    }
    for (size_t k = 0; k < n; k++) {
        size_t low = x[lo + k * stride] < 0;
        want[lo + k * stride] = (float)(sum[low] / count[low]);
    }
}

/* A piece [lo, hi) of the tensor, as documented: the end of a row, whole rows, the beginning of a
 * row. */
static void plain_piece(const char *spec, const tg_segment *s, size_t lo, size_t hi)
{
    bool rows = strcmp(spec, "sign:scale=row") == 0, columns = strcmp(spec, "1bit") == 0;
    if (lo >= hi)
        return;
    if (s->cols == 1 || !(rows || columns)) {
        if (columns)
            plain_column(lo, hi - lo, 1);
        else
            plain_row(lo, hi - lo);
        return;
    }
    size_t first = s->begin + (lo - s->begin + s->cols - 1) / s->cols * s->cols;
    size_t last = s->begin + (hi - s->begin) / s->cols * s->cols;
    if (first > last || first >= hi) {
        first = last = hi;
    }
    const tg_segment vector = {.begin = lo, .n = hi - lo, .rows = hi - lo, .cols = 1};
    plain_piece(spec, &vector, lo, first);
    plain_piece(spec, &vector, last, hi);
    size_t m = (last - first) / s->cols;
    for (size_t r = 0; rows && r < m; r++)
        plain_row(first + r * s->cols, s->cols);
    if (columns && m < 3)
        plain_piece(spec, &vector, first, last);
    for (size_t c = 0; columns && m >= 3 && c < s->cols; c++)
        plain_column(first + c, m, s->cols);
}

static const tg_segment tensors[] = {{0, 1000, 40, 25, 0},         {1000, 7, 7, 1, 0},
                                     {1007, 70000, 70, 1000, 0},   {71007, 6, 2, 3, 0},
                                     {71013, 140000, 2, 70000, 0}, {211013, 80000, 80000, 1, 0},
                                     {291013, 900, 300, 3, 0}};
enum { ALL = 291913 };

/* Equal up to rounding, for any cut. */
static void like_plain_loops(void **state)
{
    (void)state;
    static const char *const specs[] = {"sign:scale=row", "sign:scale=tensor", "1bit"};
    static const size_t cuts[][5] = {{0, ALL, ALL, ALL, ALL},
                                     {0, 16, 512, 1008, ALL},
                                     {0, 25, 2007, 5020, ALL},
                                     {0, 72000, 150000, 290000, ALL}};
    test_vector(x, ALL, TEST_GRADIENT, 1);
    for (size_t s = 0; s < TG_COUNT(specs); s++)
        for (size_t k = 0; k < TG_COUNT(cuts); k++) {
            tg_codec *c = create(specs[s]);
            tg__part parts[4];
            tg_encode_context ctx = {
                .struct_size = sizeof ctx, .segments = tensors, .nsegments = TG_COUNT(tensors)};
            for (size_t p = 0; p < 4; p++)
                parts[p] = (tg__part){.dst = frame + 12 * p + 4 * cuts[k][p],
                                      .cap = 12 + 4 * (cuts[k][p + 1] - cuts[k][p]),
                                      .lo = cuts[k][p],
                                      .hi = cuts[k][p + 1]};
            parts[3].dst = other;
            tg__view view;
            assert_int_equal(tg__codec_encode(c, &ctx, x, ALL, parts, 4, &view), TG_OK);
            for (size_t p = 0; p < 4; p++) {
                size_t n = parts[p].hi - parts[p].lo;
                assert_int_equal(tg__frame_check(parts[p].dst, parts[p].len, n, c->ops->wire_id),
                                 TG_OK);
                tg__frame_decode(parts[p].dst, parts[p].len, out + parts[p].lo, NULL);
                for (size_t i = 0; i < TG_COUNT(tensors); i++)
                    plain_piece(specs[s], &tensors[i], TG__MAX(parts[p].lo, tensors[i].begin),
                                TG__MIN(parts[p].hi, tensors[i].begin + tensors[i].n));
            }
            assert_memory_equal(view.dense, out, ALL * sizeof *out);
            for (size_t i = 0; i < ALL; i++)
                if (!(fabsf(out[i] - want[i]) <= 2e-7f * fabsf(want[i])))
                    fail_msg("%s, cut %zu: element %zu is %g, not %g", specs[s], k, i,
                             (double)out[i], (double)want[i]);
            tg_codec_destroy(c);
        }
}

/* Threads and decoding in ranges give the same bits. */
static void threads_and_ranges(void **state)
{
    (void)state;
    static const char *const specs[] = {"sign", "sign:scale=row", "sign:scale=tensor", "1bit",
                                        "1bit:threshold=mean"};
    test_vector(x, ALL, TEST_GRADIENT, 2);
    tg__pool *pool;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        size_t len = encode(specs[s], tensors, TG_COUNT(tensors), ALL, 1);
        memcpy(other, frame, len);
        memcpy(want, out, ALL * sizeof *out);
        for (unsigned threads = 2; threads <= 5; threads += 3) {
            assert_int_equal(encode(specs[s], tensors, TG_COUNT(tensors), ALL, threads), len);
            assert_memory_equal(frame, other, len);
        }
        memset(out, 0, sizeof out);
        tg__frame_decode(frame, len, out, pool);
        assert_memory_equal(out, want, ALL * sizeof *out);
        tg__frame_decode_add(frame, len, out, pool);
        for (size_t i = 0; i < ALL; i++)
            assert_true(out[i] == 2 * want[i]);
    }
    tg__pool_destroy(pool);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void refused(const char *spec, size_t n, const tg_segment *segments, size_t at,
                    uint32_t value, const char *say)
{
    size_t len = encode(spec, segments, 1, n, 1);
    tg__put32(frame + at, value);
    assert_int_equal(tg__frame_check(frame, len, n, -1), TG_E_CORRUPT);
    if (strstr(tg_error(), say) == NULL)
        fail_msg("%s: \"%s\" lacks \"%s\"", spec, tg_error(), say);
}

static void damage_is_found(void **state)
{
    (void)state;
    static const tg_segment matrix = {0, 60, 4, 15, 0};
    test_vector(x, 60, TEST_GRADIENT, 4);
    enum { STRIPS = 12, ROWS = 16, COLS = 20, VALUES = 24 };
    static const char *const specs[] = {"sign:scale=row", "1bit"};
    for (size_t s = 0; s < 2; s++) {
        refused(specs[s], 60, &matrix, STRIPS, 0, "0 strips");
        refused(specs[s], 60, &matrix, STRIPS, 0xffffffff, "strips do not fit");
        refused(specs[s], 60, &matrix, ROWS, 0, s == 0 ? "n=60" : "rows=0");
        refused(specs[s], 60, &matrix, COLS, 0, "cols=0");
        refused(specs[s], 60, &matrix, ROWS, 0xffffffff, "rows=4294967295");
        refused(specs[s], 60, &matrix, COLS, 14, "n=60");
        refused(specs[s], 60, &matrix, VALUES, 0x7f800000, "must be finite");
        refused(specs[s], 60, &matrix, VALUES, 0x7fc00001, "must be finite");
    }
    refused("sign:scale=row", 60, &matrix, VALUES, 0x80000000, ">= 0");
    refused("1bit", 60, &matrix, VALUES, 0xc2c80000, "finite and ascend");
    size_t len = encode("1bit", &matrix, 1, 60, 1);
    frame[len - 1] |= 0x80;
    assert_int_equal(tg__frame_check(frame, len, 60, -1), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "padding"));
    len = encode("sign", NULL, 0, 60, 1);
    frame[len - 1] |= 0x80;
    assert_int_equal(tg__frame_check(frame, len, 60, -1), TG_E_CORRUPT);
    frame[2] = 2;
    assert_int_equal(tg__frame_check(frame, len, 60, -1), TG_E_CORRUPT);
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sign_by_hand),     cmocka_unit_test(rows_by_hand),
        cmocka_unit_test(onebit_by_hand),   cmocka_unit_test(lossless),
        cmocka_unit_test(like_plain_loops), cmocka_unit_test(threads_and_ranges),
        cmocka_unit_test(damage_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
