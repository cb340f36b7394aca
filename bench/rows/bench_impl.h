/* What the files of the benchmark share: the vectors, the measuring, the reporting of a row. */
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
    float *g[2];              /* (n) two gradients, taken in turn */
    float *out;               /* (n) what is decoded or copied to */
    const tg__kernels *yards; /* the best kernels of this CPU, for the yardsticks */
    tg__pool *pool;
    /* The vector as a network's tensors: the bucket of a method. */
    const char **tensor;
    char (*names)[24];
    size_t *len, *rows, *cols, count;
    size_t failed; /* rows with an error */
} bench;

/* ---- bench.c --------------------------------------------------------------------------------- */

/* Check the options; to one core if they say so. Errors TG_E_ARG, TG_E_UNSUPPORTED */
TG_NODISCARD tg_status bench_prepare(const bench_options *o);

/* ---- vectors.c ------------------------------------------------------------------------------- */

/* Gradients of o->gradients, else drawn: normal numbers times a scale that is heavy-tailed over
 * blocks, as a network's layers have it. Errors TG_E_NOMEM, those of the file */
TG_NODISCARD tg_status bench_open(bench *b, const bench_options *o, size_t n);
void bench_close(bench *b);

/* Gradient number `number` of that distribution, x (n). Errors TG_E_NOMEM */
TG_NODISCARD tg_status bench_draw(float *x, size_t n, uint32_t number);
/* b->n elements as those of a network's matrices that there is room for, the rest as a vector.
 * bench_close frees it. Errors TG_E_NOMEM */
TG_NODISCARD tg_status bench_lay_out(bench *b);

/* The method of a bucket of b's tensors, on rank `rank` of `size`. Borrows from b */
tg__method_setup bench_method_setup(const bench *b, int rank, int size, tg__state *state);

/* The |x| that the fraction `density` of x (n) reaches, about. b->out is overwritten. */
float bench_threshold(bench *b, const float *x, double density);

/* ---- measure.c ------------------------------------------------------------------------------- */

/* One run of a work: *ns_p += what of it counts. */
typedef tg_status bench_fn(void *arg, int64_t *ns_p);

/* Fill in times and ratios: samples of the yardsticks and of fn in turn. Errors those of fn */
TG_NODISCARD tg_status bench_measure(bench *b, bench_fn *fn, void *arg, bench_row *row);
/* The median time of fn alone. */
TG_NODISCARD tg_status bench_time(bench *b, bench_fn *fn, void *arg, double *ns_p);

/* Now, for the time of a run. */
int64_t bench_now(const bench *b);

/* A row without figures, for n elements. */
bench_row bench_row_of(const bench *b, const char *group, const char *name);
/* From bytes that must be touched: limit and gb_s. */
void bench_row_bytes(bench_row *row, double bytes);
/* Whether the filter lets a row pass; tells that it begins. */
bool bench_wanted(const bench *b, const char *group, const char *name);
/* Give the row out: with `status`, as an error if that is not TG_OK. */
TG_NODISCARD tg_status bench_report(bench *b, bench_row *row, tg_status status);

/* ---- work_method.c, work_codec.c: things to measure ------------------------------------------ */

/* A method as a rank alone runs it. */
typedef struct work_method {
    bench *b;
    tg__state *state;
    tg__method *m;
    uint64_t step;
    tg__exchange *last;  /* of the last run: its part is the frame */
    tg__task task;       /* of the last run */
    int64_t combined_ns; /* of the last run: its last exchange's decoding and combining */
    double error_norm, bits;
    size_t vectors; /* that it remembers */
} work_method;

/* Makes it and runs the first step. w is valid for work_method_close in any case. Errors those of
 * the method */
TG_NODISCARD tg_status work_method_open(work_method *w, bench *b, const char *spec);
void work_method_close(work_method *w);
bench_fn work_method_encode; /* (work_method *): compensate, encode, remember; other rounds whole */
bench_fn work_method_decode; /* (work_method *): the last frame checked and added to b->out */
bench_fn work_method_cycle;  /* (work_method *): the whole step, up to the aggregate */
/* Bytes that encoding and decoding must touch. */
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

/* Whether this build has the method or codec that a spec names. */
bool work_method_exists(const char *spec);
bool work_codec_exists(const char *spec);

/* ---- the rows -------------------------------------------------------------------------------- */

TG_NODISCARD tg_status bench_targets(bench *b);
TG_NODISCARD tg_status bench_methods(bench *b);
TG_NODISCARD tg_status bench_indices(bench *b);
TG_NODISCARD tg_status bench_kernels(bench *b);

#endif
