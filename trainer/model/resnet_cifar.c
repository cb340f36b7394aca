/* ResNet-20, -56 and -110 for CIFAR-10: three stages of 16, 32 and 64 channels, (depth - 2) / 6
 * blocks of two 3 x 3 convolutions each, shortcuts without parameters (option A).
 *
 * Weights are drawn as in He et al. 2015 (net_he of the inputs), which the paper refers to. The
 * usual PyTorch re-implementation by Y. Idelbayev does the same, and also pads zero channels on
 * both sides. */
#include "trainer/model/model_net.h"
#include <stdio.h>

extern const tg_entry model_resnet20_entry, model_resnet56_entry, model_resnet110_entry;
extern const model_type model_resnet20, model_resnet56, model_resnet110;

#define SOURCE "He et al. 2016, arXiv:1512.03385, sec. 4.2"

const tg_entry model_resnet20_entry = {
    .name = "resnet20",
    .summary = "ResNet-20 for small images (269,722 parameters)",
    .source = SOURCE,
};
const tg_entry model_resnet56_entry = {
    .name = "resnet56",
    .summary = "ResNet-56 for small images (853,018 parameters)",
    .source = SOURCE,
};
const tg_entry model_resnet110_entry = {
    .name = "resnet110",
    .summary = "ResNet-110 for small images (1,727,962 parameters)",
    .source = SOURCE,
};

static net_value conv(net *n, net_value x, const char *block, const char *name, size_t channels,
                      size_t stride)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", block, name);
    return net_conv(n, x, whole,
                    (net_conv_spec){.channels = channels, .kernel = 3, .stride = stride, .pad = 1});
}

static net_value block(net *n, net_value x, size_t stage, size_t number, size_t channels)
{
    char name[32], norm[64];
    snprintf(name, sizeof name, "layer%zu.%zu.", stage, number);
    const size_t stride = net_shape_of(n, x).channels == channels ? 1 : 2;
    const net_value shortcut = stride == 1 ? x : net_shortcut(n, x, channels);
    snprintf(norm, sizeof norm, "%sbn1", name);
    x = net_batchnorm(n, conv(n, x, name, "conv1", channels, stride), norm, true);
    snprintf(norm, sizeof norm, "%sbn2", name);
    return net_batchnorm_add(n, conv(n, x, name, "conv2", channels, 1), shortcut, norm);
}

static size_t depth_of(const tg_spec *spec)
{
    static const struct {
        const tg_entry *entry;
        size_t depth;
    } depths[] = {{&model_resnet20_entry, 20}, {&model_resnet56_entry, 56}};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        if (tg_spec_entry(spec) == depths[i].entry)
            return depths[i].depth;
    }
    return 110;
}

static tg_status create(const tg_spec *spec, const model_input *in, size_t batch, uint64_t seed,
                        model **m_p)
{
    const size_t blocks = (depth_of(spec) - 2) / 6;
    net *n;
    TG_TRY(net_create(in, batch, &n));
    net_value x = net_image_input(n);
    x = net_batchnorm(n, conv(n, x, "", "conv1", 16, 1), "bn1", true);
    for (size_t stage = 1; stage <= 3; stage++) {
        for (size_t i = 0; i < blocks; i++)
            x = block(n, x, stage, i, (size_t)8 << stage);
    }
    x = net_avgpool(n, x);
    x = net_dense(n, x, "fc", (net_dense_spec){.out = in->classes, .bias = true});
    return net_model(n, x, seed, m_p);
}

const model_type model_resnet20 = {
    .entry = &model_resnet20_entry,
    .data = "cifar10",
    .input = {.height = 32, .width = 32, .channels = 3, .classes = 10},
    .create = create};
const model_type model_resnet56 = {
    .entry = &model_resnet56_entry,
    .data = "cifar10",
    .input = {.height = 32, .width = 32, .channels = 3, .classes = 10},
    .create = create};
const model_type model_resnet110 = {
    .entry = &model_resnet110_entry,
    .data = "cifar10",
    .input = {.height = 32, .width = 32, .channels = 3, .classes = 10},
    .create = create};
