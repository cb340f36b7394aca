/* LeNet-5 as MXNet's MNIST example has it (two convolutions of 20 and 50 channels, 500 hidden
 * units): 431,080 parameters for 28 x 28 grey images. The network of many gradient compression
 * papers. */
#include "train/model/net.h"

extern const tg_entry model_lenet5_entry;
extern const model_type model_lenet5;

static const tg_key keys[] = {
    {.name = "act",
     .type = TG_KEY_CHOICE,
     .def = "tanh",
     .choices = "tanh|relu",
     .help = "activation after each layer but the last"},
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
    net_conv(n, "conv1", 20, 5);
    net_act(n, act);
    net_maxpool(n, 2);
    net_conv(n, "conv2", 50, 5);
    net_act(n, act);
    net_maxpool(n, 2);
    net_dense(n, "fc1", 500);
    net_act(n, act);
    net_dense(n, "fc2", in->classes);
    return net_model(n, seed, m_p);
}

const model_type model_lenet5 = {.entry = &model_lenet5_entry, .create = create};
