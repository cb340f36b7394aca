/* For tests: complete runs whose ranks are threads and communicate through memory. */
#ifndef TG_TRAINER_RANKS_H
#define TG_TRAINER_RANKS_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "trainer/loop/train.h"

#define OK(expr) assert_int_equal((expr), TG_OK)
#define RANKS_MAX 2

static train_data *data; /* 640 + 200 glyphs: two ranks with batches of 16: 20 steps per epoch */

static inline int open_data(void **state)
{
    (void)state;
    return train_data_open("glyphs:train=640,test=200", 0, &data) == TG_OK ? 0 : -1;
}

static inline int close_data(void **state)
{
    (void)state;
    train_data_close(data);
    return 0;
}

/* Records what rank 0 reports, and says when to interfere. */
typedef struct witness {
    train_start_info start; /* its strings are invalid after the run */
    char method[128];
    uint64_t steps, epochs, last_step;
    double first_loss, last_loss;
    double finite_sum;           /* over the `finite` finite losses */
    uint64_t finite, bytes_late; /* bytes_late: of exchanges delivered after step `late_from` */
    uint64_t late_from;
    train_epoch_info epoch;
    uint64_t fail_at, stop_at; /* at these steps; 0: never */
    volatile sig_atomic_t stop;
} witness;

static inline tg_status on_start(void *arg, const train_start_info *info)
{
    witness *w = arg;
    w->start = *info;
    snprintf(w->method, sizeof w->method, "%s", info->method);
    return TG_OK;
}

static inline tg_status on_step(void *arg, const train_step_info *info)
{
    witness *w = arg;
    if (w->steps++ == 0)
        w->first_loss = info->loss;
    w->last_loss = info->loss;
    w->finite_sum += isfinite(info->loss) ? info->loss : 0;
    w->finite += isfinite(info->loss) ? 1 : 0;
    w->bytes_late += info->step > w->late_from ? info->tg.bytes_exchanged : 0;
    w->last_step = info->step;
    if (info->step == w->stop_at)
        __atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
    if (info->step == w->fail_at)
        return tg_fail(TG_E_IO, "disk full at step %d", (int)info->step);
    return TG_OK;
}

static inline tg_status on_epoch(void *arg, const train_epoch_info *info)
{
    witness *w = arg;
    w->epochs++;
    w->epoch = *info;
    return TG_OK;
}

typedef struct rank_run {
    const train_job *job;
    tg_transport *transport;
    const train_events *events;
    train_end_info end;
    tg_status status;
    char message[512];
} rank_run;

static inline void *run_rank(void *arg)
{
    rank_run *r = arg;
    r->status = train_run(r->job, data, r->transport, r->events, &r->end);
    snprintf(r->message, sizeof r->message, "%s", r->status == TG_OK ? "" : tg_error());
    return NULL;
}

/* job[rank]: pointer to the job of each rank. Destroys the transports. */
static inline void run_over(tg_transport **transport, const train_job *const *job, int ranks,
                            witness *w, rank_run *run)
{
    pthread_t thread[RANKS_MAX];
    const train_events events = {.arg = w, .start = on_start, .step = on_step, .epoch = on_epoch};
    for (int i = 0; i < ranks; i++) {
        run[i] = (rank_run){.job = job[i], .transport = transport[i], .events = &events};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &run[i]), 0);
    }
    for (int i = 0; i < ranks; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    /* Not earlier: a rank that fails must tell the others itself. */
    for (int i = 0; i < ranks; i++)
        tg_transport_destroy(transport[i]);
}

static inline void run_jobs(const train_job *const *job, int ranks, witness *w, rank_run *run)
{
    tg_transport *transport[RANKS_MAX];
    OK(tg_transport_inproc(ranks, transport));
    run_over(transport, job, ranks, w, run);
}

static inline void run_both(const train_job *job, witness *w, rank_run *run)
{
    run_jobs((const train_job *const[]){job, job}, 2, w, run);
}

static inline void assert_fine(const rank_run *run, int ranks)
{
    for (int i = 0; i < ranks; i++) {
        if (run[i].status != TG_OK)
            fail_msg("rank %d: %s: %s", i, tg_status_name(run[i].status), run[i].message);
        assert_true(run[i].end.params_hash == run[0].end.params_hash);
        assert_true(run[i].end.train_loss == run[0].end.train_loss);
    }
}

static inline train_job basic(void)
{
    return (train_job){.model = "mlp:hidden=32,hidden2=0",
                       .method = "dense",
                       .strategy = "ssgd",
                       .optimizer = "sgd:lr=0.05,momentum=0.9",
                       .lr_schedule = "constant",
                       .batch = 16,
                       .epochs = 3,
                       .seed = 1,
                       .log_every = 10,
                       .timeout_ms = 20000,
                       .evaluate = true};
}

/* dir: a template for mkdtemp, or a folder made from it. */
static inline void remove_tree(const char *dir)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

#endif
