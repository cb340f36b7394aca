/* Runs as the page's script reads them. */
#ifndef TG_REPORT_RUN_JSON_H
#define TG_REPORT_RUN_JSON_H

#include "report/run_file.h"

/* A list, one object a run: name, file, settings (of its start record), end (or null), marks
 * ([steps], [seconds], [bytes]), steps and epochs: by column what there is, as [[steps], [values]];
 * means: of the columns of time, over the second half of the records; records: how many steps have
 * one. Of long runs points are left out, such that all together stay below some 60,000. The list is
 * the caller's. Errors TG_E_NOMEM */
TG_NODISCARD tg_status run_json(const run_files *f, json_t **list_p);

#endif
