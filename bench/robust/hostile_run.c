#include "bench/robust/hostile_run.h"
#include "telegrad/server.h"
#include "telegrad/telegrad.h"
#include "telegrad/tools.h"
#include "trainer/data/batcher.h"
#include "trainer/model/model.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SERVERS = 1, TEXT = 300 };

typedef struct crowd crowd;

/* A rank, or the server. */
typedef struct one {
    crowd *all;
    tg_transport *t; /* as it came: of ranks and server */
    int rank;
    pthread_t thread;
    bool started;
    model *m;
    batcher *batches;
    batch_arrays arrays;
    float *lie;
    uint64_t skipped;
    tg_status status;
    char error[TEXT];
} one;

struct crowd {
    const hostile_job *job;
    train_data *data;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int waiting;   /* ranks, for all others; under mutex */
    uint64_t turn; /* how often all have met; under mutex */
    bool failed;   /* nobody waits any more; under mutex */
    one *each;     /* (workers + SERVERS) */
    double accuracy;
};

/* ---- meeting --------------------------------------------------------------------------------- */

/* Note how o has ended, on its thread. */
static void end(one *o, tg_status status)
{
    crowd *all = o->all;
    o->status = status;
    if (status != TG_OK)
        snprintf(o->error, sizeof o->error, "%s", tg_error());
    pthread_mutex_lock(&all->mutex);
    all->failed = all->failed || status != TG_OK;
    pthread_cond_broadcast(&all->cond);
    pthread_mutex_unlock(&all->mutex);
    if (o->t != NULL)
        (void)o->t->ops->shut(o->t);
}

/* Wait until all ranks are here, or one of them has failed. */
static tg_status meet(crowd *all)
{
    pthread_mutex_lock(&all->mutex);
    const uint64_t turn = all->turn;
    if (++all->waiting == all->job->workers) {
        all->waiting = 0;
        all->turn++;
        pthread_cond_broadcast(&all->cond);
    }
    while (all->turn == turn && !all->failed)
        pthread_cond_wait(&all->cond, &all->mutex);
    const bool met = all->turn != turn;
    pthread_mutex_unlock(&all->mutex);
    return met ? TG_OK : tg_fail(TG_E_PEER, "another rank has failed");
}

/* ---- attacks --------------------------------------------------------------------------------- */

static void multiply(one *o, float factor)
{
    for (size_t i = 0; i < o->m->floats; i++)
        o->lie[i] = factor * o->m->grads[i];
}

/* Mean - z deviations of the honest ranks' gradients. */
static void hide(one *o)
{
    const hostile_job *job = o->all->job;
    const double count = job->workers - job->hostile;
    for (size_t i = 0; i < o->m->floats; i++) {
        double sum = 0, squares = 0;
        for (int r = job->hostile; r < job->workers; r++) {
            const double g = (double)o->all->each[r].m->grads[i];
            sum += g;
            squares += g * g;
        }
        const double mean = sum / count, variance = squares / count - mean * mean;
        o->lie[i] = (float)(mean - job->z * sqrt(variance > 0 ? variance : 0));
    }
}

/* Replace a hostile rank's gradient. All ranks call it. */
static tg_status attack(one *o)
{
    const hostile_job *job = o->all->job;
    const char *how = job->attack;
    const bool knows = strcmp(how, "little") == 0, hostile = o->rank < job->hostile;
    if (knows)
        TG_TRY(meet(o->all));
    if (hostile && knows)
        hide(o);
    if (knows)
        TG_TRY(meet(o->all));
    if (!hostile || strcmp(how, "none") == 0)
        return TG_OK;
    if (!knows)
        multiply(o, strcmp(how, "flip") == 0 ? -1 : strcmp(how, "scale") == 0 ? 1000 : NAN);
    memcpy(o->m->grads, o->lie, o->m->floats * sizeof *o->lie);
    return TG_OK;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static tg_status step(one *o, tg_session *s, uint32_t id, uint64_t number)
{
    const model_pass pass = {
        .training = true, .seed = o->all->job->seed, .step = number, .rank = (uint32_t)o->rank};
    const model_batch batch = batcher_fill(o->batches, number, &o->arrays);
    tg_step_info info = {.struct_size = sizeof info};
    model_result result;
    TG_TRY(model_forward(o->m, &batch, &pass, NULL, &result));
    TG_TRY(tg_session_grad_wait(s, id));
    TG_TRY(model_backward(o->m, NULL));
    TG_TRY(attack(o));
    TG_TRY(tg_session_grad_ready(s, id));
    TG_TRY(tg_session_step(s, &info));
    o->skipped += info.skipped;
    return TG_OK;
}

/* All parameters are one tensor, so that rules see whole gradients. */
static tg_status train(one *o, tg_session *s)
{
    uint32_t id;
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = "all",
                              .shape = &o->m->floats,
                              .ndim = 1,
                              .param = tg_array_f32(o->m->params, o->m->floats),
                              .grad = tg_array_f32(o->m->grads, o->m->floats)};
    TG_TRY(tg_session_add(s, &tensor, &id));
    TG_TRY(tg_session_begin(s));
    for (uint64_t i = 0; i < o->all->job->steps; i++)
        TG_TRY(step(o, s, id, i));
    return tg_session_finish(s);
}

