/* What telegrad report prints without -o: a table of servers. */
#ifndef TG_CLI_REPORT_SERVERS_H
#define TG_CLI_REPORT_SERVERS_H

#include "telegrad/base.h"

/* Print a row per server, from records of telegrad serve --out (paths, count).
 * Errors  TG_E_SPEC (records of runs, which have pages only), those of run_files_add */
TG_NODISCARD tg_status report_servers(char *const *paths, size_t count);

#endif
