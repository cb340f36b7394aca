/* A small training job on plain arrays, run by P threads. Shared by the session's tests. */
#ifndef TG_SESSION_FIXTURE_H
#define TG_SESSION_FIXTURE_H

#include "telegrad/telegrad.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIXTURE_TENSORS = 4, FIXTURE_N = 500 + 20 + 333 + 7 };

typedef struct fixture_rank fixture_rank;

/* One job. Zero means the default. */
typedef struct fixture_job {
    const char *method, *strategy, *optimizer;
    int world;
    uint64_t steps;
    tg_driver driver;
    size_t bucket_bytes;
    bool dyadic;   /* gradients are small multiples of powers of two, so that sums are exact */
    bool uniform;  /* noise is uniform instead of normal: no libm, the same on every machine */
    bool adjacent; /* gradients are adjacent, so no staging copy is made */
    int64_t timeout_ms;
    uint64_t hash_every;
    tg_nonfinite on_nonfinite;
    int nan_rank; /* this rank's gradient is NaN at step nan_step; -1: none */
    uint64_t nan_step;
    unsigned
        huge_ranks; /* one bit per rank: element huge_at of its gradient is 3e38 at huge_step */
    uint64_t huge_step, huge_steps; /* ... and in the huge_steps after it */
    bool huge_all;
    size_t huge_at;
    const char *save_dir; /* save after step save_at; load_dir: resume */
    uint64_t save_at;
    const char *load_dir;
    uint64_t finish_at; /* session_external.h: tg_session_finish before this step; 0: at the end */
    uint64_t stop_at;   /* rank 1 (rank 0 if alone) asks to stop before this step; 0: never */
    int odd_rank; /* this rank runs odd_method / spoils its parameters at spoil_step; -1: none */
    const char *odd_method, *odd_optimizer;
    const char *const *rules, *const *odd_rules; /* (nrules); odd_rules: those of odd_rank */
    size_t nrules;
    uint64_t spoil_step;
    uint64_t quiet_from; /* gradients are 0 from this step on; 0: never */
    uint64_t rest_at;    /* the learning rate of this step is 0; 0: never */
    uint64_t soar_at;    /* ... is 1e30, and 1e-30 from the next step on; 0: never */
    const char *fault;   /* faults of rank odd_rank */
    uint64_t pause_step; /* ... which pauses for pause_ms before this step */
    int64_t pause_ms;
    tg_overlap overlap;
    bool blind;          /* full overlap: wait only for gradients, not for parameters */
    uint64_t eval_every; /* steps between evaluations; 0: none */
    const char *link;    /* link of all transports, or of those on different nodes; NULL: as fast as
                         memory */
    const uint32_t *buckets, *odd_buckets; /* (nbuckets); odd_buckets: those of odd_rank */
    size_t nbuckets;
    const int *nodes, *odd_nodes; /* (world) two levels; odd_nodes: those of odd_rank */
    /* (merged, at most 16) the gradient of rank q is the sum of those of all ranks r with
     * merge[r] == q, in order, times world / merged; NULL: its own */
    const int *merge;
    int merged;
    bool samples;  /* rank r has r + 1 samples */
    bool idle_nan; /* idle ranks make gradients of NaN ready */
    bool apart;    /* session_external.h: the session has a copy of the parameters */
    /* trains one rank; NULL: fixture_session */
    tg_status (*trains)(fixture_rank *r);
} fixture_job;

typedef struct fixture_result {
    tg_status status;
    char error[512];
    uint64_t hash, skipped, stopped_after, bytes, control_bytes, idle;
    uint64_t steps;             /* number of steps done, also after an error */
    float w[FIXTURE_N];         /* global parameters at the end */
    float evaluated[FIXTURE_N]; /* ... at the last evaluation */
    float trail[64][FIXTURE_N]; /* parameters of the next forward pass after each step */
    tg_step_info info[64];
    tg_method_info method[64]; /* the first entries of the info */
    char methods[512];         /* those of the last step, one per line */
} fixture_result;

static const size_t fixture_shape[FIXTURE_TENSORS][2] = {{20, 25}, {20, 1}, {9, 37}, {7, 1}};

static inline fixture_job fixture_defaults(void)
{
    return (fixture_job){.method = "dense",
                         .strategy = "ssgd",
                         .optimizer = "sgd:lr=0.25",
                         .world = 1,
                         .steps = 12,
                         .nan_rank = -1,
                         .odd_rank = -1,
                         .timeout_ms = 20000};
}

