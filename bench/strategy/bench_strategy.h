/* How long a strategy's own arithmetic takes: `telegrad bench strategy`.
 *
 * A strategy is played over plain arrays as one rank of four. Nothing is exchanged: each result is
 * the same vector. The time is compared with that of touching, at the speed of axpy (`r += g`, 12
 * bytes an element), the bytes which the strategy must touch: each of its vectors once a step, two
 * times if it is read and written. */
#ifndef TG_BENCH_STRATEGY_H
#define TG_BENCH_STRATEGY_H

#include "bench/rows/bench.h"

typedef struct bench_strategy_row {
    const char *strategy, *optimizer; /* spec strings */
    const char *error;                /* NULL; else what is wrong, and there are no figures */
    size_t n, samples;
    double passes;     /* bytes a step must touch / (4 n) */
    double ms;         /* a step, median */
    bench_ratio ratio; /* time / time of those bytes at the axpy's speed */
} bench_strategy_row;

typedef struct bench_strategy_options {
    size_t n;           /* elements; from 1000 */
    const char *filter; /* only strategies or optimizers whose spec contains it; NULL: all */
    double seconds;     /* for each row */
    void *arg;
    void (*begin)(void *arg, const char *strategy, const char *optimizer); /* may be NULL */
    tg_status (*row)(void *arg, const bench_strategy_row *row);
} bench_strategy_options;

/* Measure all strategies with all optimizers that they work with. Pins the calling thread to its
 * core. A row that fails is a row with an error.
 * Errors TG_E_ARG, TG_E_NOMEM; those of `row` */
TG_NODISCARD tg_status bench_strategy(const bench_strategy_options *o);

/* Bytes / (4 n) that a step of a strategy must touch, with an optimizer; 0: not a row. */
double bench_strategy_passes(const char *strategy, const char *optimizer);

#endif
