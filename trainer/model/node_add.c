#include "trainer/model/net_node.h"

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    nn_add(net_batch(node) * net_elements(node->out), node->x[0], node->x[1], node->y);
    return TG_OK;
}

static const net_node_ops plain = {.forward = forward, .gradient = NET_SAME, .blocked = true};

/* a + b. The relu is an activation layer of its own, whose gradient needs no memory. */
net_value net_add(net *n, net_value a, net_value b, bool relu)
{
    if (!net_is_blocked(n, a) || !net_is_blocked(n, b)) {
        a = net_plain(n, a);
        b = net_plain(n, b);
    }
    const net_shape x = net_shape_of(n, a), y = net_shape_of(n, b);
    if (x.height != y.height || x.width != y.width || x.channels != y.channels) {
        net_refuse(n, "a sum of %zu x %zu x %zu and %zu x %zu x %zu", x.height, x.width, x.channels,
                   y.height, y.width, y.channels);
        return net_nothing();
    }
    net_node *node = net_node_add(n, &plain, (const net_value[]){a, b}, 2, x, 0);
    if (!node)
        return net_nothing();
    node->out_blocked = node->in_blocked[0];
    const net_value sum = net_node_value(node);
    return relu ? net_act(n, sum, NN_RELU) : sum;
}
