/* The internals of a network, for the files net_*.c. */
#ifndef TG_TRAIN_NET_IMPL_H
#define TG_TRAIN_NET_IMPL_H

#include "trainer/model/net_node.h"

#define NET_MAX_NODES NET_LAYERS
#define NET_MAX_TENSORS 2048
#define NET_MAX_VALUES (2 * NET_MAX_NODES)

/* Memory for gradients. The plan takes and returns buffers while it walks the backward pass. */
typedef struct net_buffer {
    float *data;
    size_t n;       /* floats */
    size_t readers; /* number of nodes that still need its contents; 0: free */
    bool borrowed;  /* the memory of an output, never handed out again */
} net_buffer;

/* The output of a node; array 0 is the network's input. */
typedef struct net_array {
    void *y;
    size_t n;                   /* floats */
    size_t nsources;            /* parts of its gradient so far ... */
    size_t source[NET_SOURCES]; /* ... and the buffers that hold them */
} net_array;

/* A view of an array in some shape. */
typedef struct net_view {
    size_t array;
    net_shape shape;
    bool blocked;
} net_view;

struct net {
    model base; /* must be first: a model * is also a net * */
    nn *nn;
    tg_status status;  /* status of the description so far ... */
    char message[512]; /* ... and its message: other calls may fail before it is reported */
    net_node *nodes;   /* (nnodes) */
    size_t nnodes;
    net_array *arrays; /* (narrays) */
    size_t narrays;
    net_view *views; /* (nviews) */
    size_t nviews;
    net_buffer *buffers; /* (nbuffers); the first holds the gradient of the logits */
    size_t nbuffers;
    model_tensor *tensors;
    double bytes;   /* of outputs, and of what nodes allocate for themselves */
    uint64_t seed;  /* of the initial parameters */
    float *scratch; /* like grads: for a gradient before it is added; NULL: not yet made */
    net_view logits;
    model_batch batch; /* of the last forward pass */
    model_pass pass;
    bool backward_may_follow;
};

/* View an array in another shape. */
net_value net_view_add(net *n, size_t array, net_shape shape, bool blocked);
/* net_node_add for inputs that already have the layout the node wants. */
net_node *net_node_append(net *n, const net_node_ops *ops, const net_value *in, size_t nin,
                          net_shape out, double flops);

/* Decide which buffer holds which gradient, and where each tensor is first read and last
 * written. */
TG_NODISCARD tg_status net_plan(net *n);

#endif
