/* VGG-11 (configuration A) for CIFAR: five poolings reduce 32 x 32 images to a single place, and
 * one dense layer replaces the three of ImageNet. Tensor names and initial weights as in
 * torchvision (normal, scaled by an input's outputs; the last layer N(0, 0.01^2)). */
#include "trainer/model/model_net.h"
#include <stdio.h>

extern const tg_entry model_vgg11_entry;
extern const model_type model_vgg11;

static const tg_key keys[] = {
    {.name = "bn",
     .type = TG_KEY_FLAG,
     .def = "yes",
     .help = "batch normalisation after each convolution"},
    {.name = NULL},
};

const tg_entry model_vgg11_entry = {
    .name = "vgg11",
    .summary = "VGG-11 for images of 32 x 32 and more (9,231,114 parameters)",
    .source = "Simonyan and Zisserman 2015, arXiv:1409.1556, table 1 A; one dense layer",
    .keys = keys,
};

enum { POOL = 0 };

static const size_t layers[] = {64,  POOL, 128,  POOL, 256, 256, POOL,
                                512, 512,  POOL, 512,  512, POOL};

static tg_status create(const tg_spec *spec, const model_input *in, size_t batch, uint64_t seed,
                        model **m_p)
{
    const bool norm = tg_spec_flag(spec, "bn");
    net *n;
    TG_TRY(net_create(in, batch, &n));
    net_value x = net_image_input(n);
    if (in->height < 32 || in->width < 32)
        net_refuse(n, "vgg11: images of %zu x %zu: allowed: 32 x 32 and more", in->height,
                   in->width);
    size_t number = 0; /* number of the part, as in torchvision */
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        if (layers[i] == POOL) {
            x = net_maxpool(n, x, 2);
            number++;
            continue;
        }
        char name[32];
        snprintf(name, sizeof name, "features.%zu", number);
        x = net_conv(n, x, name,
                     (net_conv_spec){.channels = layers[i],
                                     .kernel = 3,
                                     .pad = 1,
                                     .bias = true,
                                     .init = net_he(layers[i] * 9)});
        snprintf(name, sizeof name, "features.%zu", number + 1);
        x = norm ? net_batchnorm(n, x, name, true) : net_act(n, x, NN_RELU);
        number += norm ? 3 : 2;
    }
    x = net_dense(n, net_flatten(n, x), "classifier",
                  (net_dense_spec){.out = in->classes, .bias = true, .init = {MODEL_NORMAL, 0.01}});
    return net_model(n, x, seed, m_p);
}

const model_type model_vgg11 = {.entry = &model_vgg11_entry,
                                .data = "cifar10",
                                .input = {.height = 32, .width = 32, .channels = 3, .classes = 10},
                                .create = create};
