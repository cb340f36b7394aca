/* The graph: gradients where values and tensors are used more than once, parts of a step, and
 * passes of evaluation. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "trainer/model/net_fixture.h"

/* ---- networks -------------------------------------------------------------------------------- */

static net_value three_readers(net *n)
{
    const net_value v = dense(n, net_input(n), "a");
    const net_value b = dense(n, v, "b"), c = tanh_of(n, v);
    return net_add(n, net_add(n, b, c, false), v, false);
}

static net_value itself(net *n)
{
    const net_value v = dense(n, net_input(n), "a"), twice = net_add(n, v, v, false);
    return tanh_of(n, net_add(n, net_add(n, twice, v, false), twice, false));
}

/* Sums of sums: one gradient array has many readers, none of which may write to it. */
static net_value ladder(net *n)
{
    net_value a = dense(n, net_input(n), "a"), b = tanh_of(n, dense(n, net_input(n), "b"));
    for (int i = 0; i < 4; i++) {
        const net_value sum = net_add(n, a, b, false);
        b = tanh_of(n, net_add(n, sum, a, false));
        a = sum;
    }
    return net_add(n, a, b, false);
}

static net_value all_of_it(net *n)
{
    const net_value v = dense(n, net_input(n), "a");
    net_value sum = v;
    for (int i = 0; i < NET_SOURCES - 1; i++)
        sum = i % 2 ? net_add(n, sum, tanh_of(n, v), false) : tanh_of(n, net_add(n, sum, v, false));
    return sum;
}

static net_value shared_tensor(net *n)
{
    net_value v = gain(n, dense(n, net_input(n), "a"), "w", false, false);
    v = gain(n, tanh_of(n, v), "w", true, false);
    return gain(n, dense(n, tanh_of(n, v), "b"), "w", true, false);
}

static net_value shared_tensor_adds(net *n)
{
    net_value v = gain(n, dense(n, net_input(n), "a"), "w", false, true);
    return gain(n, tanh_of(n, v), "w", true, true);
}

static net_value dropped(net *n)
{
    return net_dropout(n, tanh_of(n, net_dropout(n, dense(n, net_input(n), "a"), 0.25)), 0.5);
}

static net_value normed(net *n)
{
    const net_value v = net_batchnorm(n, dense(n, net_input(n), "a"), "bn1", false);
    return net_batchnorm_add(n, dense(n, tanh_of(n, v), "b"), v, "bn2");
}

/* Logits of a layer that needs them in its backward pass. */
static net_value tanh_last(net *n)
{
    return tanh_of(n, out(n, dense(n, net_input(n), "a")));
}

static net_value block_last(net *n)
{
    const net_value v = out(n, tanh_of(n, dense(n, net_input(n), "a")));
    return net_batchnorm_add(n, v, v, "bn");
}

