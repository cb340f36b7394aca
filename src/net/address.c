#include "net/address.h"
#include "net/forked.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCHEME "tcp://"

tg_status tg__address_parse(const char *what, const char *text, bool partial, tg__address *a_p)
{
    tg__address a = {.port = 0};
    const size_t scheme = sizeof SCHEME - 1;
    const char *host = strncmp(text, SCHEME, scheme) == 0 ? text + scheme : NULL;
    const char *colon = host ? strrchr(host, ':') : NULL;
    const bool bracket = host && *host == '[';
    size_t len = colon ? (size_t)(colon - host) : 0;
    const size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    bool ok = colon && digits > 0 && digits <= 5 && !colon[1 + digits];
    if (ok && bracket) {
        ok = len >= 2 && host[len - 1] == ']';
        host++;
        len -= 2;
    }
    ok = ok && len < sizeof a.host && (partial || len > 0) &&
         (bracket || !memchr(host, ':', len)) && !memchr(host, '/', len) && !memchr(host, ' ', len);
    if (ok) {
        memcpy(a.host, host, len);
        a.port = atoi(colon + 1);
        ok = a.port <= 65535 && (partial || a.port > 0);
    }
    if (!ok)
        return tg_fail(TG_E_SPEC,
                       "%s \"%.200s\": allowed: tcp://HOST:PORT, with HOST a name, an IPv4 address "
                       "or an IPv6 address in brackets, and PORT %d to 65535",
                       what, text, partial ? 0 : 1);
    *a_p = a;
    return TG_OK;
}

void tg__address_text(const tg__address *a, char text[TG__ADDRESS_MAX])
{
    const bool six = strchr(a->host, ':') != NULL;
    snprintf(text, TG__ADDRESS_MAX, SCHEME "%s%s%s:%d", six ? "[" : "", a->host, six ? "]" : "",
             a->port);
}

bool tg__socket_prepare(int fd)
{
    /* Something is sent each minute, or NATs forget it. Without an answer for 2 h, it is lost. */
    const int on = 1, idle_s = 60, interval_s = 60, count = 120;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    return fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) == 0;
}

void tg__socket_watch(int fd, int idle_s, int lost_s)
{
    const int interval = 5, count = (lost_s - idle_s) / interval, unanswered_ms = 1000 * lost_s;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

/* ---- listening ------------------------------------------------------------------------------- */

/* Returns -1 with errno on failure. */
static int listen_at(const struct addrinfo *at)
{
    const int on = 1, off = 0;
    tg__fd_lock();
    const int fd =
        tg__fd_keep(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return -1;
    if (at->ai_family == AF_INET6) /* every interface: IPv4 as well */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    tg__fd_close(fd);
    return -1;
}

static int port_of(int fd)
{
    struct sockaddr_storage s;
    socklen_t len = sizeof s;
    if (getsockname(fd, (struct sockaddr *)&s, &len) != 0)
        return 0;
    return ntohs(s.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&s)->sin6_port
                                         : ((struct sockaddr_in *)&s)->sin_port);
}

tg_status tg__address_listen(const tg__address *a, const struct addrinfo *found, int *fd_p,
                             int *port_p)
{
    char text[TG__ADDRESS_MAX];
    int fd = -1;
    /* Every interface: IPv6 first, which takes IPv4 as well. */
    for (int pass = 0; pass < 2 && fd < 0; pass++)
        for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
            if ((at->ai_family == AF_INET6) == (pass == 0))
                fd = listen_at(at);
    const int error = errno;
    tg__address_text(a, text);
    if (fd < 0)
        return tg_fail(TG_E_IO, "cannot listen at %s: %s", text, strerror(error));
    *fd_p = fd;
    *port_p = port_of(fd);
    return TG_OK;
}

/* ---- calling --------------------------------------------------------------------------------- */

int tg__address_count(const struct addrinfo *found)
{
    int count = 0;
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        count++;
    return count;
}

int tg__address_dial(const struct addrinfo *found, int turn, int *fd_p)
{
    const struct addrinfo *at = found;
    for (int i = turn % tg__address_count(found); i > 0; i--)
        at = at->ai_next;
    tg__fd_lock();
    const int fd = tg__fd_keep(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    int error = fd < 0 || !tg__socket_prepare(fd) ? errno : 0;
    if (error == 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS)
        error = errno;
    if (error == 0)
        *fd_p = fd;
    else if (fd >= 0)
        tg__fd_close(fd);
    return error;
}

int tg__dial_result(int fd)
{
    int error = 0;
    socklen_t len = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? error : errno;
}

static bool is_loopback(const struct sockaddr_storage *s)
{
    if (s->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)s)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)s)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

void tg__peer_host(int fd, char host[TG__HOST_MAX])
{
    struct sockaddr_storage s;
    socklen_t len = sizeof s;
    *host = '\0';
    if (getpeername(fd, (struct sockaddr *)&s, &len) != 0 || is_loopback(&s))
        return;
    if (getnameinfo((struct sockaddr *)&s, len, host, TG__HOST_MAX, NULL, 0, NI_NUMERICHOST) != 0)
        *host = '\0';
    if (strncmp(host, "::ffff:", 7) == 0 && strchr(host, '.')) /* IPv4 at an IPv6 socket */
        memmove(host, host + 7, strlen(host + 7) + 1);
}
