#include "trainer/model/net_node.h"

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    return nn_pool_forward(node->impl, node->x[0], node->y);
}

static tg_status backward_data(net_node *node)
{
    return node->dx[0] ? nn_pool_backward(node->impl, node->dy, node->dx[0]) : TG_OK;
}

static void destroy(net_node *node)
{
    nn_pool_destroy(node->impl);
}

static const net_node_ops ops = {
    .forward = forward, .backward_data = backward_data, .destroy = destroy, .blocked = true};

net_value net_maxpool(net *n, net_value x, size_t window)
{
    const net_shape in = net_shape_of(n, x);
    const net_shape out = {in.height / window, in.width / window, in.channels};
    if (net_elements(out) == 0) {
        net_refuse(n, "images of %zu x %zu are smaller than a window of %zu", in.height, in.width,
                   window);
        return net_nothing();
    }
    net_node *node = net_node_add(n, &ops, &x, 1, out, 0);
    if (!node)
        return net_nothing();
    node->out_blocked = node->in_blocked[0] && out.height * out.width > 1;
    nn_pool *pool = NULL;
    net_note(n, nn_pool_create(net_nn(node), net_batch(node), in.height, in.width, in.channels,
                               window, node->in_blocked[0], &pool));
    node->impl = pool;
    return net_node_value(node);
}
