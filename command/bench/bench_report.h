/* What `telegrad bench` prints: tables, or JSON lines. */
#ifndef TG_CLI_BENCH_REPORT_H
#define TG_CLI_BENCH_REPORT_H

#include "bench/rows/bench.h"

struct table;

struct bench_report {
    bool json;
    struct table *table; /* of the rows since the last one was printed */
    const char *group;   /* theirs */
    size_t n;
    size_t rows, failed; /* so far */
};

/* A table comes out when its last row is known; JSON lines at once. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status bench_report_row(struct bench_report *r, const bench_row *row);
TG_NODISCARD tg_status bench_report_comparison(struct bench_report *r, const bench_comparison *row);
/* Print the rows that are left. */
TG_NODISCARD tg_status bench_report_end(struct bench_report *r);

#endif
