/* The measurements of `telegrad bench train`. */
#ifndef TG_CLI_BENCH_TRAIN_H
#define TG_CLI_BENCH_TRAIN_H

#include "bench/rows/bench.h"
#include "trainer/loop/train.h"

enum { BENCH_TRAIN_BATCHES = 8, BENCH_TRAIN_WORKERS = 64, BENCH_TRAIN_SAMPLES = 1001 };

/* Times or ratios, in the order they were taken. */
struct bench_samples {
    double x[BENCH_TRAIN_SAMPLES];
    size_t count;
};

static inline bool bench_samples_full(const struct bench_samples *s)
{
    return s->count == BENCH_TRAIN_SAMPLES;
}
/* Add a sample; does nothing when s is full. */
static inline void bench_samples_add(struct bench_samples *s, double x)
{
    if (!bench_samples_full(s))
        s->x[s->count++] = x;
}

/* The steps of a model, a batch size and a number of workers. A figure that does not exist is
 * NAN. */
struct bench_train_row {
    const char *spec;  /* of the model, as the user wrote it */
    const char *error; /* NULL: success; else the message; `about` and figures are not set */
    train_precision precision;
    train_bench_info about; /* batch: per worker */
    size_t workers; /* 0: one thread without a session, timed by processor time, not wall clock */
    size_t samples;
    bench_ratio ms;      /* time of a step */
    bench_ratio speedup; /* workers: samples/s over those of one worker, alternating ... */
    bench_ratio processor_speedup; /* ... by processor time: as if no other program used the cores
                                      and no worker ever waited */
    char format[32];               /* PyTorch's memory format; "": not compared */
    size_t torch_samples;
    bench_ratio torch_ms, ratio; /* ratio: ours over PyTorch's, alternating */
    double target;               /* highest ratio or lowest speed-up aimed at */
};

struct bench_train_options {
    const char *const *specs; /* (count) models */
    size_t count;
    size_t batch[BENCH_TRAIN_BATCHES], batches;    /* 0: each model's own */
    size_t workers[BENCH_TRAIN_WORKERS], nworkers; /* 0: one thread, no session */
    train_precision precision;
    double seconds;     /* for each row and side */
    const char *python; /* NULL: no comparison */
    void *arg;
    void (*begin)(void *arg, const char *spec, size_t batch);
    /* Called before the first row if python is set: PyTorch's version, and the speed of its matrix
     * product, which depends on the BLAS it was built with. */
    tg_status (*torch)(void *arg, const char *version, double gemm_gflops);
    tg_status (*row)(void *arg, const struct bench_train_row *row);
};

/* Measure all rows. A row that fails is reported with its error. Errors TG_E_SPEC (a model),
 * TG_E_UNSUPPORTED (no PyTorch), TG_E_NOMEM, those of the callbacks */
TG_NODISCARD tg_status bench_train(const struct bench_train_options *o);

/* ---- workers (bench_workers.c) --------------------------------------------------------------- */

/* Workers as threads of this process. They are idle except in bench_workers_steps. */
struct bench_workers;

/* Errors those of train_bench_create, TG_E_NOMEM */
TG_NODISCARD tg_status bench_workers_create(const char *spec, size_t batch,
                                            train_precision precision, size_t workers,
                                            struct bench_workers **g_p);
void bench_workers_destroy(struct bench_workers *g); /* NULL is fine */
train_bench_info bench_workers_about(const struct bench_workers *g);
/* All workers take `steps` steps. *ms_p is the wall-clock time per step, the other result the
 * processor time of this process per step. Errors those of train_bench_step */
TG_NODISCARD tg_status bench_workers_steps(struct bench_workers *g, size_t steps, double *ms_p,
                                           double *processor_ms_p);

/* Processor time of this process so far. */
double bench_processor_ms(void);

#endif
