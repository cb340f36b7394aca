#include "trainer/loop/run_layers.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const work_names[MODEL_WORKS] = {
    [MODEL_FORWARD] = "forward", [MODEL_WEIGHTS] = "weights", [MODEL_INPUTS] = "inputs"};

/* Make a name such as "weights conv1". */
static tg_status name_of(run *r, size_t work, const model_tensor *first, const char **name_p)
{
    char text[96];
    const char *dot = strrchr(first->name, '.');
    const int len = dot ? (int)(dot - first->name) : (int)strlen(first->name);
    snprintf(text, sizeof text, "%s %.*s", work_names[work], len, first->name);
    return tg_trace_name(r->job->trace, text, name_p);
}

tg_status run_layers_make(run *r)
{
    const size_t layers = model_layers(r->model);
    if (r->job->trace == NULL)
        return TG_OK;
    TG_TRY(tg_alloc(MODEL_WORKS * layers, sizeof *r->layer_names, &r->layer_names));
    for (size_t i = 0; i < MODEL_WORKS * layers; i++) {
        const model_tensor *first = model_layer_tensor(r->model, i % layers);
        if (first != NULL)
            TG_TRY(name_of(r, i / layers, first, &r->layer_names[i]));
    }
    return TG_OK;
}

void run_layers_free(run *r)
{
    free(r->layer_names);
}

void run_layers_begin(run *r, model_work work, size_t layer)
{
    if (r->layer_names == NULL)
        return;
    run_layers_end(r);
    r->layer_name = r->layer_names[work * model_layers(r->model) + layer];
    r->layer_ns = r->layer_name ? run_now(r) : 0;
}

void run_layers_end(run *r)
{
    if (r->layer_name != NULL)
        tg_trace_span(r->job->trace, r->transport->rank, TG_ROW_LAYERS, r->layer_name, r->layer_ns,
                      run_now(r), r->step, 0);
    r->layer_name = NULL;
}
