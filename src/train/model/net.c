#include "train/model/net.h"
#include "train/train_util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 64
#define MAX_TENSORS (2 * MAX_LAYERS)

typedef enum layer_kind { LAYER_CONV, LAYER_POOL, LAYER_ACT, LAYER_DENSE } layer_kind;

typedef struct layer {
    layer_kind kind;
    size_t tensor;  /* CONV, DENSE: its weights; the biases follow */
    size_t in, out; /* elements per sample */
    float *y, *dy;  /* (batch, out): output and the gradient of the loss by it */
    nn_conv *conv;
    nn_pool *pool;
    nn_act *act;
} layer;

struct net {
    model base; /* first: a model * of this kind is a net * */
    nn *nn;
    size_t height, width, channels; /* of the last layer's output, while describing */
    size_t classes;
    tg_status status;  /* of the description so far ... */
    char message[256]; /* ... and its text, since other calls may fail before it is reported */
    layer layers[MAX_LAYERS];
    size_t nlayers;
    model_tensor tensors[MAX_TENSORS];
};

static void destroy(model *m)
{
    net *n = (net *)m;
    for (size_t i = 0; i < n->nlayers; i++) {
        layer *l = &n->layers[i];
        nn_conv_destroy(l->conv);
        nn_pool_destroy(l->pool);
        nn_act_destroy(l->act);
        free(l->y);
        free(l->dy);
    }
    nn_destroy(n->nn);
    free(m->params);
    free(m->grads);
    free(n);
}

/* ---- description --------------------------------------------------------------------------------
 */

tg_status net_create(const model_input *in, size_t batch, net **n_p)
{
    net *n;
    TG_TRY(train_alloc(1, sizeof *n, &n));
    const tg_status status = nn_create(&n->nn);
    if (status != TG_OK) {
        free(n);
        return status;
    }
    n->base.batch = batch;
    n->height = in->height;
    n->width = in->width;
    n->channels = in->channels;
    n->classes = in->classes;
    *n_p = n;
    return TG_OK;
}

/* Keep the first failure. */
static void note(net *n, tg_status status)
{
    if (status == TG_OK || n->status != TG_OK)
        return;
    n->status = status;
    snprintf(n->message, sizeof n->message, "%s", tg_error());
}

/* The next layer, whose output has the given shape; NULL after a failure. */
static layer *layer_add(net *n, layer_kind kind, size_t height, size_t width, size_t channels)
{
    if (n->status != TG_OK)
        return NULL;
    if (n->nlayers == MAX_LAYERS) {
        note(n, tg_fail(TG_E_ARG, "a network of more than %d layers", MAX_LAYERS));
        return NULL;
    }
    layer *l = &n->layers[n->nlayers++];
    l->kind = kind;
    l->in = n->height * n->width * n->channels;
    l->out = height * width * channels;
    n->height = height;
    n->width = width;
    n->channels = channels;
    note(n, train_alloc(n->base.batch * l->out, sizeof(float), &l->y));
    note(n, train_alloc(n->base.batch * l->out, sizeof(float), &l->dy));
    return n->status == TG_OK ? l : NULL;
}

static void tensor_add(net *n, const char *layer_name, const char *part, const size_t *shape,
                       size_t ndim, size_t fan_in)
{
    model_tensor *t = &n->tensors[n->base.ntensors++];
    snprintf(t->name, sizeof t->name, "%s.%s", layer_name, part);
    t->n = 1;
    t->ndim = ndim;
    for (size_t i = 0; i < ndim; i++) {
        t->shape[i] = shape[i];
        t->n *= shape[i];
    }
    t->fan_in = fan_in;
    t->offset = n->base.floats;
    n->base.params_total += t->n;
    n->base.floats += (t->n + 15) / 16 * 16;
}

void net_conv(net *n, const char *name, size_t channels, size_t kernel)
{
    const nn_conv_shape shape = {.batch = n->base.batch,
                                 .height = n->height,
                                 .width = n->width,
                                 .in = n->channels,
                                 .out = channels,
                                 .kernel = kernel,
                                 .stride = 1};
    if (n->status == TG_OK && (kernel > n->height || kernel > n->width))
        note(n, tg_fail(TG_E_ARG, "%s: images of %zu x %zu are smaller than its kernel of %zu",
                        name, n->height, n->width, kernel));
    layer *l = layer_add(n, LAYER_CONV, n->height - kernel + 1, n->width - kernel + 1, channels);
    if (!l)
        return;
    l->tensor = n->base.ntensors;
    const size_t weights[] = {channels, shape.in, kernel, kernel};
    tensor_add(n, name, "weight", weights, 4, shape.in * kernel * kernel);
    tensor_add(n, name, "bias", &channels, 1, 0);
    note(n, nn_conv_create(n->nn, &shape, &l->conv));
}

void net_maxpool(net *n, size_t window)
{
    const size_t height = n->height, width = n->width, channels = n->channels;
    layer *l = layer_add(n, LAYER_POOL, height / window, width / window, channels);
    if (l)
        note(n, nn_pool_create(n->nn, n->base.batch, height, width, channels, window, &l->pool));
}

void net_act(net *n, nn_act_kind kind)
{
    layer *l = layer_add(n, LAYER_ACT, n->height, n->width, n->channels);
    if (l)
        note(n, nn_act_create(n->nn, kind, n->base.batch * l->out, &l->act));
}

