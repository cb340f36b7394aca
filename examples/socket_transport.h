/* A transport of one's own: a mesh of TCP connections. What telegrad/transport.h asks for, in plain
 * sockets and nothing else; take it as a start for other media. */
#ifndef SOCKET_TRANSPORT_H
#define SOCKET_TRANSPORT_H

#include <telegrad/transport.h>

/* address (size): "HOST:PORT" at which each rank listens; all ranks call it with the same list.
 * Returns when this rank is connected to all others, at the latest after timeout_ms.
 * Errors TG_E_ARG, TG_E_NOMEM, TG_E_PEER (names the rank that cannot be reached) */
TG_NODISCARD tg_status socket_transport(int rank, int size, const char *const *address,
                                        int64_t timeout_ms, tg_transport **t_p);

#endif
