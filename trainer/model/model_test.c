/* Gradients of the models against finite differences, and the guarantees of the passes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "trainer/model/model.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"

#define OK(expr) assert_int_equal((expr), TG_OK)
#define PIXELS 784

static const model_input input = {28, 28, 1, 0, 10, false};
static const model_pass training = {.training = true};

static void fill(float *x, int32_t *labels, size_t batch)
{
    const tg_rng_key key = {.seed = 3, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i < batch * PIXELS; i++)
        x[i] = (float)tg_rng_normal(&key, i);
    for (size_t i = 0; i < batch; i++)
        labels[i] = (int32_t)((i * 7 + 3) % 10);
}

static model_result forward(model *m, const float *x, const int32_t *labels, size_t count,
                            const model_hooks *hooks)
{
    const model_batch batch = {.x = x, .labels = labels, .count = count};
    model_result result;
    OK(model_forward(m, &batch, &training, hooks, &result));
    return result;
}

static double mean_loss(model *m, const float *x, const int32_t *labels)
{
    return forward(m, x, labels, m->batch, NULL).loss / (double)m->batch;
}

/* Check the gradient of each tensor along a few coordinates and along a random direction. */
static void check_gradients(const char *spec)
{
    enum { BATCH = 4, PROBES = 6 };
    static float x[BATCH * PIXELS];
    int32_t labels[BATCH];
    fill(x, labels, BATCH);
    model *m;
    OK(model_create(spec, &input, BATCH, 5, &m));
    mean_loss(m, x, labels);
    OK(model_backward(m, NULL));
    for (size_t t = 0; t < m->ntensors; t++) {
        const model_tensor *tensor = &m->tensors[t];
        float *w = m->params + tensor->offset;
        const float *g = m->grads + tensor->offset;
        double norm = 0;
        for (size_t i = 0; i < tensor->n; i++)
            norm += (double)g[i] * (double)g[i];
        norm = sqrt(norm);
        assert_true(norm > 0);
        for (size_t p = 0; p < PROBES; p++) {
            const size_t i = (p * 2654435761u + 17) % tensor->n;
            const float old = w[i], h = 1e-3f;
            w[i] = old + h;
            const double up = mean_loss(m, x, labels), step_up = (double)(w[i] - old);
            w[i] = old - h;
            const double down = mean_loss(m, x, labels), step_down = (double)(old - w[i]);
            w[i] = old;
            const double slope = (up - down) / (step_up + step_down);
            const double tolerance =
                0.02 * fabs(slope) + 0.02 * norm / sqrt((double)tensor->n) + 1e-3;
            if (fabs(slope - (double)g[i]) > tolerance)
                fail_msg("%s: %s[%zu]: gradient %g, slope %g", spec, tensor->name, i, (double)g[i],
                         slope);
        }
        /* Along the gradient itself, so that errors of single coordinates do not hide in noise. */
        const double h = 2e-3 / norm;
        for (size_t i = 0; i < tensor->n; i++)
            w[i] += (float)(h * (double)g[i]);
        const double up = mean_loss(m, x, labels);
        for (size_t i = 0; i < tensor->n; i++)
            w[i] -= (float)(2 * h * (double)g[i]);
        const double down = mean_loss(m, x, labels);
        for (size_t i = 0; i < tensor->n; i++)
            w[i] += (float)(h * (double)g[i]);
        const double slope = (up - down) / (2 * h);
        if (fabs(slope - norm * norm) > 0.02 * norm * norm)
            fail_msg("%s: %s: |gradient|^2 %g, slope %g", spec, tensor->name, norm * norm, slope);
    }
    model_destroy(m);
}

static void test_gradients(void **state)
{
    (void)state;
    check_gradients("lenet5");
    check_gradients("mlp:hidden=32,hidden2=16");
    check_gradients("mlp:hidden=24,hidden2=0");
}

static void test_shapes(void **state)
{
    (void)state;
    static const size_t fc1[] = {500, 800};
    model *m;
    OK(model_create("lenet5:act=relu", &input, 2, 1, &m));
    assert_int_equal(m->params_total, 431080);
    assert_int_equal(m->ntensors, 8);
    assert_string_equal(m->tensors[4].name, "fc1.weight");
    assert_int_equal(m->tensors[4].ndim, 2);
    assert_memory_equal(m->tensors[4].shape, fc1, sizeof fc1);
    size_t at = 0, total = 0;
    for (size_t t = 0; t < m->ntensors; t++) {
        assert_int_equal(m->tensors[t].offset, at);
        for (size_t i = at + m->tensors[t].n; i < (at + m->tensors[t].n + 15) / 16 * 16; i++)
            assert_true(m->params[i] == 0);
        at += (m->tensors[t].n + 15) / 16 * 16;
        total += m->tensors[t].n;
    }
    assert_int_equal(at, m->floats);
    assert_int_equal(total, m->params_total);
    model_destroy(m);
    OK(model_create("mlp", &input, 2, 1, &m));
    assert_int_equal(m->params_total, 109386);
    model_destroy(m);

    assert_int_equal(model_create("lenet6", &input, 2, 1, &m), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "lenet5"));
    assert_int_equal(model_create("lenet5:act=sin", &input, 2, 1, &m), TG_E_SPEC);
    assert_int_equal(model_create("mlp:hidden=0", &input, 2, 1, &m), TG_E_SPEC);
    assert_int_equal(model_create("mlp", &input, 0, 1, &m), TG_E_ARG);
    assert_int_equal(model_create("lenet5", &(model_input){4, 4, 1, 0, 10, false}, 2, 1, &m),
                     TG_E_ARG);
    assert_non_null(strstr(tg_error(), "conv1"));

    size_t count;
    const tg_entry *const *entries = model_entries(&count);
    assert_true(count >= 7);
    assert_string_equal(entries[0]->name, "lenet5");
}

