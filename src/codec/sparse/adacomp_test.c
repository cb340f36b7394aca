/* AdaComp by hand: bins end with their tensor, bins of zeros do not count, the gradient determines
 * what is sent. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "each_level.h"
#include "telegrad/random.h"
#include <stdlib.h>
#include <string.h>

enum { HAND = 20 };

/* Bins of 4, tensors of 16 and 4: docs/wire-format.md. */
static const float x[HAND] = {1, 0, -4, 0.5f, 2, 2, -1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 8, 0, 0, -1};
static const float g[HAND] = {
    [0] = 0.5f, [2] = 1, [3] = 3.5f, [5] = 0.5f, [6] = -2, [8] = 1, [13] = -1, [16] = 0.5f};
static const tg_segment two[] = {{.n = 16, .rows = 4, .cols = 4},
                                 {.begin = 16, .n = 4, .rows = 4, .cols = 1}};

static void encode(const char *spec, const tg_encode_context *ctx, const float *v, size_t n,
                   float *decoded)
{
    uint8_t *frame;
    size_t len;
    tg_codec *c;
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    assert_int_equal(tg_alloc(tg_codec_bound(c, n), 1, &frame), TG_OK);
    tg_array av = tg_array_f32(v, n), ad = tg_array_f32(decoded, n);
    assert_int_equal(tg_codec_encode(c, ctx, &av, frame, tg_codec_bound(c, n), &len), TG_OK);
    assert_int_equal(tg_frame_decode(frame, len, &ad), TG_OK);
    free(frame);
    tg_codec_destroy(c);
}

static void by_hand(void **state)
{
    (void)state;
    float gradient[HAND], out[HAND];
    memcpy(gradient, g, sizeof gradient);
    tg_encode_context ctx = {
        .struct_size = sizeof ctx, .segments = two, .nsegments = 2, .gradient = gradient};
    /* Maxima 4, 2, 0, 3 and 8. */
    float want[HAND] = {[3] = 3, [4] = 3, [5] = 3, [6] = -3, [16] = 8};
    encode("adacomp:bin=4", &ctx, x, HAND, out);
    assert_memory_equal(out, want, sizeof want);
    /* If the gradient opposes the residual, its bin sends nothing. */
    gradient[16] = -0.5f;
    want[16] = 0;
    encode("adacomp:bin=4", &ctx, x, HAND, out);
    assert_memory_equal(out, want, sizeof want);
    /* One tensor: the mean of the four bins that are not 0.
     */
    ctx.segments = NULL;
    ctx.nsegments = 0;
    gradient[16] = 0.5f;
    want[3] = want[4] = want[5] = want[16] = 17.0f / 4;
    want[6] = -17.0f / 4;
    encode("adacomp:bin=4", &ctx, x, HAND, out);
    assert_memory_equal(out, want, sizeof want);
}

/* The first step, and a caller without gradients: H = 2 x, so all elements of at least half the
 * maximum. */
static void without_gradient(void **state)
{
    (void)state;
    const float want[HAND] = {[2] = -6, [4] = 6, [5] = 6, [16] = 6}; /* maxima 4 and 8 */
    float out[HAND];
    encode("adacomp:bin=10", NULL, x, HAND, out);
    assert_memory_equal(out, want, sizeof want);
}

/* An element that is 0 is never sent, whatever its gradient. */
static void zeros_are_not_sent(void **state)
{
    (void)state;
    const float v[4] = {0, -0.0f, 1, 0}, gradient[4] = {5, -5, -1.5f, 0};
    float out[4];
    tg_encode_context ctx = {.struct_size = sizeof ctx, .gradient = gradient};
    encode("adacomp:bin=4", &ctx, v, 4, out);
    for (size_t i = 0; i < 4; i++)
        assert_true(out[i] == 0); /* |1 - 1.5| < 1 */
}

/* bin=0: 50 in convolutions, 500 elsewhere. */
static void bins_by_kind(void **state)
{
    (void)state;
    enum { N = 5000 };
    static float v[N], by_kind[N], given[N];
    const tg_rng_key key = {.seed = 2, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i < N; i++)
        v[i] = (float)tg_rng_uniform(&key, i) - 0.5f;
    const struct {
        size_t dims;
        const char *spec;
    } cases[] = {{0, "adacomp:bin=500"},
                 {1, "adacomp:bin=500"},
                 {2, "adacomp:bin=500"},
                 {3, "adacomp:bin=50"},
                 {4, "adacomp:bin=50"}};
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        const tg_segment one = {.n = N, .rows = 50, .cols = 100, .dims = cases[i].dims};
        const tg_encode_context ctx = {.struct_size = sizeof ctx, .segments = &one, .nsegments = 1};
        encode("adacomp", &ctx, v, one.n, by_kind);
        encode(cases[i].spec, &ctx, v, one.n, given);
        assert_memory_equal(by_kind, given, one.n * sizeof(float));
    }
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand), cmocka_unit_test(without_gradient),
        cmocka_unit_test(zeros_are_not_sent), cmocka_unit_test(bins_by_kind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
