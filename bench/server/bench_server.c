#include "bench/server/bench_server.h"
#include "telegrad/server.h"
#include "telegrad/telegrad.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FEW = 2, STEPS_MAX = 1000000 };
#define OPTIMIZER "sgd:lr=1e-6,momentum=0.9"

typedef struct job job;

typedef struct worker {
    job *j;
    tg_transport *t;
    pthread_t thread;
    tg_status status;
    char error[512];
} worker;

struct job {
    const bench_server_options *o;
    const char *mode;
    char method[256];
    bool keeps; /* the server keeps the parameters */
    size_t steps;
    const float *gradient; /* (n) */
    tg_transport *server;
    tg_status status; /* of the server */
    char error[512];
    double cpu_seconds;
    tg_server_stats stats;
    worker *worker; /* (workers) */
};

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the threads ----------------------------------------------------------------------------- */

static tg_status serve(job *j)
{
    const tg_server_config config = {
        .struct_size = sizeof config, .mode = j->mode, .optimizer = j->keeps ? OPTIMIZER : NULL};
    tg_server *s;
    TG_TRY(tg_server_create(j->server, 1, &config, &s));
    const double begin = cpu_now();
    tg_status status = tg_server_run(s);
    j->cpu_seconds = cpu_now() - begin;
    j->stats.struct_size = sizeof j->stats;
    if (status == TG_OK)
        status = tg_server_get_stats(s, &j->stats);
    tg_server_destroy(s);
    return status;
}

static void *be_server(void *arg)
{
    job *j = arg;
    j->status = serve(j);
    if (j->status != TG_OK)
        snprintf(j->error, sizeof j->error, "%s", tg_error());
    tg_transport_destroy(j->server);
    return NULL;
}

static tg_status step_all(const worker *w, tg_session *s, float *p, float *g)
{
    const job *j = w->j;
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = "w",
                              .shape = &j->o->n,
                              .ndim = 1,
                              .param = tg_array_f32(p, j->o->n),
                              .grad = tg_array_f32(g, j->o->n)};
    uint32_t id;
    TG_TRY(tg_session_add(s, &tensor, &id));
    TG_TRY(tg_session_begin(s));
    for (size_t step = 0; step < j->steps; step++) {
        TG_TRY(tg_session_grad_wait(s, id));
        memcpy(g, j->gradient, j->o->n * sizeof *g);
        TG_TRY(tg_session_grad_ready(s, id));
        TG_TRY(tg_session_step(s, NULL));
    }
    return tg_session_finish(s);
}

static tg_status train(worker *w)
{
    const job *j = w->j;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = j->method,
                                      .strategy = j->keeps ? "server" : "ssgd",
                                      .optimizer = OPTIMIZER,
                                      .steps_per_epoch = 1000};
    float *p = calloc(j->o->n, sizeof *p), *g = calloc(j->o->n, sizeof *g);
    tg_session *s = NULL;
    tg_status status = p && g ? tg_session_create(&config, w->t, &s)
                              : tg_fail(TG_E_NOMEM, "out of memory: %zu elements", j->o->n);
    if (status == TG_OK)
        status = step_all(w, s, p, g);
    tg_session_destroy(s);
    free(p);
    free(g);
    return status;
}

