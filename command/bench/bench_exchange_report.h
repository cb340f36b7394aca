/* Output of `telegrad bench exchange`: a table, or JSON lines. */
#ifndef TG_CLI_BENCH_EXCHANGE_REPORT_H
#define TG_CLI_BENCH_EXCHANGE_REPORT_H

#include "bench/exchange/bench_exchange.h"

struct table;

struct bench_exchange_report {
    bool json;
    const char *transport; /* "inproc" or "mpi" */
    int name_width, link_width;
    struct table *table;
};

/* Print the heading of a table before its first row is measured, unless it has been printed.
 * row     as in bench_exchange_options.begin
 * Errors  TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status bench_exchange_report_begin(struct bench_exchange_report *r,
                                                   const bench_exchange_row *row);
/* Print a row at once. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status bench_exchange_report_row(struct bench_exchange_report *r,
                                                 const bench_exchange_row *row);
TG_NODISCARD tg_status bench_exchange_report_end(struct bench_exchange_report *r);

#endif
