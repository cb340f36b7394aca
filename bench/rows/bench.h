/* How fast the codecs are on this machine: `telegrad bench codec`.
 *
 * Every row is measured between two yardsticks, in turn, on one core: axpy (`r += g`, 12 bytes an
 * element) and memcpy of the same vector. Ratios to them say more than times, which a busy machine
 * changes. */
#ifndef TG_BENCH_H
#define TG_BENCH_H

#include "telegrad/base.h"

/* A ratio over the samples of a row; NAN: there is none. */
typedef struct bench_ratio {
    double median, min, max;
} bench_ratio;
/* Of x (n), which is sorted; NAN of none. */
bench_ratio bench_summary(double *x, size_t n);

/* One row. Figures that it does not have are NAN. */
typedef struct bench_row {
    const char *group; /* "target": of the project's table of targets; "method": each of the
                          registry at its defaults; "index": codings of indices; "kernel" */
    const char *name;
    const char *level; /* instruction set */
    const char *error; /* NULL; else what is wrong, and there are no figures */
    bool missing;      /* the error is that this build has no such method or codec */
    size_t n;
    unsigned threads;
    size_t samples;
    double ns;              /* median time of one call */
    double ns_each;         /* of one element */
    bench_ratio axpy, copy; /* times over those of the yardsticks */
    double limit;       /* bytes that must be touched over those of axpy: what `axpy` could be */
    double gb_s;        /* those bytes per second */
    double bits;        /* of the frame, per element; index: per index */
    double error_norm;  /* |x - decoded| / |x| for the first vector */
    double entropy;     /* index: bytes over log2 of the number of such sets, in bytes */
    double index_ns[3]; /* index: encode; decode; decode and add a value each: ns an index */
    double target[2];   /* what is aimed at, over axpy and memcpy */
} bench_row;

typedef struct bench_options {
    const size_t *n; /* (count) elements */
    size_t count;
    const char *filter;    /* only rows whose name or group contains it; NULL: all */
    const char *gradients; /* .npy file, repeated or cut to n; NULL: drawn from a distribution */
    unsigned threads;      /* of the codecs; the yardsticks have one */
    double seconds;        /* for each row */
    void *arg;
    void (*begin)(void *arg, size_t n, const char *name); /* NULL: is not told */
    tg_status (*row)(void *arg, const bench_row *row);
} bench_options;

/* Measure everything, with the kernels of tg_cpu_level(). Pins the calling thread to its core if
 * threads is 1. Rows that fail are rows with an error. Errors TG_E_ARG, TG_E_IO, TG_E_CORRUPT (the
 * file), TG_E_NOMEM; those of `row` */
TG_NODISCARD tg_status bench_codec(const bench_options *o);

/* Keep the calling thread, and what it starts, on the core it is on: what another core's caches
 * hold would count otherwise. */
void bench_pin(void);

/* Whether this CPU and this build have an instruction set level. */
bool bench_level_exists(const char *level);

/* What people use today, beside ours: rows of PyTorch's operations on the same core and vector. */
typedef struct bench_comparison {
    const char *name, *level, *error; /* error: as in bench_row */
    bool missing;
    size_t n;
    double ours_ms, theirs_ms, factor; /* medians; theirs / ours */
    double ours_copy_ms, theirs_copy_ms;
} bench_comparison;

/* python: the interpreter's path. Errors as bench_codec; TG_E_UNSUPPORTED: there is no Python, or
 * no PyTorch in it (says what to install) */
TG_NODISCARD tg_status bench_compare_torch(const bench_options *o, const char *python,
                                           tg_status (*row)(void *arg,
                                                            const bench_comparison *row));

#endif
