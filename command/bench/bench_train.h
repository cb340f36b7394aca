/* What `telegrad bench train` measures. */
#ifndef TG_CLI_BENCH_TRAIN_H
#define TG_CLI_BENCH_TRAIN_H

#include "bench/rows/bench.h"
#include "trainer/loop/train.h"

enum { BENCH_TRAIN_BATCHES = 8, BENCH_TRAIN_WORKERS = 64, BENCH_TRAIN_SAMPLES = 1001 };

/* Times or ratios in the order taken. */
struct bench_samples {
    double x[BENCH_TRAIN_SAMPLES];
    size_t count;
};

static inline bool bench_samples_full(const struct bench_samples *s)
{
    return s->count == BENCH_TRAIN_SAMPLES;
}
/* Without effect where it is full. */
static inline void bench_samples_add(struct bench_samples *s, double x)
{
    if (!bench_samples_full(s))
        s->x[s->count++] = x;
}
/* Of the samples from the number `from` on; NAN of none. */
bench_ratio bench_samples_summary(const struct bench_samples *s, size_t from);

/* The steps of a model, batch and number of workers. Figures that there are not are NAN. */
struct bench_train_row {
    const char *spec;  /* of the model, as it was asked for */
    const char *error; /* NULL; else what is wrong, and `about` and the figures are not set */
    train_precision precision;
    train_bench_info about; /* batch: of one worker */
    size_t workers; /* 0: a thread alone, without a session; processor time, else wall clock */
    size_t samples;
    bench_ratio ms;      /* of a step */
    bench_ratio speedup; /* workers: samples a second over those of one worker, in turn ... */
    bench_ratio processor_speedup; /* ... by processor time: if nobody else wanted the cores, and no
                                      worker ever waited */
    char format[32];               /* PyTorch's memory format; "": not compared */
    size_t torch_samples;
    bench_ratio torch_ms, ratio; /* ratio: ours over PyTorch's, in turn */
    double target;               /* what is aimed at: ratio at most, speed-up at least */
};

struct bench_train_options {
    const char *const *specs; /* (count) models */
    size_t count;
    size_t batch[BENCH_TRAIN_BATCHES], batches;    /* 0: each model's own */
    size_t workers[BENCH_TRAIN_WORKERS], nworkers; /* 0: a thread alone */
    train_precision precision;
    double seconds;     /* a row, and side */
    const char *python; /* NULL: no comparison */
    void *arg;
    void (*begin)(void *arg, const char *spec, size_t batch);
    /* Before the first row, with python: PyTorch's version and what its matrix product reaches,
     * which depends on the BLAS it was given. */
    tg_status (*torch)(void *arg, const char *version, double gemm_gflops);
    tg_status (*row)(void *arg, const struct bench_train_row *row);
};

/* Measure. Rows that fail are rows with an error. Errors TG_E_SPEC (a model), TG_E_UNSUPPORTED (no
 * PyTorch), TG_E_NOMEM, those of the callbacks */
TG_NODISCARD tg_status bench_train(const struct bench_train_options *o);

/* ---- workers (bench_workers.c) --------------------------------------------------------------- */

/* So many workers as threads of this process, at rest but in bench_workers_steps. */
struct bench_workers;

/* Errors those of train_bench_create, TG_E_NOMEM */
TG_NODISCARD tg_status bench_workers_create(const char *spec, size_t batch,
                                            train_precision precision, size_t workers,
                                            struct bench_workers **g_p);
void bench_workers_destroy(struct bench_workers *g); /* NULL is fine */
train_bench_info bench_workers_about(const struct bench_workers *g);
/* All take `steps` steps: wall-clock time of one, and this process's processor time for it. Errors
 * those of train_bench_step */
TG_NODISCARD tg_status bench_workers_steps(struct bench_workers *g, size_t steps, double *ms_p,
                                           double *processor_ms_p);

/* Processor time of this process so far. */
double bench_processor_ms(void);

#endif
