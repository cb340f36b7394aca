/* A job's plan: its model and a session of one rank, which sends nothing. */
#include "train/run.h"
#include "train/train_util.h"
#include <stdlib.h>

static tg_status plan(const model *m, tg_session *s,
                      tg_status (*each)(void *arg, const tg_plan_tensor *tensor), void *arg)
{
    uint32_t *id;
    TG_TRY(train_alloc(m->ntensors, sizeof *id, &id));
    tg_status status = run_register(s, m, id);
    free(id);
    TG_TRY(status);
    TG_TRY(tg_session_begin(s));
    return tg_session_plan(s, each, arg);
}

static tg_status input_of(const train_job *job, const char *data, model_input *in_p)
{
    train_unit unit;
    TG_TRY(data_input(data, &unit, in_p));
    return run_context(job->model, job->context, unit, &in_p->context);
}

tg_status train_plan(const train_job *job, const char *data,
                     tg_status (*each)(void *arg, const tg_plan_tensor *tensor), void *arg)
{
    const tg_session_config config = {
        .struct_size = sizeof config,
        .method = job->method,
        .rules = job->rules,
        .nrules = job->nrules,
        .strategy = job->strategy,
        .optimizer = job->optimizer,
        .seed = job->seed,
        .steps_per_epoch = 1000, /* any: the plan is of a step after all warm-ups */
        .driver = TG_DRIVER_INLINE,
        .bucket_bytes = job->bucket_bytes,
    };
    model_input in;
    model *m = NULL;
    tg_transport *t = NULL;
    tg_session *s = NULL;
    TG_TRY(input_of(job, data, &in));
    TG_TRY(model_create(job->model, &in, 1, job->seed, &m));
    tg_status status = tg_transport_inproc(1, &t);
    if (status == TG_OK)
        status = tg_session_create(&config, t, &s);
    if (status == TG_OK)
        status = plan(m, s, each, arg);
    tg_session_destroy(s);
    tg_transport_destroy(t);
    model_destroy(m);
    return status;
}
