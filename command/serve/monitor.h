/* The state of a server as HTTP: /metrics (Prometheus text) and /healthz. Answers a few requests at
 * a time, in the thread that asks it to, and never waits. */
#ifndef TG_CLI_MONITOR_H
#define TG_CLI_MONITOR_H

#include "telegrad/base.h"
#include <stdio.h>

struct monitor;

/* Listen.
 * address  "HOST:PORT", or ":PORT" for this machine alone
 * Errors   TG_E_SPEC (the address), TG_E_IO (the port is taken, ...), TG_E_NOMEM */
TG_NODISCARD tg_status monitor_open(const char *address, struct monitor **s_p);
/* Answer who has asked.
 * starts  why the server does not work yet: both pages then answer with this line and status 503.
 *         NULL: it works
 * write   prints the metrics to f */
void monitor_step(struct monitor *s, const char *starts, void (*write)(void *arg, FILE *f),
                  void *arg);
void monitor_close(struct monitor *s); /* NULL is fine */

#endif
