/* Weights that are read from a file, and weights that are written to one. */
#include "trainer/loop/run.h"
#include "telegrad/tools.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Keys are the names of options of `telegrad eval`. */
static tg_status describe(run_metadata *d, const char *format, ...) TG_PRINTF(2, 3);

static tg_status describe(run_metadata *d, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return tg_fail(TG_E_NOMEM, "out of memory: what weights say of themselves");
    d->list[d->count] = d->text[d->count] = text;
    d->count++;
    return TG_OK;
}

void run_metadata_free(run_metadata *d)
{
    for (size_t i = 0; i < d->count; i++)
        free(d->text[i]);
    d->count = 0;
}

static tg_status describe_buckets(const run *r, run_metadata *d)
{
    const size_t room = 11 * r->nbuckets + 1;
    char *list;
    TG_TRY(tg_alloc(room, 1, &list));
    for (size_t i = 0, at = 0; i < r->nbuckets; i++)
        at += (size_t)snprintf(list + at, room - at, "%s%" PRIu32, i ? "," : "", r->buckets[i]);
    const tg_status status = describe(d, "buckets=%s", list);
    free(list);
    return status;
}

static tg_status describe_densities(const run *r, run_metadata *d)
{
    const size_t room = 16 * r->nbuckets + 1;
    char *list;
    TG_TRY(tg_alloc(room, 1, &list));
    for (size_t i = 0, at = 0; i < r->nbuckets; i++)
        at += (size_t)snprintf(list + at, room - at, "%s%.3g", i ? "," : "", r->density[i]);
    const tg_status status = describe(d, "densities=%s", list);
    free(list);
    return status;
}

tg_status run_describe(const run *r, run_metadata *d)
{
    const train_job *job = r->job;
    tg_spec *spec;
    d->count = 0;
    TG_TRY(model_parse(job->model, &spec));
    tg_status status = describe(d, "model=%s", tg_spec_text(spec));
    tg_spec_free(spec);
    TG_TRY(status);
    TG_TRY(describe(d, "data=%s", job->data_spec ? job->data_spec : train_data_name(r->data)));
    TG_TRY(describe(d, "holdout=%zu", job->holdout));
    TG_TRY(describe(d, "batch=%zu", job->batch));
    if (r->context > 0)
        TG_TRY(describe(d, "context=%zu", r->context));
    TG_TRY(describe(d, "precision=%s", train_precision_names[job->precision]));
    TG_TRY(describe(d, "data_hash=%016" PRIx64, train_data_hash(r->data)));
    if (r->buckets)
        TG_TRY(describe_buckets(r, d));
    return r->density ? describe_densities(r, d) : TG_OK;
}

tg_status run_read_weights(model *m, const tg_weights *w)
{
    tg_weights_tensor *tensors;
    TG_TRY(tg_alloc(m->ntensors, sizeof *tensors, &tensors));
    for (size_t i = 0; i < m->ntensors; i++) {
        const model_tensor *t = &m->tensors[i];
        tensors[i] = (tg_weights_tensor){t->name, t->shape, t->ndim, m->params + t->offset};
    }
    tg_status status = tg_weights_read(w, tensors, m->ntensors, true);
    free(tensors);
    return status;
}

tg_status run_init_weights(run *r)
{
    tg_weights *w;
    if (!r->job->init || r->transport->rank != 0)
        return TG_OK;
    TG_TRY(tg_weights_open(r->job->init, &w));
    tg_status status = run_read_weights(r->model, w);
    tg_weights_close(w);
    return status;
}
