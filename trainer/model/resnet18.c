/* ResNet-18 for CIFAR: the network for ImageNet, but with a first convolution of 3 x 3 and no
 * pooling after it. Shortcuts that change the shape are 1 x 1 convolutions (option B). 11,173,962
 * parameters for 10 classes.
 *
 * Tensor names and initial weights as in torchvision (normal, scaled by an input's outputs; the
 * last layer uniform), except that the bias of the last layer is 0. */
#include "trainer/model/model_net.h"
#include <math.h>
#include <stdio.h>

extern const tg_entry model_resnet18_entry;
extern const model_type model_resnet18;

const tg_entry model_resnet18_entry = {
    .name = "resnet18",
    .summary = "ResNet-18 for small images (11,173,962 parameters)",
    .source = "He et al. 2016, arXiv:1512.03385, sec. 4.1; first layer for small images",
};

static net_value conv(net *n, net_value x, const char *name, size_t channels, size_t kernel,
                      size_t stride)
{
    return net_conv(n, x, name,
                    (net_conv_spec){.channels = channels,
                                    .kernel = kernel,
                                    .stride = stride,
                                    .pad = kernel / 2,
                                    .init = net_he(channels * kernel * kernel)});
}

static net_value block(net *n, net_value x, size_t stage, size_t number, size_t channels)
{
    char name[64];
#define NAME(part) (snprintf(name, sizeof name, "layer%zu.%zu." part, stage, number), name)
    const size_t stride = net_shape_of(n, x).channels == channels ? 1 : 2;
    net_value y = conv(n, x, NAME("conv1"), channels, 3, stride);
    y = net_batchnorm(n, y, NAME("bn1"), true);
    y = conv(n, y, NAME("conv2"), channels, 3, 1);
    if (stride == 1)
        return net_batchnorm_add(n, y, x, NAME("bn2"));
    x = conv(n, x, NAME("downsample.0"), channels, 1, stride);
    x = net_batchnorm(n, x, NAME("downsample.1"), false);
    return net_batchnorm_add(n, y, x, NAME("bn2"));
#undef NAME
}

static tg_status create(const tg_spec *spec, const model_input *in, size_t batch, uint64_t seed,
                        model **m_p)
{
    (void)spec;
    net *n;
    TG_TRY(net_create(in, batch, &n));
    net_value x = net_image_input(n);
    x = net_batchnorm(n, conv(n, x, "conv1", 64, 3, 1), "bn1", true);
    for (size_t stage = 1; stage <= 4; stage++) {
        for (size_t i = 0; i < 2; i++)
            x = block(n, x, stage, i, (size_t)32 << stage);
    }
    x = net_avgpool(n, x);
    const double bound = 1 / sqrt((double)net_shape_of(n, x).channels);
    x = net_dense(
        n, x, "fc",
        (net_dense_spec){.out = in->classes, .bias = true, .init = {MODEL_UNIFORM, bound}});
    return net_model(n, x, seed, m_p);
}

const model_type model_resnet18 = {
    .entry = &model_resnet18_entry,
    .data = "cifar10",
    .input = {.height = 32, .width = 32, .channels = 3, .classes = 10},
    .create = create};
