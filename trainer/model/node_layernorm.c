#include "trainer/model/net_node.h"
#include "trainer/nn/row_kernels.h"
#include "telegrad/tools.h"
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-5f /* as in PyTorch */

typedef struct layernorm {
    const row_kernels *rows;
    size_t count;          /* number of rows */
    float *mean, *inverse; /* (count); inverse: 1 / standard deviation */
} layernorm;

static tg_status forward(net_node *node, const model_pass *pass)
{
    (void)pass;
    layernorm *l = node->impl;
    if (!l->mean) {
        TG_TRY(tg_alloc(2 * l->count, sizeof *l->mean, &l->mean));
        l->inverse = l->mean + l->count;
    }
    l->rows->layernorm(l->count, node->out.channels, EPSILON, node->x[0], net_param(node, 0),
                       net_param(node, 1), node->y, l->mean, l->inverse);
    return TG_OK;
}

static tg_status backward_weights(net_node *node)
{
    const layernorm *l = node->impl;
    const size_t n = node->out.channels;
    for (size_t t = 0; t < 2; t++) {
        if (!net_adds(node, t))
            memset(net_grad(node, t), 0, n * sizeof(float));
    }
    l->rows->layernorm_weights(l->count, n, node->x[0], l->mean, l->inverse, node->dy,
                               net_grad(node, 0), net_grad(node, 1));
    return TG_OK;
}

static tg_status backward_data(net_node *node)
{
    const layernorm *l = node->impl;
    if (node->dx[0])
        l->rows->layernorm_data(l->count, node->out.channels, node->x[0], net_param(node, 0),
                                l->mean, l->inverse, node->dy, node->dx[0]);
    return TG_OK;
}

static void destroy(net_node *node)
{
    layernorm *l = node->impl;
    if (l)
        free(l->mean);
    free(l);
}

static const net_node_ops ops = {.forward = forward,
                                 .backward_weights = backward_weights,
                                 .backward_data = backward_data,
                                 .destroy = destroy,
                                 .gradient = NET_SHARED,
                                 .adds = true};

static void make(const net_node *node, layernorm *l)
{
    l->rows = row_kernels_of(tg_cpu_level());
    l->count = net_batch(node) * node->out.height * node->out.width;
    net_reserve(node, 2 * (double)l->count * sizeof *l->mean);
}

net_value net_layernorm(net *n, net_value x, const char *name)
{
    const net_shape shape = net_shape_of(n, x);
    net_node *node = net_node_add(n, &ops, &x, 1, shape, 0);
    if (!node)
        return net_nothing();
    net_tensor_add(node, name, "weight", MODEL_TRAINED, &shape.channels, 1,
                   (model_init){MODEL_CONSTANT, 1});
    net_tensor_add(node, name, "bias", MODEL_TRAINED, &shape.channels, 1, (model_init){0});
    net_note(n, tg_alloc(1, sizeof(layernorm), &node->impl));
    if (node->impl)
        make(node, node->impl);
    return net_node_value(node);
}
