/* Each layer's forward and backward pass against PyTorch in float64. Small networks contain the
 * layer; their loss, gradients and statistics are in golden/layer_golden.h (tools/layer_golden.py).
 *
 *     layer_test --dump    prints all values, for `tools/layer_golden.py --check` */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <golden/layer_golden.h> /* tests/golden */
#include "trainer/model/model_net.h"
#include "telegrad/tools.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

enum { BATCH = 2, CLASSES = 3, INPUT_STREAM = 1000 };

/* Bound of an error, relative to the root mean square of the tensor's values. */
#define BOUND 1e-4

static net_value conv(net *n, net_value x, const char *name, size_t channels, size_t kernel,
                      size_t stride, size_t pad, bool bias)
{
    return net_conv(n, x, name, (net_conv_spec){channels, kernel, stride, pad, bias, {0}});
}

static net_value first(net *n, size_t channels)
{
    return conv(n, net_input(n), "first", channels, 1, 1, 0, true);
}

static net_value conv3(net *n)
{
    return conv(n, first(n, 4), "conv", 8, 3, 1, 1, true);
}

static net_value conv_stride(net *n)
{
    return conv(n, first(n, 4), "conv", 8, 3, 2, 1, false);
}

static net_value conv_wide(net *n)
{
    return conv(n, first(n, 32), "conv", 48, 3, 1, 1, true);
}

static net_value conv_wide_odd(net *n)
{
    return conv(n, first(n, 48), "conv", 32, 3, 1, 1, false);
}

static net_value conv_project(net *n)
{
    return conv(n, first(n, 32), "conv", 64, 1, 2, 0, false);
}

static net_value conv_rgb(net *n)
{
    const net_value x = conv(n, net_input(n), "conv1", 16, 3, 1, 1, false);
    return conv(n, x, "conv2", 32, 3, 2, 1, false);
}

static net_value conv_rgb_wide(net *n)
{
    return conv(n, net_input(n), "conv", 64, 3, 1, 1, true);
}

static net_value conv_narrow(net *n)
{
    return conv(n, first(n, 32), "conv", 20, 3, 1, 1, false);
}

static net_value lenet(net *n)
{
    const net_value x = net_act(n, conv(n, first(n, 4), "conv", 6, 5, 1, 0, true), NN_TANH);
    return net_maxpool(n, x, 2);
}

static net_value pool_wide(net *n)
{
    return net_maxpool(n, net_act(n, first(n, 32), NN_RELU), 2);
}

static net_value norm(net *n)
{
    return net_batchnorm(n, first(n, 5), "bn", false);
}

static net_value norm_relu(net *n)
{
    return net_batchnorm(n, first(n, 20), "bn", true);
}

static net_value norm_wide(net *n)
{
    return net_batchnorm(n, first(n, 48), "bn", true);
}

static net_value norm_input(net *n)
{
    return net_batchnorm(n, net_input(n), "bn", true);
}

/* Two blocks: the convolution and the shortcut of the second read the output of the first. */
static net_value blocks(net *n, size_t channels)
{
    net_value x = first(n, channels);
    x = net_batchnorm_add(n, conv(n, x, "conv1", channels, 3, 1, 1, false), x, "bn1");
    return net_batchnorm_add(n, conv(n, x, "conv2", channels, 3, 1, 1, false), x, "bn2");
}

static net_value block(net *n)
{
    return blocks(n, 6);
}

static net_value block_wide(net *n)
{
    return blocks(n, 32);
}

static net_value add(net *n)
{
    const net_value x = first(n, 6), y = conv(n, x, "conv", 6, 3, 1, 1, false);
    return net_add(n, net_add(n, x, y, true), net_add(n, x, x, false), false);
}

/* One input blocked, the other not. */
static net_value add_mixed(net *n)
{
    const net_value x = first(n, 32);
    return net_add(n, x, net_dense(n, x, "dense", (net_dense_spec){.out = 32, .bias = true}), true);
}

static net_value avgpool(net *n)
{
    return net_avgpool(n, first(n, 6));
}

static net_value avgpool_wide(net *n)
{
    return net_avgpool(n, first(n, 32));
}

static net_value shortcut(net *n)
{
    return net_shortcut(n, first(n, 5), 8);
}

static net_value shortcut_wide(net *n)
{
    return net_shortcut(n, net_shortcut(n, first(n, 16), 32), 64);
}

static const struct layer_case {
    const char *name;
    size_t height, width, channels;
    net_value (*describe)(net *n);
} cases[] = {
    {"conv3", 9, 8, 3, conv3},
    {"conv_stride", 9, 7, 3, conv_stride},
    {"conv_wide", 8, 8, 3, conv_wide},
    {"conv_wide_odd", 7, 5, 3, conv_wide_odd},
    {"conv_project", 8, 8, 3, conv_project},
    {"conv_rgb", 8, 8, 3, conv_rgb},
    {"conv_rgb_wide", 5, 5, 3, conv_rgb_wide},
    {"conv_narrow", 5, 5, 3, conv_narrow},
    {"lenet", 12, 12, 1, lenet},
    {"pool_wide", 7, 7, 3, pool_wide},
    {"norm", 3, 4, 2, norm},
    {"norm_relu", 5, 5, 3, norm_relu},
    {"norm_wide", 7, 9, 3, norm_wide},
    {"norm_input", 3, 3, 3, norm_input},
    {"block", 5, 5, 3, block},
    {"block_wide", 6, 6, 3, block_wide},
    {"add", 4, 4, 3, add},
    {"add_mixed", 3, 3, 3, add_mixed},
    {"avgpool", 5, 3, 2, avgpool},
    {"avgpool_wide", 4, 4, 2, avgpool_wide},
    {"shortcut", 5, 7, 2, shortcut},
    {"shortcut_wide", 7, 6, 2, shortcut_wide},
};

