#include "trainer/model/net_node.h"
#include "trainer/nn/row_kernels.h"

static size_t count(const net_node *node)
{
    return net_batch(node) * net_elements(node->out);
}

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    row_kernels_of(tg_cpu_level())->gelu(count(node), node->x[0], node->y);
    return TG_OK;
}

static tg_status backward_data(net_node *node)
{
    if (node->dx[0])
        row_kernels_of(tg_cpu_level())
            ->gelu_backward(count(node), node->x[0], node->dy, node->dx[0]);
    return TG_OK;
}

static const net_node_ops ops = {
    .forward = forward, .backward_data = backward_data, .gradient = NET_SHARED};

net_value net_gelu(net *n, net_value x)
{
    net_node *node = net_node_add(n, &ops, &x, 1, net_shape_of(n, x), 0);
    return node ? net_node_value(node) : net_nothing();
}
