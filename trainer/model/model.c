#include "trainer/model/model.h"
#include "trainer/model/memory.h"
#include "trainer/model/model_net.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"

#define TRAIN_MODEL(name)                 \
    extern const model_type model_##name; \
    extern const tg_entry model_##name##_entry;
#include "trainer/model/models.def"
#undef TRAIN_MODEL

static const model_type *const types[] = {
#define TRAIN_MODEL(name) &model_##name,
#include "trainer/model/models.def"
#undef TRAIN_MODEL
};

#define TYPES TG_COUNT(types)

static const tg_entry *const entries[] = {
#define TRAIN_MODEL(name) &model_##name##_entry,
#include "trainer/model/models.def"
#undef TRAIN_MODEL
};

const tg_entry *const *model_entries(size_t *count_p)
{
    *count_p = TYPES;
    return entries;
}

tg_status model_parse(const char *spec, tg_spec **spec_p)
{
    return tg_spec_parse("model", entries, TYPES, spec, spec_p);
}

static const model_type *type_of(const tg_spec *parsed)
{
    size_t i = 0;
    while (types[i]->entry != tg_spec_entry(parsed))
        i++;
    return types[i];
}

tg_status model_create(const char *spec, const model_input *in, size_t batch, uint64_t seed,
                       model **m_p)
{
    const model_room room = {.bytes = memory_available(), .networks = 1};
    return model_create_within(spec, in, batch, seed, &room, m_p);
}

tg_status model_create_within(const char *spec, const model_input *in, size_t batch, uint64_t seed,
                              const model_room *room, model **m_p)
{
    model *m = NULL;
    if (batch < 1 || batch > 65536)
        return tg_fail(TG_E_ARG, "--batch %zu: allowed: 1 to 65536 samples", batch);
    tg_spec *parsed;
    TG_TRY(model_parse(spec, &parsed));
    tg_status status = type_of(parsed)->create(parsed, in, batch, seed, &m);
    tg_spec_free(parsed);
    TG_TRY(status);
    status = net_allocate(m, room);
    if (status != TG_OK) {
        model_destroy(m);
        return status;
    }
    *m_p = m;
    return TG_OK;
}

tg_status model_usual_data(const char *spec, const char **data_p, model_input *input_p)
{
    tg_spec *parsed;
    TG_TRY(model_parse(spec, &parsed));
    *data_p = type_of(parsed)->data;
    *input_p = type_of(parsed)->input;
    if (tg_spec_has(parsed, "context") && tg_spec_int(parsed, "context") > 0)
        input_p->context = (size_t)tg_spec_int(parsed, "context");
    tg_spec_free(parsed);
    return TG_OK;
}

tg_status model_usual_optimizer(const char *spec, const char **optimizer_p)
{
    tg_spec *parsed;
    TG_TRY(model_parse(spec, &parsed));
    *optimizer_p = type_of(parsed)->optimizer;
    tg_spec_free(parsed);
    return TG_OK;
}

void model_draw(model *m, uint64_t seed)
{
    for (size_t t = 0; t < m->ntensors; t++) {
        const model_tensor *tensor = &m->tensors[t];
        const tg_rng_key key = {.seed = seed, .purpose = TG_PURPOSE_INIT, .tensor = (uint32_t)t};
        const double value = tensor->init.value;
        float *w = m->params + tensor->offset;
        for (size_t i = 0; i < tensor->n; i++) {
            switch (tensor->init.kind) {
            case MODEL_CONSTANT:
                w[i] = (float)value;
                break;
            case MODEL_NORMAL:
                w[i] = (float)(value * tg_rng_normal(&key, i));
                break;
            case MODEL_UNIFORM:
                w[i] = (float)(value * (2 * tg_rng_uniform(&key, i) - 1));
                break;
            }
        }
    }
}
