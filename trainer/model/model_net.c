/* Builds the description of a network. */
#include "trainer/model/model_net_impl.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void destroy(net *n)
{
    for (size_t i = n->nnodes; i-- > 0;) {
        if (n->nodes[i].ops->destroy)
            n->nodes[i].ops->destroy(&n->nodes[i]);
    }
    for (size_t i = 1; i < n->narrays; i++)
        free(n->arrays[i].y);
    for (size_t i = 0; i < n->nbuffers; i++) {
        if (!n->buffers[i].borrowed)
            free(n->buffers[i].data);
    }
    nn_destroy(n->nn);
    free(n->nodes);
    free(n->arrays);
    free(n->views);
    free(n->buffers);
    free(n->tensors);
    free(n->scratch);
    free(n->base.params);
    free(n->base.grads);
    free(n->base.state);
    free(n);
}

void model_destroy(model *m)
{
    if (m)
        destroy((net *)m);
}

net_value net_view_add(net *n, size_t array, net_shape shape, bool blocked)
{
    n->views[n->nviews] = (net_view){array, shape, blocked};
    return (net_value){n->nviews++};
}

static tg_status allocate(net *n, bool bf16)
{
    TG_TRY(nn_create(&n->nn));
    if (bf16)
        TG_TRY(nn_use_bf16(n->nn));
    TG_TRY(tg_alloc(NET_MAX_NODES, sizeof *n->nodes, &n->nodes));
    TG_TRY(tg_alloc(NET_MAX_NODES + 1, sizeof *n->arrays, &n->arrays));
    TG_TRY(tg_alloc(NET_MAX_VALUES, sizeof *n->views, &n->views));
    TG_TRY(tg_alloc(NET_MAX_NODES * NET_INPUTS, sizeof *n->buffers, &n->buffers));
    return tg_alloc(NET_MAX_TENSORS, sizeof *n->tensors, &n->tensors);
}

tg_status net_create(const model_input *in, size_t batch, net **n_p)
{
    net *n;
    TG_TRY(tg_alloc(1, sizeof *n, &n));
    const tg_status status = allocate(n, in->bf16);
    if (status != TG_OK) {
        destroy(n);
        return status;
    }
    n->base.batch = batch;
    n->base.input = *in;
    n->narrays = 1;
    net_view_add(n, 0,
                 in->context ? (net_shape){in->context, 1, 1}
                             : (net_shape){in->height, in->width, in->channels},
                 false);
    *n_p = n;
    return TG_OK;
}

net_value net_input(const net *n)
{
    (void)n;
    return (net_value){0};
}

net_value net_image_input(net *n)
{
    if (n->base.input.context)
        net_refuse(n, "the model is one of images, the data are tokens");
    return net_input(n);
}

net_shape net_shape_of(const net *n, net_value x)
{
    return n->views[x.id].shape;
}

bool net_is_blocked(const net *n, net_value x)
{
    return n->views[x.id].blocked;
}

void net_note(net *n, tg_status status)
{
    if (status == TG_OK || n->status != TG_OK)
        return;
    n->status = status;
    snprintf(n->message, sizeof n->message, "%s", tg_error());
}

void net_refuse(net *n, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    net_note(n, tg_fail(TG_E_ARG, "%s", text));
}

/* ---- nodes ----------------------------------------------------------------------------------- */

net_value net_nothing(void)
{
    return (net_value){0};
}

net_node *net_node_append(net *n, const net_node_ops *ops, const net_value *in, size_t nin,
                          net_shape out, double flops)
{
    if (n->status != TG_OK)
        return NULL;
    if (n->nnodes == NET_MAX_NODES) {
        net_refuse(n, "a network of more than %d layers", NET_MAX_NODES);
        return NULL;
    }
    net_array *array = &n->arrays[n->narrays];
    array->n = n->base.batch * net_elements(out);
    n->bytes += (double)n->base.batch * (double)net_elements(out) * sizeof(float);
    net_node *node = &n->nodes[n->nnodes++];
    *node = (net_node){.ops = ops, .net = n, .nin = nin, .out = out, .flops = flops};
    for (size_t j = 0; j < nin; j++) {
        const net_view *v = &n->views[in[j].id];
        node->in[j] = v->shape;
        node->in_blocked[j] = v->blocked;
        node->in_array[j] = v->array;
    }
    node->out_array = n->narrays++;
    n->base.flops += flops;
    return node;
}

