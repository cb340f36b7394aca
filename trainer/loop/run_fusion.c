/* Chooses buckets by measurements before the first step. All ranks measure together, because they
 * share machines and links; rank 0's figures count.
 *
 *   ready     per tensor the minimum over a few backward passes of this rank's first batch;
 *             afterwards parameters, statistics and state are restored
 *   alpha     the shortest time of a dense exchange that is almost empty
 *   exchange  the bytes of a tensor, as its method codes them, at the rate of a larger dense
 *             exchange */
#include "trainer/loop/run_fusion.h"
#include "telegrad/reducer.h"
#include "trainer/loop/run.h"
#include "trainer/loop/run_lags.h"
#include "trainer/loop/run_times.h"
#include "telegrad/tools.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 4, SMALL = 64, LARGE = 65536, SMALL_TIMES = 6, LARGE_TIMES = 3 };

size_t fusion_merge(const fusion_tensor *t, size_t n, double alpha, bool forward, uint32_t *buckets)
{
    size_t count = 0;
    double idle = 0; /* end of the exchanges so far */
    for (size_t i = n; i > 0;) {
        double bytes = 0, begin;
        uint32_t members = 0;
        do {
            i--;
            members++;
            bytes += t[i].exchange;
            begin = t[i].ready > idle ? t[i].ready : idle;
        } while (i > 0 && t[i - 1].ready < begin + alpha && !(forward && bytes >= alpha));
        idle = begin + alpha + bytes;
        buckets[count++] = members;
    }
    for (size_t i = 0; i < count / 2; i++) {
        const uint32_t other = buckets[count - 1 - i];
        buckets[count - 1 - i] = buckets[i];
        buckets[i] = other;
    }
    return count;
}

/* ---- backward passes ------------------------------------------------------------------------- */

typedef struct probe {
    run *r;
    int64_t start_ns;
    double *ready; /* (model->ntensors) */
} probe;

static tg_status on_ready(void *arg, size_t tensor)
{
    const probe *p = arg;
    const double at = (double)(run_now(p->r) - p->start_ns) / 1e9;
    if (p->ready[tensor] == 0 || at < p->ready[tensor])
        p->ready[tensor] = at;
    return TG_OK;
}

static void on_begins(void *arg, model_work work, size_t layer)
{
    const probe *p = arg;
    run_work(p->r, work, layer);
}

static tg_status one_pass(probe *p, const model_batch *batch)
{
    const model_hooks hooks = {
        .arg = p, .grad_ready = on_ready, .layer_begins = p->r->job->times ? on_begins : NULL};
    const model_pass pass = {.training = true, .seed = p->r->job->seed, .parts = 1};
    model_result result;
    TG_TRY(model_forward(p->r->model, batch, &pass, NULL, &result));
    p->start_ns = run_now(p->r);
    p->r->pace = 1;
    return model_backward(p->r->model, &hooks);
}

/* params: scratch (model->floats) */
static tg_status time_passes(run *r, float *params, double *ready)
{
    model *m = r->model;
    loader *l;
    model_batch batch;
    probe p = {.r = r, .ready = ready};
    const loader_config config = run_loader_config(r);
    TG_TRY(loader_create(r->data, DATA_TRAIN, &config, &l));
    memcpy(params, m->params, m->floats * sizeof *params);
    tg_status status = loader_next(l, &batch);
    for (int i = 0; i < PASSES && status == TG_OK; i++) {
        if (i == 1) /* the first pass is slower */
            memset(ready, 0, m->ntensors * sizeof *ready);
        status = one_pass(&p, &batch);
    }
    memcpy(m->params, params, m->floats * sizeof *params);
    run_clear_state(r);
    loader_destroy(l);
    return status;
}

/* ---- exchanges ------------------------------------------------------------------------------- */

/* The shortest of some dense exchanges of n elements, in seconds. g: scratch (n) */
static tg_status time_exchange(const run *r, size_t n, int times, float *g, double *least_p)
{
    const tg_reducer_config config = {.struct_size = sizeof config,
                                      .timeout_ms = r->job->timeout_ms,
                                      .nodes = r->job->nodes,
                                      .stop = r->job->stop};
    tg_reducer *reducer;
    double least = 0;
    TG_TRY(tg_reducer_create("dense", r->transport, n, &config, &reducer));
    tg_status status = TG_OK;
    for (int i = 0; i < times && status == TG_OK; i++) {
        if (r->job->stop != NULL && __atomic_load_n(r->job->stop, __ATOMIC_RELAXED) != 0) {
            status = tg_fail(TG_E_STOPPED, "stopped on request while the network was measured");
            break;
        }
        const int64_t start = run_now(r);
        status = tg_reducer_mean(reducer, g, g);
        const double took = (double)(run_now(r) - start) / 1e9;
        least = i == 0 || took < least ? took : least;
    }
    tg_reducer_destroy(reducer);
    if (status == TG_OK)
        *least_p = least;
    return status;
}

