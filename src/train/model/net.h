/* A chain of layers: a model file describes it by calls in forward order, then takes the model.
 *
 *     net_create(in, batch, &n);
 *     net_conv(n, "conv1", 20, 5); net_act(n, NN_TANH); net_maxpool(n, 2); net_dense(n, "fc1", 10);
 *     net_model(n, seed, &model);
 *
 * Calls after a failed one do nothing; net_model reports the first failure and frees the net. */
#ifndef TG_TRAIN_NET_H
#define TG_TRAIN_NET_H

#include "train/model/model.h"
#include "train/nn/nn.h"

typedef struct net net;

TG_NODISCARD tg_status net_create(const model_input *in, size_t batch, net **n_p);
/* kernel x kernel, stride 1, no padding. Tensors NAME.weight (channels, in, kernel, kernel),
 * NAME.bias. */
void net_conv(net *n, const char *name, size_t channels, size_t kernel);
void net_maxpool(net *n, size_t window);
void net_act(net *n, nn_act_kind kind);
/* Of everything before, flattened (height, width, channels). Tensors NAME.weight (out, in),
 * NAME.bias. */
void net_dense(net *n, const char *name, size_t out);
/* The last layer's outputs are the logits, in->classes of them; the loss is softmax cross-entropy.
 * Draws the parameters (model_init). Errors those of the calls before, TG_E_ARG, TG_E_NOMEM */
TG_NODISCARD tg_status net_model(net *n, uint64_t seed, model **m_p);

#endif