/* Initial parameters depend on the seed, not on the batch, and have the stated distribution. */
static void test_init(void **state)
{
    (void)state;
    model *a, *b, *c;
    OK(model_create("lenet5", &input, 2, 1, &a));
    OK(model_create("lenet5", &input, 5, 1, &b));
    OK(model_create("lenet5", &input, 2, 2, &c));
    assert_memory_equal(a->params, b->params, a->floats * sizeof(float));
    assert_true(memcmp(a->params, c->params, a->floats * sizeof(float)) != 0);
    const model_tensor *t = &a->tensors[4];
    double sum = 0, squares = 0;
    for (size_t i = 0; i < t->n; i++) {
        sum += (double)a->params[t->offset + i];
        squares += (double)a->params[t->offset + i] * (double)a->params[t->offset + i];
    }
    assert_true(fabs(sum / (double)t->n) < 5e-4);
    assert_true(fabs(squares / (double)t->n * 400 - 1) < 0.02);
    assert_true(a->params[a->tensors[5].offset] == 0);
    const tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_INIT, .tensor = 4};
    assert_true(a->params[t->offset + 99] == (float)(sqrt(2.0 / 800) * tg_rng_normal(&key, 99)));
    model_destroy(a);
    model_destroy(b);
    model_destroy(c);
}

/* A batch that is not full gives the loss of its samples only. */
static void test_partial_batch(void **state)
{
    (void)state;
    static float x[8 * PIXELS];
    int32_t labels[8];
    fill(x, labels, 8);
    model *m;
    OK(model_create("lenet5", &input, 8, 1, &m));
    const model_result whole = forward(m, x, labels, 8, NULL);
    const model_result part = forward(m, x, labels, 5, NULL);
    memmove(x, x + 5 * PIXELS, 3 * PIXELS * sizeof *x);
    const model_result rest = forward(m, x, labels + 5, 3, NULL);
    assert_true(fabs(whole.loss - part.loss - rest.loss) < 1e-5);
    assert_int_equal(whole.correct, part.correct + rest.correct);
    assert_int_equal(part.labels, 5);
    model_destroy(m);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

typedef struct journal {
    char text[256];
    size_t fail_at; /* grad_ready of this tensor fails */
} journal;

static void note(journal *j, char what, size_t tensor)
{
    const size_t len = strlen(j->text);
    assert_true(len + 3 < sizeof j->text);
    j->text[len] = what;
    j->text[len + 1] = (char)('0' + tensor);
}

static tg_status on_read(void *arg, size_t tensor)
{
    note(arg, 'p', tensor);
    return TG_OK;
}
static tg_status on_write(void *arg, size_t tensor)
{
    note(arg, 'w', tensor);
    return TG_OK;
}
static tg_status on_ready(void *arg, size_t tensor)
{
    journal *j = arg;
    note(j, 'r', tensor);
    return tensor == j->fail_at ? tg_fail(TG_E_PEER, "told to fail") : TG_OK;
}
static tg_status on_layer(void *arg)
{
    note(arg, '|', 0);
    return TG_OK;
}

static void test_hooks(void **state)
{
    (void)state;
    static float x[2 * PIXELS];
    int32_t labels[2];
    fill(x, labels, 2);
    model *m;
    OK(model_create("mlp:hidden=8,hidden2=0", &input, 2, 1, &m));
    journal j = {.fail_at = 99};
    const model_hooks hooks = {&j, on_read, on_write, on_ready, on_layer, NULL};
    forward(m, x, labels, 2, &hooks);
    assert_string_equal(j.text, "p0p1|0|0p2p3|0");
    memset(j.text, 0, sizeof j.text);
    OK(model_backward(m, &hooks));
    assert_string_equal(j.text, "w2w3r3r2|0|0w0w1r1r0|0");
    assert_int_equal(model_backward(m, &hooks), TG_E_STATE);
    forward(m, x, labels, 2, NULL);
    j.fail_at = 2;
    assert_int_equal(model_backward(m, &hooks), TG_E_PEER);
    model_destroy(m);
}

/* ---- the same bits in every thread ----------------------------------------------------------- */

static void *train(void *arg)
{
    enum { BATCH = 8 };
    uint64_t *hash = arg;
    float *x;
    int32_t labels[BATCH];
    OK(tg_alloc(BATCH * PIXELS, sizeof *x, &x));
    fill(x, labels, BATCH);
    model *m;
    OK(model_create("lenet5", &input, BATCH, 1, &m));
    for (int step = 0; step < 5; step++) {
        mean_loss(m, x, labels);
        OK(model_backward(m, NULL));
        for (size_t i = 0; i < m->floats; i++)
            m->params[i] -= 0.01f * m->grads[i];
    }
    *hash = tg_hash(TG_HASH_START, m->params, m->floats * sizeof(float));
    model_destroy(m);
    free(x);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    uint64_t alone, beside[2];
    pthread_t thread[2];
    train(&alone);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, train, &beside[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_true(beside[i] == alone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_init),      cmocka_unit_test(test_partial_batch),
        cmocka_unit_test(test_hooks),     cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