static tg_status time_exchanges(const run *r, double *alpha_p, double *byte_p)
{
    float *g;
    double small = 0, large = 0;
    TG_TRY(tg_alloc(LARGE, sizeof *g, &g));
    tg_status status = time_exchange(r, SMALL, SMALL_TIMES, g, &small);
    if (status == TG_OK)
        status = time_exchange(r, LARGE, LARGE_TIMES, g, &large);
    free(g);
    TG_TRY(status);
    *alpha_p = small;
    *byte_p = large > small ? (large - small) / (4.0 * (LARGE - SMALL)) : 0;
    return TG_OK;
}

/* ---- choosing -------------------------------------------------------------------------------- */

typedef struct coded {
    fusion_tensor *t;
    double byte; /* seconds per byte */
} coded;

static tg_status on_tensor(void *arg, const tg_plan_tensor *tensor)
{
    coded *c = arg;
    (c->t++)->exchange = tensor->bytes * c->byte;
    return TG_OK;
}

/* How long the bytes of each trained tensor take. */
static tg_status weigh(const run *r, double byte, fusion_tensor *t)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = r->job->method,
                                      .rules = r->job->rules,
                                      .nrules = r->job->nrules,
                                      .optimizer = r->job->optimizer,
                                      .steps_per_epoch = r->steps_per_epoch,
                                      .driver = TG_DRIVER_INLINE};
    coded c = {t, byte};
    const bool served = TG_HAS(tg_transport, r->transport, servers) && r->transport->servers > 0;
    tg_transport *alone[2] = {NULL};
    tg_session *s = NULL;
    TG_TRY(run_lone_rank(served, alone));
    tg_status status = tg_session_create(&config, alone[0], &s);
    if (status == TG_OK)
        status = run_register(s, r->model, r->id);
    if (status == TG_OK)
        status = tg_session_begin(s);
    if (status == TG_OK)
        status = tg_session_plan(s, on_tensor, &c);
    tg_session_destroy(s);
    tg_transport_destroy(alone[0]);
    tg_transport_destroy(alone[1]);
    return status;
}

/* Give rank 0's buckets to all ranks. cut: scratch (n), where a bucket begins 1 or its density. A
 * sum of zeros and one number is exact, so comparing it with 0 is exact, too. */
static tg_status share(run *r, size_t n, float *cut)
{
    const tg_reducer_config config = {
        .struct_size = sizeof config, .timeout_ms = r->job->timeout_ms, .stop = r->job->stop};
    tg_reducer *reducer;
    memset(cut, 0, n * sizeof *cut);
    for (size_t i = 0, at = 0; r->transport->rank == 0 && i < r->nbuckets; at += r->buckets[i++])
        cut[at] = r->density != NULL ? (float)r->density[i] : 1;
    TG_TRY(tg_reducer_create("dense", r->transport, n, &config, &reducer));
    const tg_status status = tg_reducer_mean(reducer, cut, cut);
    tg_reducer_destroy(reducer);
    TG_TRY(status);
    r->nbuckets = 0;
    for (size_t i = 0; i < n; i++) {
        if (cut[i] > 0 && r->density != NULL)
            r->density[r->nbuckets] = fmin((double)cut[i] * r->transport->size, 1);
        if (cut[i] > 0)
            r->buckets[r->nbuckets++] = 0;
        r->buckets[r->nbuckets - 1]++;
    }
    return TG_OK;
}

typedef struct workspace {
    fusion_tensor *t; /* (ntensors) the trained tensors */
    double *ready;
    float *floats; /* (model->floats) */
} workspace;

/* The densities of rank 0's buckets, and a line about them. */
static void choose_densities(run *r, const fusion_tensor *t, size_t n, double alpha, double least)
{
    char list[256];
    size_t at = 0;
    lags_densities(t, n, r->buckets, r->nbuckets, alpha, least, r->density);
    for (size_t i = 0; i < r->nbuckets && at < sizeof list - 16; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%.3g", i > 0 ? ", " : "",
                               r->density[i]);
    tg_log(TG_LOG_INFO, "fusion lags: densities of the buckets, in forward order: %s", list);
}

