/* Measures a strategy's own arithmetic: `telegrad bench strategy`.
 *
 * A strategy runs over plain arrays as one rank of four. Nothing is exchanged: every result is the
 * same vector. Its time is compared with the time to touch, at the speed of axpy (`r += g`, 12
 * bytes per element), the bytes that the strategy must touch: each of its vectors once per step,
 * twice if it is both read and written. */
#ifndef TG_BENCH_STRATEGY_H
#define TG_BENCH_STRATEGY_H

#include "bench/rows/bench.h"

typedef struct bench_strategy_row {
    const char *strategy, *optimizer; /* spec strings */
    const char *error;                /* NULL: success; else the message, and no figure is set */
    size_t n, samples;
    double passes;     /* bytes that a step must touch / (4 n) */
    double ms;         /* median time of a step */
    bench_ratio ratio; /* time / time of those bytes at axpy's speed */
} bench_strategy_row;

typedef struct bench_strategy_options {
    size_t n;           /* elements, at least 1000 */
    const char *filter; /* only strategies or optimizers whose spec contains it; NULL: all */
    double seconds;     /* for each row */
    void *arg;
    void (*begin)(void *arg, const char *strategy, const char *optimizer); /* may be NULL */
    tg_status (*row)(void *arg, const bench_strategy_row *row);
} bench_strategy_options;

/* Measure every strategy with every optimizer that it works with. The calling thread is pinned to
 * its core. A row that fails is reported with its error.
 * Errors TG_E_ARG, TG_E_NOMEM; those of `row` */
TG_NODISCARD tg_status bench_strategy(const bench_strategy_options *o);

/* Bytes / (4 n) that a step of the strategy must touch with the optimizer; 0: there is no such
 * row. */
double bench_strategy_passes(const char *strategy, const char *optimizer);

#endif
