/* Shared by the files of the benchmark: vectors, measuring, reporting of a row. */
#ifndef TG_BENCH_IMPL_H
#define TG_BENCH_IMPL_H

#include "base/pool.h"
#include "bench/rows/bench.h"
#include "kernel/kernel.h"
#include "method/method.h"

enum { BENCH_SAMPLES = 101 };

typedef struct bench {
    const bench_options *o;
    size_t n;
    float *g[2];              /* (n) two gradients, used alternately */
    float *out;               /* (n) target of decoding and copying */
    const tg__kernels *yards; /* the best kernels of this CPU, for the yardsticks */
    tg__pool *pool;
    /* The vector as the tensors of a network, which form the bucket of a method. */
    const char **tensor;
    char (*names)[24];
    size_t *len, *rows, *cols, count;
    size_t failed; /* rows with an error */
} bench;

/* ---- bench.c --------------------------------------------------------------------------------- */

/* Check the options and pin the thread if they ask for it. Errors TG_E_ARG, TG_E_UNSUPPORTED */
TG_NODISCARD tg_status bench_prepare(const bench_options *o);

/* ---- vectors.c ------------------------------------------------------------------------------- */

/* Read the gradients of o->gradients, or draw them: normal numbers with a heavy-tailed scale per
 * block, as in the layers of a network. Errors TG_E_NOMEM, those of the file */
TG_NODISCARD tg_status bench_open(bench *b, const bench_options *o, size_t n);
void bench_close(bench *b);

/* Draw gradient number `number` from that distribution into x (n). Errors TG_E_NOMEM */
TG_NODISCARD tg_status bench_draw(float *x, size_t n, uint32_t number);
/* Lay out b->n elements as the matrices of a network, as many as fit, and the rest as a vector.
 * Released by bench_close. Errors TG_E_NOMEM */
TG_NODISCARD tg_status bench_lay_out(bench *b);

/* The method of a bucket of b's tensors, on rank `rank` of `size`. Borrows from b */
tg__method_setup bench_method_setup(const bench *b, int rank, int size, tg__state *state);

/* A threshold that about the fraction `density` of |x| (n) reaches. Overwrites b->out. */
float bench_threshold(bench *b, const float *x, double density);

/* ---- measure.c ------------------------------------------------------------------------------- */

/* One run of the work that is measured; adds the time that counts to *ns_p. */
typedef tg_status bench_fn(void *arg, int64_t *ns_p);

/* Fill in times and ratios: samples of fn and of the yardsticks alternate. Errors those of fn */
TG_NODISCARD tg_status bench_measure(bench *b, bench_fn *fn, void *arg, bench_row *row);
/* The median time of fn alone. */
TG_NODISCARD tg_status bench_time(bench *b, bench_fn *fn, void *arg, double *ns_p);

/* The clock for the time of a run. */
int64_t bench_now(const bench *b);

/* A row without figures, for n elements. */
bench_row bench_row_of(const bench *b, const char *group, const char *name);
/* Fill in limit and gb_s from the bytes that must be touched. */
void bench_row_bytes(bench_row *row, double bytes);
/* Whether the filter (NULL: none) selects a row. */
bool bench_matches(const char *filter, const char *group, const char *name);
/* Whether it selects any row of a group. */
bool bench_any_target(const char *filter);
bool bench_any_method(const char *filter);
bool bench_any_index(const char *filter);
bool bench_any_kernel(const char *filter);
/* The same for a row that comes next; if so, announces it to o->begin. */
bool bench_wanted(const bench *b, const char *group, const char *name);
/* Report the row; with `status` as its error unless that is TG_OK. */
TG_NODISCARD tg_status bench_report(bench *b, bench_row *row, tg_status status);

/* ---- work_method.c, work_codec.c: what is measured ------------------------------------------- */

/* A method as a single rank runs it. */
typedef struct work_method {
    bench *b;
    tg__state *state;
    tg__method *m;
    uint64_t step;
    tg__exchange *last;  /* of the last run: its part holds the frame */
    tg__task task;       /* of the last run */
    int64_t combined_ns; /* of the last run: decoding and combining of the last exchange */
    double error_norm, bits;
    size_t vectors; /* vectors of state that the method keeps */
} work_method;

/* Create it and run the first step. After a failure, too, w is valid for work_method_close. Errors
 * those of the method */
TG_NODISCARD tg_status work_method_open(work_method *w, bench *b, const char *spec);
void work_method_close(work_method *w);
bench_fn work_method_encode; /* (work_method *): compensate, encode, remember; all earlier rounds */
bench_fn work_method_decode; /* (work_method *): checks the last frame and adds it to b->out */
bench_fn work_method_cycle;  /* (work_method *): the whole step, up to the aggregate */
/* Bytes that encoding must touch, and decoding. */
double work_method_encode_bytes(const work_method *w);
double work_method_decode_bytes(const work_method *w);

/* A codec alone, one frame. */
typedef struct work_codec {
    bench *b;
    tg_codec *c;
    tg__part part;
    uint64_t step;
    double error_norm, bits;
} work_codec;

TG_NODISCARD tg_status work_codec_open(work_codec *w, bench *b, const char *spec);
void work_codec_close(work_codec *w);
bench_fn work_codec_encode, work_codec_decode; /* (work_codec *) */

/* |x - y| / |x| */
double bench_error_norm(const float *x, const float *y, size_t n);

/* Whether this build has the method or codec named in a spec. */
bool work_method_exists(const char *spec);
bool work_codec_exists(const char *spec);

/* ---- the rows -------------------------------------------------------------------------------- */

TG_NODISCARD tg_status bench_targets(bench *b);
TG_NODISCARD tg_status bench_methods(bench *b);
TG_NODISCARD tg_status bench_indices(bench *b);
TG_NODISCARD tg_status bench_kernels(bench *b);

#endif
