#include "trainer/model/net_node.h"
#include "trainer/nn/spatial.h"

static nn_image image(net_shape s, bool blocked)
{
    return (nn_image){s.height, s.width, s.channels, blocked};
}

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    nn_shortcut_forward(net_batch(node), image(node->in[0], node->in_blocked[0]),
                        image(node->out, node->out_blocked), node->x[0], node->y);
    return TG_OK;
}

static tg_status backward_data(net_node *node)
{
    if (node->dx[0])
        nn_shortcut_backward(net_batch(node), image(node->in[0], node->in_blocked[0]),
                             image(node->out, node->out_blocked), node->dy, node->dx[0]);
    return TG_OK;
}

static const net_node_ops ops = {
    .forward = forward, .backward_data = backward_data, .blocked = true};

net_value net_shortcut(net *n, net_value x, size_t channels)
{
    const net_shape in = net_shape_of(n, x);
    const net_shape out = {(in.height + 1) / 2, (in.width + 1) / 2, channels};
    if (channels < in.channels) {
        net_refuse(n, "a shortcut from %zu channels to %zu: allowed: no fewer", in.channels,
                   channels);
        return net_nothing();
    }
    net_node *node = net_node_add(n, &ops, &x, 1, out, 0);
    if (!node)
        return net_nothing();
    node->out_blocked = nn_blocks(channels) && out.height * out.width > 1;
    return net_node_value(node);
}
