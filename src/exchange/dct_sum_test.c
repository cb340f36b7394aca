/* Sums of coefficients, transformed back once, equal the sums of the decoded frames. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "exchange/exchange.h"
#include "vectors.h"
#include <math.h>
#include <string.h>

enum { ROWS = 67, COLS = 440, TAIL = 131, N = ROWS * COLS + TAIL, MAX_P = 4 };

static const tg_segment tensors[] = {{.n = ROWS * COLS, .rows = ROWS, .cols = COLS},
                                     {.begin = ROWS * COLS, .n = TAIL, .rows = TAIL, .cols = 1}};
static const tg_encode_context ctx = {
    .struct_size = sizeof ctx, .segments = tensors, .nsegments = TG_COUNT(tensors)};
static float x[N], decoded[MAX_P][N], got[N], shared[N];
static uint8_t frames[MAX_P][TG__FRAME_HEAD + 4 * N];
static tg__pool *pool;

/* silent: a rank that sends zero frames; large: a rank whose values are too large to be
 * transformed. */
static void check(const char *spec, int P, int silent, int large)
{
    const uint8_t *list[MAX_P];
    size_t lens[MAX_P];
    double size = 0;
    tg_codec *c;
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    for (int q = 0; q < P; q++) {
        tg__part part = {.dst = frames[q], .cap = sizeof frames[q], .hi = N};
        test_vector(x, N, TEST_GRADIENT, (uint64_t)q + 5);
        for (size_t i = 0; i < N; i++)
            x[i] *= q == large ? 0x1p118f : 1;
        if (q == silent)
            tg__part_zero(&part, TG__ID_dct);
        else
            assert_int_equal(tg__codec_encode(c, &ctx, x, N, &part, 1, NULL), TG_OK);
        assert_int_equal(frames[q][1], q == silent  ? TG__FORM_ZERO
                                       : q == large ? TG__FORM_DENSE
                                                    : TG__FORM_CODED);
        tg__frame_decode(frames[q], part.len, decoded[q], NULL);
        for (size_t i = 0; i < N; i++)
            size = fmax(size, fabs((double)decoded[q][i]));
        list[q] = frames[q];
        lens[q] = part.len;
    }
    const tg__exchange plain = {.size = P,
                                .n = N,
                                .combine = &tg__combine_dct,
                                .segments = tensors,
                                .nsegments = TG_COUNT(tensors)};
    tg__exchange several = plain;
    const uint8_t *again[MAX_P];
    memcpy(again, list, sizeof again);
    several.pool = pool;
    tg__combine_dct.all(&several, shared, again, lens);
    tg__combine_dct.all(&plain, got, list, lens);
    assert_memory_equal(got, shared, sizeof got);
    for (size_t i = 0; i < N; i++) {
        double sum = 0;
        for (int q = 0; q < P; q++)
            sum += (double)decoded[q][i];
        assert_true(P > 1 ? fabs(sum / P - (double)got[i]) <= 2e-6 * size : sum == (double)got[i]);
    }
    tg_codec_destroy(c);
}

static void sums(void **state)
{
    (void)state;
    static const char *const specs[] = {"dct", "dct:keep=3,values=fp16", "dct:keep=1"};
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    for (size_t s = 0; s < TG_COUNT(specs); s++)
        for (int P = 1; P <= MAX_P; P++) {
            check(specs[s], P, -1, -1);
            check(specs[s], P, P - 1, -1);
            check(specs[s], P, -1, P / 2);
            check(specs[s], P, 0, P - 1 > 0 ? P - 1 : -1);
        }
    tg__pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