void net_reserve(const net_node *node, double bytes)
{
    node->net->bytes += bytes;
}

net_value net_node_value(const net_node *node)
{
    return net_view_add(node->net, node->out_array, node->out, node->out_blocked);
}

size_t net_batch(const net_node *node)
{
    return node->net->base.batch;
}

const model_input *net_input_of(const net *n)
{
    return &n->base.input;
}

size_t net_position(const net_node *node)
{
    return (size_t)(node - node->net->nodes);
}

nn *net_nn(const net_node *node)
{
    return node->net->nn;
}

/* ---- tensors --------------------------------------------------------------------------------- */

void net_tensor_add(net_node *node, const char *name, const char *part, model_tensor_kind kind,
                    const size_t *shape, size_t ndim, model_init init)
{
    net *n = node->net;
    if (n->base.ntensors == NET_MAX_TENSORS || node->ntensors == NET_TENSORS) {
        net_refuse(n, "%s.%s: more than %d tensors in a network, or %d in a layer", name, part,
                   NET_MAX_TENSORS, NET_TENSORS);
        return;
    }
    node->tensors[node->ntensors++] = n->base.ntensors;
    model_tensor *t = &n->tensors[n->base.ntensors++];
    snprintf(t->name, sizeof t->name, "%s.%s", name, part);
    t->kind = kind;
    t->init = init;
    t->n = 1;
    t->ndim = ndim;
    for (size_t i = 0; i < ndim; i++) {
        t->shape[i] = shape[i];
        t->n *= shape[i];
    }
    t->offset = n->base.floats;
    n->base.params_total += kind == MODEL_TRAINED ? t->n : 0;
    n->base.floats += (t->n + 15) / 16 * 16;
}

void net_tensor_share(net_node *node, const char *name, const char *part, const size_t *shape,
                      size_t ndim)
{
    net *n = node->net;
    char whole[sizeof n->tensors[0].name];
    snprintf(whole, sizeof whole, "%s.%s", name, part);
    for (size_t i = 0; i < n->base.ntensors; i++) {
        const model_tensor *t = &n->tensors[i];
        if (strcmp(t->name, whole) != 0)
            continue;
        if (t->ndim != ndim || memcmp(t->shape, shape, ndim * sizeof *shape) != 0)
            net_refuse(n, "%s is of another shape than the layer that shares it", whole);
        node->tensors[node->ntensors++] = i;
        return;
    }
    net_refuse(n, "%s: no layer before has such a tensor", whole);
}

size_t net_state_add(net *n, size_t count)
{
    const size_t at = n->base.nstate;
    n->base.nstate += (count + 15) / 16 * 16;
    return at;
}

model_init net_he(size_t fan)
{
    return (model_init){MODEL_NORMAL, sqrt(2.0 / (double)fan)};
}

/* ---- the whole ------------------------------------------------------------------------------- */

static tg_status complete(net *n, net_value logits)
{
    TG_TRY(n->status == TG_OK ? TG_OK : tg_fail(n->status, "%s", n->message));
    n->logits = n->views[logits.id];
    const net_shape s = n->logits.shape;
    const net_shape want =
        n->base.input.context ? (net_shape){n->base.input.context, 1, 0} : (net_shape){1, 1, 0};
    if (n->logits.array == 0 || s.height != want.height || s.width != want.width ||
        s.channels != n->base.input.classes)
        return tg_fail(TG_E_ARG,
                       "the last layer has outputs of %zu x %zu x %zu, expected %zu x "
                       "%zu x %zu",
                       s.height, s.width, s.channels, want.height, want.width,
                       n->base.input.classes);
    return net_plan(n);
}

tg_status net_model(net *n, net_value logits, uint64_t seed, model **m_p)
{
    const tg_status status = complete(n, logits);
    if (status != TG_OK) {
        destroy(n);
        return status;
    }
    n->base.tensors = n->tensors;
    n->seed = seed;
    *m_p = &n->base;
    return TG_OK;
}
