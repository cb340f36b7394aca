/* Batch normalisation, also as the end of a residual block: max(batchnorm(x) + shortcut, 0). */
#include "trainer/model/net_node.h"
#include "trainer/nn/norm.h"
#include "telegrad/tools.h"
#include <stdlib.h>

enum { GAMMA, BETA, RUNNING_MEAN, RUNNING_VAR };

#define MOMENTUM 0.1 /* for the running statistics, as in PyTorch */

typedef struct state {
    nn_norm *norm;
    float *mean, *variance; /* (channels) statistics of the batch */
} state;

static void run_on(float *running, const float *now, double factor, size_t channels)
{
    for (size_t c = 0; c < channels; c++)
        running[c] =
            (float)((1 - MOMENTUM) * (double)running[c] + MOMENTUM * factor * (double)now[c]);
}

static tg_status forward(net_node *node, const model_pass *pass)
{
    const state *s = node->impl;
    const float *mean = net_param(node, RUNNING_MEAN), *variance = net_param(node, RUNNING_VAR);
    if (pass->training) {
        const size_t channels = node->out.channels;
        const double n = (double)(net_count(node) * node->out.height * node->out.width);
        nn_norm_statistics(s->norm, net_count(node), node->x[0], s->mean, s->variance);
        run_on(net_param(node, RUNNING_MEAN), s->mean, 1, channels);
        run_on(net_param(node, RUNNING_VAR), s->variance, n > 1 ? n / (n - 1) : 1, channels);
        mean = s->mean;
        variance = s->variance;
    }
    nn_norm_forward(s->norm, node->x[0], node->nin > 1 ? node->x[1] : NULL, mean, variance,
                    net_param(node, GAMMA), net_param(node, BETA), node->y);
    return TG_OK;
}

static tg_status backward_weights(net_node *node)
{
    const state *s = node->impl;
    float *dz = node->nin > 1 ? node->dx[1] : NULL;
    nn_norm_backward_weights(s->norm, net_count(node), node->x[0], node->y, node->dy,
                             node->ops->sums ? net_second(node) : NULL, dz, net_grad(node, GAMMA),
                             net_grad(node, BETA));
    return TG_OK;
}

static tg_status backward_data(net_node *node)
{
    const state *s = node->impl;
    if (node->dx[0])
        nn_norm_backward_data(s->norm, net_count(node), node->x[0],
                              node->nin > 1 ? node->dx[1] : NULL, node->dy, node->dx[0]);
    return TG_OK;
}

static void destroy(net_node *node)
{
    state *s = node->impl;
    if (!s)
        return;
    nn_norm_destroy(s->norm);
    free(s->mean);
    free(s);
}

static const net_node_ops alone = {.forward = forward,
                                   .backward_weights = backward_weights,
                                   .backward_data = backward_data,
                                   .destroy = destroy,
                                   .gradient = NET_SHARED,
                                   .blocked = true};

static const net_node_ops with_shortcut = {.forward = forward,
                                           .backward_weights = backward_weights,
                                           .backward_data = backward_data,
                                           .destroy = destroy,
                                           .gradient = NET_APART,
                                           .blocked = true,
                                           .sums = true,
                                           .reads_y = true};

static tg_status make(net_node *node, bool relu)
{
    state *s;
    TG_TRY(tg_alloc(1, sizeof *s, &s));
    node->impl = s;
    const nn_norm_shape shape = {.batch = net_batch(node),
                                 .places = node->out.height * node->out.width,
                                 .channels = node->out.channels,
                                 .blocked = node->out_blocked,
                                 .relu = relu};
    TG_TRY(nn_norm_create(&shape, &s->norm));
    TG_TRY(tg_alloc(2 * shape.channels, sizeof(float), &s->mean));
    s->variance = s->mean + shape.channels;
    return TG_OK;
}

static net_value add(net *n, const net_node_ops *ops, const net_value *in, size_t nin,
                     const char *name, bool relu)
{
    const net_shape shape = net_shape_of(n, in[0]);
    net_node *node = net_node_add(n, ops, in, nin, shape, 0);
    if (!node)
        return net_nothing();
    node->out_blocked = node->in_blocked[0];
    const model_init one = {MODEL_CONSTANT, 1}, zero = {MODEL_CONSTANT, 0};
    const size_t *channels = &shape.channels;
    net_tensor_add(node, name, "weight", MODEL_TRAINED, channels, 1, one);
    net_tensor_add(node, name, "bias", MODEL_TRAINED, channels, 1, zero);
    net_tensor_add(node, name, "running_mean", MODEL_STATISTIC, channels, 1, zero);
    net_tensor_add(node, name, "running_var", MODEL_STATISTIC, channels, 1, one);
    net_note(n, make(node, relu));
    return net_node_value(node);
}

net_value net_batchnorm(net *n, net_value x, const char *name, bool relu)
{
    return add(n, &alone, &x, 1, name, relu);
}

net_value net_batchnorm_add(net *n, net_value x, net_value shortcut, const char *name)
{
    if (!net_is_blocked(n, x) || !net_is_blocked(n, shortcut)) {
        x = net_plain(n, x);
        shortcut = net_plain(n, shortcut);
    }
    const net_shape a = net_shape_of(n, x), b = net_shape_of(n, shortcut);
    if (shortcut.id == net_input(n).id) {
        net_refuse(n, "%s: the network's input as a shortcut", name);
        return net_nothing();
    }
    if (a.height != b.height || a.width != b.width || a.channels != b.channels) {
        net_refuse(n, "%s: a shortcut of %zu x %zu x %zu to %zu x %zu x %zu", name, b.height,
                   b.width, b.channels, a.height, a.width, a.channels);
        return net_nothing();
    }
    return add(n, &with_shortcut, (const net_value[]){x, shortcut}, 2, name, true);
}
