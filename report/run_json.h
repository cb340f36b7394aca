/* Runs in the form that the page's script reads. */
#ifndef TG_REPORT_RUN_JSON_H
#define TG_REPORT_RUN_JSON_H

#include "report/run_file.h"

/* A list of one object per run:
 *   name, file
 *   settings     from its start record
 *   end          its end record, or null
 *   marks        ([steps], [seconds], [bytes])
 *   steps, epochs  the columns that have values, each as [[steps], [values]]
 *   means        of the time columns, over the second half of the records
 *   records      number of steps with a record
 * Points of long runs are left out, so that all runs together have at most about 60,000. The caller
 * owns the list. Errors TG_E_NOMEM */
TG_NODISCARD tg_status run_json(const run_files *f, json_t **list_p);

/* A number, or null; whole numbers without a fraction: shorter, and exact. */
json_t *run_json_real(double v);
/* A column as [[first column], [values]], of which at most `most` are kept. NULL: it has no value.
 * kept    (most) working memory */
json_t *run_json_curve(const run_rows *rows, size_t column, size_t most, size_t *kept);

#endif
