/* Models for tokens: gradients against finite differences, state, labels that count, and learning.
 * (sequence_golden_test.c compares values with PyTorch.) */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "trainer/model/model.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

enum { CLASSES = 11, CONTEXT = 6, BATCH = 4, TOKENS = BATCH * CONTEXT };

static const model_pass training = {.training = true};
static const char *const specs[] = {
    "lstm:hidden=12,embed=12",
    "lstm:layers=1,hidden=9,embed=5,tied=no",
    "gpt:layers=2,heads=2,embed=12",
    "gpt:layers=1,heads=3,embed=9,tied=no",
};

/* Tokens of a stream, with the next token as the label of each. */
static void fill(int32_t *x, int32_t *labels, size_t n)
{
    const tg_rng_key key = {.seed = 3, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i <= n; i++) {
        const int32_t token = (int32_t)(tg_rng_uniform(&key, i) * CLASSES);
        if (i < n)
            x[i] = token;
        if (i > 0)
            labels[i - 1] = token;
    }
}

static model *create(const char *spec, size_t batch, size_t context)
{
    const model_input in = {.context = context, .classes = CLASSES};
    model *m;
    OK(model_create(spec, &in, batch, 5, &m));
    return m;
}

static void clear_state(model *m)
{
    memset(m->state, 0, m->nstate * sizeof *m->state);
}

static model_result forward(model *m, const int32_t *x, const int32_t *labels, size_t count)
{
    const model_batch batch = {.tokens = x, .labels = labels, .count = count};
    model_result result;
    OK(model_forward(m, &batch, &training, NULL, &result));
    return result;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static double mean_loss(model *m, const int32_t *x, const int32_t *labels)
{
    clear_state(m);
    const model_result result = forward(m, x, labels, m->batch);
    return result.loss / (double)result.labels;
}

/* The slope of the loss along g, from w - h g to w + h g. */
static double slope(model *m, const int32_t *x, const int32_t *labels, size_t t, const float *g,
                    double h)
{
    const size_t n = m->tensors[t].n;
    float *w = m->params + m->tensors[t].offset, *old;
    OK(tg_alloc(n, sizeof *old, &old));
    memcpy(old, w, n * sizeof *w);
    double side[2];
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < n; i++)
            w[i] = (float)((double)old[i] + (s ? -h : h) * (double)g[i]);
        side[s] = mean_loss(m, x, labels);
    }
    memcpy(w, old, n * sizeof *w);
    free(old);
    return (side[0] - side[1]) / (2 * h);
}

/* Check each tensor along its gradient and along a random direction. */
static void check_gradients(const char *spec)
{
    int32_t x[TOKENS], labels[TOKENS];
    fill(x, labels, TOKENS);
    labels[3] = labels[TOKENS - 1] = -1;
    model *m = create(spec, BATCH, CONTEXT);
    for (size_t i = 0; i < m->floats; i++) /* not 0, nor as small as GPT's weights */
        m->params[i] *= 3;
    mean_loss(m, x, labels);
    OK(model_backward(m, NULL));
    const tg_rng_key key = {.seed = 4, .purpose = TG_PURPOSE_TEST};
    for (size_t t = 0; t < m->ntensors; t++) {
        const size_t n = m->tensors[t].n;
        const float *g = m->grads + m->tensors[t].offset;
        float *direction;
        OK(tg_alloc(n, sizeof *direction, &direction));
        double square = 0, product = 0;
        for (size_t i = 0; i < n; i++) {
            direction[i] = (float)tg_rng_normal(&key, i);
            square += (double)g[i] * (double)g[i];
            product += (double)g[i] * (double)direction[i];
        }
        assert_true(square > 0);
        const double norm = sqrt(square);
        const double along = slope(m, x, labels, t, g, 5e-3 / norm);
        if (fabs(along - square) > 0.01 * square + 1e-4 * norm)
            fail_msg("%s: %s: |gradient|^2 %g, slope %g", spec, m->tensors[t].name, square, along);
        const double random = slope(m, x, labels, t, direction, 5e-3 / sqrt((double)n));
        if (fabs(random - product) > 0.02 * norm + 1e-4 * sqrt((double)n))
            fail_msg("%s: %s: product %g, slope %g", spec, m->tensors[t].name, product, random);
        free(direction);
    }
    model_destroy(m);
}

