/* The tables that `telegrad bench` prints row by row. */
#ifndef TG_CLI_BENCH_TABLE_H
#define TG_CLI_BENCH_TABLE_H

#include "command/output/table.h"
#include "telegrad/base.h"

/* A table that fits the terminal, with its heading begun. Errors TG_E_NOMEM */
TG_NODISCARD tg_status bench_table_create(size_t columns, struct table **t_p);

/* A cell with a number; "-" if it is not finite. `format` is that of one double. */
void bench_table_figure(struct table *t, const char *format, double v);

/* A heading that leaves room for the rows below, which are not known yet. width < 0: aligned
 * left. */
void bench_table_title(struct table *t, int width, const char *text);

/* The rest of a row that could not be measured. */
void bench_table_error(struct table *t, const char *error);

#endif
