/* Both variants of the gradient in bf16 against each other; against fp32: bf16_test.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "trainer/nn/conv16.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

static bool native(void)
{
    nn *n;
    OK(nn_create(&n));
    const bool has = nn_use_bf16(n) == TG_OK;
    nn_destroy(n);
    return has;
}

static float *noise(size_t n, uint32_t stream)
{
    const tg_rng_key key = {.seed = 13, .purpose = TG_PURPOSE_TEST, .tensor = stream};
    float *x;
    OK(tg_alloc(n, sizeof *x, &x));
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(2 * tg_rng_uniform(&key, i) - 1);
    return x;
}

static size_t element(const nn_conv_shape *s, size_t channels, bool blocked, size_t n, size_t place,
                      size_t c)
{
    const size_t places = s->height * s->width;
    return blocked ? ((n * channels / NN_BLOCK + c / NN_BLOCK) * places + place) * NN_BLOCK +
                         c % NN_BLOCK
                   : (n * places + place) * channels + c;
}

/* dw[o][i][k] in double precision, of what is not rounded */
static double exact(const nn_conv_shape *s, const float *src, const float *ddst, size_t o, size_t i,
                    size_t k)
{
    double sum = 0;
    for (size_t n = 0; n < s->batch; n++) {
        for (size_t y = 0; y < s->height; y++) {
            for (size_t x = 0; x < s->width; x++) {
                const size_t v = y + k / 3, u = x + k % 3; /* one row and column further */
                if (v < 1 || u < 1 || v > s->height || u > s->width)
                    continue;
                const size_t from = (v - 1) * s->width + u - 1, to = y * s->width + x;
                sum += (double)src[element(s, s->in, s->src_blocked, n, from, i)] *
                       (double)ddst[element(s, s->out, s->dst_blocked, n, to, o)];
            }
        }
    }
    return sum;
}

static double distance(const float *a, const float *b, size_t n)
{
    double d = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(d / norm);
}

/* Forward and to the input: y and z of both variants, against the layer in fp32. */
static void check_passes(const nn_conv_shape *s)
{
    const size_t each = s->batch * s->height * s->width, in = each * s->in, out = each * s->out;
    float *x = noise(in, 5), *w = noise(s->in * s->out * 9, 6), *dy = noise(out, 7);
    float *y[3] = {noise(out, 8), noise(out, 8), noise(out, 8)},
          *dx[3] = {noise(in, 9), noise(in, 9), noise(in, 9)};
    const int variants = native() ? 2 : 1;
    for (int v = 0; v < variants; v++) {
        conv16 *c;
        OK(conv16_create(s, v == 1, &c));
        conv16_forward(c, x, w, y[v]);
        conv16_backward_data(c, dy, w, dx[v]);
        conv16_forward(c, x, w, y[v]); /* of two sizes in turn, padded in one place */
        conv16_destroy(c);
    }
    if (variants > 1) {
        assert_memory_equal(y[0], y[1], out * sizeof(float));
        assert_memory_equal(dx[0], dx[1], in * sizeof(float));
    }
    nn *n;
    nn_conv *c;
    OK(nn_create(&n));
    OK(nn_conv_create(n, s, &c));
    OK(nn_conv_forward(c, x, w, NULL, y[2]));
    OK(nn_conv_backward_data(c, dy, w, dx[2]));
    nn_conv_destroy(c);
    nn_destroy(n);
    assert_true(distance(y[0], y[2], out) < 0.004);
    assert_true(distance(dx[0], dx[2], in) < 0.004);
    for (int i = 0; i < 3; i++) {
        free(y[i]);
        free(dx[i]);
    }
    free(x);
    free(w);
    free(dy);
}

static void check(const nn_conv_shape *s)
{
    const size_t each = s->batch * s->height * s->width, n = s->out * s->in * 9;
    float *src = noise(each * s->in, 1), *ddst = noise(each * s->out, 2), *a = noise(n, 3),
          *b = noise(n, 4);
    conv16 *c;
    assert_true(conv16_has(s));
    OK(conv16_create(s, false, &c));
    conv16_backward_weights(c, src, ddst, a);
    conv16_destroy(c);
    double d = 0, norm = 0;
    for (size_t i = 0; i < n; i += 7) {
        const double e = exact(s, src, ddst, i / 9 / s->in, i / 9 % s->in, i % 9);
        d += ((double)a[i] - e) * ((double)a[i] - e);
        norm += e * e;
    }
    assert_true(sqrt(d / norm) < 0.004);
    check_passes(s);
    if (native()) { /* the plain loops say which bits are right */
        OK(conv16_create(s, true, &c));
        for (int again = 0; again < 2; again++) { /* what the first one leaves is in nobody's way */
            conv16_backward_weights(c, src, ddst, b);
            assert_memory_equal(a, b, n * sizeof *a);
        }
        conv16_destroy(c);
    }
    free(src);
    free(ddst);
    free(a);
    free(b);
}

static void test_shapes(void **state)
{
    (void)state;
    static const nn_conv_shape shapes[] = {
        {3, 8, 8, 16, 16, 3, 1, 1, false, false, false},
        {2, 9, 11, 32, 48, 3, 1, 1, false, true, true},
        {1, 8, 33, 48, 16, 3, 1, 1, false, true, false},
        {40, 8, 12, 16, 32, 3, 1, 1, false, false, true},
        {2, 15, 68, 16, 16, 3, 1, 1, false, false, false},
    };
    for (size_t i = 0; i < TG_COUNT(shapes); i++)
        check(&shapes[i]);
}

static void test_others(void **state)
{
    (void)state;
    static const nn_conv_shape shapes[] = {
        {1, 8, 8, 16, 16, 3, 2, 1, false, false, false},
        {1, 8, 8, 16, 16, 5, 1, 2, false, false, false},
        {1, 8, 8, 3, 16, 3, 1, 1, false, false, false},
        {1, 8, 8, 16, 16, 3, 1, 1, true, false, false},
        {1, 4, 4, 16, 16, 3, 1, 1, false, false, false},
    };
    for (size_t i = 0; i < TG_COUNT(shapes); i++)
        assert_false(conv16_has(&shapes[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
