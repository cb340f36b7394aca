/* Each rank connects to all ranks below it and accepts those above. Who connects first sends HELLO
 * bytes: MAGIC, its rank and the number of ranks, 4 bytes each. */
#define _POSIX_C_SOURCE 200809L
#include "socket_mesh.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { HELLO = 12, MAGIC = 0x736b7467 };

typedef struct mesh {
    int rank, size;
    int *fd; /* (size) -1: not connected, or this rank itself */
    int64_t deadline_ns;
} mesh;

bool unblock(int fd)
{
    return fcntl(fd, F_SETFL, O_NONBLOCK) >= 0;
}

/* Open a socket for an address, listening or connected. Returns -1 with errno on failure. */
static int open_socket(const char *address, bool listens)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
    errno = EINVAL;
    if (!colon || (size_t)(colon - address) >= sizeof host)
        return -1;
    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = '\0';
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -1;
    const int fd = socket(found->ai_family, SOCK_STREAM, 0);
    const struct timeval patience = {.tv_sec = 1};
    bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0 &&
              setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0;
    if (ok && listens)
        ok = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 128) == 0;
    else if (ok)
        ok = connect(fd, found->ai_addr, found->ai_addrlen) == 0;
    const int error = errno;
    freeaddrinfo(found);
    if (!ok && fd >= 0)
        close(fd);
    errno = error;
    return ok ? fd : -1;
}

static bool greet(int fd, int rank, int size)
{
    uint8_t hello[HELLO];
    put_le(hello, 4, MAGIC);
    put_le(hello + 4, 4, (uint64_t)rank);
    put_le(hello + 8, 4, (uint64_t)size);
    return send(fd, hello, sizeof hello, MSG_NOSIGNAL) == HELLO;
}

/* The rank that has connected; -1: not a rank of this job. */
static int greeted(int fd, int size)
{
    uint8_t hello[HELLO];
    const struct timeval patience = {.tv_sec = 1};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        recv(fd, hello, sizeof hello, MSG_WAITALL) != HELLO || get_le(hello, 4) != MAGIC ||
        get_le(hello + 8, 4) != (uint64_t)size || get_le(hello + 4, 4) >= (uint64_t)size)
        return -1;
    return (int)get_le(hello + 4, 4);
}

static bool take_over(mesh *m, int from, int fd)
{
    if (from <= m->rank || m->fd[from] >= 0) /* higher ranks connect to lower, once */
        return false;
    m->fd[from] = fd;
    return true;
}

static tg_status accept_above(mesh *m, int listener)
{
    const int size = m->size;
    for (int missing = size - 1 - m->rank; missing > 0;) {
        struct pollfd waiting = {.fd = listener, .events = POLLIN};
        if (tg_now_ns(tg_clock_monotonic()) > m->deadline_ns) {
            int late = m->rank + 1;
            while (m->fd[late] >= 0)
                late++;
            return tg_fail(TG_E_PEER, "rank %d has not called", late);
        }
        if (poll(&waiting, 1, 100) <= 0)
            continue;
        const int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        if (take_over(m, greeted(fd, size), fd))
            missing--;
        else
            close(fd);
    }
    return TG_OK;
}

static tg_status call_below(mesh *m, const char *const *address)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int i = 0; i < m->rank; i++) {
        int fd;
        while ((fd = open_socket(address[i], false)) < 0) {
            if (tg_now_ns(tg_clock_monotonic()) > m->deadline_ns || errno == EINVAL)
                return tg_fail(TG_E_PEER, "rank %d at \"%s\": %s", i, address[i], strerror(errno));
            nanosleep(&pause, NULL);
        }
        m->fd[i] = fd;
        if (!greet(fd, m->rank, m->size))
            return tg_fail(TG_E_PEER, "rank %d at \"%s\": %s", i, address[i], strerror(errno));
    }
    return TG_OK;
}

static tg_status connect_all(mesh *m, const char *const *address)
{
    const int listener = open_socket(address[m->rank], true);
    if (listener < 0)
        return tg_fail(TG_E_ARG, "cannot listen at \"%s\": %s", address[m->rank], strerror(errno));
    tg_status status = call_below(m, address);
    if (status == TG_OK)
        status = accept_above(m, listener);
    close(listener);
    for (int i = 0; status == TG_OK && i < m->size; i++) {
        const int fd = m->fd[i];
        if (fd >= 0 &&
            (!unblock(fd) || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) < 0))
            status = tg_fail(TG_E_PEER, "rank %d: %s", i, strerror(errno));
    }
    return status;
}

tg_status socket_mesh(int rank, int size, const char *const *address, int64_t timeout_ms, int *fd)
{
    mesh m = {rank, size, fd, tg_now_ns(tg_clock_monotonic()) + timeout_ms * 1000000};
    for (int i = 0; i < size; i++)
        fd[i] = -1;
    const tg_status status = connect_all(&m, address);
    for (int i = 0; status != TG_OK && i < size; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    return status;
}
