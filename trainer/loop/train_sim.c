/* A model's step as a list of work, recorded while the model makes one pass over zeros. */
#include "trainer/loop/layer_times.h"
#include "trainer/loop/run.h"
#include "telegrad/tools.h"
#include <stdlib.h>
#include <string.h>

struct train_sim {
    model *model;
    train_times times;
    bool own_times;
    uint32_t *trained;     /* (model->ntensors) number among the trained tensors */
    tg_sim_tensor *tensor; /* (ntrained) */
    size_t ntrained;
    tg_work *work;
    size_t nwork, room;
    bool full; /* out of memory for the list of work */
    int64_t tau_ns;
};

/* ---- the list -------------------------------------------------------------------------------- */

static tg_status add(train_sim *s, tg_work_kind kind, uint32_t tensor, int64_t ns)
{
    tg_work *last = s->nwork > 0 ? &s->work[s->nwork - 1] : NULL;
    if (kind == TG_WORK_COMPUTE && last && last->kind == kind) {
        last->ns += ns;
        return TG_OK;
    }
    if (s->nwork == s->room) {
        const size_t room = 2 * s->room + 64;
        tg_work *more = realloc(s->work, room * sizeof *more);
        if (!more)
            return tg_fail(TG_E_NOMEM, "out of memory: the work of a step");
        s->work = more;
        s->room = room;
    }
    s->work[s->nwork++] = (tg_work){kind, tensor, ns};
    return TG_OK;
}

static tg_status param_read(void *arg, size_t tensor)
{
    train_sim *s = arg;
    return add(s, TG_WORK_PARAM_WAIT, s->trained[tensor], 0);
}

static tg_status grad_ready(void *arg, size_t tensor)
{
    train_sim *s = arg;
    return add(s, TG_WORK_GRAD_READY, s->trained[tensor], 0);
}

static void layer_begins(void *arg, model_work work, size_t layer)
{
    train_sim *s = arg;
    const int64_t ns = s->times.layer_ns[(size_t)work * s->times.layers + layer];
    s->tau_ns += ns;
    s->full = s->full || add(s, TG_WORK_COMPUTE, 0, ns) != TG_OK;
}

static tg_status take_down(train_sim *s, const model_batch *batch, uint32_t parts)
{
    const model_hooks hooks = {
        .arg = s, .param_read = param_read, .grad_ready = grad_ready, .layer_begins = layer_begins};
    for (uint32_t part = 0; part < parts; part++) {
        const model_pass pass = {.training = true, .part = part, .parts = parts};
        model_result result;
        TG_TRY(model_forward(s->model, batch, &pass, &hooks, &result));
        TG_TRY(model_backward(s->model, &hooks));
    }
    return s->full ? tg_fail(TG_E_NOMEM, "out of memory: the work of a step") : TG_OK;
}

/* ---- making one ------------------------------------------------------------------------------ */

static tg_status take_times(train_sim *s, const train_job *job, const model_batch *batch)
{
    const size_t layers = model_layers(s->model);
    if (job->times && job->times->layers > 0) {
        if (job->times->layers != layers)
            return tg_fail(TG_E_MISMATCH,
                           "the times given are for %zu layers, but model %s has %zu",
                           job->times->layers, job->model, layers);
        s->times = *job->times;
        return TG_OK;
    }
    s->own_times = true;
    s->times.layers = layers;
    TG_TRY(tg_alloc(MODEL_WORKS * layers, sizeof *s->times.layer_ns, &s->times.layer_ns));
    return job->tau_ns > 0
               ? layer_times_spread(s->model, batch, job->seed, job->tau_ns, s->times.layer_ns)
               : layer_times_measure(s->model, batch, job->seed, s->times.layer_ns);
}

