#include "trainer/model/net_node.h"

/* Number of rows: every place of every sample. */
static size_t rows(const net_node *node)
{
    return net_batch(node) * node->in[0].height * node->in[0].width;
}

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    const float *bias = node->ntensors > 1 ? net_param(node, 1) : NULL;
    if (node->impl)
        return nn_dense16_forward(node->impl, node->x[0], net_param(node, 0), bias, node->y);
    return nn_dense_forward(rows(node), node->in[0].channels, node->out.channels, node->x[0],
                            net_param(node, 0), bias, node->y);
}

static tg_status backward_weights(net_node *node)
{
    float *dbias = node->ntensors > 1 ? net_grad(node, 1) : NULL;
    if (node->impl)
        return nn_dense16_backward_weights(node->impl, node->x[0], node->dy, net_grad(node, 0),
                                           dbias);
    return nn_dense_backward_weights(rows(node), node->in[0].channels, node->out.channels,
                                     node->x[0], node->dy, net_grad(node, 0), dbias);
}

static tg_status backward_data(net_node *node)
{
    if (!node->dx[0])
        return TG_OK;
    if (node->impl)
        return nn_dense16_backward_data(node->impl, node->dy, net_param(node, 0), node->dx[0]);
    return nn_dense_backward_data(rows(node), node->in[0].channels, node->out.channels, node->dy,
                                  net_param(node, 0), node->dx[0]);
}

static void destroy(net_node *node)
{
    nn_dense16_destroy(node->impl);
}

static const net_node_ops ops = {.forward = forward,
                                 .backward_weights = backward_weights,
                                 .backward_data = backward_data,
                                 .destroy = destroy};

/* other: the layer whose weights are shared; NULL: none */
static net_value dense(net *n, net_value x, const char *name, const char *other,
                       net_dense_spec spec)
{
    const net_shape in = net_shape_of(n, x), out = {in.height, in.width, spec.out};
    net_node *node =
        net_node_add(n, &ops, &x, 1, out, 2.0 * (double)net_elements(out) * (double)in.channels);
    if (!node)
        return net_nothing();
    const size_t weights[] = {spec.out, in.channels};
    if (other)
        net_tensor_share(node, other, "weight", weights, 2);
    else
        net_tensor_add(node, name, "weight", MODEL_TRAINED, weights, 2,
                       spec.init.value > 0 ? spec.init : net_he(in.channels));
    if (spec.bias)
        net_tensor_add(node, name, "bias", MODEL_TRAINED, &spec.out, 1, (model_init){0});
    if (net_input_of(n)->bf16) {
        nn_dense16 *d = NULL;
        net_note(n, nn_dense16_create(net_nn(node), rows(node), in.channels, out.channels, &d));
        node->impl = d;
    }
    return net_node_value(node);
}

net_value net_dense(net *n, net_value x, const char *name, net_dense_spec spec)
{
    return dense(n, x, name, NULL, spec);
}

net_value net_dense_tied(net *n, net_value x, const char *name, const char *other,
                         net_dense_spec spec)
{
    return dense(n, x, name, other, spec);
}
