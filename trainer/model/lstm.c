/* A recurrent language model: embedding, LSTM, decoder. Architecture, tensor names and initial
 * values as in PyTorch's word_language_model example; with the vocabulary of WikiText-2 (33,278
 * words) it has 7,332,078 parameters by default. The state is carried from batch to batch. */
#include "trainer/model/model_net.h"

extern const tg_entry model_lstm_entry;
extern const model_type model_lstm;

static const tg_key keys[] = {
    {.name = "layers",
     .type = TG_KEY_INT,
     .def = "2",
     .min = 1,
     .max = 16,
     .help = "recurrent layers"},
    {.name = "hidden",
     .type = TG_KEY_INT,
     .def = "200",
     .min = 1,
     .max = 16384,
     .help = "units per recurrent layer"},
    {.name = "embed",
     .type = TG_KEY_INT,
     .def = "200",
     .min = 1,
     .max = 16384,
     .help = "size of the embedding of a token"},
    {.name = "tied",
     .type = TG_KEY_FLAG,
     .def = "yes",
     .help = "decoder and embedding share their weights; requires hidden = embed"},
    {.name = "dropout",
     .type = TG_KEY_REAL,
     .def = "0",
     .min = 0,
     .max = 0.99,
     .help = "dropout probability, before and after each recurrent layer"},
    {.name = NULL},
};

const tg_entry model_lstm_entry = {
    .name = "lstm",
    .summary = "recurrent language model of words or characters",
    .source = "Zaremba et al. 2014, arXiv:1409.2329, fig. 2; tied weights: Press and Wolf 2017, "
              "arXiv:1608.05859",
    .keys = keys,
};

static tg_status create(const tg_spec *spec, const model_input *in, size_t batch, uint64_t seed,
                        model **m_p)
{
    const size_t hidden = (size_t)tg_spec_int(spec, "hidden"),
                 embed = (size_t)tg_spec_int(spec, "embed");
    const bool tied = tg_spec_flag(spec, "tied");
    const double dropout = tg_spec_real(spec, "dropout");
    if (tied && hidden != embed)
        return tg_fail(
            TG_E_SPEC,
            "lstm:tied=yes with hidden=%zu, embed=%zu: allowed: equal values, or tied=no", hidden,
            embed);
    const model_init uniform = {MODEL_UNIFORM, 0.1};
    net *n;
    TG_TRY(net_create(in, batch, &n));
    net_value x = net_embedding(n, net_input(n), "encoder", embed, uniform);
    x = net_dropout(n, x, dropout);
    const unsigned layers = (unsigned)tg_spec_int(spec, "layers");
    for (unsigned layer = 0; layer < layers; layer++)
        x = net_dropout(n, net_lstm(n, x, "rnn", layer, hidden), dropout);
    const net_dense_spec decoder = {.out = in->classes, .bias = true, .init = uniform};
    x = tied ? net_dense_tied(n, x, "decoder", "encoder", decoder)
             : net_dense(n, x, "decoder", decoder);
    return net_model(n, x, seed, m_p);
}

const model_type model_lstm = {.entry = &model_lstm_entry,
                               .data = "wikitext-2",
                               .input = {.context = 35, .classes = 33278},
                               .optimizer = "adam:lr=0.002",
                               .create = create};
