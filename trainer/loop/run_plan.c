/* A job's plan, made with its model and a session of one rank. It sends nothing, unless servers
 * keep the parameters: it offers these to a server that runs meanwhile. */
#include "trainer/loop/run.h"
#include "telegrad/clock.h"
#include "telegrad/server.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <stdlib.h>

static tg_status plan(const model *m, tg_session *s, train_plan_info *info,
                      tg_status (*about)(void *arg, const train_plan_info *info),
                      tg_status (*each)(void *arg, const tg_plan_tensor *tensor), void *arg)
{
    uint32_t *id;
    TG_TRY(tg_alloc(m->ntensors, sizeof *id, &id));
    tg_status status = run_register(s, m, id);
    free(id);
    TG_TRY(status);
    TG_TRY(tg_session_begin(s));
    info->method = tg_session_spec(s, TG_KIND_METHOD);
    info->strategy = tg_session_spec(s, TG_KIND_STRATEGY);
    TG_TRY(about(arg, info));
    return tg_session_plan(s, each, arg);
}

static tg_status input_of(const train_job *job, const char *data, model_input *in_p)
{
    train_unit unit;
    TG_TRY(data_input(data, &unit, in_p));
    return run_context(job->model, job->context, unit, &in_p->context);
}

/* As batcher_steps, but without the data. */
static tg_status length_of(const train_job *job, const char *data, int world, const model_input *in,
                           train_plan_info *info)
{
    const size_t parts = job->accumulate ? job->accumulate : 1;
    const size_t context = in->context > 0 ? in->context : 1;
    size_t samples;
    TG_TRY(train_data_samples(data, job->holdout, &samples));
    const size_t share = (in->context > 0 ? samples - 1 : samples) / context / (size_t)world;
    const char *of = in->context > 0 ? "tokens" : "samples";
    char accumulated[64] = "";
    if (parts > 1)
        snprintf(accumulated, sizeof accumulated, ", %zu batches in each step", parts);
    if (share / parts == 0)
        return tg_fail(TG_E_ARG, "%zu training %s over %d rank%s%s: too few for one step", samples,
                       of, world, world == 1 ? "" : "s", accumulated);
    if (job->batch == 0 || share / job->batch / parts == 0)
        return tg_fail(
            TG_E_ARG, "--batch %zu: allowed: 1 to %zu (%zu training %s over %d rank%s%s)",
            job->batch, share / parts, samples, of, world, world == 1 ? "" : "s", accumulated);
    const size_t total = in->context > 0 ? samples - 1 : samples;
    info->steps_per_epoch = total / ((size_t)world * job->batch * context * parts);
    info->steps = job->steps ? job->steps : job->epochs * info->steps_per_epoch;
    return TG_OK;
}

/* ---- a rank without others ------------------------------------------------------------------- */

tg_status run_lone_rank(bool served, tg_transport *t[2])
{
    TG_TRY(tg_transport_inproc(served ? 2 : 1, t));
    const tg_status status = served ? tg_transport_worker(t[0], 1, &t[0]) : TG_OK;
    for (int i = 0; i < 2 && status != TG_OK; i++) {
        tg_transport_destroy(t[i]);
        t[i] = NULL;
    }
    return status;
}

/* A server that keeps the parameters. The rank offers it its own, and gets them back; no gradients
 * follow. */
typedef struct planning_server {
    tg_transport *transport;
    const train_job *job;
    tg_clock_thread *thread;
    tg_status status;
    char text[1024]; /* of the status */
} planning_server;

static void *serve(void *arg)
{
    planning_server *p = arg;
    const tg_server_config config = {
        .struct_size = sizeof config, .mode = "sync", .optimizer = p->job->optimizer};
    tg_server *server = NULL;
    p->status = tg_server_create(p->transport, 1, &config, &server);
    if (p->status == TG_OK)
        p->status = tg_server_run(server);
    if (p->status != TG_OK)
        snprintf(p->text, sizeof p->text, "%s", tg_error());
    tg_server_destroy(server);
    tg_transport_destroy(p->transport); /* the rank must not wait for it */
    return NULL;
}

static tg_status start_server(planning_server *p)
{
    return tg_clock_thread_start(tg_clock_monotonic(), 0, "tg-server", serve, p, &p->thread);
}

/* Wait for the server. If the rank knows only that it has left, say why. */
static tg_status join_server(planning_server *p, tg_status status)
{
    if (p->thread == NULL)
        return status;
    tg_clock_thread_join(tg_clock_monotonic(), p->thread);
    return status == TG_E_PEER && p->status != TG_OK && p->status != TG_E_PEER
               ? tg_fail(p->status, "server: %s", p->text)
               : status;
}

/* ---- the plan -------------------------------------------------------------------------------- */

tg_status train_plan(const train_job *job, const char *data, int world, bool served,
                     tg_status (*about)(void *arg, const train_plan_info *info),
                     tg_status (*each)(void *arg, const tg_plan_tensor *tensor), void *arg)
{
    train_plan_info info;
    model_input in;
    model *m = NULL;
    tg_transport *t[2] = {NULL};
    tg_session *s = NULL;
    TG_TRY(input_of(job, data, &in));
    TG_TRY(length_of(job, data, world, &in, &info));
    tg_session_config config = run_session_config(job, info.steps_per_epoch, info.steps);
    config.driver = TG_DRIVER_INLINE;
    config.timeout_ms = job->timeout_ms;
    config.stop = job->stop;
    TG_TRY(model_create(job->model, &in, 1, job->seed, &m));
    tg_status status = run_lone_rank(served, t);
    planning_server server = {.job = job, .transport = t[1]};
    if (status == TG_OK && served && run_servers_keep(job))
        status = start_server(&server);
    if (status == TG_OK)
        status = tg_session_create(&config, t[0], &s);
    if (status == TG_OK)
        status = plan(m, s, &info, about, each, arg);
    tg_session_destroy(s);
    tg_transport_destroy(t[0]);
    if (server.thread == NULL)
        tg_transport_destroy(t[1]);
    status = join_server(&server, status);
    model_destroy(m);
    return status;
}
