/* The ranks of a job: threads of this process, or the process itself as one of several. */
#include "base/mem.h"
#include "base/thread.h"
#include "bench/exchange/exchange_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct crew {
    bench_exchange_options *o;
    const bench *layout;
    const char *method;
    bench_link *run;             /* (runs) */
    size_t runs, first, workers; /* first: as in rank_job */
} crew;

/* ---- transports ------------------------------------------------------------------------------ */

/* Shape the ends t (size) of one run if its link is emulated. After a failure, too, t holds the
 * ends that were made. */
static tg_status shape(const bench_link *run, tg_transport **t, size_t size)
{
    if (!run->text || run->real)
        return TG_OK;
    for (size_t r = 0; r < size; r++)
        TG_TRY(tg_transport_shaped(t[r], &run->link, &t[r]));
    return TG_OK;
}

static void destroy_all(tg_transport **t, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tg_transport_destroy(t[i]);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct member {
    rank_job job;
    pthread_t thread;
    bool started;
    tg_status status;
    char text[512];
} member;

static void *work(void *arg)
{
    member *m = arg;
    m->status = bench_rank(&m->job);
    if (m->status != TG_OK)
        snprintf(m->text, sizeof m->text, "%s", tg_error());
    return NULL;
}

/* The first failure that was not caused by another rank. */
static tg_status failure(const member *m, size_t n)
{
    const member *first = NULL;
    for (size_t i = 0; i < n; i++)
        if (m[i].status != TG_OK &&
            (!first || (first->status == TG_E_PEER && m[i].status != TG_E_PEER)))
            first = &m[i];
    return first ? tg_fail(first->status, "%s", first->text) : TG_OK;
}

static tg_status run_members(member *m, size_t n)
{
    tg_status status = TG_OK;
    for (size_t i = 1; i < n && status == TG_OK; i++) {
        status = tg__thread_start("tg-bench", work, &m[i], &m[i].thread);
        m[i].started = status == TG_OK;
    }
    if (status == TG_OK)
        work(&m[0]);
    for (size_t i = 0; i < n && status != TG_OK; i++) /* the others would wait for missing ranks */
        for (size_t k = 0; k < m[i].job.runs; k++)
            (void)m[i].job.t[k]->ops->shut(m[i].job.t[k]);
    for (size_t i = 1; i < n; i++)
        if (m[i].started)
            pthread_join(m[i].thread, NULL);
    return status == TG_OK ? failure(m, n) : status;
}

/* The job of a rank with these transports, one a run. */
static rank_job job_of(const crew *c, tg_transport **t)
{
    return (rank_job){.o = c->o,
                      .layout = c->layout,
                      .run = c->run,
                      .t = t,
                      .runs = c->runs,
                      .first = c->first,
                      .method = c->method};
}

/* Hand each member its own ends: ends (runs x workers) -> own (workers x runs). */
static tg_status run_threads_over(const crew *c, tg_transport **ends, tg_transport **own, member *m)
{
    for (size_t k = 0; k < c->runs; k++) {
        TG_TRY(tg_transport_inproc((int)c->workers, ends + k * c->workers));
        TG_TRY(shape(&c->run[k], ends + k * c->workers, c->workers));
    }
    for (size_t i = 0; i < c->workers; i++) {
        tg_transport **t = own + i * c->runs;
        for (size_t k = 0; k < c->runs; k++)
            t[k] = ends[k * c->workers + i];
        m[i].job = job_of(c, t);
    }
    return run_members(m, c->workers);
}

static tg_status run_threads(const crew *c)
{
    const size_t ends = c->runs * c->workers;
    tg_transport **t = NULL;
    member *m = NULL;
    TG_TRY(tg_alloc(2 * ends, sizeof(tg_transport *), &t));
    tg_status status = tg_alloc(c->workers, sizeof *m, &m);
    if (status == TG_OK)
        status = run_threads_over(c, t, t + ends, m);
    destroy_all(t, ends);
    free(m);
    free(t);
    return status;
}

/* ---- a process of several -------------------------------------------------------------------- */

static tg_status run_process_over(const crew *c, tg_transport **t, bool *held_p)
{
    for (size_t k = 0; k < c->runs; k++) {
        TG_TRY(c->o->connect(&t[k]));
        TG_TRY(shape(&c->run[k], &t[k], 1));
    }
    rank_job job = job_of(c, t);
    const tg_status status = bench_rank(&job);
    *held_p = job.held;
    return status;
}

static tg_status run_process(const crew *c)
{
    tg_transport **t;
    bool held = false;
    TG_TRY(tg_alloc(c->runs, sizeof(tg_transport *), &t));
    const tg_status status = run_process_over(c, t, &held);
    if (!held) /* else the transport still uses this memory */
        destroy_all(t, c->runs);
    free(t);
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static tg_status one_crew(const crew *c)
{
    tg_status status = bench_check_memory(c->o, c->workers, 0);
    if (status == TG_OK)
        status = c->o->connect ? run_process(c) : run_threads(c);
    if (status == TG_OK)
        return TG_OK;
    char text[512];
    snprintf(text, sizeof text, "%s", tg_error());
    c->o->failed++;
    const bench_exchange_row row = {.method = c->method,
                                    .error = text,
                                    .workers = c->workers,
                                    .elements = c->o->n,
                                    .tensors = c->layout->count,
                                    .behind = c->o->behind,
                                    .link = &c->run[c->first]};
    return c->o->row(c->o->arg, &row);
}

/* The runs: first the one without a network, unless the transport has real links. */
static tg_status measure(bench_exchange_options *o, const bench *layout)
{
    const bool ready = o->links > 0 && (!o->link[0].text || o->link[0].real);
    crew c = {.o = o, .layout = layout, .first = !ready, .runs = o->links + !ready};
    TG_TRY(tg_alloc(c.runs, sizeof *c.run, &c.run));
    memcpy(c.run + !ready, o->link, o->links * sizeof *c.run);
    tg_status status = TG_OK;
    const size_t sizes = o->connect ? 1 : o->nworkers;
    for (size_t m = 0; m < o->methods; m++)
        for (size_t w = 0; w < sizes && status == TG_OK; w++) {
            c.method = o->method[m];
            c.workers = o->workers[w];
            status = one_crew(&c);
        }
    free(c.run);
    return status;
}

static tg_status lay_out(const bench_exchange_options *o, bench *b)
{
    if (!o->tensor)
        return bench_lay_out(b);
    b->count = o->tensors;
    TG_TRY(tg_alloc(b->count, sizeof *b->tensor, &b->tensor));
    TG_TRY(tg_alloc(b->count, sizeof *b->len, &b->len));
    TG_TRY(tg_alloc(b->count, sizeof *b->rows, &b->rows));
    TG_TRY(tg_alloc(b->count, sizeof *b->cols, &b->cols));
    for (size_t i = 0; i < b->count; i++) {
        b->tensor[i] = o->tensor[i].name;
        b->len[i] = o->tensor[i].n;
        b->rows[i] = o->tensor[i].rows;
        b->cols[i] = o->tensor[i].n / o->tensor[i].rows;
    }
    return TG_OK;
}

tg_status bench_exchange(bench_exchange_options *o)
{
    bench b = {.n = o->n};
    o->failed = 0;
    TG_TRY(tg__kernel_check());
    if (o->n < 1 || o->n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_ARG, "n=%zu: allowed: 1 to %zu", o->n, TG_MAX_ELEMENTS);
    for (size_t w = 0; !o->connect && w < o->nworkers; w++)
        if (o->workers[w] < 1 || o->workers[w] > BENCH_EXCHANGE_WORKERS)
            return tg_fail(TG_E_ARG, "workers=%zu: allowed: 1 to %d", o->workers[w],
                           BENCH_EXCHANGE_WORKERS);
    tg_status status = lay_out(o, &b);
    if (status == TG_OK)
        status = measure(o, &b);
    bench_close(&b);
    return status;
}
