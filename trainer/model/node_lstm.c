#include "trainer/model/net_node.h"
#include "trainer/nn/recurrent.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct lstm {
    nn_lstm *nn;
    size_t h, c; /* offsets in model.state of (batch, hidden) each */
} lstm;

static nn_lstm_weights params(const net_node *node)
{
    return (nn_lstm_weights){net_param(node, 0), net_param(node, 1), net_param(node, 2),
                             net_param(node, 3)};
}

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    const lstm *l = node->impl;
    const nn_lstm_weights w = params(node);
    return nn_lstm_forward(l->nn, node->x[0], &w, net_state(node, l->h), net_state(node, l->c),
                           node->y);
}

static tg_status backward_weights(net_node *node)
{
    const lstm *l = node->impl;
    const nn_lstm_weights w = params(node), dw = {net_grad(node, 0), net_grad(node, 1),
                                                  net_grad(node, 2), net_grad(node, 3)};
    return nn_lstm_backward_weights(l->nn, node->x[0], &w, node->dy, &dw);
}

static tg_status backward_data(net_node *node)
{
    const lstm *l = node->impl;
    const nn_lstm_weights w = params(node);
    return node->dx[0] ? nn_lstm_backward_data(l->nn, &w, node->dx[0]) : TG_OK;
}

static void destroy(net_node *node)
{
    lstm *l = node->impl;
    if (l)
        nn_lstm_destroy(l->nn);
    free(l);
}

static const net_node_ops ops = {.forward = forward,
                                 .backward_weights = backward_weights,
                                 .backward_data = backward_data,
                                 .destroy = destroy};

/* Add a tensor (4 hidden, columns), or (4 hidden) if columns is 0. */
static void tensor(net_node *node, const char *name, const char *part, unsigned layer,
                   size_t columns)
{
    const size_t hidden = node->out.channels, shape[] = {4 * hidden, columns};
    char whole[32];
    snprintf(whole, sizeof whole, "%s_l%u", part, layer);
    net_tensor_add(node, name, whole, MODEL_TRAINED, shape, columns ? 2 : 1,
                   (model_init){MODEL_UNIFORM, 1 / sqrt((double)hidden)});
}

static tg_status make(net_node *node, lstm *l)
{
    const nn_lstm_shape shape = {.batch = net_batch(node),
                                 .context = node->in[0].height,
                                 .in = node->in[0].channels,
                                 .hidden = node->out.channels,
                                 .bf16 = net_input_of(node->net)->bf16 ? net_nn(node) : NULL};
    l->h = net_state_add(node->net, shape.batch * shape.hidden);
    l->c = net_state_add(node->net, shape.batch * shape.hidden);
    const double steps = (double)shape.batch * (double)shape.context;
    net_reserve(node, 6 * steps * (double)shape.hidden * sizeof(float));
    return nn_lstm_create(&shape, &l->nn);
}

net_value net_lstm(net *n, net_value x, const char *name, unsigned layer, size_t hidden)
{
    const net_shape in = net_shape_of(n, x);
    const double products = 8.0 * (double)hidden * (double)(in.channels + hidden);
    net_node *node = net_node_add(n, &ops, &x, 1, (net_shape){in.height, 1, hidden},
                                  (double)in.height * products);
    if (!node)
        return net_nothing();
    tensor(node, name, "weight_ih", layer, in.channels);
    tensor(node, name, "weight_hh", layer, hidden);
    tensor(node, name, "bias_ih", layer, 0);
    tensor(node, name, "bias_hh", layer, 0);
    net_note(n, tg_alloc(1, sizeof(lstm), &node->impl));
    if (node->impl)
        net_note(n, make(node, node->impl));
    return net_node_value(node);
}
