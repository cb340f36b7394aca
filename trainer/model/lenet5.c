/* LeNet-5 in the form of MXNet's MNIST example (two convolutions of 20 and 50 channels, 500 hidden
 * units), with 431,080 parameters for 28 x 28 grey images. Many papers on gradient compression use
 * this network. */
#include "trainer/model/model_net.h"

extern const tg_entry model_lenet5_entry;
extern const model_type model_lenet5;

static const tg_key keys[] = {
    {.name = "act",
     .type = TG_KEY_CHOICE,
     .def = "tanh",
     .choices = "tanh|relu",
     .help = "activation after each layer except the last"},
    {.name = NULL},
};

const tg_entry model_lenet5_entry = {
    .name = "lenet5",
    .summary = "LeNet-5: conv 20, conv 50, 500 hidden units (431,080 parameters)",
    .source = "LeCun et al. 1998, Proc. IEEE 86(11), sec. II; layer sizes of MXNet's example",
    .keys = keys,
};

static tg_status create(const tg_spec *spec, const model_input *in, size_t batch, uint64_t seed,
                        model **m_p)
{
    const nn_act_kind act = tg_spec_word(spec, "act")[0] == 't' ? NN_TANH : NN_RELU;
    net *n;
    TG_TRY(net_create(in, batch, &n));
    net_value x = net_image_input(n);
    x = net_conv(n, x, "conv1", (net_conv_spec){.channels = 20, .kernel = 5, .bias = true});
    x = net_maxpool(n, net_act(n, x, act), 2);
    x = net_conv(n, x, "conv2", (net_conv_spec){.channels = 50, .kernel = 5, .bias = true});
    x = net_maxpool(n, net_act(n, x, act), 2);
    x = net_dense(n, net_flatten(n, x), "fc1", (net_dense_spec){.out = 500, .bias = true});
    x = net_act(n, x, act);
    x = net_dense(n, x, "fc2", (net_dense_spec){.out = in->classes, .bias = true});
    return net_model(n, x, seed, m_p);
}

const model_type model_lenet5 = {.entry = &model_lenet5_entry,
                                 .data = "mnist",
                                 .input = {.height = 28, .width = 28, .channels = 1, .classes = 10},
                                 .create = create};
