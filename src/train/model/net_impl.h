/* A network's inside, for net.c, net_plan.c and net_run.c. */
#ifndef TG_TRAIN_NET_IMPL_H
#define TG_TRAIN_NET_IMPL_H

#include "train/model/net_node.h"

#define NET_MAX_NODES NET_LAYERS
#define NET_MAX_TENSORS 2048
#define NET_MAX_VALUES (2 * NET_MAX_NODES)

/* Memory of gradients: taken and given back while the plan goes through the backward pass. */
typedef struct net_buffer {
    float *data;
    size_t n;       /* floats */
    size_t readers; /* who still needs what is there; 0: free */
    bool borrowed;  /* an output's memory, never given out again */
} net_buffer;

/* What a node writes; array 0 is the network's input. */
typedef struct net_array {
    void *y;
    size_t n;                   /* floats */
    size_t nsources;            /* pieces of its gradient so far: */
    size_t source[NET_SOURCES]; /* buffers */
} net_array;

/* An array in a shape. */
typedef struct net_view {
    size_t array;
    net_shape shape;
    bool blocked;
} net_view;

struct net {
    model base; /* first: a model * is a net * */
    nn *nn;
    tg_status status;  /* of the description so far ... */
    char message[512]; /* ... and its text, since other calls may fail before it is reported */
    net_node *nodes;   /* (nnodes) */
    size_t nnodes;
    net_array *arrays; /* (narrays) */
    size_t narrays;
    net_view *views; /* (nviews) */
    size_t nviews;
    net_buffer *buffers; /* (nbuffers); the first one gets the gradient of the logits */
    size_t nbuffers;
    model_tensor *tensors;
    float *scratch; /* as grads: where a gradient is made before it is added; NULL: not yet */
    net_view logits;
    model_batch batch; /* of the last forward pass: */
    model_pass pass;
    bool backward_may_follow;
};

/* Decide who holds which gradient, and which tensors are first read and last written where. */
TG_NODISCARD tg_status net_plan(net *n);

#endif
