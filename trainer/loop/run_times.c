/* Rank 0 measures by the processor time of its thread, in separate passes over the first batch.
 * Afterwards parameters, statistics and state are restored. The other ranks wait meanwhile:
 * simulated time stands still as long as one rank holds it. */
#include "trainer/loop/run_times.h"
#include "trainer/loop/layer_times.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* taken (MODEL_WORKS, layers) */
static tg_status time_first_batch(run *r, int64_t *taken)
{
    model *m = r->model;
    float *params;
    loader *l = NULL;
    model_batch batch;
    const loader_config config = run_loader_config(r);
    TG_TRY(tg_alloc(m->floats, sizeof *params, &params));
    memcpy(params, m->params, m->floats * sizeof *params);
    tg_status status = loader_create(r->data, DATA_TRAIN, &config, &l);
    if (status == TG_OK)
        status = loader_next(l, &batch);
    if (status == TG_OK)
        status = r->job->tau_ns > 0
                     ? layer_times_spread(m, &batch, r->job->seed, r->job->tau_ns, taken)
                     : layer_times_measure(m, &batch, r->job->seed, taken);
    memcpy(m->params, params, m->floats * sizeof *params);
    run_clear_state(r);
    loader_destroy(l);
    free(params);
    return status;
}

tg_status run_times_layers(run *r)
{
    train_times *times = r->job->times;
    const size_t layers = model_layers(r->model), works = MODEL_WORKS * layers;
    if (times == NULL || r->transport->rank != 0)
        return TG_OK;
    if (times->layers > 0)
        return times->layers == layers
                   ? TG_OK
                   : tg_fail(TG_E_MISMATCH,
                             "the times given are for %zu layers, but model %s has %zu",
                             times->layers, r->job->model, layers);
    int64_t *taken;
    TG_TRY(tg_alloc(works, sizeof *taken, &taken));
    const tg_status status = time_first_batch(r, taken);
    if (status != TG_OK) {
        free(taken);
        return status;
    }
    times->layers = layers;
    times->layer_ns = taken;
    return TG_OK;
}

/* ---- buckets --------------------------------------------------------------------------------- */

tg_status run_times_buckets(run *r)
{
    train_times *times = r->job->times;
    if (times == NULL || r->transport->rank != 0 || times->known || r->job->tau_ns > 0)
        return TG_OK;
    size_t count;
    tg_bucket_cost *cost;
    TG_TRY(tg_session_measure(r->session, 0, NULL, &count));
    TG_TRY(tg_alloc(count, sizeof *cost, &cost));
    cost[0].struct_size = sizeof *cost;
    const tg_status status = tg_session_measure(r->session, count, cost, &count);
    if (status != TG_OK) {
        free(cost);
        return status;
    }
    times->bucket = cost;
    times->buckets = count;
    times->known = true;
    return TG_OK;
}

tg_status run_times_take(run *r)
{
    const train_times *times = r->job->times;
    if (times == NULL || times->buckets == 0)
        return TG_OK;
    return tg_session_set_costs(r->session, times->bucket, times->buckets);
}

void train_times_free(train_times *times)
{
    free(times->layer_ns);
    free(times->bucket);
    *times = (train_times){0};
}

/* ---- working --------------------------------------------------------------------------------- */

double run_pace_of(const train_job *job, int rank, uint64_t step)
{
    double pace = 1;
    for (size_t i = 0; i < job->nslow; i++) {
        const train_slow *s = &job->slow[i];
        if (s->rank == rank && step + 1 >= s->from && step + 1 <= s->to)
            pace *= s->times;
    }
    if (job->tau_jitter > 0) {
        const tg_rng_key key = {
            .seed = job->seed, .purpose = TG_PURPOSE_FAULT, .rank = (uint32_t)rank, .step = step};
        pace *= 1 + job->tau_jitter * tg_rng_uniform(&key, 0);
    }
    return pace;
}

static bool has_own_pace(const train_job *job, int rank)
{
    bool own = job->tau_jitter > 0;
    for (size_t i = 0; i < job->nslow; i++)
        own = own || job->slow[i].rank == rank;
    return own;
}

size_t run_paced_ranks(const train_job *job, int world, int *rank)
{
    size_t n = 1;
    bool other = !has_own_pace(job, 0);
    rank[0] = 0;
    for (int r = 1; r < world; r++) {
        if (!has_own_pace(job, r) && other)
            continue;
        other = other || !has_own_pace(job, r);
        rank[n++] = r;
    }
    return n;
}

double run_pace(const run *r)
{
    return run_pace_of(r->job, r->transport->rank, r->step);
}

void run_work(run *r, model_work work, size_t layer)
{
    const train_times *times = r->job->times;
    tg_clock_work(r->transport->clock,
                  llround(r->pace * (double)times->layer_ns[work * times->layers + layer]));
}

void run_work_forward(const run *r)
{
    const train_times *times = r->job->times;
    int64_t sum = 0;
    for (size_t i = 0; times != NULL && i < times->layers; i++)
        sum += times->layer_ns[i];
    tg_clock_work(r->transport->clock, sum);
}