static tg_status choose(run *r, workspace *w)
{
    const model *m = r->model;
    double alpha = 0, byte = 0, backward = 0, least = 0;
    size_t n = 0;
    if (r->job->bucket_lags) {
        TG_TRY(lags_least(r->job, &least));
        TG_TRY(tg_alloc(m->ntensors, sizeof *r->density, &r->density));
    }
    TG_TRY(tg_alloc(m->ntensors, sizeof *w->t, &w->t));
    TG_TRY(tg_alloc(m->ntensors, sizeof *w->ready, &w->ready));
    TG_TRY(tg_alloc(m->floats, sizeof *w->floats, &w->floats));
    TG_TRY(tg_alloc(m->ntensors, sizeof *r->buckets, &r->buckets));
    TG_TRY(time_exchanges(r, &alpha, &byte));
    TG_TRY(time_passes(r, w->floats, w->ready));
    for (size_t i = 0; i < m->ntensors; i++) {
        if (m->tensors[i].kind != MODEL_TRAINED)
            continue;
        w->t[n++].ready = w->ready[i];
        backward = w->ready[i] > backward ? w->ready[i] : backward;
    }
    if (r->transport->rank == 0) {
        TG_TRY(weigh(r, byte, w->t));
        r->nbuckets = fusion_merge(w->t, n, alpha, r->job->overlap == TG_OVERLAP_FULL, r->buckets);
        tg_log(TG_LOG_INFO,
               "fusion auto: an exchange takes %.3g ms and %.3g ms a megabyte, the backward pass "
               "%.3g ms: %zu tensors in %zu buckets",
               1e3 * alpha, 1e9 * byte, 1e3 * backward, n, r->nbuckets);
        if (r->density != NULL)
            choose_densities(r, w->t, n, alpha, least);
    }
    return share(r, n, w->floats);
}

/* Parse "3,1,2", as written by run_describe. */
static tg_status parse(run *r, const char *text)
{
    TG_TRY(tg_alloc(strlen(text), sizeof *r->buckets, &r->buckets));
    for (const char *at = text; *at;) {
        char *end;
        const unsigned long count = strtoul(at, &end, 10);
        if (*at < '0' || *at > '9' || count > UINT32_MAX || (*end != '\0' && *end != ','))
            return tg_fail(TG_E_CORRUPT, "%s: buckets=\"%.64s\": allowed: numbers with commas",
                           r->job->resume_dir, text);
        r->buckets[r->nbuckets++] = (uint32_t)count;
        at = *end ? end + 1 : end;
    }
    return TG_OK;
}

/* Parse "0.01,0.3,1", one number for each bucket. */
static tg_status parse_densities(run *r, const char *text)
{
    TG_TRY(tg_alloc(r->nbuckets, sizeof *r->density, &r->density));
    const char *at = text;
    for (size_t i = 0; i < r->nbuckets; i++) {
        char *end;
        r->density[i] = strtod(at, &end);
        if (end == at || !(r->density[i] > 0 && r->density[i] <= 1) ||
            *end != (i + 1 < r->nbuckets ? ',' : '\0'))
            return tg_fail(TG_E_CORRUPT,
                           "%s: densities=\"%.64s\": allowed: %zu numbers in (0, 1] with commas",
                           r->job->resume_dir, text, r->nbuckets);
        at = end + 1;
    }
    return TG_OK;
}

static tg_status take_densities(run *r, const tg_weights *w)
{
    const char *text = tg_weights_metadata(w, "densities");
    return text ? parse_densities(r, text)
                : tg_fail(TG_E_MISMATCH,
                          "%s was saved by a run whose densities were not chosen by measuring: "
                          "give the same --fusion as that run",
                          r->job->resume_dir);
}

static tg_status take_over(run *r)
{
    tg_weights *w;
    TG_TRY(tg_weights_open_saved(r->job->resume_dir, &w));
    const char *text = tg_weights_metadata(w, "buckets");
    tg_status status = text ? parse(r, text)
                            : tg_fail(TG_E_MISMATCH,
                                      "%s was saved by a run whose buckets were not chosen "
                                      "by measuring: give the same --fusion as that run",
                                      r->job->resume_dir);
    if (status == TG_OK && r->job->bucket_lags)
        status = take_densities(r, w);
    tg_weights_close(w);
    return status;
}

tg_status run_choose_buckets(run *r)
{
    workspace w = {NULL, NULL, NULL};
    if (!r->job->bucket_auto || r->transport->size == 1)
        return TG_OK;
    tg_status status = r->job->resume_dir ? take_over(r) : choose(r, &w);
    if (status == TG_OK && r->density != NULL)
        status = lags_rules(r);
    free(w.t);
    free(w.ready);
    free(w.floats);
    return status;
}