static inline void fixture_initial(float *w)
{
    tg_rng_key key = {.seed = 3, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i < FIXTURE_N; i++)
        w[i] = (float)(floor(tg_rng_uniform(&key, i) * 64) / 16 - 2);
}

/* (FIXTURE_N) normal numbers for a rank's step. They are cached, because a test would spend most of
 * its time drawing the same numbers again. Any number of threads may call it. */
static inline const double *fixture_noise(int rank, uint64_t t)
{
    enum { RANKS = 8, STEPS = 64 };
    static double kept[RANKS][STEPS][FIXTURE_N];
    static bool drawn[RANKS][STEPS];
    static pthread_mutex_t lock[RANKS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                          PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                          PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                          PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
    static _Thread_local double other[FIXTURE_N];
    const bool keep = rank < RANKS && t < STEPS;
    double *noise = keep ? kept[rank][t] : other;
    const tg_rng_key key = {
        .seed = 5, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)rank, .step = t};
    if (keep)
        pthread_mutex_lock(&lock[rank]);
    for (size_t i = 0; !(keep && drawn[rank][t]) && i < FIXTURE_N; i++)
        noise[i] = tg_rng_normal(&key, i);
    if (keep) {
        drawn[rank][t] = true;
        pthread_mutex_unlock(&lock[rank]);
    }
    return noise;
}

/* The gradient that a rank computes at w in step t: that of a quadratic bowl whose centre depends
 * on rank and step. */
static inline void fixture_gradient(const fixture_job *job, int rank, uint64_t t, const float *w,
                                    float *g)
{
    if (job->quiet_from != 0 && t >= job->quiet_from) {
        memset(g, 0, FIXTURE_N * sizeof *g);
    } else if (job->uniform) {
        const tg_rng_key key = {
            .seed = 6, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)rank, .step = t};
        for (size_t i = 0; i < FIXTURE_N; i++)
            g[i] = 0.5f * w[i] * (float)(1 + i % 7) / 7 + (float)(4 * tg_rng_uniform(&key, i) - 2);
    } else {
        const double *noise = fixture_noise(rank, t);
        for (size_t i = 0; i < FIXTURE_N; i++)
            g[i] = job->dyadic /* independent of w: exact in every order */
                       ? (float)(floor(noise[i] * 8) / 8)
                       : 0.5f * w[i] * (float)(1 + i % 7) / 7 + (float)noise[i];
    }
    if (rank == job->nan_rank && t == job->nan_step)
        g[FIXTURE_N / 2] = NAN;
    if (job->huge_ranks >> rank & 1 && t >= job->huge_step &&
        t <= job->huge_step + job->huge_steps) {
        g[job->huge_at] = 3e38f;
        for (size_t i = 0; job->huge_all && i < FIXTURE_N; i++)
            g[i] = i % 3 == 0 ? -3.3e38f : 3.3e38f;
    }
}

static inline void fixture_own_gradient(const fixture_job *job, int rank, uint64_t t,
                                        const float *w, float *g)
{
    static _Thread_local float one[FIXTURE_N];
    if (job->merge == NULL) {
        fixture_gradient(job, rank, t, w, g);
        return;
    }
    memset(g, 0, FIXTURE_N * sizeof *g);
    for (int r = 0; r < job->merged; r++) {
        if (job->merge[r] != rank)
            continue;
        fixture_gradient(job, r, t, w, one);
        for (size_t i = 0; i < FIXTURE_N; i++)
            g[i] += one[i];
    }
    for (size_t i = 0; i < FIXTURE_N; i++)
        g[i] *= (float)job->world / (float)job->merged;
}

struct fixture_rank {
    const fixture_job *job;
    tg_transport *transport;
    fixture_result *out;
    int rank;
};

static inline tg_status fixture_add_tensors(tg_session *s, float *w, float *g, const size_t *offset,
                                            uint32_t *id)
{
    static const char *const names[FIXTURE_TENSORS] = {"conv.weight", "conv.bias", "fc.weight",
                                                       "fc.bias"};
    size_t at = 0;
    for (int i = 0; i < FIXTURE_TENSORS; i++) {
        size_t n = fixture_shape[i][0] * fixture_shape[i][1];
        tg_tensor t = {.struct_size = sizeof t,
                       .name = names[i],
                       .shape = fixture_shape[i],
                       .ndim = fixture_shape[i][1] == 1 ? 1 : 2,
                       .param = tg_array_f32(w + at, n)};
        if (g != NULL)
            t.grad = tg_array_f32(g + offset[i], n);
        TG_TRY(tg_session_add(s, &t, &id[i]));
        at += n;
    }
    return TG_OK;
}

