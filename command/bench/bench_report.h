/* Output of `telegrad bench`: tables, or JSON lines. */
#ifndef TG_CLI_BENCH_REPORT_H
#define TG_CLI_BENCH_REPORT_H

#include "bench/rows/bench.h"

struct table;

struct bench_report {
    bool json;
    struct table *table; /* rows since the last table was printed */
    const char *group;   /* group of these rows */
    size_t n;
    size_t rows, failed; /* so far */
};

/* A table is printed when its last row is known; a JSON line at once. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status bench_report_row(struct bench_report *r, const bench_row *row);
TG_NODISCARD tg_status bench_report_comparison(struct bench_report *r, const bench_comparison *row);
/* Print the remaining rows. */
TG_NODISCARD tg_status bench_report_end(struct bench_report *r);

#endif