static void *be_worker(void *arg)
{
    worker *w = arg;
    w->status = train(w);
    if (w->status != TG_OK)
        snprintf(w->error, sizeof w->error, "%s", tg_error());
    tg_transport_destroy(w->t);
    return NULL;
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* The error that is not only that another has left. */
static tg_status first_error(const job *j)
{
    const tg_status *status = &j->status;
    const char *error = j->error;
    for (size_t i = 0; i < j->o->workers; i++) {
        const worker *w = &j->worker[i];
        if (w->status != TG_OK && (*status == TG_OK || *status == TG_E_PEER)) {
            status = &w->status;
            error = w->error;
        }
    }
    return *status == TG_OK ? TG_OK : tg_fail(*status, "%s", error);
}

static tg_status connect_all(job *j, tg_transport **t)
{
    const int size = (int)j->o->workers + 1;
    TG_TRY(tg_transport_inproc(size, t));
    j->server = t[size - 1];
    for (size_t i = 0; i < j->o->workers; i++)
        TG_TRY(tg_transport_worker(t[i], 1, &t[i]));
    return TG_OK;
}

/* All threads, until they are over. A thread that cannot be started leaves. */
static void run_threads(job *j)
{
    pthread_t server;
    const bool serves = pthread_create(&server, NULL, be_server, j) == 0;
    if (!serves) {
        j->status = tg_fail(TG_E_NOMEM, "cannot start the server's thread");
        snprintf(j->error, sizeof j->error, "%s", tg_error());
        tg_transport_destroy(j->server);
    }
    for (size_t i = 0; i < j->o->workers; i++) {
        worker *w = &j->worker[i];
        if (pthread_create(&w->thread, NULL, be_worker, w) == 0)
            continue;
        w->status = tg_fail(TG_E_NOMEM, "cannot start a worker's thread");
        snprintf(w->error, sizeof w->error, "%s", tg_error());
        w->thread = pthread_self();
        tg_transport_destroy(w->t);
    }
    for (size_t i = 0; i < j->o->workers; i++)
        if (!pthread_equal(j->worker[i].thread, pthread_self()))
            pthread_join(j->worker[i].thread, NULL);
    if (serves)
        pthread_join(server, NULL);
}

/* So many steps. *seconds_p: what they took. */
static tg_status run(job *j, size_t steps, double *seconds_p)
{
    const size_t size = j->o->workers + 1;
    tg_transport **t = calloc(size, sizeof *t);
    tg_status status = t ? connect_all(j, t) : tg_fail(TG_E_NOMEM, "out of memory");
    j->steps = steps;
    if (status == TG_OK) {
        for (size_t i = 0; i < j->o->workers; i++)
            j->worker[i] = (worker){.j = j, .t = t[i]};
        const int64_t begin = tg_now_ns(tg_clock_monotonic());
        run_threads(j);
        *seconds_p = 1e-9 * (double)(tg_now_ns(tg_clock_monotonic()) - begin);
        status = first_error(j);
    } else if (t) {
        for (size_t i = 0; i < size; i++)
            tg_transport_destroy(t[i]);
    }
    free(t);
    return status;
}

static tg_status measure(job *j, bench_server_row *row)
{
    double seconds;
    TG_TRY(run(j, FEW, &seconds)); /* how long a step takes */
    const double wanted = 1 + j->o->seconds * FEW / (seconds > 1e-6 ? seconds : 1e-6);
    row->steps = wanted > STEPS_MAX ? STEPS_MAX : wanted < FEW ? FEW : (size_t)wanted;
    TG_TRY(run(j, row->steps, &row->seconds));
    row->cpu_seconds = j->cpu_seconds;
    row->elements = (double)j->stats.elements;
    row->bytes_in = (double)j->stats.bytes_in;
    row->bytes_out = (double)j->stats.bytes_out;
    return TG_OK;
}

static tg_status measure_row(const bench_server_options *o, const char *mode, const char *method,
                             const float *gradient)
{
    job j = {.o = o,
             .mode = mode,
             .keeps = strncmp(mode, "sum", strlen("sum")) != 0,
             .gradient = gradient};
    bench_server_row row = {.mode = mode, .method = method, .n = o->n, .workers = o->workers};
    char error[512];
    snprintf(j.method, sizeof j.method, "%.200s%s", method,
             strstr(method, "exchange=")   ? ""
             : strchr(method, ':') != NULL ? ",exchange=star"
                                           : ":exchange=star");
    j.worker = calloc(o->workers, sizeof *j.worker);
    if (!j.worker)
        return tg_fail(TG_E_NOMEM, "out of memory: %zu workers", o->workers);
    if (o->begin)
        o->begin(o->arg, mode, method);
    if (measure(&j, &row) != TG_OK) {
        snprintf(error, sizeof error, "%s", tg_error());
        row.error = error;
    }
    free(j.worker);
    return o->row(o->arg, &row);
}

tg_status bench_server(const bench_server_options *o)
{
    float *gradient = malloc(o->n * sizeof *gradient);
    tg_status status = TG_OK;
    if (!gradient)
        return tg_fail(TG_E_NOMEM, "out of memory: %zu elements", o->n);
    const tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i < o->n; i++)
        gradient[i] = 0.01f * (float)tg_rng_normal(&key, i);
    for (size_t i = 0; i < o->nmodes && status == TG_OK; i++)
        for (size_t k = 0; k < o->nmethods && status == TG_OK; k++)
            status = measure_row(o, o->modes[i], o->methods[k], gradient);
    free(gradient);
    return status;
}
