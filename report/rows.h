/* Rows of numbers, one per record. */
#ifndef TG_REPORT_ROWS_H
#define TG_REPORT_ROWS_H

#include "telegrad/base.h"

typedef struct run_rows {
    double *v; /* (count, columns) */
    size_t count, columns, room;
} run_rows;

/* Make room for one more row, which is counted once the caller has filled it.
 * path    for the message
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status run_rows_next(run_rows *rows, const char *path, double **row_p);

#endif
