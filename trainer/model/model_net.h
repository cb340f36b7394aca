/* A network, described layer by layer in forward order:
 *
 *     net_create(in, batch, &n);
 *     net_value x = net_input(n);
 *     x = net_conv(n, x, "conv1", (net_conv_spec){.channels = 20, .kernel = 5, .bias = true});
 *     x = net_act(n, x, NN_TANH);
 *     x = net_dense(n, net_flatten(n, x), "fc1", (net_dense_spec){.out = 10, .bias = true});
 *     net_model(n, x, seed, &model);
 *
 * A value may be used by several layers; their gradients are added. After a call has failed,
 * further calls do nothing; net_model reports the first failure and frees the net.
 *
 * Values are arrays (batch, height, width, channels); for tokens, height is the context and width
 * 1. Layers that support it pass blocked values to each other (nn.h). */
#ifndef TG_TRAIN_NET_H
#define TG_TRAIN_NET_H

#include "trainer/model/model.h"
#include "trainer/nn/nn.h"

typedef struct net net;

/* The output of a layer. */
typedef struct net_value {
    size_t id;
} net_value;

typedef struct net_shape {
    size_t height, width, channels;
} net_shape;

TG_NODISCARD tg_status net_create(const model_input *in, size_t batch, net **n_p);
net_value net_input(const net *n);
/* The input of a network for images; refuses tokens. */
net_value net_image_input(net *n);
net_shape net_shape_of(const net *n, net_value x);

/* Report an invalid description as TG_E_ARG. */
void net_refuse(net *n, const char *format, ...) TG_PRINTF(2, 3);

typedef struct net_conv_spec {
    size_t channels, kernel;
    size_t stride; /* 0 means 1 */
    size_t pad;    /* zeros on all sides */
    bool bias;
    model_init init; /* of the weights; all zero: net_he(inputs of an output) */
} net_conv_spec;

/* Has tensors NAME.weight (channels, in, kernel, kernel) and NAME.bias, initially 0. */
net_value net_conv(net *n, net_value x, const char *name, net_conv_spec spec);
/* Windows do not overlap; rows and columns left over at the bottom and the right are dropped. */
net_value net_maxpool(net *n, net_value x, size_t window);
net_value net_act(net *n, net_value x, nn_act_kind kind);
/* The same elements as a single row of channels, in the order (height, width, channels). */
net_value net_flatten(net *n, net_value x);
/* Whether x is blocked; and the same values unblocked (x itself if it is not blocked). */
bool net_is_blocked(const net *n, net_value x);
net_value net_plain(net *n, net_value x);

/* Normalise each channel over all places of a batch; relu: then apply max(., 0). Evaluation uses
 * running statistics, to which each training batch contributes a tenth (with unbiased variance).
 * Tensors NAME.weight, initially 1, and NAME.bias, initially 0, (channels); statistics
 * NAME.running_mean, initially 0, and NAME.running_var, initially 1.
 * Source  Ioffe and Szegedy 2015, arXiv:1502.03167; epsilon and momentum as in PyTorch */
net_value net_batchnorm(net *n, net_value x, const char *name, bool relu);
/* max(batchnorm(x) + shortcut, 0) in a single pass. */
net_value net_batchnorm_add(net *n, net_value x, net_value shortcut, const char *name);
/* a + b; relu: max(a + b, 0). */
net_value net_add(net *n, net_value a, net_value b, bool relu);
/* The mean over all places, per channel. */
net_value net_avgpool(net *n, net_value x);
/* A shortcut without parameters to half the height and width, rounded up: it takes every second row
 * and column, and fills new channels with zeros, half of them before the old channels.
 * Source  He et al. 2016, arXiv:1512.03385, sec. 4.2, option A */
net_value net_shortcut(net *n, net_value x, size_t channels);
/* In training, elements are set to 0 with probability p in [0, 1) and otherwise divided by 1 - p.
 * Masks differ between layers, ranks, steps and the parts of a step. p = 0 returns x itself. */
net_value net_dropout(net *n, net_value x, double p);

typedef struct net_dense_spec {
    size_t out;
    bool bias;
    model_init init; /* of the weights; all zero: net_he(inputs) */
} net_dense_spec;

/* A dense layer on the channels, the same at each place. Tensors NAME.weight (out, in) and
 * NAME.bias, initially 0. */
net_value net_dense(net *n, net_value x, const char *name, net_dense_spec spec);
/* A dense layer that shares the weights OTHER.weight (out, in), and their init, with an earlier
 * one. */
net_value net_dense_tied(net *n, net_value x, const char *name, const char *other,
                         net_dense_spec spec);

/* ---- tokens: values are (batch, context, channels) ------------------------------------------- */

/* Replace each token by `channels` numbers. Tensor NAME.weight (vocabulary, channels). */
net_value net_embedding(net *n, net_value x, const char *name, size_t channels, model_init init);
/* Add a learned vector for each place in the context. Tensor NAME.weight (context, channels). */
net_value net_positions(net *n, net_value x, const char *name, model_init init);
/* Long short-term memory (nn/recurrent.h); its state from batch to batch is in model.state.
 * Tensors NAME.weight_ih_lLAYER (4 hidden, channels), .weight_hh_lLAYER (4 hidden, hidden),
 * .bias_ih_lLAYER and .bias_hh_lLAYER (4 hidden), uniform in +-1 / sqrt(hidden). */
net_value net_lstm(net *n, net_value x, const char *name, unsigned layer, size_t hidden);
/* Normalise the channels at each place to mean 0 and variance 1 (+ 1e-5), times NAME.weight plus
 * NAME.bias (channels), which are initially 1 and 0.
 * Source  Ba et al. 2016, arXiv:1607.06450, sec. 3 */
net_value net_layernorm(net *n, net_value x, const char *name);
/* Gaussian error linear units as in GPT-2: x (1 + tanh u) / 2, u = sqrt(2 / pi)
 * (x + 0.044715 x^3).
 * Source  Hendrycks and Gimpel 2016, arXiv:1606.08415, sec. 2 */
net_value net_gelu(net *n, net_value x);
/* Causal self-attention (nn/attention.h); queries, keys and values are a third of the channels
 * each. */
net_value net_attention(net *n, net_value x, size_t heads);

/* N(0, 2 / fan), where fan is the number of inputs of an output.
 * Source  He et al. 2015, arXiv:1502.01852, sec. 2.2; MXNet's image-classification example also
 *         initialises LeNet so: Xavier(rnd_type="gaussian", factor_type="in", magnitude=2) */
model_init net_he(size_t fan);

/* Finish the network. The channels of `logits` are the classes; the loss is softmax cross-entropy.
 * What it needs is known now, but nothing large has been allocated: net_allocate does so.
 * Errors those of the calls before, TG_E_ARG, TG_E_NOMEM */
TG_NODISCARD tg_status net_model(net *n, net_value logits, uint64_t seed, model **m_p);

/* Allocate the memory of a finished network, and draw the parameters (model_draw) with its seed.
 * Errors TG_E_NOMEM: if it does not fit into the room, nothing was allocated */
TG_NODISCARD tg_status net_allocate(model *m, const model_room *room);

#endif