/* ---- values ---------------------------------------------------------------------------------- */

/* Number i of a stream: a multiple of 2^-15 in [-1, 1). */
static float value(size_t stream, size_t i)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)stream * 40503u + 12345u;
    h ^= h >> 15;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    return (float)(h >> 8 & 0xffff) / 32768.0f - 1;
}

static void fill(model *m)
{
    for (size_t t = 0; t < m->ntensors; t++) {
        const model_tensor *tensor = &m->tensors[t];
        const char *dot = strrchr(tensor->name, '.');
        const float base = strcmp(dot, ".running_var") == 0 ? 1 : 0;
        for (size_t i = 0; i < tensor->n; i++)
            m->params[tensor->offset + i] = base + value(t, i) / 4;
    }
}

typedef struct outcome {
    model *m;
    double loss, eval_loss;
} outcome;

/* The passes of one training step, then an evaluation. The caller owns the model. */
static outcome run(const struct layer_case *c)
{
    outcome o;
    const model_input input = {c->height, c->width, c->channels, 0, CLASSES, false};
    const int32_t labels[BATCH] = {0, 2};
    const size_t count = BATCH * c->height * c->width * c->channels;
    float *x;
    OK(tg_alloc(count, sizeof *x, &x));
    for (size_t i = 0; i < count; i++)
        x[i] = value(INPUT_STREAM, i);
    net *n;
    OK(net_create(&input, BATCH, &n));
    const net_value last = net_flatten(n, c->describe(n));
    OK(net_model(n, net_dense(n, last, "out", (net_dense_spec){.out = CLASSES, .bias = true}), 1,
                 &o.m));
    OK(net_allocate(o.m, &(model_room){.bytes = INFINITY, .networks = 1}));
    fill(o.m);
    const model_batch batch = {.x = x, .labels = labels, .count = BATCH};
    model_result result;
    OK(model_forward(o.m, &batch, &(model_pass){.training = true}, NULL, &result));
    OK(model_backward(o.m, NULL));
    o.loss = result.loss / BATCH;
    OK(model_forward(o.m, &batch, &(model_pass){0}, NULL, &result));
    o.eval_loss = result.loss / BATCH;
    free(x);
    return o;
}

/* The values to compare: the gradient of a trained tensor, or the statistics themselves. */
static const float *result_of(const model *m, size_t t)
{
    const model_tensor *tensor = &m->tensors[t];
    return (tensor->kind == MODEL_TRAINED ? m->grads : m->params) + tensor->offset;
}

static void check(const struct layer_case *c, const char *what, double got, double want,
                  double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%s: %s: %.9g, PyTorch %.9g, bound %g", c->name, what, got, want, bound);
}

static void test_golden(void **state)
{
    (void)state;
    const struct layer_golden *row = layer_goldens;
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        const struct layer_case *c = &cases[i];
        outcome o = run(c);
        assert_string_equal(row->layer, c->name);
        check(c, "loss", o.loss, row->at[0], 1e-5);
        check(c, "loss of evaluation", o.eval_loss, row->at[1], 1e-5);
        row++;
        for (size_t t = 0; t < o.m->ntensors; t++, row++) {
            const size_t n = o.m->tensors[t].n;
            const float *got = result_of(o.m, t);
            const double rms = row->norm / sqrt((double)n);
            double squares = 0;
            assert_string_equal(row->tensor, o.m->tensors[t].name);
            for (size_t k = 0; k < n; k++)
                squares += (double)got[k] * (double)got[k];
            check(c, row->tensor, sqrt(squares), row->norm, BOUND * row->norm + 1e-6);
            for (size_t k = 0; k < LAYER_SAMPLES; k++)
                check(c, row->tensor, (double)got[(k * 7919 + t * 13) % n], row->at[k],
                      BOUND * rms + 1e-6);
        }
        model_destroy(o.m);
    }
    assert_ptr_equal(row, layer_goldens + TG_COUNT(layer_goldens));
}

static int dump(void)
{
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        outcome o = run(&cases[i]);
        printf("%s loss %.9g %.9g\n", cases[i].name, o.loss, o.eval_loss);
        for (size_t t = 0; t < o.m->ntensors; t++) {
            printf("%s %s", cases[i].name, o.m->tensors[t].name);
            for (size_t k = 0; k < o.m->tensors[t].n; k++)
                printf(" %.9g", (double)result_of(o.m, t)[k]);
            putchar('\n');
        }
        model_destroy(o.m);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    if (argc > 1 && strcmp(argv[1], "--dump") == 0)
        return dump();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
