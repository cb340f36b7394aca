#include "trainer/model/net_node.h"

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    return nn_act_forward(node->impl, node->x[0], node->y);
}

static tg_status backward_data(net_node *node)
{
    return node->dx[0] ? nn_act_backward(node->impl, node->y, node->dy, node->dx[0]) : TG_OK;
}

static void destroy(net_node *node)
{
    nn_act_destroy(node->impl);
}

static const net_node_ops ops = {.forward = forward,
                                 .backward_data = backward_data,
                                 .destroy = destroy,
                                 .gradient = NET_SHARED,
                                 .blocked = true,
                                 .reads_y = true};

net_value net_act(net *n, net_value x, nn_act_kind kind)
{
    const net_shape shape = net_shape_of(n, x);
    net_node *node = net_node_add(n, &ops, &x, 1, shape, 0);
    if (!node)
        return net_nothing();
    node->out_blocked = node->in_blocked[0];
    nn_act *act = NULL;
    net_note(n, nn_act_create(net_nn(node), kind, net_batch(node) * net_elements(shape), &act));
    node->impl = act;
    return net_node_value(node);
}