static tg_status prepare(one *o)
{
    const hostile_job *job = o->all->job;
    const model_input in = train_data_input(o->all->data, 0);
    const loader_config config = {
        .batch = job->batch, .seed = job->seed, .rank = o->rank, .world = job->workers, .parts = 1};
    TG_TRY(model_create(job->model, &in, job->batch, job->seed, &o->m));
    TG_TRY(tg_alloc(o->m->floats, sizeof *o->lie, &o->lie));
    TG_TRY(batcher_create(o->all->data, DATA_TRAIN, &config, &o->batches));
    return batch_alloc(o->batches, &o->arrays);
}

static tg_status test(one *o)
{
    const loader_config config = {.batch = o->all->job->batch, .world = 1, .parts = 1};
    model_result sum = {0}, result;
    batch_arrays arrays = {0};
    batcher *b;
    TG_TRY(batcher_create(o->all->data, DATA_TEST, &config, &b));
    tg_status status = batch_alloc(b, &arrays);
    for (uint64_t i = 0; status == TG_OK && i < batcher_per_epoch(b); i++) {
        const model_batch batch = batcher_fill(b, i, &arrays);
        status = model_forward(o->m, &batch, &(model_pass){0}, NULL, &result);
        sum.correct += result.correct;
        sum.labels += result.labels;
    }
    batch_free(&arrays);
    batcher_destroy(b);
    o->all->accuracy = (double)sum.correct / (double)sum.labels;
    return status;
}

static tg_status work(one *o)
{
    const hostile_job *job = o->all->job;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = job->method,
                                      .strategy = "ssgd",
                                      .optimizer = job->optimizer,
                                      .seed = job->seed,
                                      .driver = TG_DRIVER_INLINE};
    tg_transport *worker;
    tg_session *s;
    TG_TRY(prepare(o));
    TG_TRY(tg_transport_worker(o->t, SERVERS, &worker));
    o->t = worker;
    TG_TRY(tg_session_create(&config, o->t, &s));
    const tg_status status = train(o, s);
    tg_session_destroy(s);
    TG_TRY(status);
    return o->rank == 0 ? test(o) : TG_OK;
}

static void *be_rank(void *arg)
{
    end(arg, work(arg));
    return NULL;
}

static tg_status serve(const one *o)
{
    const tg_server_config config = {.struct_size = sizeof config, .mode = o->all->job->mode};
    tg_server *s;
    TG_TRY(tg_server_create(o->t, SERVERS, &config, &s));
    const tg_status status = tg_server_run(s);
    tg_server_destroy(s);
    return status;
}

static void *be_server(void *arg)
{
    end(arg, serve(arg));
    return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Start the threads, wait until they end, and fail as the server, or else as the first rank that
 * does not merely tell of another's failure. */
static tg_status run_all(crowd *all)
{
    const int size = all->job->workers + SERVERS;
    const one *culprit = NULL;
    for (int i = 0; i < size; i++) {
        one *o = &all->each[i];
        o->started =
            pthread_create(&o->thread, NULL, i < all->job->workers ? be_rank : be_server, o) == 0;
        if (!o->started)
            end(o, tg_fail(TG_E_NOMEM, "cannot start thread %d", i));
    }
    for (int i = size - 1; i >= 0; i--) {
        one *o = &all->each[i];
        if (o->started)
            pthread_join(o->thread, NULL);
        if (o->status != TG_OK && (culprit == NULL || culprit->status == TG_E_PEER))
            culprit = o;
    }
    return culprit == NULL ? TG_OK : tg_fail(culprit->status, "%s", culprit->error);
}

static tg_status open_all(crowd *all)
{
    const int size = all->job->workers + SERVERS;
    tg_transport **t;
    TG_TRY(train_data_open(all->job->data, 0, &all->data));
    TG_TRY(tg_alloc((size_t)size, sizeof *all->each, &all->each));
    TG_TRY(tg_alloc((size_t)size, sizeof(tg_transport *), &t));
    tg_status status = tg_transport_inproc(size, t);
    for (int i = 0; i < size; i++)
        all->each[i] = (one){.all = all, .t = status == TG_OK ? t[i] : NULL, .rank = i};
    free(t);
    return status;
}

static void close_all(crowd *all)
{
    for (int i = 0; all->each != NULL && i < all->job->workers + SERVERS; i++) {
        one *o = &all->each[i];
        tg_transport_destroy(o->t);
        batch_free(&o->arrays);
        batcher_destroy(o->batches);
        model_destroy(o->m);
        free(o->lie);
    }
    free(all->each);
    train_data_close(all->data);
}

tg_status hostile_run(const hostile_job *job, hostile_result *result_p)
{
    crowd all = {.job = job, .mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    tg_status status = open_all(&all);
    if (status == TG_OK)
        status = run_all(&all);
    if (status == TG_OK)
        *result_p = (hostile_result){all.accuracy, all.each[0].skipped};
    close_all(&all);
    return status;
}
