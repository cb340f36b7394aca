/* Whole networks for images: sizes, initial values, gradients along themselves. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "trainer/model/model.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

static model *make(const char *spec, size_t side, size_t batch)
{
    model *m;
    OK(model_create(spec, &(model_input){side, side, 3, 0, 10, false}, batch, 5, &m));
    return m;
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        size_t params, tensors;
    } cases[] = {
        {"resnet20", 269722, 19 * 5 + 2},    {"resnet56", 853018, 55 * 5 + 2},
        {"resnet110", 1727962, 109 * 5 + 2}, {"resnet18", 11173962, 20 * 5 + 2},
        {"vgg11", 9231114, 8 * 6 + 2},       {"vgg11:bn=no", 9225610, 8 * 2 + 2},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        model *m = make(cases[i].spec, 32, 1);
        if (m->params_total != cases[i].params || m->ntensors != cases[i].tensors)
            fail_msg("%s: %zu parameters, %zu tensors", cases[i].spec, m->params_total,
                     m->ntensors);
        model_destroy(m);
    }
}

static const model_tensor *tensor_of(const model *m, const char *name)
{
    for (size_t t = 0; t < m->ntensors; t++) {
        if (strcmp(m->tensors[t].name, name) == 0)
            return &m->tensors[t];
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

static void check_deviation(const model *m, const char *name, double want)
{
    const model_tensor *t = tensor_of(m, name);
    double squares = 0;
    for (size_t i = 0; i < t->n; i++) {
        const double w = (double)m->params[t->offset + i];
        squares += w * w;
    }
    if (fabs(sqrt(squares / (double)t->n) / want - 1) > 0.05)
        fail_msg("%s: deviation %g, expected %g", name, sqrt(squares / (double)t->n), want);
}

static void test_init(void **state)
{
    (void)state;
    model *m = make("resnet20", 32, 1);
    check_deviation(m, "layer2.0.conv1.weight", sqrt(2.0 / (16 * 9)));
    check_deviation(m, "layer3.0.bn2.weight", 1);
    check_deviation(m, "layer3.0.bn2.running_var", 1);
    model_destroy(m);
    m = make("resnet18", 32, 1);
    check_deviation(m, "layer2.0.conv1.weight", sqrt(2.0 / (128 * 9)));
    check_deviation(m, "layer2.0.downsample.0.weight", sqrt(2.0 / 128));
    check_deviation(m, "fc.weight", sqrt(1.0 / 512 / 3));
    model_destroy(m);
    m = make("vgg11", 32, 1);
    check_deviation(m, "features.4.weight", sqrt(2.0 / (128 * 9)));
    check_deviation(m, "classifier.weight", 0.01);
    model_destroy(m);
}

static void test_refused(void **state)
{
    (void)state;
    model *m;
    assert_int_equal(model_create("vgg11", &(model_input){28, 32, 3, 0, 10, false}, 1, 1, &m),
                     TG_E_ARG);
    assert_non_null(strstr(tg_error(), "28 x 32"));
    assert_int_equal(model_create("resnet20", &(model_input){0, 0, 0, 35, 10, false}, 1, 1, &m),
                     TG_E_ARG);
    assert_int_equal(
        model_create("resnet20:depth=3", &(model_input){32, 32, 3, 0, 10, false}, 1, 1, &m),
        TG_E_SPEC);
    OK(model_create("resnet20", &(model_input){1, 1, 1, 0, 2, false}, 1, 1,
                    &m)); /* small, but an image */
    model_destroy(m);
}

/* ---- gradients ------------------------------------------------------------------------------- */

enum { BATCH = 8, MOST = BATCH * 32 * 32 * 3 };

typedef struct problem {
    model *m;
    float *x;
    int32_t labels[BATCH];
    float *gradient; /* a copy: other passes overwrite the model's */
} problem;

static double loss(const problem *p)
{
    const model_batch batch = {.x = p->x, .labels = p->labels, .count = BATCH};
    model_result result;
    OK(model_forward(p->m, &batch, &(model_pass){.training = true}, NULL, &result));
    return result.loss / BATCH;
}

/* The loss's slope along the gradient of tensors [from, to) must be its length. */
static void check_slope(const problem *p, size_t from, size_t to, double bound)
{
    const model *m = p->m;
    const size_t begin = m->tensors[from].offset;
    const size_t end = m->tensors[to - 1].offset + m->tensors[to - 1].n;
    double squares = 0, at[2];
    for (size_t i = begin; i < end; i++)
        squares += (double)p->gradient[i] * (double)p->gradient[i];
    const double length = sqrt(squares), h = 1e-3 / length;
    float *saved;
    OK(tg_alloc(m->floats, sizeof *saved, &saved));
    memcpy(saved, m->params, m->floats * sizeof *saved);
    for (int side = 0; side < 2; side++) {
        memcpy(m->params, saved, m->floats * sizeof *saved);
        for (size_t i = begin; i < end; i++)
            m->params[i] += (float)((side ? h : -h) * (double)p->gradient[i]);
        at[side] = loss(p);
    }
    memcpy(m->params, saved, m->floats * sizeof *saved);
    free(saved);
    const double slope = (at[1] - at[0]) / (2e-3);
    if (!(fabs(slope / length - 1) <= bound))
        fail_msg("%s ...: |gradient| %g, slope %g", m->tensors[from].name, length, slope);
}

static void check_gradients(const char *spec, size_t side, double bound)
{
    const tg_rng_key key = {.seed = 3, .purpose = TG_PURPOSE_TEST};
    problem p = {.m = make(spec, side, BATCH)};
    OK(tg_alloc(MOST, sizeof *p.x, &p.x));
    OK(tg_alloc(p.m->floats, sizeof *p.gradient, &p.gradient));
    for (size_t i = 0; i < BATCH * side * side * 3; i++)
        p.x[i] = (float)tg_rng_normal(&key, i);
    for (size_t i = 0; i < BATCH; i++)
        p.labels[i] = (int32_t)(i * 3 % 10);
    loss(&p);
    OK(model_backward(p.m, NULL));
    memcpy(p.gradient, p.m->grads, p.m->floats * sizeof *p.gradient);
    check_slope(&p, 0, p.m->ntensors, bound);
    for (size_t t = 0; t < p.m->ntensors; t += 7) { /* convolutions, norms, the last layer */
        if (p.m->tensors[t].kind == MODEL_TRAINED)
            check_slope(&p, t, t + 1, bound);
    }
    free(p.x);
    free(p.gradient);
    model_destroy(p.m);
}

/* A relu that switches sides within the difference makes a small error. */
static void test_gradients(void **state)
{
    (void)state;
    check_gradients("resnet20", 16, 0.02);
    check_gradients("resnet18", 8, 0.02);
    check_gradients("vgg11:bn=no", 32, 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
