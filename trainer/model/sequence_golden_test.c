/* The layers for tokens, forward and backward, and whole models of them, against PyTorch in double
 * precision. sequence_golden_test [FILE] reads lines in the format of
 * tests/golden/golden_sequence.h, or, without FILE, that file (tools/make_sequence_golden.py). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <golden/golden_sequence.h> /* tests/golden */
#include "trainer/model/model.h"
#include "trainer/nn/attention.h"
#include "trainer/nn/recurrent.h"
#include "trainer/nn/row_kernels.h"
#include "telegrad/tools.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

/* Relative to the largest value of an array: single-precision rounding through a few layers. */
#define LAYER_BOUND 2e-6
#define MODEL_BOUND 1e-5

/* ---- the values ------------------------------------------------------------------------------ */

typedef struct array {
    char name[96];
    size_t n;
    double *v;
} array;

enum { MAX_ARRAYS = 512 };
static array arrays[MAX_ARRAYS];
static size_t narrays;

static void take(const char *line)
{
    const size_t len = strcspn(line, " \n");
    array *a = narrays ? &arrays[narrays - 1] : NULL;
    if (!a || strlen(a->name) != len || strncmp(a->name, line, len) != 0) {
        assert_true(narrays < MAX_ARRAYS && len > 0 && len < sizeof a->name);
        a = &arrays[narrays++];
        memcpy(a->name, line, len);
    }
    char *next;
    for (const char *p = line + len;; p = next) {
        const double value = strtod(p, &next);
        if (next == p)
            return;
        if (a->n % 64 == 0)
            a->v = realloc(a->v, (a->n + 64) * sizeof *a->v);
        assert_non_null(a->v);
        a->v[a->n++] = value;
    }
}

static const array *find(const char *set, const char *name)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s.%s", set, name);
    for (size_t i = 0; i < narrays; i++) {
        if (strcmp(arrays[i].name, whole) == 0)
            return &arrays[i];
    }
    fail_msg("no values of %s", whole);
    return NULL;
}

static size_t size_of(const char *set, size_t i)
{
    return (size_t)find(set, "shape")->v[i];
}

/* A copy in single precision. */
static float *get(const char *set, const char *name)
{
    const array *a = find(set, name);
    float *x;
    OK(tg_alloc(a->n, sizeof *x, &x));
    for (size_t i = 0; i < a->n; i++)
        x[i] = (float)a->v[i];
    return x;
}

/* Room for a result, as long as the values it is compared with. */
static float *room(const char *set, const char *name)
{
    const array *a = find(set, name);
    float *x;
    OK(tg_alloc(a->n, sizeof *x, &x));
    for (size_t i = 0; i < a->n; i++)
        x[i] = 1e30f; /* must be overwritten */
    return x;
}

static void check(const char *set, const char *name, const float *got, double bound)
{
    const array *a = find(set, name);
    double most = 0;
    for (size_t i = 0; i < a->n; i++)
        most = fmax(most, fabs(a->v[i]));
    for (size_t i = 0; i < a->n; i++) {
        if (!(fabs((double)got[i] - a->v[i]) <= bound * most))
            fail_msg("%s.%s[%zu]: %.9g, expected %.9g", set, name, i, (double)got[i], a->v[i]);
    }
}

/* ---- layers ---------------------------------------------------------------------------------- */

