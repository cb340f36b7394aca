/* The connections of socket_transport.c, and the integers that both files send. */
#ifndef SOCKET_MESH_H
#define SOCKET_MESH_H

#include <telegrad/transport.h>

/* Connect this rank to all others. fd (size): set to the sockets, which do not block; -1 for the
 * rank itself. After an error none is open. The other arguments are those of socket_transport.
 * Errors TG_E_ARG, TG_E_PEER */
TG_NODISCARD tg_status socket_mesh(int rank, int size, const char *const *address,
                                   int64_t timeout_ms, int *fd);

/* Calls on fd will not block. Returns false, with errno, if that is not possible. */
bool unblock(int fd);

/* Numbers of n bytes, little-endian. */
static inline uint64_t get_le(const uint8_t *bytes, size_t n)
{
    uint64_t v = 0;
    while (n-- > 0)
        v = v << 8 | bytes[n];
    return v;
}

static inline void put_le(uint8_t *bytes, size_t n, uint64_t v)
{
    for (size_t i = 0; i < n; i++, v >>= 8)
        bytes[i] = (uint8_t)v;
}

#endif
