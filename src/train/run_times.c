/* Measuring is by the processor time of rank 0's thread, in passes of its own over the first batch,
 * after which parameters, statistics and state are as they were. Other ranks wait for it meanwhile:
 * time stands still in such a run while one rank does not let it go on. */
#include "train/run_times.h"
#include "train/train_util.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PASSES_LEAST = 3, PASSES_MOST = 9 }; /* after the first one, which is slower */

#define PASSES_NS INT64_C(2000000000) /* no more of them after so long */

/* ---- passes ---------------------------------------------------------------------------------- */

typedef struct stopwatch {
    size_t layers;
    double *ns; /* (MODEL_WORKS, layers) of this pass; < 0: the passes have no such work */
    size_t at;  /* what is done now; SIZE_MAX: nothing yet */
    int64_t since_ns;
} stopwatch;

static int64_t processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* What is done now ends; `next` begins. */
static void turn_to(stopwatch *s, size_t next)
{
    const int64_t now = processor_ns();
    if (s->at != SIZE_MAX)
        s->ns[s->at] += (double)(now - s->since_ns);
    if (next != SIZE_MAX)
        s->ns[next] = s->ns[next] < 0 ? 0 : s->ns[next];
    s->at = next;
    s->since_ns = now;
}

static void on_begins(void *arg, model_work work, size_t layer)
{
    stopwatch *s = arg;
    turn_to(s, (size_t)work * s->layers + layer);
}

static tg_status time_pass(run *r, const model_batch *batch, stopwatch *s)
{
    const model_hooks hooks = {.arg = s, .layer_begins = on_begins};
    const model_pass pass = {.training = true, .seed = r->job->seed, .parts = 1};
    model_result result;
    for (size_t i = 0; i < MODEL_WORKS * s->layers; i++)
        s->ns[i] = -1;
    s->at = SIZE_MAX;
    TG_TRY(model_forward(r->model, batch, &pass, &hooks, &result));
    TG_TRY(model_backward(r->model, &hooks));
    turn_to(s, SIZE_MAX);
    return TG_OK;
}

/* ns (PASSES_MOST, MODEL_WORKS, layers) of *count_p passes; with `once` of one. */
static tg_status time_passes(run *r, const model_batch *batch, bool once, double *ns,
                             size_t *count_p)
{
    const size_t layers = model_layers(r->model);
    const int64_t end = processor_ns() + PASSES_NS;
    size_t count = 0;
    stopwatch s = {.layers = layers, .ns = ns};
    TG_TRY(time_pass(r, batch, &s));
    while (!once && count < PASSES_MOST && (count < PASSES_LEAST || processor_ns() < end)) {
        s.ns = ns + count++ * MODEL_WORKS * layers;
        TG_TRY(time_pass(r, batch, &s));
    }
    *count_p = once ? 1 : count;
    return TG_OK;
}

static tg_status time_first_batch(run *r, bool once, double *ns, size_t *count_p)
{
    model *m = r->model;
    float *params;
    loader *l = NULL;
    model_batch batch;
    const loader_config config = run_loader_config(r);
    TG_TRY(train_alloc(m->floats, sizeof *params, &params));
    memcpy(params, m->params, m->floats * sizeof *params);
    tg_status status = loader_create(r->data, DATA_TRAIN, &config, &l);
    if (status == TG_OK)
        status = loader_next(l, &batch);
    if (status == TG_OK)
        status = time_passes(r, &batch, once, ns, count_p);
    memcpy(m->params, params, m->floats * sizeof *params);
    run_clear_state(r);
    loader_destroy(l);
    free(params);
    return status;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of each work the median over `count` passes. */
static void take_medians(const double *ns, size_t count, size_t works, int64_t *taken)
{
    for (size_t i = 0; i < works; i++) {
        double one[PASSES_MOST];
        for (size_t k = 0; k < count; k++)
            one[k] = ns[k * works + i];
        qsort(one, count, sizeof *one, by_value);
        taken[i] = one[count / 2] > 0 ? (int64_t)one[count / 2] : 0;
    }
}

/* sum_ns over the works that ns (works) says there are, each by its operations: forward, and the
 * two kinds backward, which are as many each. */
static void spread(const model *m, const double *ns, size_t works, int64_t sum_ns, int64_t *taken)
{
    const size_t layers = works / MODEL_WORKS;
    double all = 0, sofar = 0;
    int64_t given = 0;
    for (size_t i = 0; i < works; i++)
        all += ns[i] < 0 ? 0 : model_layer_flops(m, i % layers);
    for (size_t i = 0; i < works; i++) {
        sofar += ns[i] < 0 ? 0 : model_layer_flops(m, i % layers);
        taken[i] = llround((double)sum_ns * (sofar / all)) - given; /* so that they sum up */
        given += taken[i];
    }
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
                   : tg_fail(TG_E_MISMATCH, "the times given are of %zu layers: model %s has %zu",
                             times->layers, r->job->model, layers);
    const bool given = r->job->tau_ns > 0;
    double *ns;
    int64_t *taken = NULL;
    size_t count = 0;
    TG_TRY(train_alloc(PASSES_MOST * works, sizeof *ns, &ns));
    tg_status status = train_alloc(works, sizeof *taken, &taken);
    if (status == TG_OK)
        status = time_first_batch(r, given, ns, &count);
    if (status == TG_OK && given)
        spread(r->model, ns, works, r->job->tau_ns, taken);
    else if (status == TG_OK)
        take_medians(ns, count, works, taken);
    free(ns);
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
    TG_TRY(train_alloc(count, sizeof *cost, &cost));
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

double run_pace(const run *r)
{
    const train_job *job = r->job;
    double pace = 1;
    for (size_t i = 0; i < job->nslow; i++) {
        const train_slow *s = &job->slow[i];
        if (s->rank == r->transport->rank && r->step + 1 >= s->from && r->step + 1 <= s->to)
            pace *= s->times;
    }
    if (job->tau_jitter > 0) {
        const tg_rng_key key = {.seed = job->seed,
                                .purpose = TG_PURPOSE_FAULT,
                                .rank = (uint32_t)r->transport->rank,
                                .step = r->step};
        pace *= 1 + job->tau_jitter * tg_rng_uniform(&key, 0);
    }
    return pace;
}

void run_work(run *r, model_work work, size_t layer)
{
    const train_times *times = r->job->times;
    tg_clock_work(r->transport->clock,
                  llround(r->pace * (double)times->layer_ns[work * times->layers + layer]));
}

void run_work_forward(const run *r, uint64_t batches)
{
    const train_times *times = r->job->times;
    int64_t sum = 0;
    for (size_t i = 0; times != NULL && i < times->layers; i++)
        sum += times->layer_ns[i];
    tg_clock_work(r->transport->clock, sum * (int64_t)batches);
}
