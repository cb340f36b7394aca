/* Measures the speed of the codecs on this machine: `telegrad bench codec`.
 *
 * Every row is measured on one core, alternating with two yardsticks: axpy (`r += g`, 12 bytes per
 * element) and memcpy of the same vector. Ratios to them say more than times, which vary on a busy
 * machine. */
#ifndef TG_BENCH_H
#define TG_BENCH_H

#include "telegrad/base.h"

/* A ratio over the samples of a row; NAN if there are none. */
typedef struct bench_ratio {
    double median, min, max;
} bench_ratio;
/* Summary of x (n), which is sorted; NAN for n = 0. */
bench_ratio bench_summary(double *x, size_t n);

/* One row. Figures that do not apply are NAN. */
typedef struct bench_row {
    const char *group; /* "target": a row of the project's table of targets; "method": a method of
                          the registry at its defaults; "index": an index coding; "kernel" */
    const char *name;
    const char *level; /* instruction set */
    const char *error; /* NULL: success; else the message, and no figure is set */
    bool missing;      /* the error is that this build lacks the method or codec */
    size_t n;
    unsigned threads;
    size_t samples;
    double ns;              /* median time of one call */
    double ns_each;         /* time per element */
    bench_ratio axpy, copy; /* time over that of the yardstick */
    double limit;       /* bytes that must be touched over axpy's bytes: lower limit of `axpy` */
    double gb_s;        /* those bytes per second */
    double bits;        /* frame size in bits per element; index: per index */
    double error_norm;  /* |x - decoded| / |x| for the first vector */
    double entropy;     /* index: size over the entropy (log2 of the number of such sets) */
    double index_ns[3]; /* index, ns per index: encode; decode; decode and add a value */
    double target[2];   /* targets, as ratios to axpy and memcpy */
} bench_row;

typedef struct bench_options {
    const size_t *n; /* (count) vector lengths to measure */
    size_t count;
    const char *filter;    /* only rows whose name or group contains it; NULL: all */
    const char *gradients; /* .npy file, repeated or cut to n elements; NULL: random */
    unsigned threads;      /* threads of the codecs; the yardsticks use one */
    double seconds;        /* for each row */
    void *arg;
    void (*begin)(void *arg, size_t n, const char *name); /* called before each row; may be NULL */
    tg_status (*row)(void *arg, const bench_row *row);
} bench_options;

/* Measure everything with the kernels of tg_cpu_level(). If threads is 1, the calling thread is
 * pinned to its core. A row that fails is reported with its error. Errors TG_E_ARG, TG_E_IO,
 * TG_E_CORRUPT (the file), TG_E_NOMEM; those of `row` */
TG_NODISCARD tg_status bench_codec(const bench_options *o);

/* Pin the calling thread, and what it starts, to the core it is on: after a move to another core
 * the caches are cold, which would distort the times. */
void bench_pin(void);

/* Whether this CPU and this build have an instruction set level. */
bool bench_level_exists(const char *level);

/* One row of a comparison with PyTorch's operations, on the same core and vector. */
typedef struct bench_comparison {
    const char *name, *level, *error; /* error: as in bench_row */
    bool missing;
    size_t n;
    double ours_ms, theirs_ms, factor; /* medians; theirs / ours */
    double ours_copy_ms, theirs_copy_ms;
} bench_comparison;

/* python: path of the interpreter. Errors as bench_codec; TG_E_UNSUPPORTED: no Python, or Python
 * without PyTorch (the message says what to install) */
TG_NODISCARD tg_status bench_compare_torch(const bench_options *o, const char *python,
                                           tg_status (*row)(void *arg,
                                                            const bench_comparison *row));

#endif
