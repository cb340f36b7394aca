/* Workers that take steps together on command. */
#include "command/bench/bench_train.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_processor_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

struct member {
    struct bench_workers *group;
    tg_transport *transport;
    pthread_t thread;
    tg_status status;
    char message[512];
    train_bench_info about;
};

struct bench_workers {
    const char *spec;
    train_precision precision;
    size_t batch, workers, started;
    struct member member[BENCH_TRAIN_WORKERS];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by the mutex: */
    size_t round, steps; /* of the round: each takes `steps` steps; 0: end */
    size_t resting;      /* members that have finished the round */
};

static void rest(struct bench_workers *g)
{
    pthread_mutex_lock(&g->mutex);
    g->resting++;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

/* Wait for the round after `round`; returns its number of steps. */
static size_t next_round(struct bench_workers *g, size_t round)
{
    pthread_mutex_lock(&g->mutex);
    while (g->round == round)
        pthread_cond_wait(&g->changed, &g->mutex);
    const size_t steps = g->steps;
    pthread_mutex_unlock(&g->mutex);
    return steps;
}

/* Record the first failure of a member, and release the others, which must not wait for it. */
static void fail(struct member *m, tg_status status)
{
    m->status = status;
    snprintf(m->message, sizeof m->message, "%s", tg_error());
    m->transport->ops->shut(m->transport);
}

static void *work(void *arg)
{
    struct member *m = arg;
    struct bench_workers *g = m->group;
    train_bench *bench = NULL;
    const tg_status status =
        train_bench_create(g->spec, g->batch, g->precision, m->transport, &bench);
    if (status == TG_OK)
        m->about = train_bench_about(bench);
    else
        fail(m, status);
    rest(g);
    for (size_t round = 0, steps; (steps = next_round(g, round)) > 0; round++) {
        double loss;
        for (size_t i = 0; i < steps && m->status == TG_OK; i++) {
            const tg_status step = train_bench_step(bench, &loss);
            if (step != TG_OK)
                fail(m, step);
        }
        rest(g);
    }
    train_bench_destroy(bench);
    return NULL;
}

/* Wait until all started members rest. Returns the first failure that another member did not
 * cause. */
static tg_status wait_for_all(struct bench_workers *g)
{
    pthread_mutex_lock(&g->mutex);
    while (g->resting < g->started)
        pthread_cond_wait(&g->changed, &g->mutex);
    g->resting = 0;
    pthread_mutex_unlock(&g->mutex);
    const struct member *first = NULL;
    for (size_t i = 0; i < g->started; i++) {
        const struct member *m = &g->member[i];
        if (m->status != TG_OK && (!first || first->status == TG_E_PEER))
            first = m;
    }
    return first ? tg_fail(first->status, "%s", first->message) : TG_OK;
}

static void tell(struct bench_workers *g, size_t steps)
{
    pthread_mutex_lock(&g->mutex);
    g->round++;
    g->steps = steps;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

static tg_status start(struct bench_workers *g)
{
    tg_transport *transport[BENCH_TRAIN_WORKERS];
    TG_TRY(tg_transport_inproc((int)g->workers, transport));
    for (size_t i = 0; i < g->workers; i++)
        g->member[i] = (struct member){.group = g, .transport = transport[i]};
    for (; g->started < g->workers; g->started++) {
        struct member *m = &g->member[g->started];
        const int error = pthread_create(&m->thread, NULL, work, m);
        if (error) {
            m->transport->ops->shut(m->transport);
            (void)!wait_for_all(g);
            return tg_fail(TG_E_NOMEM, "cannot start worker %zu: %s", g->started, strerror(error));
        }
    }
    return wait_for_all(g);
}

tg_status bench_workers_create(const char *spec, size_t batch, train_precision precision,
                               size_t workers, struct bench_workers **g_p)
{
    if (workers < 1 || workers > BENCH_TRAIN_WORKERS)
        return tg_fail(TG_E_ARG, "workers=%zu: allowed: 1 to %d", workers, BENCH_TRAIN_WORKERS);
    struct bench_workers *g = calloc(1, sizeof *g);
    if (!g)
        return tg_fail(TG_E_NOMEM, "out of memory: workers");
    g->spec = spec;
    g->batch = batch;
    g->precision = precision;
    g->workers = workers;
    pthread_mutex_init(&g->mutex, NULL);
    pthread_cond_init(&g->changed, NULL);
    const tg_status status = start(g);
    if (status != TG_OK) {
        bench_workers_destroy(g);
        return status;
    }
    *g_p = g;
    return TG_OK;
}

void bench_workers_destroy(struct bench_workers *g)
{
    if (!g)
        return;
    tell(g, 0);
    for (size_t i = 0; i < g->started; i++)
        pthread_join(g->member[i].thread, NULL);
    for (size_t i = 0; i < g->workers; i++)
        tg_transport_destroy(g->member[i].transport);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->mutex);
    free(g);
}

train_bench_info bench_workers_about(const struct bench_workers *g)
{
    return g->member[0].about;
}

tg_status bench_workers_steps(struct bench_workers *g, size_t steps, double *ms_p,
                              double *processor_ms_p)
{
    const int64_t begin = tg_now_ns(tg_clock_monotonic());
    const double processor = bench_processor_ms();
    tell(g, steps);
    TG_TRY(wait_for_all(g));
    *ms_p = (double)(tg_now_ns(tg_clock_monotonic()) - begin) / 1e6 / (double)steps;
    *processor_ms_p = (bench_processor_ms() - processor) / (double)steps;
    return TG_OK;
}
