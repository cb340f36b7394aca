/* Blocks: how tensors are cut, which elements are picked, two-bit values, the cosine transform, all
 * compared with plain reimplementations; damaged frames. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/block/block_frame.h"
#include "codec/block/dct.h"
#include "vectors.h"
#include "telegrad/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 128, COLS = 96, N = ROWS * COLS, HIGH = 64, WIDE = 48 };

static float x[N], decoded[N];
static uint8_t frame[TG__FRAME_HEAD + 4 * N];

static void random_vector(float *dst, size_t n, uint64_t seed)
{
    const tg_rng_key key = {.seed = seed, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)tg_rng_normal(&key, i);
}

static void sides(void **state)
{
    (void)state;
    static const size_t cases[][2] = {{1, 1},   {7, 7},     {64, 64},    {61, 61},  {96, 48},
                                      {65, 64}, {122, 61},  {67, 64},    {768, 64}, {100, 50},
                                      {68, 34}, {10, 10},   {50257, 29}, {90, 45},  {4096, 64},
                                      {85, 17}, {1009, 64}, {63, 63},    {74, 37},  {70, 35}};
    for (size_t i = 0; i < TG_COUNT(cases); i++)
        assert_int_equal(tg__block_side(cases[i][0]), cases[i][1]);
    /* 67 = 64 + 3 by 48: four kinds of blocks with 96 columns */
    const tg__grid g = tg__grid_make(67, 96, 100);
    size_t bits, kept = tg__grid_kept(&g, &bits);
    assert_int_equal(tg__grid_blocks(&g), 4);
    for (size_t i = 0; i < 4; i++) {
        const tg__block b = tg__grid_block(&g, i);
        assert_int_equal(b.row, i / 2 * 64);
        assert_int_equal(b.col, i % 2 * 48);
        assert_int_equal(b.height, i < 2 ? 64 : 3);
        assert_int_equal(b.bits, i < 2 ? 12 : 8);
    }
    assert_int_equal(kept, 400);
    assert_int_equal(bits, 200 * 12 + 200 * 8);
    const tg__grid whole = tg__grid_make(8, 8, 64);
    assert_int_equal(tg__grid_kept(&whole, &bits), 64);
    assert_int_equal(bits, 0); /* places need no bits */
}

/* The number kept by the blocks before each block, counted one by one. */
static void kept_before(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{67, 96}, {67, 67}, {128, 67}, {67, 128}, {131, 1},
                                       {1, 131}, {640, 1}, {5, 7},    {192, 80}, {134, 201}};
    for (size_t s = 0; s < TG_COUNT(shapes); s++)
        for (size_t keep = 1; keep < 5000; keep = 3 * keep + 40) {
            const tg__grid g = tg__grid_make(shapes[s][0], shapes[s][1], keep);
            const size_t blocks = tg__grid_blocks(&g);
            size_t sum = 0, sum_bits = 0, bits;
            for (size_t i = 0; i <= blocks; i++) {
                assert_int_equal(tg__grid_kept_before(&g, i, &bits), sum);
                assert_int_equal(bits, sum_bits);
                if (i == blocks)
                    break;
                const tg__block b = tg__grid_block(&g, i);
                sum += b.keep;
                sum_bits += b.keep * b.bits;
            }
            assert_int_equal(tg__grid_kept(&g, &bits), sum);
            assert_int_equal(bits, sum_bits);
        }
}

/* By magnitude, then by place. */
static int by_size(const void *a, const void *b)
{
    const uint16_t i = *(const uint16_t *)a, j = *(const uint16_t *)b;
    const float u = fabsf(decoded[i]), v = fabsf(decoded[j]);
    return u != v ? (u < v) - (u > v) : (i > j) - (i < j);
}

static int by_place(const void *a, const void *b)
{
    const uint16_t i = *(const uint16_t *)a, j = *(const uint16_t *)b;
    return (i > j) - (i < j);
}

