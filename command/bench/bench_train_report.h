/* Output of `telegrad bench train`: tables, or JSON lines. */
#ifndef TG_CLI_BENCH_TRAIN_REPORT_H
#define TG_CLI_BENCH_TRAIN_REPORT_H

#include "command/bench/bench_train.h"

struct table;

struct bench_train_report {
    bool json, torch;  /* torch: include the columns that compare */
    size_t name_width; /* length of the longest model name */
    struct table *table;
    size_t failed; /* rows with an error so far */
};

/* Every row is printed at once. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status bench_train_report_torch(struct bench_train_report *r, const char *version,
                                                double gemm_gflops);
TG_NODISCARD tg_status bench_train_report_row(struct bench_train_report *r,
                                              const struct bench_train_row *row);
TG_NODISCARD tg_status bench_train_report_end(struct bench_train_report *r);

#endif