static void test_gradients(void **state)
{
    (void)state;
    for (size_t s = 0; s < TG_COUNT(specs); s++)
        check_gradients(specs[s]);
}

/* ---- state ----------------------------------------------------------------------------------- */

/* Two consecutive batches give the same as one with twice the context. */
static void test_state(void **state)
{
    (void)state;
    int32_t x[2 * TOKENS], labels[2 * TOKENS], half[2][TOKENS], half_labels[2][TOKENS];
    fill(x, labels, 2 * TOKENS);
    for (size_t b = 0; b < BATCH; b++) {
        for (size_t t = 0; t < 2 * CONTEXT; t++) {
            const size_t from = b * 2 * CONTEXT + t, to = b * CONTEXT + t % CONTEXT;
            half[t / CONTEXT][to] = x[from];
            half_labels[t / CONTEXT][to] = labels[from];
        }
    }
    model *one = create(specs[0], BATCH, 2 * CONTEXT), *two = create(specs[0], BATCH, CONTEXT);
    assert_true(one->nstate >= 2 * 2 * BATCH * 12 && one->nstate == two->nstate);
    const double whole = forward(one, x, labels, BATCH).loss;
    double sum = forward(two, half[0], half_labels[0], BATCH).loss;
    assert_true(memcmp(one->state, two->state, one->nstate * sizeof(float)) != 0);
    sum += forward(two, half[1], half_labels[1], BATCH).loss;
    assert_memory_equal(one->state, two->state, one->nstate * sizeof(float));
    assert_true(fabs(sum - whole) < 1e-9 * whole);
    clear_state(two);
    const double again = forward(two, half[1], half_labels[1], BATCH).loss;
    assert_true(fabs(again + forward(two, half[0], half_labels[0], BATCH).loss - whole) > 1e-6);
    model_destroy(one);
    model_destroy(two);
}

/* ---- what counts ----------------------------------------------------------------------------- */

static void test_labels(void **state)
{
    (void)state;
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        int32_t x[TOKENS], labels[TOKENS], some[2][TOKENS];
        fill(x, labels, TOKENS);
        model *m = create(specs[s], BATCH, CONTEXT);
        const model_result all = forward(m, x, labels, BATCH);
        assert_int_equal(all.labels, TOKENS);
        double loss = 0;
        size_t correct = 0;
        for (size_t part = 0; part < 2; part++) {
            for (size_t i = 0; i < TOKENS; i++)
                some[part][i] = (i % 3 == 0) == (part == 0) ? labels[i] : -1;
            clear_state(m);
            const model_result r = forward(m, x, some[part], BATCH);
            assert_int_equal(r.labels, part == 0 ? TOKENS / 3 : TOKENS - TOKENS / 3);
            loss += r.loss;
            correct += r.correct;
        }
        assert_true(fabs(loss - all.loss) < 1e-9 * all.loss);
        assert_int_equal(correct, all.correct);

        /* Samples from `count` on are ignored, and give no gradient. */
        for (size_t i = 2 * CONTEXT; i < TOKENS; i++)
            x[i] = labels[i] = INT32_MAX;
        clear_state(m);
        const model_result two = forward(m, x, labels, 2);
        OK(model_backward(m, NULL));
        model *small = create(specs[s], 2, CONTEXT);
        const model_result want = forward(small, x, labels, 2);
        OK(model_backward(small, NULL));
        assert_true(fabs(two.loss - want.loss) < 1e-6 * want.loss);
        for (size_t i = 0; i < m->floats; i++)
            assert_true(fabs((double)(m->grads[i] - small->grads[i])) < 1e-5);
        model_destroy(small);
        model_destroy(m);
    }
}

