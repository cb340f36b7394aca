/* y = W[token]; dW[token] += dy, which touches only the rows of the batch's tokens. */
#include "trainer/model/net_node.h"
#include "trainer/nn/row_kernels.h"
#include <string.h>

/* Number of tokens that count. */
static size_t tokens(const net_node *node)
{
    return net_count(node) * node->in[0].height;
}

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    const int32_t *token = node->x[0];
    const float *weights = net_param(node, 0);
    const size_t channels = node->out.channels, vocabulary = net_input_of(node->net)->classes;
    const size_t count = tokens(node), all = net_batch(node) * node->in[0].height;
    float *y = node->y;
    for (size_t i = 0; i < count; i++) {
        if (token[i] < 0 || (size_t)token[i] >= vocabulary)
            return tg_fail(TG_E_ARG, "token %zu of the batch is %d: allowed: 0 to %zu", i + 1,
                           (int)token[i], vocabulary - 1);
        memcpy(y + i * channels, weights + (size_t)token[i] * channels, channels * sizeof *y);
    }
    memset(y + count * channels, 0, (all - count) * channels * sizeof *y);
    return TG_OK;
}

static tg_status backward_weights(net_node *node)
{
    const row_kernels *rows = row_kernels_of(tg_cpu_level());
    const int32_t *token = node->x[0];
    const size_t channels = node->out.channels, count = tokens(node);
    const float *dy = node->dy;
    float *g = net_grad(node, 0);
    if (!net_adds(node, 0))
        memset(g, 0, net_input_of(node->net)->classes * channels * sizeof *g);
    for (size_t i = 0; i < count; i++)
        rows->add(channels, dy + i * channels, g + (size_t)token[i] * channels);
    return TG_OK;
}

static const net_node_ops ops = {
    .forward = forward, .backward_weights = backward_weights, .adds = true};

net_value net_embedding(net *n, net_value x, const char *name, size_t channels, model_init init)
{
    const model_input *in = net_input_of(n);
    if (in->context == 0 || x.id != net_input(n).id) {
        net_refuse(n, "%s: an embedding reads the input's tokens, not %s", name,
                   in->context ? "what layers give" : "images");
        return net_nothing();
    }
    net_node *node = net_node_add(n, &ops, &x, 1, (net_shape){in->context, 1, channels}, 0);
    if (!node)
        return net_nothing();
    const size_t shape[] = {in->classes, channels};
    net_tensor_add(node, name, "weight", MODEL_TRAINED, shape, 2, init);
    return net_node_value(node);
}
