/* The layers against plain C loops; they give the same bits whoever computes at the same time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "trainer/nn/nn.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

/* n floats, uniform in [-1, 1), aligned. */
static float *noise(size_t n, uint32_t stream)
{
    const tg_rng_key key = {.seed = 7, .purpose = TG_PURPOSE_TEST, .tensor = stream};
    float *x;
    OK(tg_alloc(n, sizeof *x, &x));
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(2 * tg_rng_uniform(&key, i) - 1);
    return x;
}

static float *blank(size_t n)
{
    float *x;
    OK(tg_alloc(n, sizeof *x, &x));
    for (size_t i = 0; i < n; i++)
        x[i] = 1e30f; /* outputs must be overwritten, not added to */
    return x;
}

static void assert_close(const float *a, const double *b, size_t n, double tolerance)
{
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)a[i] - b[i]) <= tolerance))
            fail_msg("element %zu: %.9g, expected %.9g", i, (double)a[i], b[i]);
    }
}

/* ---- convolution ----------------------------------------------------------------------------- */

typedef struct conv_case {
    nn_conv_shape s;
    size_t oh, ow, nsrc, nweights, ndst;
} conv_case;

static conv_case conv_case_of(nn_conv_shape s)
{
    conv_case c = {.s = s};
    c.oh = (s.height + 2 * s.pad - s.kernel) / s.stride + 1;
    c.ow = (s.width + 2 * s.pad - s.kernel) / s.stride + 1;
    c.nsrc = s.batch * s.height * s.width * s.in;
    c.nweights = s.out * s.in * s.kernel * s.kernel;
    c.ndst = s.batch * c.oh * c.ow * s.out;
    return c;
}

/* One multiplication of the convolution: dst[d] += src[s] * weights[w]. */
typedef void visit(void *arg, size_t s, size_t w, size_t d);

static void conv_visit(const conv_case *c, visit *f, void *arg)
{
    const nn_conv_shape *s = &c->s;
    for (size_t b = 0; b < s->batch; b++)
        for (size_t y = 0; y < c->oh; y++)
            for (size_t x = 0; x < c->ow; x++)
                for (size_t o = 0; o < s->out; o++)
                    for (size_t i = 0; i < s->in; i++)
                        for (size_t ky = 0; ky < s->kernel; ky++)
                            for (size_t kx = 0; kx < s->kernel; kx++) {
                                const size_t sy = y * s->stride + ky, sx = x * s->stride + kx;
                                if (sy < s->pad || sy >= s->height + s->pad || sx < s->pad ||
                                    sx >= s->width + s->pad)
                                    continue;
                                f(arg,
                                  ((b * s->height + sy - s->pad) * s->width + sx - s->pad) * s->in +
                                      i,
                                  ((o * s->in + i) * s->kernel + ky) * s->kernel + kx,
                                  ((b * c->oh + y) * c->ow + x) * s->out + o);
                            }
}

typedef struct sums {
    const float *src, *weights, *ddst;
    double *dst, *dweights, *dsrc;
} sums;

static void add_all(void *arg, size_t s, size_t w, size_t d)
{
    sums *u = arg;
    u->dst[d] += (double)u->src[s] * (double)u->weights[w];
    u->dweights[w] += (double)u->src[s] * (double)u->ddst[d];
    u->dsrc[s] += (double)u->weights[w] * (double)u->ddst[d];
}

