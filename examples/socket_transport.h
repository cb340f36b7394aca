/* A transport of your own: a mesh of TCP connections. It implements telegrad/transport.h with plain
 * sockets and nothing else; use it as a starting point for other media. It needs socket_mesh.c,
 * which connects the ranks. */
#ifndef SOCKET_TRANSPORT_H
#define SOCKET_TRANSPORT_H

#include <telegrad/transport.h>

/* address (size): "HOST:PORT" where each rank listens; all ranks pass the same list.
 * Returns when this rank is connected to all others, or after timeout_ms at the latest.
 * Errors TG_E_ARG, TG_E_NOMEM, TG_E_PEER (names the rank that cannot be reached) */
TG_NODISCARD tg_status socket_transport(int rank, int size, const char *const *address,
                                        int64_t timeout_ms, tg_transport **t_p);

#endif