void net_dense(net *n, const char *name, size_t out)
{
    layer *l = layer_add(n, LAYER_DENSE, 1, 1, out);
    if (!l)
        return;
    l->tensor = n->base.ntensors;
    const size_t weights[] = {out, l->in};
    tensor_add(n, name, "weight", weights, 2, l->in);
    tensor_add(n, name, "bias", &out, 1, 0);
}

/* ---- passes -------------------------------------------------------------------------------------
 */

static bool has_tensors(const layer *l)
{
    return l->kind == LAYER_CONV || l->kind == LAYER_DENSE;
}

static tg_status layer_forward(const net *n, const layer *l, const float *x)
{
    const float *w = n->base.params + n->tensors[l->tensor].offset;
    const float *b = n->base.params + n->tensors[l->tensor + 1].offset;
    switch (l->kind) {
    case LAYER_CONV:
        return nn_conv_forward(l->conv, x, w, b, l->y);
    case LAYER_POOL:
        return nn_pool_forward(l->pool, x, l->y);
    case LAYER_ACT:
        return nn_act_forward(l->act, x, l->y);
    case LAYER_DENSE:
        break;
    }
    return nn_dense_forward(n->base.batch, l->in, l->out, x, w, b, l->y);
}

static tg_status forward(model *m, const float *x, const uint8_t *labels, size_t count,
                         const model_hooks *hooks, double *loss_sum_p, size_t *correct_p)
{
    net *n = (net *)m;
    for (size_t i = 0; i < n->nlayers; i++) {
        const layer *l = &n->layers[i];
        if (has_tensors(l)) {
            for (size_t t = l->tensor; t < l->tensor + 2; t++) {
                if (hooks && hooks->param_read)
                    TG_TRY(hooks->param_read(hooks->arg, t));
            }
        }
        TG_TRY(layer_forward(n, l, i ? l[-1].y : x));
        if (hooks && hooks->layer_done)
            TG_TRY(hooks->layer_done(hooks->arg));
    }
    const layer *last = &n->layers[n->nlayers - 1];
    nn_softmax_loss(m->batch, count, n->classes, last->y, labels, last->dy, loss_sum_p, correct_p);
    return TG_OK;
}

static tg_status backward_weights(const net *n, const layer *l, const float *x)
{
    float *dw = n->base.grads + n->tensors[l->tensor].offset;
    float *db = n->base.grads + n->tensors[l->tensor + 1].offset;
    if (l->kind == LAYER_CONV)
        return nn_conv_backward_weights(l->conv, x, l->dy, dw, db);
    return nn_dense_backward_weights(n->base.batch, l->in, l->out, x, l->dy, dw, db);
}

static tg_status backward_data(const net *n, const layer *l, float *dx)
{
    const float *w = n->base.params + n->tensors[l->tensor].offset;
    switch (l->kind) {
    case LAYER_CONV:
        return nn_conv_backward_data(l->conv, l->dy, w, dx);
    case LAYER_POOL:
        return nn_pool_backward(l->pool, l->dy, dx);
    case LAYER_ACT:
        return nn_act_backward(l->act, l->y, l->dy, dx);
    case LAYER_DENSE:
        break;
    }
    return nn_dense_backward_data(n->base.batch, l->in, l->out, l->dy, w, dx);
}

static tg_status backward(model *m, const float *x, const model_hooks *hooks)
{
    net *n = (net *)m;
    for (size_t i = n->nlayers; i-- > 0;) {
        layer *l = &n->layers[i];
        if (has_tensors(l)) {
            for (size_t t = l->tensor; t < l->tensor + 2; t++) {
                if (hooks && hooks->grad_write)
                    TG_TRY(hooks->grad_write(hooks->arg, t));
            }
            TG_TRY(backward_weights(n, l, i ? l[-1].y : x));
            for (size_t t = l->tensor + 2; t-- > l->tensor;) {
                if (hooks && hooks->grad_ready)
                    TG_TRY(hooks->grad_ready(hooks->arg, t));
            }
        }
        if (i > 0)
            TG_TRY(backward_data(n, l, l[-1].dy));
        if (hooks && hooks->layer_done)
            TG_TRY(hooks->layer_done(hooks->arg));
    }
    return TG_OK;
}

static const model_ops ops = {.forward = forward, .backward = backward, .destroy = destroy};

tg_status net_model(net *n, uint64_t seed, model **m_p)
{
    model *m = &n->base;
    m->ops = &ops;
    m->tensors = n->tensors;
    if (n->status == TG_OK && (n->nlayers == 0 || n->layers[n->nlayers - 1].out != n->classes))
        note(n, tg_fail(TG_E_ARG, "the last layer must have %zu outputs", n->classes));
    if (n->status == TG_OK)
        note(n, train_alloc(m->floats, sizeof(float), &m->params));
    if (n->status == TG_OK)
        note(n, train_alloc(m->floats, sizeof(float), &m->grads));
    if (n->status != TG_OK) {
        const tg_status status = tg_fail(n->status, "%s", n->message);
        destroy(m);
        return status;
    }
    model_init(m, seed);
    *m_p = m;
    return TG_OK;
}