static void picks_the_largest(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 17, 64, 1000, 4096};
    tg__block_select *s;
    uint16_t place[TG__BLOCK_MAX], order[TG__BLOCK_MAX];
    float val[TG__BLOCK_MAX];
    assert_int_equal(tg_alloc(1, sizeof *s, &s), TG_OK);
    for (uint64_t seed = 0; seed < 120; seed++) {
        const size_t n = sizes[seed % TG_COUNT(sizes)];
        const size_t k =
            1 + test_random(&(uint64_t){seed + 1}) % (seed % 4 == 0 ? n : (n + 31) / 32);
        test_vector(decoded, n, (enum test_vector)(seed % TEST_VECTORS), seed);
        if (seed % 5 == 1) /* ties and zeros */
            for (size_t i = 0; i < n; i++)
                decoded[i] = rintf(decoded[i] * 2);
        tg__block_pick(s, decoded, n, k, place, val);
        for (size_t i = 0; i < n; i++)
            order[i] = (uint16_t)i;
        qsort(order, n, sizeof *order, by_size);
        qsort(order, k, sizeof *order, by_place);
        for (size_t i = 0; i < k; i++) {
            assert_int_equal(place[i], order[i]);
            assert_true(val[i] == decoded[place[i]]);
        }
    }
    free(s);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static size_t encode(const char *spec, const tg_encode_context *ctx, size_t n)
{
    tg_codec *c;
    size_t len;
    tg_array ax = tg_array_f32(x, n), out = tg_array_f32(decoded, n);
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    if (tg_codec_encode(c, ctx, &ax, frame, sizeof frame, &len) != TG_OK)
        fail_msg("%s", tg_error());
    assert_int_equal(tg_frame_decode(frame, len, &out), TG_OK);
    tg_codec_destroy(c);
    return len;
}

static const tg_segment matrix = {.n = N, .rows = ROWS, .cols = COLS};
static const tg_encode_context of_matrix = {
    .struct_size = sizeof of_matrix, .segments = &matrix, .nsegments = 1};

/* The picks of a plain sort in each block, in the order of frames. */
static size_t plain_picks(size_t keep, uint32_t *idx)
{
    size_t count = 0;
    for (size_t row = 0; row < ROWS; row += HIGH)
        for (size_t col = 0; col < COLS; col += WIDE) {
            uint16_t order[HIGH * WIDE];
            for (size_t i = 0; i < HIGH * WIDE; i++) {
                order[i] = (uint16_t)i;
                decoded[i] = x[(row + i / WIDE) * COLS + col + i % WIDE];
            }
            qsort(order, TG_COUNT(order), sizeof *order, by_size);
            qsort(order, keep, sizeof *order, by_place);
            for (size_t i = 0; i < keep; i++)
                idx[count++] = (uint32_t)((row + order[i] / WIDE) * COLS + col + order[i] % WIDE);
        }
    return count;
}

static void of_each_block(void **state)
{
    (void)state;
    static float want[N];
    uint32_t idx[N];
    for (uint64_t seed = 0; seed < 4; seed++) {
        random_vector(x, N, seed);
        const size_t count = plain_picks(64, idx);
        memset(want, 0, sizeof want);
        for (size_t i = 0; i < count; i++)
            want[idx[i]] = x[idx[i]];
        const size_t len = encode("blocktopk:keep=64,values=f32", &of_matrix, N);
        assert_memory_equal(decoded, want, sizeof want);
        assert_int_equal(len, 12 + 8 + 8 + 4 * 256 + 256 * 12 / 8);
    }
}

static void all_of_it_is_dense(void **state)
{
    (void)state;
    random_vector(x, N, 3);
    assert_int_equal(encode("blocktopk:keep=4096,values=f32", &of_matrix, N), 12 + 4 * N);
    assert_memory_equal(decoded, x, sizeof x);
    assert_int_equal(encode("dct:keep=4096", &of_matrix, N), 12 + 4 * N);
    assert_memory_equal(decoded, x, sizeof x);
}

/* Bins of 1.5 standard deviations around the mean; each value becomes the mean of its bin. */
static void two_bits_a_value(void **state)
{
    (void)state;
    uint32_t idx[N];
    for (uint64_t seed = 0; seed < 6; seed++) {
        random_vector(x, N, seed);
        for (size_t i = 0; i < N; i++)
            x[i] = seed == 5 ? 0.5f : x[i] + 0.1f * (float)seed;
        const size_t count = plain_picks(64, idx);
        double mean = 0, square = 0, sum[4] = {0};
        size_t in[4] = {0}, code[N];
        for (size_t i = 0; i < count; i++)
            mean += (double)x[idx[i]] / (double)count;
        for (size_t i = 0; i < count; i++)
            square += pow((double)x[idx[i]] - mean, 2);
        const double bin = 6 * sqrt(square / (double)(count - 1)) / 4;
        for (size_t i = 0; i < count; i++) {
            const double at = bin > 1e-12 ? rint(((double)x[idx[i]] - mean) / bin + 2) : 2;
            code[i] = (size_t)fmin(3, fmax(0, at));
            sum[code[i]] += (double)x[idx[i]];
            in[code[i]]++;
        }
        encode("blocktopk:keep=64", &of_matrix, N);
        size_t others = 0;
        for (size_t i = 0; i < N; i++)
            others += decoded[i] != 0;
        assert_int_equal(others, count);
        for (size_t i = 0; i < count; i++) {
            const double level = sum[code[i]] / (double)in[code[i]];
            assert_true(fabs((double)decoded[idx[i]] - level) <= 1e-6 * fabs(level));
        }
    }
}