static void check_conv(nn *n, nn_conv_shape shape)
{
    const conv_case c = conv_case_of(shape);
    const size_t out = shape.out;
    float *src = noise(c.nsrc, 1), *weights = noise(c.nweights, 2), *bias = noise(out, 3),
          *ddst = noise(c.ndst, 4);
    float *dst = blank(c.ndst), *dweights = blank(c.nweights), *dbias = blank(out),
          *dsrc = blank(c.nsrc);
    sums u = {.src = src, .weights = weights, .ddst = ddst};
    double *db = calloc(out, sizeof *db);
    u.dst = calloc(c.ndst, sizeof(double));
    u.dweights = calloc(c.nweights, sizeof(double));
    u.dsrc = calloc(c.nsrc, sizeof(double));
    assert_true(db && u.dst && u.dweights && u.dsrc);
    conv_visit(&c, add_all, &u);
    for (size_t d = 0; d < c.ndst; d++) {
        u.dst[d] += shape.bias ? (double)bias[d % out] : 0;
        db[d % out] += shape.bias ? (double)ddst[d] : 0;
    }

    nn_conv *conv;
    OK(nn_conv_create(n, &shape, &conv));
    OK(nn_conv_forward(conv, src, weights, bias, dst));
    OK(nn_conv_backward_weights(conv, src, ddst, dweights, dbias));
    OK(nn_conv_backward_data(conv, ddst, weights, dsrc));
    assert_close(dst, u.dst, c.ndst, 1e-4);
    assert_close(dweights, u.dweights, c.nweights, 2e-3);
    if (shape.bias)
        assert_close(dbias, db, out, 2e-3);
    assert_close(dsrc, u.dsrc, c.nsrc, 1e-4);
    nn_conv_destroy(conv);
    free(u.dst), free(u.dweights), free(u.dsrc), free(db);
    free(src), free(weights), free(bias), free(ddst);
    free(dst), free(dweights), free(dbias), free(dsrc);
}

static void test_conv(void **state)
{
    (void)state;
    nn *n;
    OK(nn_create(&n));
    check_conv(n, (nn_conv_shape){3, 28, 28, 1, 20, 5, 1, 0, true, false, false});
    check_conv(n, (nn_conv_shape){2, 12, 12, 20, 50, 5, 1, 0, true, false, false});
    check_conv(n, (nn_conv_shape){2, 9, 7, 3, 16, 3, 1, 1, true, false, false});
    check_conv(n, (nn_conv_shape){1, 9, 9, 4, 8, 3, 2, 1, true, false, false});
    check_conv(n, (nn_conv_shape){1, 5, 5, 1, 1, 5, 1, 0, true, false, false});
    check_conv(n, (nn_conv_shape){2, 9, 8, 3, 16, 3, 2, 1, false, false, false});
    nn_destroy(n);
}

/* ---- pooling --------------------------------------------------------------------------------- */

static void test_pool(void **state)
{
    (void)state;
    enum { B = 3, H = 8, W = 6, C = 50, OH = H / 2, OW = W / 2 };
    float *src = noise(B * H * W * C, 5), *ddst = noise(B * OH * OW * C, 6);
    float *dst = blank(B * OH * OW * C), *dsrc = blank(B * H * W * C);
    double *want = calloc(B * OH * OW * C, sizeof *want),
           *dwant = calloc(B * H * W * C, sizeof *dwant);
    assert_true(want && dwant);
    for (size_t i = 0; i < 8; i++)
        src[i * W * C] = src[i * W * C + C] = 2; /* equal maxima: the first gets the gradient */
    for (size_t b = 0; b < B; b++)
        for (size_t y = 0; y < OH; y++)
            for (size_t x = 0; x < OW; x++)
                for (size_t c = 0; c < C; c++) {
                    size_t best = SIZE_MAX;
                    for (size_t k = 0; k < 4; k++) {
                        const size_t i = ((b * H + 2 * y + k / 2) * W + 2 * x + k % 2) * C + c;
                        best = best == SIZE_MAX || src[i] > src[best] ? i : best;
                    }
                    const size_t o = ((b * OH + y) * OW + x) * C + c;
                    want[o] = (double)src[best];
                    dwant[best] = (double)ddst[o];
                }
    nn *n;
    nn_pool *p;
    OK(nn_create(&n));
    OK(nn_pool_create(n, B, H, W, C, 2, false, &p));
    OK(nn_pool_forward(p, src, dst));
    OK(nn_pool_backward(p, ddst, dsrc));
    assert_close(dst, want, B * OH * OW * C, 0);
    assert_close(dsrc, dwant, B * H * W * C, 0);
    nn_pool_destroy(p);
    nn_destroy(n);
    free(src), free(ddst), free(dst), free(dsrc), free(want), free(dwant);
}

