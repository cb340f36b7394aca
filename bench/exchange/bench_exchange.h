/* What exchanges cost, beside what they should: `telegrad bench exchange`.
 *
 * The ranks of a job exchange gradients by a method, step after step, with nothing else to do. All
 * begin a step together; it has taken as long as it took the rank that was slowest. What it should
 * take is the time on the wire, which the exchanges' cost() gives for the frames as they are, and
 * the codec's time, which steps with the network off show, taken in turn with those over the link.
 * Off means: without emulated links, by as many ranks on the same cores, so where there are more
 * ranks than cores it contains the waiting for a core, as the steps over the link do. Over real
 * links it is taken from the steps themselves. */
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

/* What ranks exchange over. */
typedef struct bench_link {
    const char *text; /* NULL: the transport as it is, nothing is said about it */
    tg_link link;
    bool real; /* the transport has such links; false: they are emulated over it */
} bench_link;

/* Figures that there are not are NAN. Times in ms, of the rank that took longest, of steps. */
typedef struct bench_exchange_row {
    const char *method; /* as it was asked for */
    const char *error;  /* NULL; else what is wrong, and there are no figures */
    size_t workers, elements, tensors, behind;
    const bench_link *link;
    char exchange[64];      /* of all rounds, "direct+direct" */
    size_t samples;         /* steps that were timed */
    unsigned rounds;        /* of messages, in sequence */
    double delays;          /* one-way delays in sequence */
    double bytes;           /* a step and rank, of the rank that sends most */
    double bytes_predicted; /* of that, cost() says */
    double wire_ms;         /* predicted: delays * delay + bytes in sequence / rate */
    bench_ratio codec_ms;   /* encode, check, decode and sum: see above */
    double processor_ms;    /* of a rank's thread for all of such a step */
    bench_ratio ms;         /* measured */
    double ratio;           /* ms over wire_ms + codec_ms */
    double bound_ms;        /* one one-way delay + bytes / rate + codec_ms */
    double bound_ratio;     /* ms over that */
    double target;          /* bound_ratio at most */
    bench_ratio behind_ms;  /* of the small exchange, from its launch; only with `behind` */
} bench_exchange_row;

typedef struct bench_exchange_options {
    const char *const *method; /* (methods) spec strings */
    size_t methods;
    const size_t *workers; /* (nworkers) threads of this process; of no account with `connect` */
    size_t nworkers;
    const bench_link *link; /* (links) */
    size_t links;
    size_t n; /* elements of gradients */
    /* (tensors) what they are made of, n in all; NULL: matrices as a network has them */
    const bench_tensor *tensor;
    size_t tensors;
    /* Elements of a small dense exchange that is launched just behind the first of every step, with
     * a higher priority; 0: none. Steps take longer by it, bytes are without it. */
    size_t behind;
    double seconds; /* for each row, or for a step that takes longer */
    void *arg;
    /* Makes this process one rank of a job: a transport over all of them; called at the same times
     * by all ranks. NULL: threads. */
    tg_status (*connect)(void *arg, tg_transport **t_p);
    void (*begin)(void *arg, const char *method, size_t workers, const char *link);
    /* What row points to lives until it returns. Of a job of processes: in rank 0's, but rows with
     * an error in all of them. */
    tg_status (*row)(void *arg, const bench_exchange_row *row);
    size_t failed; /* [out] rows with an error */
} bench_exchange_options;

/* Measure. Errors TG_E_ARG, TG_E_NOMEM; those of the callbacks */
TG_NODISCARD tg_status bench_exchange(bench_exchange_options *o);

#endif
