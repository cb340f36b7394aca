/* The median-clipped mean, compared with plain arithmetic. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/block/block_frame.h"
#include "exchange/exchange.h"
#include "vectors.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 500, MAX_P = 5 };

static const tg_segment tensors[] = {{.n = 300, .rows = 300, .cols = 1},
                                     {.begin = 300, .n = 1, .rows = 1, .cols = 1},
                                     {.begin = 301, .n = 199, .rows = 199, .cols = 1}};
static float x[MAX_P][N], got[N], shared[N], want[N];
static uint8_t frames[MAX_P][TG__FRAME_HEAD + 4 * N];

/* Combine the ranks' vectors as frames; a rank of zeros sends a zero frame. With `spec` the vectors
 * are replaced by the frames' decoded values. */
static void combine(const char *spec, int P, const tg_segment *segments, size_t count)
{
    const uint8_t *list[MAX_P];
    size_t lens[MAX_P];
    tg_codec *c;
    const tg_encode_context ctx = {
        .struct_size = sizeof ctx, .segments = tensors, .nsegments = TG_COUNT(tensors)};
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    for (int q = 0; q < P; q++) {
        tg__part part = {.dst = frames[q], .cap = sizeof frames[q], .hi = N};
        bool zero = true;
        for (size_t i = 0; i < N; i++)
            zero = zero && x[q][i] == 0;
        if (zero)
            tg__part_zero(&part, TG__ID_f32);
        else
            assert_int_equal(tg__codec_encode(c, &ctx, x[q], N, &part, 1, NULL), TG_OK);
        tg__frame_decode(part.dst, part.len, x[q], NULL);
        list[q] = frames[q];
        lens[q] = part.len;
    }
    tg__exchange plain = {.size = P,
                          .n = N,
                          .combine = &tg__combine_clipped,
                          .segments = segments,
                          .nsegments = count};
    assert_int_equal(tg_alloc(tg__combine_clipped.room(N, count, P), 1, &plain.room), TG_OK);
    tg__combine_clipped.all(&plain, got, list, lens);
    assert_int_equal(tg__pool_create(3, &plain.pool), TG_OK);
    tg__combine_clipped.all(&plain, shared, list, lens);
    assert_memory_equal(got, shared, sizeof got);
    tg__pool_destroy(plain.pool);
    free(plain.room);
    tg_codec_destroy(c);
}

static double norm_of(const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sqrt(sum);
}

/* The lower median of the values above 0: as many are below it as above, or one fewer. */
static double median_of(const double *norm, int P)
{
    for (int a = 0; a < P; a++) {
        int above = 0, all = 0, before = 0;
        for (int b = 0; b < P; b++) {
            all += norm[b] > 0;
            above += norm[b] > norm[a];
            before += norm[b] > 0 && norm[b] < norm[a];
        }
        if (norm[a] > 0 && before <= (all - 1) / 2 && above <= all / 2)
            return norm[a];
    }
    return 0;
}

static void check(const char *spec, int P, const tg_segment *segments, size_t count)
{
    const tg_segment one = {.n = N};
    combine(spec, P, segments, count);
    for (size_t t = 0; t < (segments == NULL ? 1 : count); t++) {
        const tg_segment s = segments == NULL ? one : segments[t];
        double norm[MAX_P];
        for (int q = 0; q < P; q++)
            norm[q] = norm_of(x[q] + s.begin, s.n);
        const double limit = median_of(norm, P);
        for (size_t i = s.begin; i < s.begin + s.n; i++) {
            double sum = 0, size = 0;
            for (int q = 0; q < P; q++) {
                sum += (double)x[q][i] * (norm[q] > limit ? limit / norm[q] : 1);
                size += fabs((double)x[q][i]);
            }
            assert_true(fabs(sum / P - (double)got[i]) <= 1e-6 * size);
        }
    }
}

static void is_what_plain_arithmetic_gives(void **state)
{
    (void)state;
    for (int P = 1; P <= MAX_P; P++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            for (int q = 0; q < P; q++) {
                test_vector(x[q], N, TEST_GRADIENT, seed + 10 * (uint64_t)q);
                for (size_t i = 0; i < N; i++) /* one rank's are far too large */
                    x[q][i] *= q == (int)seed ? 1000.0f : 1 + (float)q / 8;
                if (seed == 3 && q % 2 == 1) /* these ranks are 0 in one tensor */
                    memset(x[q], 0, 301 * sizeof(float));
                if (seed == 4 && q >= 2) /* and these everywhere: the others still count */
                    memset(x[q], 0, sizeof x[q]);
            }
            check("f32", P, tensors, TG_COUNT(tensors));
            check("f32", P, NULL, 1);
            check("blocktopk:keep=9", P, tensors, TG_COUNT(tensors));
            check("blocktopk:keep=9", P, NULL, 1);
        }
}

/* Equal norms, or a single rank: the mean, bit for bit. */
static void nothing_to_cut_is_the_mean(void **state)
{
    (void)state;
    for (int P = 1; P <= MAX_P; P++) {
        memset(want, 0, sizeof want);
        for (int q = 0; q < P; q++) {
            test_vector(x[q], N, TEST_GRADIENT, 7);
            for (size_t i = 0; i < N; i++) {
                x[q][i] = (i + (size_t)q) % 3 == 0 ? -x[q][i] : x[q][i];
                want[i] += x[q][i];
            }
        }
        for (size_t i = 0; i < N; i++)
            want[i] *= 1.0f / (float)P;
        combine("f32", P, tensors, TG_COUNT(tensors));
        assert_memory_equal(got, want, sizeof want);
    }
}

/* Blocks are read element by element, and the same values as vectors give the same factors and the
 * same bits. */
static void blocks_are_read_as_they_stand(void **state)
{
    (void)state;
    for (int P = 1; P <= MAX_P; P++) {
        for (int q = 0; q < P; q++) {
            test_vector(x[q], N, TEST_GRADIENT, 7);
            for (size_t i = 0; i < N; i++)
                x[q][i] = (i + (size_t)q) % 3 == 0 ? -x[q][i] : x[q][i];
        }
        combine("blocktopk:keep=20,values=f32", P, tensors, TG_COUNT(tensors));
        assert_int_equal(frames[0][1], TG__FORM_CODED);
        memcpy(want, got, sizeof want);
        combine("f32", P, tensors, TG_COUNT(tensors));
        assert_memory_equal(got, want, sizeof want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_what_plain_arithmetic_gives),
        cmocka_unit_test(nothing_to_cut_is_the_mean),
        cmocka_unit_test(blocks_are_read_as_they_stand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
