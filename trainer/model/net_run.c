/* The forward and the backward pass. */
#include "trainer/model/model_net_impl.h"
#include "telegrad/tools.h"

static const model_tensor *tensor_of(const net_node *node, size_t i)
{
    return &node->net->tensors[node->tensors[i]];
}

float *net_param(const net_node *node, size_t i)
{
    return node->net->base.params + tensor_of(node, i)->offset;
}

bool net_adds(const net_node *node, size_t i)
{
    return !node->ends[i] || node->net->pass.part > 0;
}

float *net_grad(const net_node *node, size_t i)
{
    const net *n = node->net;
    float *base = net_adds(node, i) && !node->ops->adds ? n->scratch : n->base.grads;
    return base + tensor_of(node, i)->offset;
}

size_t net_count(const net_node *node)
{
    return node->net->batch.count;
}

const float *net_second(const net_node *node)
{
    return node->nsum == 1 && !node->sum_anew ? node->sum[0] : NULL;
}

float *net_state(const net_node *node, size_t offset)
{
    return node->net->base.state + offset;
}

static bool trained(const net_node *node, size_t i)
{
    return tensor_of(node, i)->kind == MODEL_TRAINED;
}

static tg_status call(tg_status (*hook)(void *arg, size_t tensor), void *arg, size_t tensor)
{
    return hook ? hook(arg, tensor) : TG_OK;
}

static void begins(const model_hooks *h, model_work work, const net_node *node)
{
    if (h->layer_begins)
        h->layer_begins(h->arg, work, net_position(node));
}

static const model_hooks no_hooks;

/* ---- forward --------------------------------------------------------------------------------- */

static tg_status check(const net *n, const model_batch *b, const model_pass *pass)
{
    const bool tokens = n->base.input.context > 0;
    if ((tokens ? (const void *)b->tokens : (const void *)b->x) == NULL)
        return tg_fail(TG_E_ARG, "a model of %s was given a batch without them",
                       tokens ? "tokens" : "images");
    if (b->count < 1 || b->count > n->base.batch)
        return tg_fail(TG_E_ARG, "count=%zu: allowed: 1 to %zu (the batch)", b->count,
                       n->base.batch);
    if (pass->part > 0 && pass->part >= pass->parts)
        return tg_fail(TG_E_ARG, "part=%u: allowed: 0 to %u", pass->part, pass->parts - 1);
    return TG_OK;
}

tg_status model_forward(model *m, const model_batch *batch, const model_pass *pass,
                        const model_hooks *hooks, model_result *result_p)
{
    net *n = (net *)m;
    const model_hooks *h = hooks ? hooks : &no_hooks;
    TG_TRY(check(n, batch, pass));
    n->batch = *batch;
    n->pass = *pass;
    n->backward_may_follow = false;
    const void *input = m->input.context ? (const void *)batch->tokens : (const void *)batch->x;
    for (size_t i = 0; i < n->nnodes; i++) {
        net_node *node = &n->nodes[i];
        for (size_t t = 0; t < node->ntensors; t++) {
            if (trained(node, t) && node->begins[t] && pass->part == 0)
                TG_TRY(call(h->param_read, h->arg, node->tensors[t]));
        }
        for (size_t j = 0; j < node->nin; j++) {
            if (node->in_array[j] == 0)
                node->x[j] = input;
        }
        begins(h, MODEL_FORWARD, node);
        TG_TRY(node->ops->forward(node, pass));
        if (h->layer_done)
            TG_TRY(h->layer_done(h->arg));
    }
    const size_t places = m->input.context ? m->input.context : 1, rows = batch->count * places;
    const uint32_t parts = pass->parts > 1 ? pass->parts : 1;
    const float *z = n->arrays[n->logits.array].y;
    result_p->labels = 0;
    for (size_t i = 0; i < rows; i++)
        result_p->labels += batch->labels[i] >= 0;
    const size_t total = result_p->labels * parts;
    nn_softmax_loss(m->batch * places, rows, m->input.classes, z, batch->labels, total ? total : 1,
                    pass->training ? n->buffers[0].data : NULL, &result_p->loss,
                    &result_p->correct);
    n->backward_may_follow = pass->training;
    return TG_OK;
}

size_t model_layers(const model *m)
{
    return ((const net *)m)->nnodes;
}

double model_layer_flops(const model *m, size_t layer)
{
    return ((const net *)m)->nodes[layer].flops;
}

const model_tensor *model_layer_tensor(const model *m, size_t layer)
{
    const net_node *node = &((const net *)m)->nodes[layer];
    return node->ntensors > 0 ? tensor_of(node, 0) : NULL;
}

const float *model_outputs(const model *m)
{
    const net *n = (const net *)m;
    return n->arrays[n->logits.array].y;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Sum the gradient of the node's output over all layers that use it. */
static void sum_up(const net_node *node)
{
    size_t from = 0;
    if (node->ops->sums && net_second(node))
        return;
    const size_t count = node->net->arrays[node->out_array].n;
    if (node->sum_anew) {
        nn_add(count, node->sum[0], node->sum[1], node->dy);
        from = 2;
    }
    for (size_t s = from; s < node->nsum; s++)
        nn_add(count, node->dy, node->sum[s], node->dy);
}

static tg_status backward_weights(net *n, net_node *node, const model_hooks *h)
{
    const bool first_part = n->pass.part == 0, last_part = n->pass.part + 1 >= n->pass.parts;
    bool any = false;
    for (size_t t = 0; t < node->ntensors; t++) {
        if (!trained(node, t))
            continue;
        any = true;
        if (node->ends[t] && first_part)
            TG_TRY(call(h->grad_write, h->arg, node->tensors[t]));
        if (net_adds(node, t) && !node->ops->adds && !n->scratch)
            TG_TRY(tg_alloc(n->base.floats, sizeof(float), &n->scratch));
    }
    if (!any)
        return TG_OK;
    begins(h, MODEL_WEIGHTS, node);
    TG_TRY(node->ops->backward_weights(node));
    for (size_t t = 0; t < node->ntensors; t++) {
        if (!trained(node, t) || !net_adds(node, t) || node->ops->adds)
            continue;
        const model_tensor *tensor = tensor_of(node, t);
        float *g = n->base.grads + tensor->offset;
        nn_add(tensor->n, g, n->scratch + tensor->offset, g);
    }
    for (size_t t = node->ntensors; t-- > 0;) {
        if (trained(node, t) && node->begins[t] && last_part)
            TG_TRY(call(h->grad_ready, h->arg, node->tensors[t]));
    }
    return TG_OK;
}

/* Whether the gradients of a node's inputs are needed; that of the network's input is not. */
static bool wants_inputs(const net_node *node)
{
    for (size_t j = 0; j < node->nin; j++)
        if (node->dx[j])
            return true;
    return false;
}

tg_status model_backward(model *m, const model_hooks *hooks)
{
    net *n = (net *)m;
    const model_hooks *h = hooks ? hooks : &no_hooks;
    if (!n->backward_may_follow)
        return tg_fail(TG_E_STATE, "a backward pass without a forward pass in training before it");
    n->backward_may_follow = false;
    for (size_t i = n->nnodes; i-- > 0;) {
        net_node *node = &n->nodes[i];
        sum_up(node);
        TG_TRY(backward_weights(n, node, h));
        if (node->ops->backward_data) {
            if (wants_inputs(node))
                begins(h, MODEL_INPUTS, node);
            TG_TRY(node->ops->backward_data(node));
        }
        if (h->layer_done)
            TG_TRY(h->layer_done(h->arg));
    }
    return TG_OK;
}
