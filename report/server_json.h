/* Servers in the form that the page's script reads. */
#ifndef TG_REPORT_SERVER_JSON_H
#define TG_REPORT_SERVER_JSON_H

#include "report/server_file.h"

/* A list of one object per server, with the members of a run (run_json.h) whose curves go over
 * seconds:
 *   name, file
 *   settings  from its first record
 *   end       its last record, or null if it was cut off
 *   steps     the columns that have values, each as [[seconds], [values]]
 *   totals    over all its starts; staleness: gradients by their staleness
 * The caller owns the list. Errors TG_E_NOMEM */
TG_NODISCARD tg_status server_json(const server_files *f, json_t **list_p);

#endif
