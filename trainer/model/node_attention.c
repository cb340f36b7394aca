#include "trainer/model/net_node.h"
#include "trainer/nn/attention.h"

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    return nn_attention_forward(node->impl, node->x[0], node->y);
}

static tg_status backward_data(net_node *node)
{
    return node->dx[0] ? nn_attention_backward(node->impl, node->x[0], node->dy, node->dx[0])
                       : TG_OK;
}

static void destroy(net_node *node)
{
    nn_attention_destroy(node->impl);
}

static const net_node_ops ops = {
    .forward = forward, .backward_data = backward_data, .destroy = destroy};

net_value net_attention(net *n, net_value x, size_t heads)
{
    const net_shape in = net_shape_of(n, x), out = {in.height, 1, in.channels / 3};
    if (heads == 0 || in.channels % (3 * heads) != 0) {
        net_refuse(n, "attention of %zu channels with %zu heads: allowed: heads that divide them",
                   in.channels / 3, heads);
        return net_nothing();
    }
    /* Products of queries with keys, and of weights with values; half of each is masked. */
    const double tokens = (double)in.height, pairs = tokens * (tokens + 1) / 2;
    net_node *node = net_node_add(n, &ops, &x, 1, out, 4 * pairs * (double)out.channels);
    if (!node)
        return net_nothing();
    const nn_attention_shape shape = {
        .batch = net_batch(node), .context = in.height, .width = out.channels, .heads = heads};
    nn_attention *attention = NULL;
    net_reserve(node, (double)shape.batch * (double)heads * tokens * tokens * sizeof(float));
    net_note(n, nn_attention_create(&shape, &attention));
    node->impl = attention;
    return net_node_value(node);
}
