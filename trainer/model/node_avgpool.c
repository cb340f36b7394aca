#include "trainer/model/net_node.h"
#include "trainer/nn/spatial.h"

static nn_image image(const net_node *node)
{
    const net_shape s = node->in[0];
    return (nn_image){s.height, s.width, s.channels, node->in_blocked[0]};
}

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    nn_avgpool_forward(net_batch(node), image(node), node->x[0], node->y);
    return TG_OK;
}

static tg_status backward_data(net_node *node)
{
    if (node->dx[0])
        nn_avgpool_backward(net_batch(node), image(node), node->dy, node->dx[0]);
    return TG_OK;
}

static const net_node_ops ops = {
    .forward = forward, .backward_data = backward_data, .blocked = true};

net_value net_avgpool(net *n, net_value x)
{
    const net_shape in = net_shape_of(n, x);
    net_node *node = net_node_add(n, &ops, &x, 1, (net_shape){1, 1, in.channels}, 0);
    return node ? net_node_value(node) : net_nothing();
}
