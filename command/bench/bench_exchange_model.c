#include "command/bench/bench_exchange_model.h"
#include "trainer/model/model.h"
#include <stdlib.h>

struct opened {
    model *m; /* holds the names */
    bench_tensor *tensor;
};

tg_status bench_exchange_model_check(const char *spec)
{
    tg_spec *parsed;
    TG_TRY(model_parse(spec, &parsed));
    tg_spec_free(parsed);
    return TG_OK;
}

static tg_status take_tensors(struct opened *it, bench_exchange_options *o)
{
    it->tensor = calloc(it->m->ntensors, sizeof *it->tensor);
    if (!it->tensor)
        return tg_fail(TG_E_NOMEM, "out of memory: %zu tensors", it->m->ntensors);
    for (size_t i = 0; i < it->m->ntensors; i++) {
        const model_tensor *t = &it->m->tensors[i];
        if (t->kind != MODEL_TRAINED)
            continue;
        it->tensor[o->tensors++] =
            (bench_tensor){.name = t->name, .n = t->n, .rows = t->ndim > 0 ? t->shape[0] : t->n};
        o->n += t->n;
    }
    o->tensor = it->tensor;
    return TG_OK;
}

tg_status bench_exchange_model_open(const char *spec, bench_exchange_options *o, void **opened_p)
{
    const char *data;
    model_input in;
    TG_TRY(model_usual_data(spec, &data, &in));
    if (!in.classes)
        return tg_fail(TG_E_SPEC, "--model %.64s: its usual input is not known: use --elements N",
                       spec);
    struct opened *it = calloc(1, sizeof *it);
    if (!it)
        return tg_fail(TG_E_NOMEM, "out of memory: model %.64s", spec);
    *opened_p = it;
    TG_TRY(model_create(spec, &in, 1, 1, &it->m));
    return take_tensors(it, o);
}

void bench_exchange_model_close(void *opened)
{
    struct opened *it = opened;
    if (!it)
        return;
    model_destroy(it->m);
    free(it->tensor);
    free(it);
}
