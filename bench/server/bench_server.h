/* Measures a parameter server: `telegrad bench server`.
 *
 * A server and its workers are threads, connected by memory. Each worker pushes the same gradient
 * of N normally distributed numbers in each step, coded by a method; the server decodes and
 * combines, or updates its parameters, and answers. What counts is the processor time of the
 * server's thread, which includes copying messages from workers. */
#ifndef TG_BENCH_SERVER_H
#define TG_BENCH_SERVER_H

#include "bench/rows/bench.h"

typedef struct bench_server_row {
    const char *mode, *method; /* spec strings */
    const char *error;         /* NULL: success; else the message, and no figure is set */
    size_t n, workers, steps;
    double seconds;     /* of all steps */
    double cpu_seconds; /* of the server's thread */
    double elements;    /* that the server has taken from frames */
    double bytes_in, bytes_out;
} bench_server_row;

typedef struct bench_server_options {
    size_t n, workers;
    const char *const *methods; /* (nmethods) without an exchange */
    const char *const *modes;   /* (nmodes) of a server */
    size_t nmethods, nmodes;
    double seconds; /* for each row, at least */
    void *arg;
    void (*begin)(void *arg, const char *mode, const char *method); /* may be NULL */
    tg_status (*row)(void *arg, const bench_server_row *row);
} bench_server_options;

/* Measure each method with each mode. A row that fails is reported with its error.
 * Errors TG_E_NOMEM; those of `row` */
TG_NODISCARD tg_status bench_server(const bench_server_options *o);

#endif
