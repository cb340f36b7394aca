#include "base/pool.h"
#include "base/mem.h"
#include "base/thread.h"
#include <stdatomic.h>
#include <stdlib.h>

struct tg__pool {
    unsigned threads;     /* including the caller's */
    pthread_mutex_t user; /* held by the caller whose loop it is */
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    bool quit;
    uint64_t round; /* number of loops begun */
    bool open;      /* the loop may be joined */
    unsigned busy;  /* threads that have joined it and not finished */
    size_t tasks;
    atomic_size_t next;
    void (*fn)(void *arg, size_t i);
    void *arg;
    pthread_t thread[]; /* (threads - 1) */
};

static void take_tasks(tg__pool *p)
{
    for (size_t i; (i = atomic_fetch_add(&p->next, 1)) < p->tasks;)
        p->fn(p->arg, i);
}

static void *work(void *arg)
{
    tg__pool *p = arg;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (!p->quit && p->round == seen)
            pthread_cond_wait(&p->work, &p->mutex);
        if (p->quit)
            break;
        seen = p->round;
        if (!p->open) /* woken too late: nothing is left, and nobody waits */
            continue;
        p->busy++;
        pthread_mutex_unlock(&p->mutex);
        take_tasks(p);
        pthread_mutex_lock(&p->mutex);
        if (--p->busy == 0)
            pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

static void stop(tg__pool *p, unsigned started)
{
    pthread_mutex_lock(&p->mutex);
    p->quit = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->mutex);
    for (unsigned i = 0; i < started; i++)
        pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->mutex);
    pthread_mutex_destroy(&p->user);
    free(p);
}

tg_status tg__pool_create(unsigned threads, tg__pool **pool_p)
{
    if (threads < 1 || threads > TG__POOL_MAX)
        return tg_fail(TG_E_ARG, "threads=%u: allowed: 1 to %u", threads, TG__POOL_MAX);
    if (threads == 1) {
        *pool_p = NULL;
        return TG_OK;
    }
    tg__pool *p;
    TG_TRY(tg_alloc(1, sizeof *p + threads * sizeof p->thread[0], &p));
    p->threads = threads;
    pthread_mutex_init(&p->user, NULL);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    for (unsigned i = 0; i + 1 < threads; i++) {
        const tg_status status = tg__thread_start("tg-codec", work, p, &p->thread[i]);
        if (status != TG_OK) {
            stop(p, i);
            return status;
        }
    }
    *pool_p = p;
    return TG_OK;
}

void tg__pool_destroy(tg__pool *p)
{
    if (p != NULL)
        stop(p, p->threads - 1);
}

unsigned tg__pool_threads(const tg__pool *p)
{
    return p == NULL ? 1 : p->threads;
}

static void run_alone(size_t tasks, void (*fn)(void *arg, size_t i), void *arg)
{
    for (size_t i = 0; i < tasks; i++)
        fn(arg, i);
}

void tg__pool_run(tg__pool *p, size_t tasks, void (*fn)(void *arg, size_t i), void *arg)
{
    if (p == NULL || tasks < 2 || pthread_mutex_trylock(&p->user) != 0) {
        run_alone(tasks, fn, arg);
        return;
    }
    pthread_mutex_lock(&p->mutex);
    p->fn = fn;
    p->arg = arg;
    p->tasks = tasks;
    atomic_store(&p->next, 0);
    p->open = true;
    p->round++;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->mutex);
    take_tasks(p);
    pthread_mutex_lock(&p->mutex);
    p->open = false; /* all tasks are taken: sleeping threads need not wake */
    while (p->busy > 0)
        pthread_cond_wait(&p->done, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
    pthread_mutex_unlock(&p->user);
}

typedef struct pieces {
    size_t n, size;
    void (*fn)(void *arg, size_t lo, size_t hi);
    void *arg;
} pieces;

static void run_piece(void *arg, size_t i)
{
    const pieces *s = arg;
    s->fn(s->arg, i * s->size, TG__MIN(s->n, (i + 1) * s->size));
}

/* Several pieces per thread, so that a slow core does not hold up the others. */
enum { PIECES_PER_THREAD = 4 };

void tg__pool_chunks(tg__pool *p, size_t n, size_t chunk,
                     void (*fn)(void *arg, size_t lo, size_t hi), void *arg)
{
    if (n == 0)
        return;
    if (p == NULL || n <= chunk) {
        fn(arg, 0, n);
        return;
    }
    size_t chunks = (n + chunk - 1) / chunk, want = PIECES_PER_THREAD * (size_t)p->threads;
    pieces s = {.n = n, .size = (chunks + want - 1) / want * chunk, .fn = fn, .arg = arg};
    tg__pool_run(p, (n + s.size - 1) / s.size, run_piece, &s);
}
