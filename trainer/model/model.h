/* A model: parameters and gradients in two flat buffers, and forward and backward passes.
 *
 * A model is one file, which describes a network (net.h) and defines a model_type, and one line in
 * models.def. */
#ifndef TG_TRAIN_MODEL_H
#define TG_TRAIN_MODEL_H

#include "trainer/data/batch.h"
#include "telegrad/spec.h"

typedef enum model_tensor_kind {
    MODEL_TRAINED,  /* has a gradient */
    MODEL_STATISTIC /* statistics of batches (mean, variance), kept by the forward pass */
} model_tensor_kind;

typedef enum model_init_kind { MODEL_CONSTANT, MODEL_NORMAL, MODEL_UNIFORM } model_init_kind;

/* Initial values: all equal to `value`, N(0, value^2), or uniform over [-value, value). */
typedef struct model_init {
    model_init_kind kind;
    double value;
} model_init;

/* Tensors are in forward order; the weights of a layer come before its biases. */
typedef struct model_tensor {
    char name[64];
    model_tensor_kind kind;
    size_t shape[4], ndim;
    size_t n;      /* elements */
    size_t offset; /* of its first element in params and grads; a multiple of 16 */
    model_init init;
} model_tensor;

/* What a pass does with a layer. */
typedef enum model_work {
    MODEL_FORWARD = 0,
    MODEL_WEIGHTS = 1, /* gradients of its tensors */
    MODEL_INPUTS = 2   /* gradients of its inputs */
} model_work;
#define MODEL_WORKS 3

/* Called by the passes, on the thread that runs them, for trained tensors. A failure ends the pass,
 * which returns it. Any may be NULL. `tensor` is an index of model.tensors. */
typedef struct model_hooks {
    void *arg;
    tg_status (*param_read)(void *arg, size_t tensor); /* the forward pass is about to read it */
    tg_status (*grad_write)(void *arg,
                            size_t tensor); /* backward is about to overwrite its gradient */
    tg_status (*grad_ready)(void *arg, size_t tensor); /* its gradient is complete */
    tg_status (*layer_done)(void *arg);                /* between two layers, in either pass */
    /* The work of a layer begins; it lasts until the next hook is called. */
    void (*layer_begins)(void *arg, model_work work, size_t layer);
} model_hooks;

typedef struct model {
    size_t batch;
    model_input input;
    const model_tensor *tensors;
    size_t ntensors;
    size_t params_total;   /* sum of n of the trained tensors */
    size_t floats;         /* length of the buffers, with offsets rounded up to 16 */
    float *params, *grads; /* (floats); grads is 0 outside of trained tensors */
    /* (nstate) what recurrent layers carry from one batch to the next. Initially zero; the caller
     * saves, sets and clears it. */
    float *state;
    size_t nstate;
    double flops; /* per sample of a forward pass; a multiply-add counts as two */
} model;

typedef struct model_type {
    const tg_entry *entry;
    const char *data;  /* the data set of its papers, such as "cifar10" ... */
    model_input input; /* ... and its input; all zero: any input */
    const char
        *optimizer; /* a usual one that trains it, a spec; NULL: the trainer's default does */
    tg_status (*create)(const tg_spec *spec, const model_input *in, size_t batch, uint64_t seed,
                        model **m_p);
} model_type;

/* Create a model from a spec such as "lenet5" or "mlp:hidden=256". The initial parameters are a
 * function of (model, seed) alone.
 * Errors   TG_E_SPEC, TG_E_ARG (batch 0), TG_E_NOMEM, TG_E_UNSUPPORTED
 * Threads  a model belongs to the thread that created it */
TG_NODISCARD tg_status model_create(const char *spec, const model_input *in, size_t batch,
                                    uint64_t seed, model **m_p);
/* The memory that a model may take. What is not touched yet is not missing from what the system has
 * available, so whoever creates several models asks for it once, before the first. */
typedef struct model_room {
    double bytes;    /* available (memory.h) before any of the networks allocated */
    size_t networks; /* of the same size, which share it */
    size_t slots;    /* floats that an optimizer keeps for each trained parameter */
} model_room;

/* As model_create, which asks for the memory available now, for this model alone.
 * Errors TG_E_NOMEM: it does not fit into the room; nothing large was allocated */
TG_NODISCARD tg_status model_create_within(const char *spec, const model_input *in, size_t batch,
                                           uint64_t seed, const model_room *room, model **m_p);
void model_destroy(model *m); /* NULL is fine */

/* All models, in static memory. Threads any */
const tg_entry *const *model_entries(size_t *count_p);

/* Parse and check a spec; its text is the normal form. Errors TG_E_SPEC */
TG_NODISCARD tg_status model_parse(const char *spec, tg_spec **spec_p);

/* The data that a model is trained on in its papers, with the context that the spec asks for. If
 * none are known, *data_p is NULL and *input_p is all zero.
 * Errors TG_E_SPEC */
TG_NODISCARD tg_status model_usual_data(const char *spec, const char **data_p,
                                        model_input *input_p);

/* A usual optimizer for the model, with its rate (a spec). NULL: the trainer's default trains it.
 * Errors TG_E_SPEC */
TG_NODISCARD tg_status model_usual_optimizer(const char *spec, const char **optimizer_p);

/* The mode of a pass. All zero: an evaluation. */
typedef struct model_pass {
    bool training;       /* dropout is on, batch statistics are used, a backward pass may follow */
    uint64_t seed, step; /* for the masks of dropout ... */
    uint32_t rank;       /* ... which differ between ranks */
    /* The batch is part `part` of the `parts` of a step (0 means 1). Gradients are those of the
     * mean over all parts, and are added to those of earlier parts. */
    uint32_t part, parts;
} model_pass;

typedef struct model_result {
    double loss;    /* sum over the labels that count */
    size_t correct; /* labels that have the largest output */
    size_t labels;  /* number of labels that count */
} model_result;

/* Compute the loss of a batch's first `count` samples. */
TG_NODISCARD tg_status model_forward(model *m, const model_batch *batch, const model_pass *pass,
                                     const model_hooks *hooks, model_result *result_p);
/* The logits of the last forward pass, which must have had training=false: (batch [, context],
 * classes), its `count` samples first. They belong to the model and are valid until the next
 * pass. */
const float *model_outputs(const model *m);
/* Call it after a forward pass with training=true and the same batch. Sets grads to the gradient of
 * the mean loss over the labels that count. It goes from the last layer to the first, and computes
 * a layer's weights before the gradient of its input. The gradient of a tensor that several layers
 * use is first written at the last of them and ready at the first. */
TG_NODISCARD tg_status model_backward(model *m, const model_hooks *hooks);

/* Number of layers, as layer_begins counts them; and the flops of one (as `flops` above). */
size_t model_layers(const model *m);
double model_layer_flops(const model *m, size_t layer);
/* First tensor of a layer; NULL: it has none. */
const model_tensor *model_layer_tensor(const model *m, size_t layer);

/* Draw every tensor of m according to its `init`. Element i of tensor t is number i of the stream
 * (seed, TG_PURPOSE_INIT, t), so it depends on neither batch nor rank. */
void model_draw(model *m, uint64_t seed);

#endif