static double loss_of(model *m, const model_pass *pass, size_t first, const model_hooks *hooks)
{
    const model_batch batch = {
        .x = x + first * SIDE * SIDE * 2, .labels = labels + first, .count = m->batch};
    model_result result;
    OK(model_forward(m, &batch, pass, hooks, &result));
    return result.loss / (double)m->batch;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* bound: relative to the largest value of a tensor */
static void check_slopes(const char *name, describe f, double bound)
{
    const model_pass pass = {.training = true, .seed = 1, .step = 7};
    model *m = make(f, 4);
    loss_of(m, &pass, 0, NULL);
    OK(model_backward(m, NULL));
    for (size_t t = 0; t < m->ntensors; t++) {
        const model_tensor *tensor = &m->tensors[t];
        if (tensor->kind != MODEL_TRAINED)
            continue;
        double largest = 0;
        for (size_t i = 0; i < tensor->n; i++)
            largest = fmax(largest, fabs((double)m->grads[tensor->offset + i]));
        for (size_t i = 0; i < tensor->n; i++) {
            float *w = m->params + tensor->offset + i;
            const float old = *w, h = 1.0f / 512;
            *w = old + h;
            const double up = loss_of(m, &pass, 0, NULL);
            *w = old - h;
            const double down = loss_of(m, &pass, 0, NULL);
            *w = old;
            const double slope = (up - down) / (2 * (double)h),
                         g = (double)m->grads[tensor->offset + i];
            if (!(fabs(slope - g) <= bound * largest + 3e-4))
                fail_msg("%s: %s[%zu]: gradient %g, slope %g", name, tensor->name, i, g, slope);
        }
    }
    model_destroy(m);
}

static void test_slopes(void **state)
{
    (void)state;
    check_slopes("two readers", two_readers, 2e-3);
    check_slopes("three readers", three_readers, 2e-3);
    check_slopes("itself", itself, 2e-3);
    check_slopes("ladder", ladder, 2e-3);
    check_slopes("as many readers as there may be", all_of_it, 2e-3);
    check_slopes("a tensor of three layers", shared_tensor, 2e-3);
    check_slopes("a tensor of two layers that add", shared_tensor_adds, 2e-3);
    check_slopes("dropout", dropped, 2e-3);
    /* Its relus have kinks, and some differences step over one. */
    check_slopes("norm", normed, 1e-2);
    check_slopes("tanh last", tanh_last, 2e-3);
    check_slopes("block last", block_last, 1e-2);
}

/* ---- parts of a step ------------------------------------------------------------------------- */

/* Two parts of two samples give the gradient of one batch of four. */
static void check_parts(describe f)
{
    model *whole = make(f, 4), *half = make(f, 2);
    const double loss = loss_of(whole, &(model_pass){.training = true}, 0, NULL);
    OK(model_backward(whole, NULL));
    for (size_t i = 0; i < half->floats; i++)
        half->grads[i] = 1e30f; /* left from an earlier step */
    double sum = 0;
    for (uint32_t part = 0; part < 2; part++) {
        sum += loss_of(half, &(model_pass){.training = true, .part = part, .parts = 2}, 2 * part,
                       NULL);
        OK(model_backward(half, NULL));
    }
    assert_true(fabs(sum / 2 - loss) < 1e-6);
    for (size_t t = 0; t < whole->ntensors; t++) {
        const size_t at = whole->tensors[t].offset;
        for (size_t i = at; i < at + whole->tensors[t].n; i++) {
            const double a = (double)whole->grads[i], b = (double)half->grads[i];
            if (!(fabs(a - b) <= 1e-6 + 1e-5 * fabs(a)))
                fail_msg("%s[%zu]: %g in one, %g in parts", whole->tensors[t].name, i - at, a, b);
        }
    }
    model_destroy(whole);
    model_destroy(half);
}

static void test_parts(void **state)
{
    (void)state;
    check_parts(two_readers);
    check_parts(shared_tensor);
    check_parts(shared_tensor_adds);
}

typedef struct journal {
    char text[256];
} journal;

static tg_status note(void *arg, char what, size_t tensor)
{
    journal *j = arg;
    const size_t at = strlen(j->text);
    assert_true(at + 2 < sizeof j->text);
    j->text[at] = what;
    j->text[at + 1] = (char)('0' + tensor);
    return TG_OK;
}

static tg_status on_read(void *arg, size_t tensor)
{
    return note(arg, 'p', tensor);
}

static tg_status on_write(void *arg, size_t tensor)
{
    return note(arg, 'w', tensor);
}

static tg_status on_ready(void *arg, size_t tensor)
{
    return note(arg, 'r', tensor);
}

/* A shared tensor is read once, written at its last layer and ready at its first. With parts, the
 * first part writes and the last part makes it ready. Statistics have no hooks. */
static void test_hooks(void **state)
{
    (void)state;
    journal j = {{0}};
    const model_hooks hooks = {&j, on_read, on_write, on_ready, NULL, NULL};
    model *m = make(shared_tensor, 4); /* a: 0 1, w: 2, b: 3 4, out: 5 6 */
    loss_of(m, &(model_pass){.training = true}, 0, &hooks);
    assert_string_equal(j.text, "p0p1p2p3p4p5p6");
    j = (journal){{0}};
    OK(model_backward(m, &hooks));
    assert_string_equal(j.text, "w5w6r6r5w2w3w4r4r3r2w0w1r1r0");
    j = (journal){{0}};
    for (uint32_t part = 0; part < 2; part++) {
        loss_of(m, &(model_pass){.training = true, .part = part, .parts = 2}, 0, &hooks);
        OK(model_backward(m, &hooks));
        note(&j, '|', 0);
    }
    assert_string_equal(j.text, "p0p1p2p3p4p5p6w5w6w2w3w4w0w1|0r6r5r4r3r2r1r0|0");
    model_destroy(m);

    m = make(normed, 4); /* a: 0 1, bn1: 2 3 (4 5), b: 6 7, bn2: 8 9 (10 11), out: 12 13 */
    j = (journal){{0}};
    loss_of(m, &(model_pass){.training = true}, 0, &hooks);
    assert_string_equal(j.text, "p0p1p2p3p6p7p8p9p<p=");
    model_destroy(m);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* Running statistics change in training only, and evaluation treats each sample separately. */
static void test_evaluation(void **state)
{
    (void)state;
    model *m = make(normed, 4), *one = make(normed, 1);
    const model_pass training = {.training = true}, evaluation = {.training = false};
    const model_tensor *mean = &m->tensors[4], *var = &m->tensors[5];
    assert_string_equal(mean->name, "bn1.running_mean");
    assert_int_equal(mean->kind, MODEL_STATISTIC);
    assert_true(m->params[var->offset] == 1);
    loss_of(m, &training, 0, NULL);
    const float once = m->params[var->offset];
    assert_true(once != 1);
    OK(model_backward(m, NULL));
    for (size_t i = 0; i < mean->n; i++) /* has no gradient */
        assert_true(m->grads[mean->offset + i] == 0 && m->grads[var->offset + i] == 0);
    const double whole = loss_of(m, &evaluation, 0, NULL);
    assert_true(m->params[var->offset] == once);
    assert_int_equal(model_backward(m, NULL), TG_E_STATE);
    memcpy(one->params, m->params, m->floats * sizeof *m->params);
    double sum = 0;
    for (size_t i = 0; i < 4; i++)
        sum += loss_of(one, &evaluation, i, NULL);
    assert_true(fabs(sum / 4 - whole) < 1e-6);
    model_destroy(m);
    model_destroy(one);
}

static void test_dropout(void **state)
{
    (void)state;
    model *m = make(dropped, 4);
    model_pass pass = {.training = true, .seed = 1, .step = 2, .rank = 3, .part = 0, .parts = 2};
    const double loss = loss_of(m, &pass, 0, NULL);
    assert_true(loss_of(m, &pass, 0, NULL) == loss);
    pass.part = 1;
    assert_true(loss_of(m, &pass, 0, NULL) != loss);
    pass.part = 0;
    pass.rank = 4;
    assert_true(loss_of(m, &pass, 0, NULL) != loss);
    pass.rank = 3;
    pass.step = 3;
    assert_true(loss_of(m, &pass, 0, NULL) != loss);
    pass.step = 2;
    pass.seed = 2;
    assert_true(loss_of(m, &pass, 0, NULL) != loss);
    pass.training = false;
    const double plain = loss_of(m, &pass, 0, NULL);
    pass.seed = 1;
    assert_true(loss_of(m, &pass, 0, NULL) == plain && plain != loss);
    model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slopes),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_hooks),   cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_dropout),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
