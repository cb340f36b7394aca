#include "trainer/model/net_node.h"
#include "trainer/nn/dropout.h"
#include "telegrad/tools.h"
#include <stdlib.h>
#include <string.h>

typedef struct state {
    double p;
    uint8_t *keep; /* (elements) the mask of the last training pass */
} state;

static size_t elements(const net_node *node)
{
    return net_batch(node) * net_elements(node->out);
}

static tg_status forward(net_node *node, const model_pass *pass)
{
    state *s = node->impl;
    const size_t n = elements(node);
    if (!pass->training) {
        memcpy(node->y, node->x[0], n * sizeof(float));
        return TG_OK;
    }
    const tg_rng_key key = {.seed = pass->seed,
                            .purpose = TG_PURPOSE_DROPOUT,
                            .rank = pass->rank,
                            .step = pass->step,
                            .tensor = (uint32_t)net_position(node) + pass->part * NET_LAYERS};
    if (!s->keep)
        TG_TRY(tg_alloc(n, 1, &s->keep));
    nn_dropout_draw(&key, s->p, n, s->keep);
    nn_dropout_apply(s->p, n, s->keep, node->x[0], node->y);
    return TG_OK;
}

static tg_status backward_data(net_node *node)
{
    const state *s = node->impl;
    if (node->dx[0])
        nn_dropout_apply(s->p, elements(node), s->keep, node->dy, node->dx[0]);
    return TG_OK;
}

static void destroy(net_node *node)
{
    state *s = node->impl;
    if (s)
        free(s->keep);
    free(s);
}

static const net_node_ops ops = {.forward = forward,
                                 .backward_data = backward_data,
                                 .destroy = destroy,
                                 .gradient = NET_SHARED,
                                 .blocked = true};

static tg_status make(net_node *node, double p)
{
    state *s;
    TG_TRY(tg_alloc(1, sizeof *s, &s));
    node->impl = s;
    s->p = p;
    net_reserve(node, (double)elements(node));
    return TG_OK;
}

net_value net_dropout(net *n, net_value x, double p)
{
    if (!(p >= 0 && p < 1)) {
        net_refuse(n, "dropout=%g: allowed: 0 to less than 1", p);
        return net_nothing();
    }
    if (p == 0)
        return x;
    net_node *node = net_node_add(n, &ops, &x, 1, net_shape_of(n, x), 0);
    if (!node)
        return net_nothing();
    node->out_blocked = node->in_blocked[0];
    net_note(n, make(node, p));
    return net_node_value(node);
}