/* ---- activations ----------------------------------------------------------------------------- */

static void check_act(nn *n, nn_act_kind kind)
{
    enum { N = 1003 };
    float *src = noise(N, 8), *ddst = noise(N, 9), *dst = blank(N), *dsrc = blank(N);
    double want[N], dwant[N];
    src[0] = 0;
    src[1] = 30;
    src[2] = -30;
    for (size_t i = 0; i < N; i++) {
        const double x = (double)src[i], t = tanh(x), d = (double)ddst[i];
        want[i] = kind == NN_TANH ? t : x > 0 ? x : 0;
        dwant[i] = kind == NN_TANH ? d * (1 - t * t) : x > 0 ? d : 0;
    }
    nn_act *a;
    OK(nn_act_create(n, kind, N, &a));
    OK(nn_act_forward(a, src, dst));
    OK(nn_act_backward(a, dst, ddst, dsrc));
    assert_close(dst, want, N, 1e-6);
    assert_close(dsrc, dwant, N, 1e-6);
    OK(nn_act_forward(a, src, src)); /* in place */
    assert_memory_equal(src, dst, N * sizeof *src);
    OK(nn_act_backward(a, dst, ddst, ddst));
    assert_memory_equal(ddst, dsrc, N * sizeof *ddst);
    nn_act_destroy(a);
    free(src), free(ddst), free(dst), free(dsrc);
}

static void test_act(void **state)
{
    (void)state;
    nn *n;
    OK(nn_create(&n));
    check_act(n, NN_TANH);
    check_act(n, NN_RELU);
    nn_destroy(n);
}

/* ---- dense ----------------------------------------------------------------------------------- */

static void check_dense(size_t batch, size_t in, size_t out)
{
    float *x = noise(batch * in, 10), *w = noise(out * in, 11), *b = noise(out, 12),
          *dy = noise(batch * out, 13);
    float *y = blank(batch * out), *dw = blank(out * in), *db = blank(out), *dx = blank(batch * in);
    double *wy = calloc(batch * out, sizeof *wy), *wdw = calloc(out * in, sizeof *wdw),
           *wdb = calloc(out, sizeof *wdb), *wdx = calloc(batch * in, sizeof *wdx);
    assert_true(wy && wdw && wdb && wdx);
    for (size_t s = 0; s < batch; s++)
        for (size_t o = 0; o < out; o++) {
            const double d = (double)dy[s * out + o];
            wy[s * out + o] += (double)b[o];
            wdb[o] += d;
            for (size_t i = 0; i < in; i++) {
                wy[s * out + o] += (double)w[o * in + i] * (double)x[s * in + i];
                wdw[o * in + i] += d * (double)x[s * in + i];
                wdx[s * in + i] += d * (double)w[o * in + i];
            }
        }
    OK(nn_dense_forward(batch, in, out, x, w, b, y));
    OK(nn_dense_backward_weights(batch, in, out, x, dy, dw, db));
    OK(nn_dense_backward_data(batch, in, out, dy, w, dx));
    assert_close(y, wy, batch * out, 2e-4);
    assert_close(dw, wdw, out * in, 2e-4);
    assert_close(db, wdb, out, 2e-4);
    assert_close(dx, wdx, batch * in, 2e-4);
    free(x), free(w), free(b), free(dy), free(y), free(dw), free(db), free(dx);
    free(wy), free(wdw), free(wdb), free(wdx);
}

