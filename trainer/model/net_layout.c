/* Converts blocked values to plain ones for layers that do not support blocks. */
#include "trainer/model/model_net_impl.h"
#include "trainer/nn/spatial.h"

static nn_image image(const net_node *node)
{
    const net_shape s = node->in[0];
    return (nn_image){s.height, s.width, s.channels, true};
}

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    nn_unblock(net_batch(node), image(node), node->x[0], node->y);
    return TG_OK;
}

static tg_status backward_data(net_node *node)
{
    if (node->dx[0])
        nn_block(net_batch(node), image(node), node->dy, node->dx[0]);
    return TG_OK;
}

static const net_node_ops plain_ops = {
    .forward = forward, .backward_data = backward_data, .blocked = true};

net_value net_plain(net *n, net_value x)
{
    if (!net_is_blocked(n, x))
        return x;
    net_node *node = net_node_append(n, &plain_ops, &x, 1, net_shape_of(n, x), 0);
    return node ? net_node_value(node) : net_nothing();
}

net_node *net_node_add(net *n, const net_node_ops *ops, const net_value *in, size_t nin,
                       net_shape out, double flops)
{
    net_value reads[NET_INPUTS];
    for (size_t j = 0; j < nin; j++)
        reads[j] = ops->blocked ? in[j] : net_plain(n, in[j]);
    return net_node_append(n, ops, reads, nin, out, flops);
}

net_value net_flatten(net *n, net_value x)
{
    if (n->status != TG_OK)
        return net_nothing();
    x = net_plain(n, x);
    const net_view *v = &n->views[x.id];
    return net_view_add(n, v->array, (net_shape){1, 1, net_elements(v->shape)}, false);
}
