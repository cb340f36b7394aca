/* A multi-layer perceptron with one or two hidden layers of rectified linear units. The default is
 * that of MXNet's MNIST example, with 109,386 parameters. */
#include "trainer/model/model_net.h"

extern const tg_entry model_mlp_entry;
extern const model_type model_mlp;

static const tg_key keys[] = {
    {.name = "hidden",
     .type = TG_KEY_INT,
     .def = "128",
     .min = 1,
     .max = 16384,
     .help = "units of the first hidden layer"},
    {.name = "hidden2",
     .type = TG_KEY_INT,
     .def = "64",
     .min = 0,
     .max = 16384,
     .help = "units of the second hidden layer; 0: none"},
    {.name = NULL},
};

const tg_entry model_mlp_entry = {
    .name = "mlp",
    .summary = "multi-layer perceptron with relu (109,386 parameters by default)",
    .source = "",
    .keys = keys,
};

static tg_status create(const tg_spec *spec, const model_input *in, size_t batch, uint64_t seed,
                        model **m_p)
{
    const size_t hidden2 = (size_t)tg_spec_int(spec, "hidden2");
    net *n;
    TG_TRY(net_create(in, batch, &n));
    net_value x = net_flatten(n, net_image_input(n));
    const size_t hidden = (size_t)tg_spec_int(spec, "hidden");
    x = net_dense(n, x, "fc1", (net_dense_spec){.out = hidden, .bias = true});
    x = net_act(n, x, NN_RELU);
    if (hidden2 > 0) {
        x = net_dense(n, x, "fc2", (net_dense_spec){.out = hidden2, .bias = true});
        x = net_act(n, x, NN_RELU);
    }
    x = net_dense(n, x, hidden2 > 0 ? "fc3" : "fc2",
                  (net_dense_spec){.out = in->classes, .bias = true});
    return net_model(n, x, seed, m_p);
}

const model_type model_mlp = {.entry = &model_mlp_entry,
                              .data = "mnist",
                              .input = {.height = 28, .width = 28, .channels = 1, .classes = 10},
                              .create = create};
