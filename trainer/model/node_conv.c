#include "trainer/model/net_node.h"

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    const float *bias = node->ntensors > 1 ? net_param(node, 1) : NULL;
    return nn_conv_forward(node->impl, node->x[0], net_param(node, 0), bias, node->y);
}

static tg_status backward_weights(net_node *node)
{
    float *dbias = node->ntensors > 1 ? net_grad(node, 1) : NULL;
    return nn_conv_backward_weights(node->impl, node->x[0], node->dy, net_grad(node, 0), dbias);
}

static tg_status backward_data(net_node *node)
{
    if (!node->dx[0])
        return TG_OK;
    return nn_conv_backward_data(node->impl, node->dy, net_param(node, 0), node->dx[0]);
}

static void destroy(net_node *node)
{
    nn_conv_destroy(node->impl);
}

static const net_node_ops ops = {.forward = forward,
                                 .backward_weights = backward_weights,
                                 .backward_data = backward_data,
                                 .destroy = destroy,
                                 .blocked = true};

net_value net_conv(net *n, net_value x, const char *name, net_conv_spec spec)
{
    const net_shape in = net_shape_of(n, x);
    const size_t k = spec.kernel, stride = spec.stride ? spec.stride : 1;
    const size_t height = in.height + 2 * spec.pad, width = in.width + 2 * spec.pad;
    if (k > height || k > width) {
        net_refuse(
            n,
            "%s: images of %zu x %zu with %zu zeros on each side are smaller than its kernel "
            "of %zu x %zu",
            name, in.height, in.width, spec.pad, k, k);
        return net_nothing();
    }
    const net_shape out = {(height - k) / stride + 1, (width - k) / stride + 1, spec.channels};
    const size_t fan_in = in.channels * k * k;
    net_node *node =
        net_node_add(n, &ops, &x, 1, out, 2.0 * (double)net_elements(out) * (double)fan_in);
    if (!node)
        return net_nothing();
    node->out_blocked = nn_blocks(spec.channels) && out.height * out.width > 1;
    const size_t weights[] = {spec.channels, in.channels, k, k};
    net_tensor_add(node, name, "weight", MODEL_TRAINED, weights, 4,
                   spec.init.value > 0 ? spec.init : net_he(fan_in));
    if (spec.bias)
        net_tensor_add(node, name, "bias", MODEL_TRAINED, &spec.channels, 1, (model_init){0});
    const nn_conv_shape shape = {.batch = net_batch(node),
                                 .height = in.height,
                                 .width = in.width,
                                 .in = in.channels,
                                 .out = spec.channels,
                                 .kernel = k,
                                 .stride = stride,
                                 .pad = spec.pad,
                                 .bias = spec.bias,
                                 .src_blocked = node->in_blocked[0],
                                 .dst_blocked = node->out_blocked};
    nn_conv *conv = NULL;
    net_note(n, nn_conv_create(net_nn(node), &shape, &conv));
    node->impl = conv;
    return net_node_value(node);
}
