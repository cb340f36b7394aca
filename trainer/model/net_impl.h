/* A network's inside, for the files net_*.c. */
#ifndef TG_TRAIN_NET_IMPL_H
#define TG_TRAIN_NET_IMPL_H

#include "trainer/model/net_node.h"

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
    double bytes, bytes_made; /* memory of the whole; of that, what nodes have made already */
    double bytes_available;   /* when the description began */
    float *scratch; /* as grads: where a gradient is made before it is added; NULL: not yet */
    net_view logits;
    model_batch batch; /* of the last forward pass: */
    model_pass pass;
    bool backward_may_follow;
};

/* Another shape of an array. */
net_value net_view_add(net *n, size_t array, net_shape shape, bool blocked);
/* net_node_add of inputs that are as the node wants them. */
net_node *net_node_append(net *n, const net_node_ops *ops, const net_value *in, size_t nin,
                          net_shape out, double flops);

/* Decide who holds which gradient, and which tensors are first read and last written where. */
TG_NODISCARD tg_status net_plan(net *n);

/* Make the memory of a planned network, and tell the nodes where it is. (net_memory.c)
 * Errors TG_E_NOMEM: nothing of it was made if the system has not as much */
TG_NODISCARD tg_status net_allocate(net *n);

#endif
