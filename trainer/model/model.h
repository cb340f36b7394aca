/* A model: parameters and gradients in two flat buffers, a forward and a backward pass.
 *
 * A model is one file, which describes a network (net.h) and defines a model_type, and one line in
 * models.def. */
#ifndef TG_TRAIN_MODEL_H
#define TG_TRAIN_MODEL_H

#include "trainer/data/batch.h"
#include "telegrad/spec.h"

typedef enum model_tensor_kind {
    MODEL_TRAINED,  /* has a gradient */
    MODEL_STATISTIC /* of batches (mean, variance), kept by the forward pass */
} model_tensor_kind;

typedef enum model_init_kind { MODEL_CONSTANT, MODEL_NORMAL, MODEL_UNIFORM } model_init_kind;

/* Initial values: all `value`, N(0, value^2), or uniform over [-value, value). */
typedef struct model_init {
    model_init_kind kind;
    double value;
} model_init;

/* In forward order: a layer's weights, then its biases. */
typedef struct model_tensor {
    char name[64];
    model_tensor_kind kind;
    size_t shape[4], ndim;
    size_t n;      /* elements */
    size_t offset; /* of the first, in params and grads; a multiple of 16 */
    model_init init;
} model_tensor;

/* Called by the passes from the thread that runs them, for trained tensors. A failure ends the pass
 * and is returned. Any may be NULL. `tensor` indexes model.tensors. */
/* What a pass does with a layer. */
typedef enum model_work {
    MODEL_FORWARD = 0,
    MODEL_WEIGHTS = 1, /* gradients of its tensors */
    MODEL_INPUTS = 2   /* gradients of its inputs */
} model_work;
#define MODEL_WORKS 3

typedef struct model_hooks {
    void *arg;
    tg_status (*param_read)(void *arg, size_t tensor); /* forward is about to read it */
    tg_status (*grad_write)(void *arg,
                            size_t tensor); /* backward is about to overwrite its gradient */
    tg_status (*grad_ready)(void *arg, size_t tensor); /* its gradient is complete */
    tg_status (*layer_done)(void *arg);                /* between two layers, either pass */
    /* A layer's arithmetic of that kind begins, and goes on until the next hook is called. */
    void (*layer_begins)(void *arg, model_work work, size_t layer);
} model_hooks;

typedef struct model {
    size_t batch;
    model_input input;
    const model_tensor *tensors;
    size_t ntensors;
    size_t params_total;   /* sum of n of the trained tensors */
    size_t floats;         /* length of the buffers: offsets are rounded up to 16 */
    float *params, *grads; /* (floats); what no trained tensor covers stays 0 in grads */
    /* (nstate) what recurrent layers carry from one batch to the next: zero at first, the caller's
     * to save, set and clear. */
    float *state;
    size_t nstate;
    double flops; /* of a forward pass, a sample; a multiplication with its addition is two */
} model;

typedef struct model_type {
    const tg_entry *entry;
    const char *data;  /* "cifar10": what its papers train it on ... */
    model_input input; /* ... and what that is; all zero: whatever comes */
    tg_status (*create)(const tg_spec *spec, const model_input *in, size_t batch, uint64_t seed,
                        model **m_p);
} model_type;

/* spec "lenet5", "mlp:hidden=256"; initial parameters are a function of (model, seed) alone.
 * Errors   TG_E_SPEC, TG_E_ARG (batch 0), TG_E_NOMEM, TG_E_UNSUPPORTED
 * Threads  a model belongs to the thread that made it */
TG_NODISCARD tg_status model_create(const char *spec, const model_input *in, size_t batch,
                                    uint64_t seed, model **m_p);
void model_destroy(model *m); /* NULL is fine */

/* All models. Static. Threads any */
const tg_entry *const *model_entries(size_t *count_p);

/* Check a spec and give its parsed form (whose text is the normal form). Errors TG_E_SPEC */
TG_NODISCARD tg_status model_parse(const char *spec, tg_spec **spec_p);

/* What a model is trained on in its papers, in samples of as many tokens as the spec asks for.
 * data_p: NULL and *input_p all zero if nothing is said.
 * Errors TG_E_SPEC */
TG_NODISCARD tg_status model_usual_data(const char *spec, const char **data_p,
                                        model_input *input_p);

/* How a pass goes. All zero: an evaluation. */
typedef struct model_pass {
    bool training; /* dropout is on, statistics are the batch's own, a backward pass may follow */
    uint64_t seed, step; /* of dropout's masks ... */
    uint32_t rank;       /* ... which differ between ranks */
    /* The batch is part `part` of `parts` that make up a step (0 is 1): gradients are those of the
     * mean over all parts, and added to what the parts before left. */
    uint32_t part, parts;
} model_pass;

typedef struct model_result {
    double loss;    /* sum over the labels that count */
    size_t correct; /* labels with the largest output */
    size_t labels;  /* that count */
} model_result;

/* Loss of a batch's first `count` samples. */
TG_NODISCARD tg_status model_forward(model *m, const model_batch *batch, const model_pass *pass,
                                     const model_hooks *hooks, model_result *result_p);
/* What came out of the last forward pass, which must have had training=false: logits (batch
 * [, context], classes), those of its `count` samples first. The model's, until the next pass. */
const float *model_outputs(const model *m);
/* After a forward pass with training=true, whose batch is unchanged: grads = gradient of the mean
 * loss over the labels that count. Last layers first, a layer's weights before the gradient of its
 * input. A tensor that several layers use is written at the last one and ready at the first. */
TG_NODISCARD tg_status model_backward(model *m, const model_hooks *hooks);

/* Layers, as layer_begins counts them, and what layer_flops says of one (as flops above). */
size_t model_layers(const model *m);
double model_layer_flops(const model *m, size_t layer);
/* Its first tensor; NULL: it has none. */
const model_tensor *model_layer_tensor(const model *m, size_t layer);

/* Draw every tensor of m as its `init` says. Tensor t's element i is number i of the stream (seed,
 * TG_PURPOSE_INIT, tensor t), so neither batch nor rank changes it. */
void model_draw(model *m, uint64_t seed);

#endif
