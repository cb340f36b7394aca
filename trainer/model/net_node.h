/* For the files of layers (node_*.c): the interface between a layer and the network.
 *
 * A node reads its inputs and writes its output. In the backward pass it turns dy, the gradient of
 * its output, into the gradients of its tensors and of its inputs (dx). The memory of all arrays is
 * planned once, when the network is complete (net_plan.c): gradients of inputs reuse memory as soon
 * as its contents are no longer needed. */
#ifndef TG_TRAIN_NET_NODE_H
#define TG_TRAIN_NET_NODE_H

#include "trainer/model/model_net.h"

#define NET_INPUTS 3
#define NET_TENSORS 4
#define NET_SOURCES 8 /* most layers that may use a value */
#define NET_LAYERS 512

typedef enum net_gradient {
    NET_OWN = 0, /* each dx is an array of its own, different from dy */
    NET_SHARED,  /* all dx are one array, which may be dy itself */
    NET_APART,   /* each dx is an array of its own, the last of which may be dy itself */
    NET_SAME     /* all dx are dy, unchanged: there is no backward_data */
} net_gradient;

typedef struct net_node net_node;

typedef struct net_node_ops {
    tg_status (*forward)(net_node *node, const model_pass *pass);
    /* Write net_grad(node, i) for all tensors; NULL: the node has none. */
    tg_status (*backward_weights)(net_node *node);
    /* Write dx[j] for all inputs that need it (dx[j] not NULL). NULL: NET_SAME */
    tg_status (*backward_data)(net_node *node);
    void (*destroy)(net_node *node); /* frees impl, which may be NULL or incomplete; NULL: no-op */
    net_gradient gradient;
    bool adds; /* backward_weights adds to net_grad if net_adds(node, i); false: the network does */
    bool blocked; /* accepts blocked inputs (see in_blocked); false: inputs are unblocked */
    bool sums;    /* backward_weights adds net_second(node), if not NULL, to dy */
    bool reads_y; /* the backward pass reads y: a last layer's dy is then not stored in y */
} net_node_ops;

struct net_node {
    const net_node_ops *ops;
    net *net;
    size_t nin, ntensors;
    size_t tensors[NET_TENSORS]; /* indices in the model's table */
    net_shape in[NET_INPUTS], out;
    bool in_blocked[NET_INPUTS], out_blocked; /* the node sets out_blocked when it is added */
    /* Set when the network is complete, or before a pass reaches the node. x and y: (batch, shape).
     * If the node reads the network's input, x[0] is the caller's array: images, or int32_t
     * tokens. */
    const void *x[NET_INPUTS];
    void *y;
    void *dy;
    void *dx[NET_INPUTS]; /* NULL: not needed */
    void *impl;           /* the node's own data */
    double flops;         /* of a forward pass, per sample */
    /* Used by the network only: */
    size_t in_array[NET_INPUTS], out_array;
    size_t dx_buffer[NET_INPUTS], dy_buffer, sum_buffer[NET_SOURCES];
    bool begins[NET_TENSORS]; /* the first node that uses it, and the last to write its gradient */
    bool ends[NET_TENSORS];   /* the last node that uses it, and the first to write its gradient */
    size_t nsum;              /* before the node's backward pass these are added to dy ... */
    const void *sum[NET_SOURCES];
    bool sum_anew; /* ... or dy becomes their sum */
};

/* Append a node that reads `nin` values. Returns NULL after a failure; the caller then returns
 * net_nothing(). flops: of a forward pass, per sample. */
net_node *net_node_add(net *n, const net_node_ops *ops, const net_value *in, size_t nin,
                       net_shape out, double flops);
net_value net_node_value(const net_node *node);
net_value net_nothing(void);

/* Announce memory that the node allocates for itself, if it may be large. It does so in its first
 * pass, not before: the network may be refused for its size. Excludes what belongs to the nn. */
void net_reserve(const net_node *node, double bytes);

/* Add a tensor NAME.PART to the node. */
void net_tensor_add(net_node *node, const char *name, const char *part, model_tensor_kind kind,
                    const size_t *shape, size_t ndim, model_init init);
/* Use a tensor of the given shape that belongs to another node; both share it. */
void net_tensor_share(net_node *node, const char *name, const char *part, const size_t *shape,
                      size_t ndim);
/* Record a failure of the description; only the first one is kept. */
void net_note(net *n, tg_status status);

size_t net_batch(const net_node *node);
/* The input of the network. */
const model_input *net_input_of(const net *n);
/* Number of samples that count in this pass, from the first. */
size_t net_count(const net_node *node);
/* Position of the node among the layers of the network. */
size_t net_position(const net_node *node);
/* The rest of the gradient of the output, if the node sums; may be NULL. Its memory is different
 * from every dx, or at the same place as one. */
const float *net_second(const net_node *node);
nn *net_nn(const net_node *node);
static inline size_t net_elements(net_shape s)
{
    return s.height * s.width * s.channels;
}
/* Tensor i of the node; and where its gradient goes. */
float *net_param(const net_node *node, size_t i);
float *net_grad(const net_node *node, size_t i);
/* Whether the gradient is added to an earlier part of it. */
bool net_adds(const net_node *node, size_t i);
/* Reserve `count` floats of model.state; returns their offset. */
size_t net_state_add(net *n, size_t count);
float *net_state(const net_node *node, size_t offset);

#endif