/* What was not sent, and what was rounded away, is exactly the input minus the view. */
static void several_tensors(void **state)
{
    (void)state;
    static const char *const specs[] = {"blocktopk:keep=9,values=f32", "blocktopk:keep=9",
                                        "blocktopk:keep=9,values=fp16"};
    const tg_segment s[] = {{.n = 67 * 96, .rows = 67, .cols = 96},
                            {.begin = 6432, .n = 131, .rows = 131, .cols = 1},
                            {.begin = 6563, .n = 1, .rows = 1, .cols = 1},
                            {.begin = 6564, .n = 64 * 10, .rows = 64, .cols = 10}};
    const tg_encode_context ctx = {
        .struct_size = sizeof ctx, .segments = s, .nsegments = TG_COUNT(s)};
    const size_t n = 6564 + 640;
    random_vector(x, n, 8);
    for (size_t i = 0; i < TG_COUNT(specs); i++) {
        tg_codec *c;
        tg__view view;
        tg__part part = {.dst = frame, .cap = sizeof frame, .hi = n};
        assert_int_equal(tg_codec_create(specs[i], &c), TG_OK);
        assert_int_equal(tg__codec_encode(c, &ctx, x, n, &part, 1, &view), TG_OK);
        assert_int_equal(tg__frame_check(frame, part.len, n, TG__ID_blocktopk), TG_OK);
        tg__frame_decode(frame, part.len, decoded, NULL);
        /* 2 blocks of 64 x 48, 2 of 3 x 48; 64 + 64 + 3; 1; one of 64 x 10 */
        const size_t kept = 4 * 9 + 2 * 9 + 3 + 1 + 9;
        assert_int_equal(view.k, kept);
        assert_int_equal(part.kept, kept);
        for (size_t j = 0; j < view.k; j++) {
            assert_true(j == 0 || view.idx[j] > view.idx[j - 1]);
            assert_true(decoded[view.idx[j]] == view.val[j]);
            decoded[view.idx[j]] = 0;
        }
        for (size_t e = 0; e < n; e++)
            assert_true(decoded[e] == 0);
        tg_codec_destroy(c);
    }
}

/* ---- the cosine transform -------------------------------------------------------------------- */

static double cosine(size_t u, size_t i, size_t n)
{
    return sqrt((u == 0 ? 1.0 : 2.0) / (double)n) *
           cos(acos(-1) * (double)((2 * i + 1) * u) / (double)(2 * n));
}

static void dct_is_what_it_says(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{64, 64}, {1, 1}, {64, 1}, {3, 48}, {17, 61}, {2, 64}};
    for (size_t s = 0; s < TG_COUNT(shapes); s++) {
        const size_t h = shapes[s][0], w = shapes[s][1], stride = w + 5;
        float y[TG__BLOCK_MAX], back[TG__BLOCK_MAX];
        uint16_t place[TG__BLOCK_MAX];
        double norm = 0, of_y = 0, worst = 0;
        random_vector(x, h * stride, s);
        tg__dct(x, stride, h, w, y);
        for (size_t u = 0; u < h; u++)
            for (size_t v = 0; v < w; v++) {
                double sum = 0;
                for (size_t i = 0; i < h; i++)
                    for (size_t j = 0; j < w; j++)
                        sum += cosine(u, i, h) * (double)x[i * stride + j] * cosine(v, j, w);
                worst = fmax(worst, fabs(sum - (double)y[u * w + v]));
            }
        for (size_t i = 0; i < h * w; i++) {
            norm += pow((double)x[i / w * stride + i % w], 2);
            of_y += pow((double)y[i], 2);
            place[i] = (uint16_t)i;
        }
        assert_true(worst <= 2e-6 * sqrt(norm));
        assert_true(fabs(norm - of_y) <= 1e-6 * norm); /* Parseval */
        tg__dct_back(place, y, h * w, h, w, back);
        for (size_t i = 0; i < h * w; i++)
            worst = fmax(worst, fabs((double)back[i] - (double)x[i / w * stride + i % w]));
        assert_true(worst <= 2e-6 * sqrt(norm));
    }
}

