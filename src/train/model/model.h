/* A model: parameters and gradients in two flat buffers, a forward and a backward pass.
 *
 * A model is one file, which defines a model_type, and one line in models.def. Most are chains of
 * layers and only describe them (net.h); another shape of network fills in model_ops itself. */
#ifndef TG_TRAIN_MODEL_H
#define TG_TRAIN_MODEL_H

#include "telegrad/base.h"

/* What goes in and comes out: images (batch, height, width, channels) and one label of `classes`.
 */
typedef struct model_input {
    size_t height, width, channels, classes;
} model_input;

/* Tensors are in forward order: a layer's weights, then its biases. */
typedef struct model_tensor {
    char name[32];
    size_t shape[4], ndim;
    size_t n;      /* elements */
    size_t offset; /* of the first, in params and grads; a multiple of 16 */
    size_t fan_in; /* inputs that one output sums over; 0: a bias */
} model_tensor;

/* Called by the passes from the thread that runs them. A failure ends the pass and is returned. Any
 * may be NULL. `tensor` indexes model.tensors. */
typedef struct model_hooks {
    void *arg;
    tg_status (*param_read)(void *arg, size_t tensor); /* forward is about to read it */
    tg_status (*grad_write)(void *arg,
                            size_t tensor); /* backward is about to overwrite its gradient */
    tg_status (*grad_ready)(void *arg, size_t tensor); /* its gradient is complete */
    tg_status (*layer_done)(void *arg);                /* between two layers, either pass */
} model_hooks;

typedef struct model model;

typedef struct model_ops {
    /* The loss of `count` <= batch samples, x (count, height, width, channels), labels (count).
     * *loss_sum_p: their sum, *correct_p: how many have the largest output at the label. */
    tg_status (*forward)(model *m, const float *x, const uint8_t *labels, size_t count,
                         const model_hooks *hooks, double *loss_sum_p, size_t *correct_p);
    /* After forward: grads = gradient of the MEAN loss over the count samples. Last layers first, a
     * layer's weights before the gradient of its input. x is forward's, unchanged. */
    tg_status (*backward)(model *m, const float *x, const model_hooks *hooks);
    void (*destroy)(model *m);
} model_ops;

struct model {
    const model_ops *ops;
    size_t batch;
    const model_tensor *tensors;
    size_t ntensors;
    size_t params_total;   /* sum of n */
    size_t floats;         /* length of the buffers: offsets are rounded up to 16 */
    float *params, *grads; /* (floats); what no tensor covers is and stays 0 */
};

typedef struct model_type {
    const tg_entry *entry;
    tg_status (*create)(const tg_spec *spec, const model_input *in, size_t batch, uint64_t seed,
                        model **m_p);
} model_type;

/* spec "lenet5", "mlp:hidden=256"; initial parameters are a function of (model, seed) alone.
 * Errors   TG_E_SPEC, TG_E_ARG (batch 0), TG_E_NOMEM, TG_E_UNSUPPORTED
 * Threads  a model belongs to the thread that made it */
TG_NODISCARD tg_status model_create(const char *spec, const model_input *in, size_t batch,
                                    uint64_t seed, model **m_p);
void model_destroy(model *m); /* NULL is fine */

/* Check a spec and give its parsed form (whose text is the normal form). Errors TG_E_SPEC */
TG_NODISCARD tg_status model_parse(const char *spec, tg_spec **spec_p);

/* Draw every tensor of m: weights N(0, 2 / fan_in), biases 0. Tensor t's element i is number i of
 * the stream (seed, TG_PURPOSE_INIT, tensor t), so neither batch nor rank changes it.
 * Source  He et al. 2015, arXiv:1502.01852, sec. 2.2; MXNet's image-classification example
 *         initialises LeNet so: Xavier(rnd_type="gaussian", factor_type="in", magnitude=2) */
void model_init(model *m, uint64_t seed);

#endif