static const char *const tensors[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"};
static const char *const gradients[] = {"d_weight_ih_l0", "d_weight_hh_l0", "d_bias_ih_l0",
                                        "d_bias_hh_l0"};

static void check_lstm(const char *set)
{
    const nn_lstm_shape shape = {size_of(set, 0), size_of(set, 1), size_of(set, 2), size_of(set, 3),
                                 NULL};
    float *x = get(set, "x"), *h = get(set, "h"), *c = get(set, "c"), *dy = get(set, "dy");
    float *y = room(set, "y"), *dx = room(set, "dx"), *w[4], *dw[4];
    for (size_t t = 0; t < 4; t++) {
        w[t] = get(set, tensors[t]);
        dw[t] = room(set, gradients[t]);
    }
    const nn_lstm_weights weights = {w[0], w[1], w[2], w[3]}, grads = {dw[0], dw[1], dw[2], dw[3]};
    nn_lstm *l;
    OK(nn_lstm_create(&shape, &l));
    OK(nn_lstm_forward(l, x, &weights, h, c, y));
    OK(nn_lstm_backward_weights(l, x, &weights, dy, &grads));
    OK(nn_lstm_backward_data(l, &weights, dx));
    check(set, "y", y, LAYER_BOUND);
    check(set, "h1", h, LAYER_BOUND);
    check(set, "c1", c, LAYER_BOUND);
    check(set, "dx", dx, LAYER_BOUND);
    nn_lstm_destroy(l);
    for (size_t t = 0; t < 4; t++) {
        check(set, gradients[t], dw[t], LAYER_BOUND);
        free(w[t]), free(dw[t]);
    }
    free(x), free(h), free(c), free(dy), free(y), free(dx);
}

static void test_lstm(void **state)
{
    (void)state;
    check_lstm("lstm_small");
    check_lstm("lstm_wide");
}

static void check_attention(const char *set)
{
    const nn_attention_shape shape = {size_of(set, 0), size_of(set, 1), size_of(set, 2),
                                      size_of(set, 3)};
    float *x = get(set, "x"), *dy = get(set, "dy"), *y = room(set, "y"), *dx = room(set, "dx");
    nn_attention *a;
    OK(nn_attention_create(&shape, &a));
    OK(nn_attention_forward(a, x, y));
    OK(nn_attention_backward(a, x, dy, dx));
    check(set, "y", y, LAYER_BOUND);
    check(set, "dx", dx, LAYER_BOUND);
    nn_attention_destroy(a);
    free(x), free(dy), free(y), free(dx);
}

static void test_attention(void **state)
{
    (void)state;
    check_attention("attention_small");
    check_attention("attention_long");
}

static void test_layernorm(void **state)
{
    (void)state;
    static const char set[] = "layernorm";
    const row_kernels *k = row_kernels_of(tg_cpu_level());
    const size_t rows = size_of(set, 0), n = size_of(set, 1);
    float *x = get(set, "x"), *gamma = get(set, "gamma"), *beta = get(set, "beta"),
          *dy = get(set, "dy"), *y = room(set, "y"), *dx = room(set, "dx"), *mean, *dgamma;
    OK(tg_alloc(2 * rows, sizeof(float), &mean));
    OK(tg_alloc(2 * n, sizeof(float), &dgamma));
    k->layernorm(rows, n, 1e-5f, x, gamma, beta, y, mean, mean + rows);
    k->layernorm_weights(rows, n, x, mean, mean + rows, dy, dgamma, dgamma + n);
    k->layernorm_data(rows, n, x, gamma, mean, mean + rows, dy, dx);
    check(set, "y", y, LAYER_BOUND);
    check(set, "dx", dx, LAYER_BOUND);
    check(set, "dgamma", dgamma, LAYER_BOUND);
    check(set, "dbeta", dgamma + n, LAYER_BOUND);
    k->layernorm_data(rows, n, x, gamma, mean, mean + rows, dy, dy); /* in place */
    assert_memory_equal(dy, dx, rows * n * sizeof *dy);
    free(x), free(gamma), free(beta), free(dy), free(y), free(dx), free(mean), free(dgamma);
}

/* Compared value by value, so that large errors cannot hide small ones. */
static void test_gelu(void **state)
{
    (void)state;
    const row_kernels *k = row_kernels_of(tg_cpu_level());
    const array *y = find("gelu", "y"), *d = find("gelu", "dx");
    float *x = get("gelu", "x"), *dy = get("gelu", "dy"), *got = room("gelu", "y");
    k->gelu(y->n, x, got);
    for (size_t i = 0; i < y->n; i++)
        assert_true(fabs((double)got[i] - y->v[i]) <= 2e-6 * fabs(y->v[i]) + 1e-30);
    k->gelu_backward(d->n, x, dy, got);
    for (size_t i = 0; i < d->n; i++)
        assert_true(fabs((double)got[i] - d->v[i]) <= 2e-6 * (fabs(d->v[i]) + 1e-2));
    k->gelu_backward(d->n, x, dy, dy); /* in place */
    assert_memory_equal(dy, got, d->n * sizeof *dy);
    free(x), free(dy), free(got);
}

/* ---- models ---------------------------------------------------------------------------------- */

static void check_model(const char *set, const char *spec, size_t vocabulary, size_t batch)
{
    const array *tokens = find(set, "tokens"), *labels = find(set, "labels");
    const model_input in = {.context = tokens->n / batch, .classes = vocabulary};
    int32_t x[64], y[64];
    assert_true(tokens->n <= 64);
    for (size_t i = 0; i < tokens->n; i++) {
        x[i] = (int32_t)tokens->v[i];
        y[i] = (int32_t)labels->v[i];
    }
    model *m;
    OK(model_create(spec, &in, batch, 1, &m));
    for (size_t t = 0; t < m->ntensors; t++) {
        const array *a = find(set, m->tensors[t].name);
        assert_int_equal(a->n, m->tensors[t].n);
        for (size_t i = 0; i < a->n; i++)
            m->params[m->tensors[t].offset + i] = (float)a->v[i];
    }
    const model_batch b = {.tokens = x, .labels = y, .count = batch};
    model_result result;
    OK(model_forward(m, &b, &(model_pass){.training = true}, NULL, &result));
    OK(model_backward(m, NULL));
    assert_int_equal(result.labels, tokens->n - 2);
    const double loss = find(set, "loss")->v[0];
    assert_true(fabs(result.loss / (double)result.labels - loss) <= 1e-6 * loss);
    for (size_t t = 0; t < m->ntensors; t++) {
        char name[96];
        snprintf(name, sizeof name, "d_%s", m->tensors[t].name);
        check(set, name, m->grads + m->tensors[t].offset, MODEL_BOUND);
    }
    model_destroy(m);
}

static void test_models(void **state)
{
    (void)state;
    check_model("model_lstm_tied", "lstm:layers=2,hidden=4,embed=4", 7, 3);
    check_model("model_lstm_free", "lstm:layers=1,hidden=4,embed=3,tied=no", 7, 2);
    check_model("model_gpt_tied", "gpt:layers=2,heads=2,embed=4", 7, 2);
    check_model("model_gpt_free", "gpt:layers=1,heads=1,embed=4,tied=no", 5, 3);
}

/* ---------------------------------------------------------------------------------------------- */

static const char *file;

static int read_values(void **state)
{
    (void)state;
    if (!file) {
        for (size_t i = 0; i < TG_COUNT(golden_sequence); i++)
            take(golden_sequence[i]);
        return 0;
    }
    FILE *f = fopen(file, "r");
    if (!f)
        return -1;
    char line[4096];
    while (fgets(line, sizeof line, f))
        take(line);
    return fclose(f);
}

static int free_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < narrays; i++)
        free(arrays[i].v);
    return 0;
}

int main(int argc, char **argv)
{
    file = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lstm),      cmocka_unit_test(test_attention),
        cmocka_unit_test(test_layernorm), cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_models),
    };
    return cmocka_run_group_tests(tests, read_values, free_values);
}