/* With full overlap: wait for parameters one after the other, when a forward pass would read
 * them. */
static inline tg_status fixture_forward(const fixture_rank *r, tg_session *s, const uint32_t *id,
                                        const float *w)
{
    const uint64_t t = tg_session_steps(s);
    if (r->job->overlap != TG_OVERLAP_FULL || r->job->blind)
        return TG_OK;
    for (int i = 0; i < FIXTURE_TENSORS; i++) {
        TG_TRY(tg_session_param_wait(s, id[i]));
        TG_TRY(tg_session_progress(s));
    }
    if (t > 0 && t <= 64)
        memcpy(r->out->trail[t - 1], w, FIXTURE_N * sizeof *w);
    return TG_OK;
}

static inline void fixture_list_methods(const tg_step_info *info, char *text, size_t cap)
{
    size_t at = 0;
    for (size_t i = 0; i < info->nmethods && at < cap; i++)
        at += (size_t)snprintf(text + at, cap - at, "%s\n", info->methods[i]->method);
}

static inline void fixture_pause(int64_t ms)
{
    const tg_clock *clock = tg_clock_monotonic();
    clock->sleep_until_ns(clock->arg, tg_now_ns(clock) + ms * 1000000);
}

static inline tg_status fixture_train(fixture_rank *r, tg_session *s, float *w, float *g,
                                      const size_t *offset)
{
    const fixture_job *job = r->job;
    uint32_t id[FIXTURE_TENSORS];
    float flat[FIXTURE_N];
    TG_TRY(fixture_add_tensors(s, w, g, offset, id));
    if (job->load_dir != NULL) {
        const void *extra;
        size_t len;
        TG_TRY(tg_session_load(s, job->load_dir, &extra, &len));
        if (len != 6 || memcmp(extra, "extra", 6) != 0)
            return tg_fail(TG_E_CORRUPT, "the caller's own bytes did not come back");
    } else {
        TG_TRY(tg_session_begin(s));
    }
    while (tg_session_steps(s) < job->steps) {
        uint64_t t = tg_session_steps(s);
        tg_step_info info = {.struct_size = sizeof info, .want_residual_norm = true};
        if (job->stop_at != 0 && t == job->stop_at && r->rank == (job->world > 1))
            tg_session_request_stop(s);
        if (r->rank == job->odd_rank && job->spoil_step != 0 && t == job->spoil_step)
            w[3] += 1;
        if (r->rank == job->odd_rank && job->pause_ms != 0 && t == job->pause_step)
            fixture_pause(job->pause_ms);
        if (job->rest_at != 0 && t >= job->rest_at)
            TG_TRY(tg_session_set_lr(s, t == job->rest_at ? 0 : 0.25));
        if (job->soar_at != 0 && t >= job->soar_at)
            TG_TRY(tg_session_set_lr(s, t == job->soar_at ? 1e30 : 1e-30));
        TG_TRY(fixture_forward(r, s, id, w));
        fixture_own_gradient(job, r->rank, t, w, flat);
        for (int i = FIXTURE_TENSORS - 1, at = FIXTURE_N; i >= 0; i--) {
            size_t n = fixture_shape[i][0] * fixture_shape[i][1];
            at -= (int)n;
            TG_TRY(tg_session_grad_wait(s, id[i]));
            memcpy(g + offset[i], flat + at, n * sizeof *g);
        }
        const bool idle = tg_session_idle(s);
        r->out->idle += idle;
        if (idle)
            g[offset[2]] = NAN;
        /* the order may differ between ranks */
        for (int i = 0; (!idle || job->idle_nan) && i < FIXTURE_TENSORS; i++)
            TG_TRY(tg_session_grad_ready(s, id[r->rank % 2 ? i : FIXTURE_TENSORS - 1 - i]));
        TG_TRY(tg_session_step(s, &info));
        r->out->steps = t + 1;
        if (t < 64) {
            if (job->overlap != TG_OVERLAP_FULL)
                memcpy(r->out->trail[t], w, FIXTURE_N * sizeof *w);
            r->out->info[t] = info;
            r->out->method[t] = *info.methods[0];
            fixture_list_methods(&info, r->out->methods, sizeof r->out->methods);
        }
        if (job->save_dir != NULL && t + 1 == job->save_at)
            TG_TRY(tg_session_save(s, job->save_dir, "extra", 6));
        if (job->eval_every != 0 && (t + 1) % job->eval_every == 0) {
            TG_TRY(tg_session_eval_begin(s));
            memcpy(r->out->evaluated, w, FIXTURE_N * sizeof *w);
            TG_TRY(tg_session_eval_end(s));
        }
        if (info.stop) {
            r->out->stopped_after = t + 1;
            break;
        }
    }
    TG_TRY(fixture_forward(r, s, id, w));
    TG_TRY(tg_session_finish(s));
    TG_TRY(tg_session_params_hash(s, &r->out->hash));
    r->out->skipped = tg_session_skipped(s);
    r->out->bytes = tg_session_bytes_sent(s);
    r->out->control_bytes = tg_session_bytes_control(s);
    memcpy(r->out->w, w, FIXTURE_N * sizeof *w);
    return TG_OK;
}

