/* Measures exchanges and compares them with a prediction: `telegrad bench exchange`.
 *
 * The ranks of a job exchange gradients with one method, step after step, and do nothing else. All
 * ranks begin a step together; its time is that of the slowest rank. The predicted time is the time
 * on the wire plus the time of the codec. The exchange's cost() gives the time on the wire, from
 * the sizes of the actual frames. The codec's time comes from steps with the network off, which
 * alternate with the steps over the link. "Off" means: the same number of ranks on the same cores,
 * without emulated links. With more ranks than cores it therefore includes the time spent waiting
 * for a core, as the steps over the link do. Over real links the codec's time is taken from the
 * steps themselves. */
#ifndef TG_BENCH_EXCHANGE_H
#define TG_BENCH_EXCHANGE_H

#include "bench/rows/bench.h"
#include "telegrad/transport.h"

enum { BENCH_EXCHANGE_WORKERS = 64 };

/* A tensor of the gradient: rows x n / rows. */
typedef struct bench_tensor {
    const char *name;
    size_t n, rows;
} bench_tensor;

/* The link that the ranks exchange over. */
typedef struct bench_link {
    const char *text; /* NULL: the bare transport, of unknown rate and delay */
    tg_link link;
    bool real; /* true: the transport has such links; false: they are emulated */
} bench_link;

/* One row of results. A figure that does not exist is NAN. Times are in ms, and a step's time is
 * that of its slowest rank. */
typedef struct bench_exchange_row {
    const char *method; /* as the caller spelled it */
    const char *error;  /* NULL: success; else the message, and no figure is set */
    size_t workers, elements, tensors, behind;
    const bench_link *link;
    char exchange[64];      /* exchange of each round, "direct+direct" */
    size_t samples;         /* timed steps */
    unsigned rounds;        /* rounds of messages, in sequence */
    double delays;          /* one-way delays, one after the other */
    double bytes;           /* per step, of the rank that sends most */
    double bytes_predicted; /* what cost() predicts for `bytes` */
    double wire_ms;         /* predicted: delays * delay + bytes in sequence / rate */
    bench_ratio codec_ms;   /* encode, check, decode and sum; see above */
    double processor_ms;    /* processor time of a rank's thread for such a step */
    bench_ratio ms;         /* measured */
    double ratio;           /* ms over wire_ms + codec_ms */
    double bound_ms;        /* one one-way delay + bytes / rate + codec_ms */
    double bound_ratio;     /* ms over bound_ms */
    double target;          /* highest bound_ratio aimed at */
    bench_ratio behind_ms;  /* the small exchange, from its launch; only with `behind` */
} bench_exchange_row;

typedef struct bench_exchange_options {
    const char *const *method; /* (methods) spec strings */
    size_t methods;
    const size_t *workers; /* (nworkers) threads of this process; ignored with `connect` */
    size_t nworkers;
    const bench_link *link; /* (links) */
    size_t links;
    size_t n; /* elements of gradients */
    /* (tensors) the gradient's tensors, n elements in all; NULL: matrices as in a network */
    const bench_tensor *tensor;
    size_t tensors;
    /* Elements of a small dense exchange with a higher priority, launched right behind the first
     * exchange of every step; 0: none. It lengthens the steps; `bytes` does not include it. */
    size_t behind;
    double seconds; /* time for each row; a single step may take longer */
    void *arg;
    /* Makes this process one rank of a job: creates a transport over all ranks, which call it at
     * the same times. NULL: the ranks are threads of this process. */
    tg_status (*connect)(tg_transport **t_p);
    /* Called before a row is measured; in a job of several processes only on rank 0. Method,
     * workers, elements, tensors, behind and link of the row are set.
     * seconds  that it will take, as predicted; NAN: unknown (no emulated link)
     * A failure ends the row, and is its error */
    tg_status (*begin)(void *arg, const bench_exchange_row *row, double seconds);
    /* Called with each row; what `row` points to is valid until it returns. In a job of several
     * processes only rank 0 calls it, except for a row with an error, which all of them get. */
    tg_status (*row)(void *arg, const bench_exchange_row *row);
    size_t failed; /* [out] rows with an error */
} bench_exchange_options;

/* Measure all rows. Errors TG_E_ARG, TG_E_NOMEM; those of the callbacks */
TG_NODISCARD tg_status bench_exchange(bench_exchange_options *o);

#endif
