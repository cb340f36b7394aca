/* For the files of layers (node_*.c): what a layer is to the network, and how it gets its arrays.
 *
 * A node reads its inputs, writes its output, and in the backward pass turns dy, the gradient of
 * its output, into the gradients of its tensors and of its inputs (dx). Who holds which array is
 * decided once, when the network is complete (net_plan.c): gradients of inputs share memory as soon
 * as nobody needs what was there. */
#ifndef TG_TRAIN_NET_NODE_H
#define TG_TRAIN_NET_NODE_H

#include "trainer/model/net.h"

#define NET_INPUTS 3
#define NET_TENSORS 4
#define NET_SOURCES 8 /* that a value may be used by */
#define NET_LAYERS 512

typedef enum net_gradient {
    NET_OWN = 0, /* each dx is an array of its own, and is not dy */
    NET_SHARED,  /* all dx are one array, which may be dy itself */
    NET_APART,   /* each dx is an array of its own, the last of which may be dy itself */
    NET_SAME     /* all dx are dy, unchanged: there is no backward_data */
} net_gradient;

typedef struct net_node net_node;

typedef struct net_node_ops {
    tg_status (*forward)(net_node *node, const model_pass *pass);
    /* Write net_grad(node, i) of all tensors; NULL: it has none. */
    tg_status (*backward_weights)(net_node *node);
    /* Write dx[j] of all inputs that want one (dx[j] not NULL). NULL: NET_SAME */
    tg_status (*backward_data)(net_node *node);
    void (*destroy)(net_node *node); /* of impl, which may be NULL or half made; NULL: nothing */
    net_gradient gradient;
    bool
        adds; /* backward_weights adds to net_grad where net_adds(node, i), else the network does */
    bool blocked; /* takes blocked inputs (in_blocked says which are); others get them plain */
    bool sums;    /* backward_weights adds net_second(node), if there is one, to dy */
    bool reads_y; /* the backward pass does: dy of the last layer is then not in y's memory */
} net_node_ops;

struct net_node {
    const net_node_ops *ops;
    net *net;
    size_t nin, ntensors;
    size_t tensors[NET_TENSORS]; /* in the model's table */
    net_shape in[NET_INPUTS], out;
    bool in_blocked[NET_INPUTS], out_blocked; /* the latter the node's to set when it is added */
    /* Set when the network is complete, or before a pass reaches the node. x and y: (batch, shape);
     * x[0] of a node that reads the network's input is the caller's: images, or int32_t tokens. */
    const void *x[NET_INPUTS];
    void *y;
    void *dy;
    void *dx[NET_INPUTS]; /* NULL: not wanted */
    void *impl;           /* the node's own */
    double flops;         /* of a sample's forward pass */
    /* The network's: */
    size_t in_array[NET_INPUTS], out_array;
    size_t dx_buffer[NET_INPUTS], dy_buffer, sum_buffer[NET_SOURCES];
    bool begins[NET_TENSORS]; /* first node to use it: the last to write its gradient */
    bool ends[NET_TENSORS];   /* last node to use it: the first to write its gradient */
    size_t nsum;              /* before the node's backward pass these are added to dy ... */
    const void *sum[NET_SOURCES];
    bool sum_anew; /* ... or dy becomes their sum */
};

/* Append a node that reads `nin` values. NULL after a failure; then the caller returns
 * net_nothing(). flops: of a sample's forward pass. */
net_node *net_node_add(net *n, const net_node_ops *ops, const net_value *in, size_t nin,
                       net_shape out, double flops);
net_value net_node_value(const net_node *node);
net_value net_nothing(void);

/* Count memory that the node is about to make for itself, where it may be much. False: the network
 * will be refused for its size, so the node makes nothing. */
bool net_reserve(const net_node *node, double bytes);

/* Another tensor of the node, NAME.PART. */
void net_tensor_add(net_node *node, const char *name, const char *part, model_tensor_kind kind,
                    const size_t *shape, size_t ndim, model_init init);
/* A tensor that another node has already, of that shape: both use it. */
void net_tensor_share(net_node *node, const char *name, const char *part, const size_t *shape,
                      size_t ndim);
/* Keep the first failure of a description. */
void net_note(net *n, tg_status status);

size_t net_batch(const net_node *node);
/* What the network reads. */
const model_input *net_input_of(const net *n);
/* Samples that count in this pass, from the first. */
size_t net_count(const net_node *node);
/* Of the layers of the network. */
size_t net_position(const net_node *node);
/* The rest of the gradient of the output, if the node sums: NULL, or an array that is the memory of
 * no dx but in the same place. */
const float *net_second(const net_node *node);
nn *net_nn(const net_node *node);
static inline size_t net_elements(net_shape s)
{
    return s.height * s.width * s.channels;
}
/* Tensor i of the node, and where its gradient goes. */
float *net_param(const net_node *node, size_t i);
float *net_grad(const net_node *node, size_t i);
/* Whether there is a part of the gradient already, that this one is to be added to. */
bool net_adds(const net_node *node, size_t i);
/* Reserve `count` floats of model.state; returns where they begin. */
size_t net_state_add(net *n, size_t count);
float *net_state(const net_node *node, size_t offset);

#endif