static tg_status list_tensors(train_sim *s)
{
    const model *m = s->model;
    TG_TRY(tg_alloc(m->ntensors, sizeof *s->trained, &s->trained));
    TG_TRY(tg_alloc(m->ntensors, sizeof *s->tensor, &s->tensor));
    for (size_t i = 0; i < m->ntensors; i++) {
        const model_tensor *t = &m->tensors[i];
        if (t->kind != MODEL_TRAINED)
            continue;
        s->trained[i] = (uint32_t)s->ntrained;
        s->tensor[s->ntrained++] =
            (tg_sim_tensor){.name = t->name, .shape = t->shape, .ndim = t->ndim};
    }
    return TG_OK;
}

static tg_status walk(train_sim *s, const train_job *job)
{
    const model_input *in = &s->model->input;
    const size_t batch = s->model->batch, places = batch * (in->context ? in->context : 1);
    float *x = NULL;
    int32_t *tokens = NULL;
    tg_status status = tg_alloc(batch * in->height * in->width * in->channels, sizeof *x, &x);
    if (status == TG_OK)
        status = tg_alloc(places, sizeof *tokens, &tokens); /* labels are all zero, too */
    const model_batch zeros = {.x = in->context ? NULL : x,
                               .tokens = in->context ? tokens : NULL,
                               .labels = tokens,
                               .count = batch};
    if (status == TG_OK)
        status = take_times(s, job, &zeros);
    if (status == TG_OK)
        status = take_down(s, &zeros, job->accumulate ? job->accumulate : 1);
    free(x);
    free(tokens);
    return status;
}

static tg_status input_of(const train_job *job, const char *data, model_input *in_p)
{
    const char *usual;
    train_unit unit;
    if (!data) {
        TG_TRY(model_usual_data(job->model, &usual, in_p));
        return in_p->classes ? TG_OK
                             : tg_fail(TG_E_SPEC,
                                       "model %s: its usual input is not known: allowed: one that "
                                       "telegrad models lists with data",
                                       job->model);
    }
    TG_TRY(data_input(data, &unit, in_p));
    return run_context(job->model, job->context, unit, &in_p->context);
}

static tg_status create(train_sim *s, const train_job *job, const char *data)
{
    model_input in;
    TG_TRY(input_of(job, data, &in));
    const bool measured = job->tau_ns == 0 && !(job->times && job->times->layers > 0);
    in.bf16 = measured && job->precision == TRAIN_BF16; /* otherwise the CPU need not have it */
    TG_TRY(model_create(job->model, &in, measured ? job->batch : 1, job->seed, &s->model));
    TG_TRY(list_tensors(s));
    return walk(s, job);
}

tg_status train_sim_create(const train_job *job, const char *data, train_sim **s_p)
{
    train_sim *s;
    TG_TRY(tg_alloc(1, sizeof *s, &s));
    const tg_status status = create(s, job, data);
    if (status != TG_OK) {
        train_sim_destroy(s);
        return status;
    }
    *s_p = s;
    return TG_OK;
}

void train_sim_destroy(train_sim *s)
{
    if (!s)
        return;
    model_destroy(s->model);
    if (s->own_times)
        train_times_free(&s->times);
    free(s->trained);
    free(s->tensor);
    free(s->work);
    free(s);
}

train_sim_info train_sim_about(const train_sim *s)
{
    return (train_sim_info){.work = s->work,
                            .nwork = s->nwork,
                            .times = &s->times,
                            .tau_ns = s->tau_ns,
                            .params = s->model->params_total,
                            .tensors = s->ntrained,
                            .tensor = s->tensor,
                            .context = s->model->input.context,
                            .classes = s->model->input.classes};
}

tg_status train_sim_exchanges(const train_sim *s, const train_job *job, uint64_t steps_per_epoch,
                              uint64_t total_steps, tg_simulation **sim_p)
{
    tg_session_config config = run_session_config(job, steps_per_epoch, total_steps);
    config.driver = job->driver;
    config.codec_threads = job->codec_threads;
    config.overlap = job->overlap;
    config.nodes = job->nodes;
    return tg_simulation_create(&config, s->tensor, s->ntrained, sim_p);
}