/* Rows and columns without coefficients are skipped: the result equals that with explicit zeros. */
static void few_coefficients_are_all_with_zeros(void **state)
{
    (void)state;
    float y[TG__BLOCK_MAX] = {0}, all[TG__BLOCK_MAX], few[TG__BLOCK_MAX];
    uint16_t every[TG__BLOCK_MAX], place[40];
    float val[40];
    random_vector(val, 40, 4);
    for (size_t i = 0; i < TG__BLOCK_MAX; i++)
        every[i] = (uint16_t)i;
    for (size_t i = 0; i < 40; i++) {
        place[i] = (uint16_t)(i * 97 + i * i % 11);
        y[place[i]] = val[i];
    }
    tg__dct_back(every, y, TG__BLOCK_MAX, 64, 64, all);
    tg__dct_back(place, val, 40, 64, 64, few);
    for (size_t i = 0; i < TG__BLOCK_MAX; i++)
        assert_true(all[i] == few[i]);
}

/* dct sends nearly all of a smooth matrix, and its error equals the coefficients left out. */
static void dct_codec(void **state)
{
    (void)state;
    double norm = 0, error = 0, sent = 0;
    for (size_t i = 0; i < N; i++)
        x[i] = cosf((float)(i / COLS) / 20) * sinf((float)(i % COLS) / 30 + 1);
    const size_t len = encode("dct:keep=16", &of_matrix, N);
    assert_int_equal(len, 12 + 8 + 8 + 4 * 64 + 64 * 12 / 8);
    for (size_t i = 0; i < N; i++) {
        norm += pow((double)x[i], 2);
        sent += pow((double)decoded[i], 2);
        error += pow((double)x[i] - (double)decoded[i], 2);
    }
    assert_true(error < 0.01 * norm);
    assert_true(fabs(norm - sent - error) < 1e-5 * norm); /* the coefficients are orthogonal */
}

/* ---- damaged frames -------------------------------------------------------------------------- */

static void refused(size_t at, uint8_t byte, size_t len, const char *want)
{
    const uint8_t was = frame[at];
    tg_array out = tg_array_f32(decoded, N);
    frame[at] = byte;
    assert_int_equal(tg_frame_decode(frame, len, &out), TG_E_CORRUPT);
    if (strstr(tg_error(), want) == NULL)
        fail_msg("%s", tg_error());
    frame[at] = was;
}

static void lies_are_found(void **state)
{
    (void)state;
    random_vector(x, N, 6);
    size_t len = encode("blocktopk:keep=3", &of_matrix, N);
    const size_t at = 12 + 8 + 8; /* table, 12 codes, 12 places of 12 bits */
    assert_int_equal(len, at + 16 + 3 + 18);
    refused(2, 3, len, "aux=0x3");
    refused(12, 2, len, "frame of blocks");
    refused(12, 0, len, "0 tensors");
    refused(16, 0, len, "keep=0");
    refused(17, 0x20, len, "keep=8195");
    refused(20, 127, len, "frame of blocks"); /* another number of elements */
    refused(23, 0xff, len, "elements that are left");
    refused(24, 0, len, "elements that are left");
    frame[at + 2] = 0x80;
    refused(at + 3, 0x7f, len, "not finite");
    refused(at + 19 + 1, 0xff, len, "must ascend"); /* the first place is too large */
    len = encode("blocktopk:keep=1,values=fp16", &of_matrix, N);
    refused(12 + 16 + 1, 0x7c, len, "not finite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sides),
        cmocka_unit_test(kept_before),
        cmocka_unit_test(picks_the_largest),
        cmocka_unit_test(of_each_block),
        cmocka_unit_test(all_of_it_is_dense),
        cmocka_unit_test(two_bits_a_value),
        cmocka_unit_test(several_tensors),
        cmocka_unit_test(dct_is_what_it_says),
        cmocka_unit_test(few_coefficients_are_all_with_zeros),
        cmocka_unit_test(dct_codec),
        cmocka_unit_test(lies_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