static inline tg_status fixture_session(fixture_rank *r)
{
    const fixture_job *job = r->job;
    bool odd = r->rank == job->odd_rank;
    tg_session_config config = {
        .struct_size = sizeof config,
        .method = odd && job->odd_method ? job->odd_method : job->method,
        .strategy = job->strategy,
        .optimizer = odd && job->odd_optimizer ? job->odd_optimizer : job->optimizer,
        .seed = 11,
        .steps_per_epoch = 4,
        .timeout_ms = job->timeout_ms,
        .driver = job->driver,
        .bucket_bytes = job->bucket_bytes,
        .hash_every = job->hash_every,
        .rules = odd && job->odd_rules ? job->odd_rules : job->rules,
        .nrules = job->nrules,
        .on_nonfinite = job->on_nonfinite,
        .overlap = job->overlap,
        .buckets = odd && job->odd_buckets ? job->odd_buckets : job->buckets,
        .nbuckets = job->nbuckets,
        .nodes = odd && job->odd_nodes ? job->odd_nodes : job->nodes,
        .samples = job->samples ? (uint64_t)r->rank + 1 : 0};
    tg_session *s;
    TG_TRY(tg_session_create(&config, r->transport, &s));
    /* Only rank 0 starts from the right parameters; the others receive them. */
    static const size_t apart[FIXTURE_TENSORS] = {0, 512, 544, 896},
                        together[FIXTURE_TENSORS] = {0, 500, 520, 853};
    float *w = calloc(FIXTURE_N, sizeof *w), *g = calloc(1024, sizeof *g);
    if (r->rank == 0)
        fixture_initial(w);
    tg_status status = fixture_train(r, s, w, g, job->adjacent ? together : apart);
    tg_session_destroy(s);
    free(w);
    free(g);
    return status;
}

static inline void *fixture_thread(void *arg)
{
    fixture_rank *r = arg;
    tg_link link;
    r->out->status = TG_OK;
    if (r->job->link != NULL)
        r->out->status = tg_link_parse(r->job->link, &link);
    if (r->job->link != NULL && r->out->status == TG_OK)
        r->out->status =
            r->job->nodes == NULL
                ? tg_transport_shaped(r->transport, &link, &r->transport)
                : tg_transport_shaped_nodes(r->transport, &link, r->job->nodes, &r->transport);
    if (r->out->status == TG_OK && r->job->fault != NULL && r->rank == r->job->odd_rank)
        r->out->status = tg_transport_faulty(r->transport, r->job->fault, &r->transport);
    if (r->out->status == TG_OK)
        r->out->status = (r->job->trains != NULL ? r->job->trains : fixture_session)(r);
    if (r->out->status != TG_OK)
        snprintf(r->out->error, sizeof r->out->error, "%s", tg_error());
    tg_transport_destroy(r->transport);
    return NULL;
}

/* Run the job; result (world). */
static inline void fixture_run(const fixture_job *job, fixture_result *result)
{
    tg_transport *transport[16];
    pthread_t thread[16];
    fixture_rank rank[16];
    memset(result, 0, (size_t)job->world * sizeof *result);
    if (tg_transport_inproc(job->world, transport) != TG_OK)
        abort();
    for (int i = 0; i < job->world; i++) {
        rank[i] =
            (fixture_rank){.job = job, .transport = transport[i], .out = &result[i], .rank = i};
        if (pthread_create(&thread[i], NULL, fixture_thread, &rank[i]) != 0)
            abort();
    }
    for (int i = 0; i < job->world; i++)
        pthread_join(thread[i], NULL);
}

#endif
