/* Samples, a layer and networks of them: what the tests of the graph share. */
#ifndef TG_TRAIN_NET_FIXTURE_H
#define TG_TRAIN_NET_FIXTURE_H

#include "trainer/model/net_node.h"
#include "telegrad/random.h"
#include <math.h>
#include <string.h>

#define OK(expr) assert_int_equal((expr), TG_OK)

enum { SIDE = 3, CLASSES = 4, MOST = 4 * SIDE * SIDE * 2 };

static const model_input input = {SIDE, SIDE, 2, 0, CLASSES, false};
static const int32_t labels[4] = {1, 3, 0, 1};
static float x[MOST]; /* (4, 3, 3, 2) */

static int set_up(void **state)
{
    (void)state;
    const tg_rng_key key = {.seed = 9, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i < MOST; i++)
        x[i] = (float)tg_rng_normal(&key, i);
    return 0;
}

/* ---- a layer of the tests' own ------------------------------------------------------------------
 * y = x w with one weight for each channel; two such layers may share w. */

static tg_status gain_forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    const size_t n = net_batch(node) * net_elements(node->out), c = node->out.channels;
    const float *in = node->x[0];
    for (size_t i = 0; i < n; i++)
        ((float *)node->y)[i] = in[i] * net_param(node, 0)[i % c];
    return TG_OK;
}

static tg_status gain_backward_weights(net_node *node)
{
    const size_t n = net_batch(node) * net_elements(node->out), c = node->out.channels;
    const float *in = node->x[0], *dy = node->dy;
    float *dw = net_grad(node, 0);
    if (!(node->ops->adds && net_adds(node, 0)))
        memset(dw, 0, c * sizeof *dw);
    for (size_t i = 0; i < n; i++)
        dw[i % c] += in[i] * dy[i];
    return TG_OK;
}

static tg_status gain_backward_data(net_node *node)
{
    const size_t n = net_batch(node) * net_elements(node->out), c = node->out.channels;
    for (size_t i = 0; i < n && node->dx[0]; i++)
        ((float *)node->dx[0])[i] = ((float *)node->dy)[i] * net_param(node, 0)[i % c];
    return TG_OK;
}

static const net_node_ops gain_ops[2] = {{.forward = gain_forward,
                                          .backward_weights = gain_backward_weights,
                                          .backward_data = gain_backward_data,
                                          .gradient = NET_SHARED},
                                         {.forward = gain_forward,
                                          .backward_weights = gain_backward_weights,
                                          .backward_data = gain_backward_data,
                                          .gradient = NET_SHARED,
                                          .adds = true}};

static net_value gain(net *n, net_value v, const char *name, bool shares, bool adds)
{
    const net_shape shape = net_shape_of(n, v);
    net_node *node = net_node_add(n, &gain_ops[adds], &v, 1, shape, 0);
    if (!node)
        return net_nothing();
    if (shares)
        net_tensor_share(node, name, "weight", &shape.channels, 1);
    else
        net_tensor_add(node, name, "weight", MODEL_TRAINED, &shape.channels, 1,
                       (model_init){MODEL_UNIFORM, 1});
    return net_node_value(node);
}

/* ---- networks -------------------------------------------------------------------------------- */

static net_value dense(net *n, net_value v, const char *name)
{
    return net_dense(n, v, name, (net_dense_spec){.out = 5, .bias = true});
}

static net_value tanh_of(net *n, net_value v)
{
    return net_act(n, v, NN_TANH);
}

static net_value two_readers(net *n)
{
    const net_value v = tanh_of(n, dense(n, net_input(n), "a"));
    return net_add(n, dense(n, v, "b"), tanh_of(n, v), false);
}

static net_value out(net *n, net_value v)
{
    return net_dense(n, net_flatten(n, v), "out", (net_dense_spec){.out = CLASSES, .bias = true});
}

typedef net_value (*describe)(net *n);

/* f's values become logits by a dense layer, or are: (batch, CLASSES). */
static model *make(describe f, size_t batch)
{
    net *n;
    model *m;
    OK(net_create(&input, batch, &n));
    const net_value last = f(n);
    const net_shape shape = net_shape_of(n, last);
    const bool logits = shape.height * shape.width == 1 && shape.channels == CLASSES;
    OK(net_model(n, logits ? last : out(n, last), 3, &m));
    OK(net_allocate(m, &(model_room){.bytes = INFINITY, .networks = 1}));
    return m;
}

#endif