/* Two parts of a step give the same as one batch. */
static void test_parts(void **state)
{
    (void)state;
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        int32_t x[TOKENS], labels[TOKENS];
        fill(x, labels, TOKENS);
        model *whole = create(specs[s], BATCH, CONTEXT),
              *half = create(specs[s], BATCH / 2, CONTEXT);
        forward(whole, x, labels, BATCH);
        OK(model_backward(whole, NULL));
        for (uint32_t part = 0; part < 2; part++) {
            const size_t at = part * TOKENS / 2;
            const model_batch batch = {.tokens = x + at, .labels = labels + at, .count = BATCH / 2};
            const model_pass pass = {.training = true, .part = part, .parts = 2};
            model_result result;
            clear_state(half);
            OK(model_forward(half, &batch, &pass, NULL, &result));
            OK(model_backward(half, NULL));
        }
        for (size_t i = 0; i < whole->floats; i++)
            assert_true(fabs((double)(whole->grads[i] - half->grads[i])) < 1e-6);
        model_destroy(whole);
        model_destroy(half);
    }
}

/* ---- learning -------------------------------------------------------------------------------- */

/* Plain SGD on one sequence per row, which has to be memorised; returns the last loss. */
static double learn(const char *spec, double lr, size_t steps)
{
    int32_t x[TOKENS], labels[TOKENS];
    fill(x, labels, TOKENS);
    for (size_t b = 0; b < BATCH; b++)
        x[b * CONTEXT] = (int32_t)b; /* distinguishes the rows */
    model *m = create(spec, BATCH, CONTEXT);
    double loss = 0;
    for (size_t step = 0; step < steps; step++) {
        loss = mean_loss(m, x, labels);
        OK(model_backward(m, NULL));
        for (size_t i = 0; i < m->floats; i++)
            m->params[i] -= (float)lr * m->grads[i];
    }
    model_destroy(m);
    return loss;
}

static void test_learns(void **state)
{
    (void)state;
    const double lstm = learn("lstm:hidden=32,embed=32", 2, 500),
                 gpt = learn("gpt:layers=2,heads=2,embed=32", 0.3, 500);
    if (!(lstm < 0.02) || !(gpt < 0.02))
        fail_msg("losses: lstm %g, gpt %g", lstm, gpt);
}

/* In training, masks differ from step to step; evaluation has none. */
static void test_dropout(void **state)
{
    (void)state;
    static const char *const with[] = {"lstm:hidden=16,embed=16,dropout=0.5",
                                       "gpt:layers=1,heads=1,embed=16,dropout=0.5"};
    static const char *const without[] = {"lstm:hidden=16,embed=16",
                                          "gpt:layers=1,heads=1,embed=16"};
    int32_t x[TOKENS], labels[TOKENS];
    fill(x, labels, TOKENS);
    const model_batch batch = {.tokens = x, .labels = labels, .count = BATCH};
    const model_pass passes[] = {{.training = true, .step = 1},
                                 {.training = true, .step = 2},
                                 {.training = true, .step = 1},
                                 {0}};
    for (size_t s = 0; s < TG_COUNT(with); s++) {
        model *m = create(with[s], BATCH, CONTEXT), *plain = create(without[s], BATCH, CONTEXT);
        model_result r[TG_COUNT(passes)], want;
        for (size_t i = 0; i < TG_COUNT(passes); i++) {
            clear_state(m);
            OK(model_forward(m, &batch, &passes[i], NULL, &r[i]));
        }
        OK(model_forward(plain, &batch, &(model_pass){0}, NULL, &want));
        assert_true(r[0].loss != r[1].loss && r[0].loss == r[2].loss && r[3].loss == want.loss);
        model_destroy(m);
        model_destroy(plain);
    }
}

/* ---- the same bits in every thread ----------------------------------------------------------- */

static void *train(void *arg)
{
    uint64_t *hash = arg;
    int32_t x[TOKENS], labels[TOKENS];
    fill(x, labels, TOKENS);
    *hash = TG_HASH_START;
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        model *m = create(specs[s], BATCH, CONTEXT);
        for (int step = 0; step < 5; step++) {
            forward(m, x, labels, BATCH);
            OK(model_backward(m, NULL));
            for (size_t i = 0; i < m->floats; i++)
                m->params[i] -= 0.1f * m->grads[i];
        }
        *hash = tg_hash(*hash, m->params, m->floats * sizeof(float));
        model_destroy(m);
    }
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
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_state),
        cmocka_unit_test(test_labels),    cmocka_unit_test(test_parts),
        cmocka_unit_test(test_learns),    cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
