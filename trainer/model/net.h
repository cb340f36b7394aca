/* A network, described layer by layer in forward order:
 *
 *     net_create(in, batch, &n);
 *     net_value x = net_input(n);
 *     x = net_conv(n, x, "conv1", (net_conv_spec){.channels = 20, .kernel = 5, .bias = true});
 *     x = net_act(n, x, NN_TANH);
 *     x = net_dense(n, net_flatten(n, x), "fc1", (net_dense_spec){.out = 10, .bias = true});
 *     net_model(n, x, seed, &model);
 *
 * A value may be used by several layers: their gradients are added. Calls after a failed one do
 * nothing; net_model reports the first failure and frees the net.
 *
 * Values are arrays (batch, height, width, channels); of tokens height is the context and width 1.
 * Between layers that know how, some are blocked (nn.h). */
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
/* The input of a network of images: refuses tokens. */
net_value net_image_input(net *n);
net_shape net_shape_of(const net *n, net_value x);

/* Report a description that makes no sense, as TG_E_ARG. */
void net_refuse(net *n, const char *format, ...) TG_PRINTF(2, 3);

typedef struct net_conv_spec {
    size_t channels, kernel;
    size_t stride; /* 0: 1 */
    size_t pad;    /* zeros on all sides */
    bool bias;
    model_init init; /* of the weights; all zero: net_he of the inputs of one output */
} net_conv_spec;

/* Tensors NAME.weight (channels, in, kernel, kernel) and NAME.bias, which starts at 0. */
net_value net_conv(net *n, net_value x, const char *name, net_conv_spec spec);
/* Windows that do not overlap; what is left over at the right and the bottom is dropped. */
net_value net_maxpool(net *n, net_value x, size_t window);
net_value net_act(net *n, net_value x, nn_act_kind kind);
/* The same elements as one row of channels (height, width, channels). */
net_value net_flatten(net *n, net_value x);
/* Whether x is blocked; the same values not blocked (x itself if it is not). */
bool net_is_blocked(const net *n, net_value x);
net_value net_plain(net *n, net_value x);

/* Over all places of a batch, channel by channel; relu: then max(., 0). Evaluation uses running
 * statistics, to which each training batch contributes a tenth (its variance unbiased).
 * Tensors NAME.weight, at first 1, and NAME.bias, at first 0, (channels); statistics
 * NAME.running_mean, at first 0, and NAME.running_var, at first 1.
 * Source  Ioffe and Szegedy 2015, arXiv:1502.03167; epsilon and momentum as in PyTorch */
net_value net_batchnorm(net *n, net_value x, const char *name, bool relu);
/* max(batchnorm(x) + shortcut, 0), in one pass. */
net_value net_batchnorm_add(net *n, net_value x, net_value shortcut, const char *name);
/* a + b; relu: max(a + b, 0). */
net_value net_add(net *n, net_value a, net_value b, bool relu);
/* The mean over all places. */
net_value net_avgpool(net *n, net_value x);
/* A shortcut without parameters to half the height and width, rounded up: every second row and
 * column, and zeros for the channels that are new, half of them before the old ones.
 * Source  He et al. 2016, arXiv:1512.03385, sec. 4.2, option A */
net_value net_shortcut(net *n, net_value x, size_t channels);
/* In training elements are 0 with probability p in [0, 1), the others divided by 1 - p. Masks
 * differ between layers, ranks, steps and the parts of a step. p = 0: x itself. */
net_value net_dropout(net *n, net_value x, double p);

typedef struct net_dense_spec {
    size_t out;
    bool bias;
    model_init init; /* of the weights; all zero: net_he of the inputs */
} net_dense_spec;

/* Of the channels, at each place alike. Tensors NAME.weight (out, in) and NAME.bias, which starts
 * at 0. */
net_value net_dense(net *n, net_value x, const char *name, net_dense_spec spec);
/* With the weights of a layer before: OTHER.weight (out, in), and their init. */
net_value net_dense_tied(net *n, net_value x, const char *name, const char *other,
                         net_dense_spec spec);

/* ---- of tokens: values are (batch, context, channels) ---------------------------------------- */

/* The input's tokens as `channels` numbers each. Tensor NAME.weight (vocabulary, channels). */
net_value net_embedding(net *n, net_value x, const char *name, size_t channels, model_init init);
/* x plus a learned vector for each place in the context. Tensor NAME.weight (context, channels). */
net_value net_positions(net *n, net_value x, const char *name, model_init init);
/* Long short-term memory (nn/recurrent.h); what it carries from batch to batch is in model.state.
 * Tensors NAME.weight_ih_lLAYER (4 hidden, channels), .weight_hh_lLAYER (4 hidden, hidden),
 * .bias_ih_lLAYER and .bias_hh_lLAYER (4 hidden), uniform in +-1 / sqrt(hidden). */
net_value net_lstm(net *n, net_value x, const char *name, unsigned layer, size_t hidden);
/* Each place's channels to mean 0 and variance 1 (+ 1e-5), times NAME.weight plus NAME.bias
 * (channels), which start at 1 and 0.
 * Source  Ba et al. 2016, arXiv:1607.06450, sec. 3 */
net_value net_layernorm(net *n, net_value x, const char *name);
/* Gaussian error linear units, as GPT-2 has them: x (1 + tanh u) / 2, u = sqrt(2 / pi)
 * (x + 0.044715 x^3).
 * Source  Hendrycks and Gimpel 2016, arXiv:1606.08415, sec. 2 */
net_value net_gelu(net *n, net_value x);
/* Causal self-attention (nn/attention.h) of queries, keys and values: a third of the channels each.
 */
net_value net_attention(net *n, net_value x, size_t heads);

/* N(0, 2 / fan). Of the inputs of an output:
 * Source  He et al. 2015, arXiv:1502.01852, sec. 2.2; MXNet's image-classification example
 *         initialises LeNet so: Xavier(rnd_type="gaussian", factor_type="in", magnitude=2) */
model_init net_he(size_t fan);

/* The channels of `logits` are the classes; the loss is softmax cross-entropy. Draws the
 * parameters (model_draw). Errors those of the calls before, TG_E_ARG, TG_E_NOMEM */
TG_NODISCARD tg_status net_model(net *n, net_value logits, uint64_t seed, model **m_p);

#endif
