#include "trainer/model/net_node.h"
#include "trainer/nn/nn.h"
#include "trainer/nn/row_kernels.h"
#include <string.h>

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    const size_t n = net_elements(node->out);
    const float *x = node->x[0];
    float *y = node->y;
    for (size_t b = 0; b < net_batch(node); b++)
        nn_add(n, x + b * n, net_param(node, 0), y + b * n);
    return TG_OK;
}

static tg_status backward_weights(net_node *node)
{
    const row_kernels *rows = row_kernels_of(tg_cpu_level());
    const size_t n = net_elements(node->out);
    const float *dy = node->dy;
    float *g = net_grad(node, 0);
    if (!net_adds(node, 0))
        memset(g, 0, n * sizeof *g);
    for (size_t b = 0; b < net_batch(node); b++)
        rows->add(n, dy + b * n, g);
    return TG_OK;
}

static const net_node_ops ops = {
    .forward = forward, .backward_weights = backward_weights, .gradient = NET_SAME, .adds = true};

net_value net_positions(net *n, net_value x, const char *name, model_init init)
{
    const net_shape in = net_shape_of(n, x);
    net_node *node = net_node_add(n, &ops, &x, 1, in, 0);
    if (!node)
        return net_nothing();
    const size_t shape[] = {in.height * in.width, in.channels};
    net_tensor_add(node, name, "weight", MODEL_TRAINED, shape, 2, init);
    return net_node_value(node);
}
