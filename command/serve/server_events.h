/* What happens to the workers of telegrad serve: counted, and written to the records (--out). */
#ifndef TG_CLI_SERVER_EVENTS_H
#define TG_CLI_SERVER_EVENTS_H

#include "command/serve/server_records.h"
#include "telegrad/net.h"

/* Those of tg_net_event_kind, then those of tg_server_event_kind. */
enum { SERVER_EVENTS = 8 };
extern const char *const server_event_names[SERVER_EVENTS];

struct server_events;

/* seats    the most workers at a time
 * every_s  between two records of late or unfit gradients of the same worker
 * Errors   TG_E_NOMEM */
TG_NODISCARD tg_status server_events_create(int seats, double every_s, struct server_events **e_p);
/* r: NULL: nothing is written */
void server_events_to(struct server_events *e, struct server_records *r);
/* stats: as they are now */
void server_events_of_net(struct server_events *e, const tg_net_event *event,
                          const tg_server_stats *stats);
void server_events_of_server(struct server_events *e, const tg_server_event *event);
/* How many there were; late and unfit: steps of workers. */
uint64_t server_events_count(const struct server_events *e, int event);
void server_events_free(struct server_events *e); /* NULL is fine */

#endif