static void test_dense(void **state)
{
    (void)state;
    check_dense(1, 1, 1);
    check_dense(7, 33, 10);
    check_dense(32, 800, 50);
}

/* ---- loss ------------------------------------------------------------------------------------ */

static void test_loss(void **state)
{
    (void)state;
    const float z[4][3] = {{1, 2, 3}, {-1000, 0, 1000}, {5, 5, 5}, {1, 0, 0}};
    const int32_t labels[4] = {2, 2, 0, 1};
    float d[4][3];
    double loss;
    size_t correct;
    nn_softmax_loss(4, 4, 3, &z[0][0], labels, 4, &d[0][0], &loss, &correct);
    const double e = exp(1.0);
    const double want = log(1 + 1 / e + 1 / (e * e)) + 0 + log(3.0) + log(e + 2);
    assert_true(fabs(loss - want) < 1e-6);
    assert_int_equal(correct, 3); /* of equal logits the first one counts */
    assert_true(fabs((double)d[2][1] - 1.0 / 12) < 1e-7);
    assert_true(fabs((double)d[2][0] - (1.0 / 3 - 1) / 4) < 1e-7);
    assert_true(d[1][2] == 0);

    nn_softmax_loss(4, 3, 3, &z[0][0], labels, 3, &d[0][0], &loss, &correct);
    assert_true(fabs((double)d[2][1] - 1.0 / 9) < 1e-7);
    assert_true(d[3][0] == 0 && d[3][1] == 0 && d[3][2] == 0);

    /* A row with a negative label does not count. */
    const int32_t some[4] = {2, -1, 0, 1};
    nn_softmax_loss(4, 4, 3, &z[0][0], some, 3, &d[0][0], &loss, &correct);
    assert_true(fabs(loss - want) < 1e-6);
    assert_int_equal(correct, 2);
    assert_true(d[1][0] == 0 && d[1][1] == 0 && d[1][2] == 0);
    assert_true(fabs((double)d[2][1] - 1.0 / 9) < 1e-7);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { ROUNDS = 20 };

static void *convolve(void *arg)
{
    uint64_t *hash = arg;
    const nn_conv_shape shape = {4, 12, 12, 20, 50, 5, 1, 0, true, false, false};
    const conv_case c = conv_case_of(shape);
    float *src = noise(c.nsrc, 1), *weights = noise(c.nweights, 2), *ddst = noise(c.ndst, 4);
    float *dst = blank(c.ndst), *dweights = blank(c.nweights), *bias = noise(shape.out, 3);
    float *product = blank(c.nweights), *dbias = blank(100);
    nn *n;
    nn_conv *conv;
    OK(nn_create(&n));
    OK(nn_conv_create(n, &shape, &conv));
    *hash = TG_HASH_START;
    for (int i = 0; i < ROUNDS; i++) {
        OK(nn_conv_forward(conv, src, weights, bias, dst));
        OK(nn_conv_backward_weights(conv, src, ddst, dweights, dbias));
        OK(nn_dense_backward_weights(16, 250, 100, src, ddst, product, dbias));
        for (size_t j = 0; j < shape.out; j++)
            bias[j] = dst[j] * 0.01f;
        *hash = tg_hash(*hash, dst, c.ndst * sizeof *dst);
        *hash = tg_hash(*hash, dweights, c.nweights * sizeof *dweights);
        *hash = tg_hash(*hash, product, c.nweights * sizeof *product);
    }
    nn_conv_destroy(conv);
    nn_destroy(n);
    free(src), free(weights), free(ddst), free(dst), free(dweights), free(dbias), free(bias),
        free(product);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    uint64_t alone, beside[3];
    pthread_t thread[3];
    convolve(&alone);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, convolve, &beside[i]), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_true(beside[i] == alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),  cmocka_unit_test(test_pool), cmocka_unit_test(test_act),
        cmocka_unit_test(test_dense), cmocka_unit_test(test_loss), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
