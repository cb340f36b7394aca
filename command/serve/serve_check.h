/* Options of telegrad serve that depend on each other or on the library. */
#ifndef TG_CLI_SERVE_CHECK_H
#define TG_CLI_SERVE_CHECK_H

#include "command/job/net_options.h"

/* Where workers call, and keys. Errors TG_E_SPEC */
TG_NODISCARD tg_status serve_check_network(const struct net_options *o);
/* A server with this mode and optimizer can be created for so many workers.
 * Errors  TG_E_SPEC, those of tg_server_create */
TG_NODISCARD tg_status serve_check_mode(const char *mode, const char *optimizer, int workers);

#endif
