/* A transformer in the form of GPT-2: learned positions, normalisation before each sublayer and at
 * the end, no bias at the output. With 65 characters and a context of 128 it has 818,048 parameters
 * by default (the output is tied to the embedding).
 *
 * Tensor names as in GPT-2; all weights are (out, in). Initial weights are N(0, 0.02^2); those of
 * layers that end in a residual sum are N(0, 0.02^2 / (2 layers)). */
#include "trainer/model/model_net.h"
#include <math.h>
#include <stdio.h>

extern const tg_entry model_gpt_entry;
extern const model_type model_gpt;

static const tg_key keys[] = {
    {.name = "layers",
     .type = TG_KEY_INT,
     .def = "4",
     .min = 1,
     .max = 32,
     .help = "blocks of attention and perceptron"},
    {.name = "heads",
     .type = TG_KEY_INT,
     .def = "4",
     .min = 1,
     .max = 256,
     .help = "attention heads; must divide embed"},
    {.name = "embed",
     .type = TG_KEY_INT,
     .def = "128",
     .min = 1,
     .max = 16384,
     .help = "width of the residual stream"},
    {.name = "context",
     .type = TG_KEY_INT,
     .def = "0",
     .min = 0,
     .max = 65536,
     .help = "tokens in a sample; 0: as many as the data have"},
    {.name = "tied",
     .type = TG_KEY_FLAG,
     .def = "yes",
     .help = "output and embedding share their weights"},
    {.name = "dropout",
     .type = TG_KEY_REAL,
     .def = "0",
     .min = 0,
     .max = 0.99,
     .help = "dropout probability, on the embedding and on what is added to the residual stream"},
    {.name = NULL},
};

const tg_entry model_gpt_entry = {
    .name = "gpt",
    .summary = "GPT-2 style transformer of words or characters",
    .source = "Radford et al. 2019, Language models are unsupervised multitask learners, sec. 2.3",
    .keys = keys,
};

typedef struct shape {
    size_t layers, heads, embed;
    double dropout;
} shape;

#define DEVIATION 0.02

/* x plus the outputs of its two sublayers. */
static net_value block(net *n, net_value x, const shape *s, size_t number)
{
    char name[64];
#define NAME(part) (snprintf(name, sizeof name, "transformer.h.%zu." part, number), name)
#define DENSE(part, x, width, deviation) \
    net_dense(n, x, NAME(part),          \
              (net_dense_spec){.out = (width), .bias = true, .init = {MODEL_NORMAL, (deviation)}})
    const double last = DEVIATION / sqrt(2 * (double)s->layers);
    net_value y = net_layernorm(n, x, NAME("ln_1"));
    y = DENSE("attn.c_attn", y, 3 * s->embed, DEVIATION);
    y = DENSE("attn.c_proj", net_attention(n, y, s->heads), s->embed, last);
    x = net_add(n, x, net_dropout(n, y, s->dropout), false);
    y = net_layernorm(n, x, NAME("ln_2"));
    y = DENSE("mlp.c_fc", y, 4 * s->embed, DEVIATION);
    y = DENSE("mlp.c_proj", net_gelu(n, y), s->embed, last);
    return net_add(n, x, net_dropout(n, y, s->dropout), false);
#undef DENSE
#undef NAME
}

static tg_status create(const tg_spec *spec, const model_input *in, size_t batch, uint64_t seed,
                        model **m_p)
{
    const shape s = {.layers = (size_t)tg_spec_int(spec, "layers"),
                     .heads = (size_t)tg_spec_int(spec, "heads"),
                     .embed = (size_t)tg_spec_int(spec, "embed"),
                     .dropout = tg_spec_real(spec, "dropout")};
    const size_t context = (size_t)tg_spec_int(spec, "context");
    if (context > 0 && context != in->context)
        return tg_fail(TG_E_ARG, "gpt:context=%zu, but a sample of the data has %zu tokens",
                       context, in->context);
    const model_init normal = {MODEL_NORMAL, DEVIATION};
    net *n;
    TG_TRY(net_create(in, batch, &n));
    net_value x = net_embedding(n, net_input(n), "transformer.wte", s.embed, normal);
    x = net_dropout(n, net_positions(n, x, "transformer.wpe", normal), s.dropout);
    for (size_t i = 0; i < s.layers; i++)
        x = block(n, x, &s, i);
    x = net_layernorm(n, x, "transformer.ln_f");
    const net_dense_spec head = {.out = in->classes, .init = normal};
    x = tg_spec_flag(spec, "tied") ? net_dense_tied(n, x, "lm_head", "transformer.wte", head)
                                   : net_dense(n, x, "lm_head", head);
    return net_model(n, x, seed, m_p);
}

const model_type model_gpt = {.entry = &model_gpt_entry,
                              .data = "shakespeare",
                              .input = {.context = 128, .classes = 65},
                              .optimizer = "adamw:lr=0.001,weight_decay=0.1",
                              .create = create};
