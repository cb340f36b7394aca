/* Codecs that claim E[decode] = x satisfy it, at every instruction set level; and the test detects
 * a biased one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "codec_specs.h"
#include "each_level.h"
#include "unbiased.h"
#include "telegrad/random.h"

/* ---- codecs ---------------------------------------------------------------------------------- */

static void draw_codec(void *arg, uint64_t t, const float *x, size_t n, float *decoded)
{
    static uint8_t frame[16 * UNBIASED_N + 4096];
    tg_codec *c = arg;
    size_t len, middle = 403; /* 13 x 31, then a vector */
    const tg_segment segments[] = {
        {.begin = 0, .n = middle, .rows = 13, .cols = 31},
        {.begin = middle, .n = n - middle, .rows = n - middle, .cols = 1}};
    tg_encode_context ctx = {.struct_size = sizeof ctx,
                             .rng = {.seed = 17, .purpose = TG_PURPOSE_CODEC, .step = t},
                             .segments = segments,
                             .nsegments = 2};
    tg_array ax = tg_array_f32(x, n), out = tg_array_f32(decoded, n);
    assert_true(tg_codec_bound(c, n) <= sizeof frame);
    assert_int_equal(tg_codec_encode(c, &ctx, &ax, frame, sizeof frame, &len), TG_OK);
    assert_int_equal(tg_frame_decode(frame, len, &out), TG_OK);
}

static void check(const char *spec)
{
    tg_codec *c = NULL;
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    double z = unbiased_z(draw_codec, c);
    if (!(z <= UNBIASED_LIMIT))
        fail_msg("%s is biased: z = %.1f", spec, z);
    tg_codec_destroy(c);
}

static void test_registry(void **state)
{
    (void)state;
    char spec[CODEC_SPEC_MAX];
    size_t count;
    const tg__codec_ops *const *all = tg__codecs(&count);
    for (size_t i = 0; i < count; i++) {
        for (size_t s = 0; codec_spec(&all[i]->entry, s, spec); s++)
            if (all[i]->properties & (TG__UNBIASED | TG__LOSSLESS))
                check(spec);
        if (all[i]->promise.unbiased != NULL) {
            snprintf(spec, sizeof spec, "%s:%s", all[i]->entry.name, all[i]->promise.unbiased);
            check(spec);
        }
    }
}

/* ---- the test itself is tested --------------------------------------------------------------- */

/* Rounds to multiples of 0.01: up with the probability of the fraction, plus `shift` if `only` is
 * the residue of the index, or -1: everywhere. */
typedef struct rounding {
    double shift;
    int only;
    bool towards_zero; /* the shift lowers magnitudes */
    bool nearest;      /* no random numbers */
} rounding;

static void draw_rounding(void *arg, uint64_t t, const float *x, size_t n, float *decoded)
{
    const rounding *r = arg;
    tg_rng_key key = {.seed = 3, .purpose = TG_PURPOSE_TEST, .step = t};
    for (size_t i = 0; i < n; i++) {
        double q = (double)x[i] / 0.01, low = floor(q), up = q - low;
        double shift = r->towards_zero && x[i] > 0 ? -r->shift : r->shift;
        if (r->only < 0 || (int)(i % UNBIASED_LANES) == r->only)
            up += shift;
        double u = r->nearest ? 0.5 : tg_rng_uniform(&key, i);
        decoded[i] = (float)(0.01 * (u < up ? low + 1 : low));
    }
}

static void test_the_test(void **state)
{
    (void)state;
    rounding right = {.only = -1}, wrong[] = {{.shift = 0.005, .only = -1},
                                              {.shift = 0.02, .only = 5},
                                              {.shift = 0.005, .only = -1, .towards_zero = true},
                                              {.only = -1, .nearest = true}};
    assert_true(unbiased_z(draw_rounding, &right) <= UNBIASED_LIMIT);
    for (size_t i = 0; i < TG_COUNT(wrong); i++)
        if (unbiased_z(draw_rounding, &wrong[i]) <= UNBIASED_LIMIT)
            fail_msg("bias %zu was not found", i);
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registry),
        cmocka_unit_test(test_the_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
