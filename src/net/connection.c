#include "net/forked.h"
#include "net/tls.h"
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Read ahead without TLS: many short messages by one call, but little of a long one, which goes to
 * where it belongs. */
#define IN_MAX ((size_t)4 << 10)

int tg__stream_fail(tg__stream *s, const char *why)
{
    if (!s->failed)
        snprintf(s->why, sizeof s->why, "%s", why);
    s->failed = true;
    return -1;
}

int tg__stream_lose(tg__stream *s, const char *why)
{
    s->lost = true;
    return tg__stream_fail(s, why);
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* Returns bytes sent; 0: the socket is full; -1: failed. */
static ptrdiff_t sendmsg_some(tg__stream *s, const struct msghdr *m)
{
    for (;;) {
        const ssize_t n = sendmsg(s->fd, m, MSG_NOSIGNAL);
        if (n >= 0) {
            s->sent += (size_t)n;
            return n;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return tg__stream_lose(s, strerror(errno));
    }
}

static ptrdiff_t send_some(tg__stream *s, uint8_t *bytes, size_t len)
{
    struct iovec part = {bytes, len};
    return sendmsg_some(s, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1});
}

static ptrdiff_t recvmsg_some(tg__stream *s, struct msghdr *m)
{
    for (;;) {
        const ssize_t n = recvmsg(s->fd, m, 0);
        if (n > 0)
            return n;
        if (n == 0)
            return tg__stream_lose(s, "it closed the connection");
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return tg__stream_lose(s, strerror(errno));
    }
}

ptrdiff_t tg__stream_recv(tg__stream *s, void *bytes, size_t len)
{
    struct iovec part = {bytes, len};
    return recvmsg_some(s, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1});
}

static ptrdiff_t read_plain(tg__stream *s, void *bytes, size_t len)
{
    if (s->in_at == s->in_len) {
        /* Long ones go to where they belong, and what follows is read ahead by the same call. */
        const size_t direct = len >= IN_MAX ? len : 0;
        struct iovec parts[2] = {{bytes, direct}, {s->in, IN_MAX}};
        struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
        const ptrdiff_t n = recvmsg_some(s, &m);
        if (n <= 0)
            return n;
        s->in_at = 0;
        s->in_len = (size_t)n > direct ? (size_t)n - direct : 0;
        if (direct > 0)
            return (size_t)n < direct ? n : (ptrdiff_t)direct;
    }
    const size_t have = s->in_len - s->in_at, n = len < have ? len : have;
    memcpy(bytes, s->in + s->in_at, n);
    s->in_at += n;
    return (ptrdiff_t)n;
}

int tg__stream_flush(tg__stream *s)
{
    while (!s->failed && s->out_at < s->out_len) {
        const ptrdiff_t n = send_some(s, s->out + s->out_at, s->out_len - s->out_at);
        if (n <= 0)
            return (int)n;
        s->out_at += (size_t)n;
    }
    s->out_at = s->out_len = 0;
    return s->failed ? -1 : 1;
}

/* Send what was put aside, and then bytes. Returns how many of the latter; 0 or -1 as send_some. */
static ptrdiff_t send_both(tg__stream *s, const void *bytes, size_t len)
{
    const size_t aside = s->out_len - s->out_at;
    struct iovec parts[2] = {{s->out + s->out_at, aside}, {(void *)(uintptr_t)bytes, len}};
    const struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    const ptrdiff_t n = sendmsg_some(s, &m);
    if (n <= 0)
        return n;
    if ((size_t)n < aside) {
        s->out_at += (size_t)n;
        return 0;
    }
    s->out_at = s->out_len = 0;
    return n - (ptrdiff_t)aside;
}

ptrdiff_t tg__stream_gather(tg__stream *s, const void *bytes, size_t len)
{
    if (s->out_len == TG__STREAM_OUT) {
        const int flushed = tg__stream_flush(s);
        if (flushed <= 0)
            return flushed;
    }
    const size_t room = TG__STREAM_OUT - s->out_len, n = len < room ? len : room;
    memcpy(s->out + s->out_len, bytes, n);
    s->out_len += n;
    return (ptrdiff_t)n;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Positions in the shared memory are wrong. */
static int fail_local(tg__stream *s)
{
    return tg__stream_fail(s, "what it has written to shared memory is not telegrad's");
}

ptrdiff_t tg__stream_write(tg__stream *s, const void *bytes, size_t len)
{
    if (s->failed)
        return -1;
    if (s->writes_local) {
        const ptrdiff_t n = tg__local_write(s->local, bytes, len);
        return n < 0 ? fail_local(s) : n;
    }
    if (s->tls)
        return s->ssl ? 0 : tg__stream_write_sealed(s, bytes, len);
    /* Long ones go from where they are, with what was gathered before. */
    return len < TG__STREAM_OUT / 16 ? tg__stream_gather(s, bytes, len) : send_both(s, bytes, len);
}

static ptrdiff_t read_socket(tg__stream *s, void *bytes, size_t len)
{
    if (s->tls)
        return s->ssl ? 0 : tg__stream_read_sealed(s, bytes, len);
    return read_plain(s, bytes, len);
}

static ptrdiff_t read_local(tg__stream *s, void *bytes, size_t len)
{
    for (;;) {
        const bool over = s->over;
        const ptrdiff_t n = tg__local_read(s->local, bytes, len);
        s->failed |= over && n == 0;
        if (n != 0 || over)
            return n < 0 ? fail_local(s) : n > 0 ? n : -1;
        uint8_t byte; /* nothing but its end comes over the socket any more */
        const ptrdiff_t said = read_socket(s, &byte, 1);
        if (said >= 0)
            return said == 0 ? 0 : fail_local(s);
        s->over = true; /* it may have written just before */
        tg__local_end(s->local);
    }
}

ptrdiff_t tg__stream_read(tg__stream *s, void *bytes, size_t len)
{
    if (s->drained || (s->failed && !s->over))
        return s->failed ? -1 : 0;
    return s->reads_local ? read_local(s, bytes, len) : read_socket(s, bytes, len);
}

/* ---- begin and end --------------------------------------------------------------------------- */

tg_status tg__stream_begin(tg__stream *s, int fd, tg__tls *tls, bool dialled,
                           bool (*accepts)(void *arg, const tg__public_key *key), void *accepts_arg)
{
    *s = (tg__stream){
        .fd = fd, .accepts = accepts, .accepts_arg = accepts_arg, .key_left = TG__STREAM_KEY_BYTES};
    s->tls = tls != NULL;
    tg__fd_lock();
    (void)tg__fd_keep(fd);
    s->out = malloc(TG__STREAM_OUT);
    s->in = tls ? NULL : malloc(IN_MAX);
    s->ssl = tls ? SSL_new(tls->ctx) : NULL;
    BIO *bio = s->ssl ? BIO_new(tls->bio) : NULL;
    if (!s->out || (tls ? !bio : !s->in)) {
        BIO_free(bio);
        if (!s->out && !s->ssl && !s->in)
            tg__fd_close(fd); /* tg__stream_close takes it for one that never began */
        tg__stream_close(s);
        return tg_fail(TG_E_NOMEM, "out of memory: connection");
    }
    if (!tls)
        return TG_OK;
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    SSL_set_app_data(s->ssl, s);
    if (dialled)
        SSL_set_connect_state(s->ssl);
    else
        SSL_set_accept_state(s->ssl);
    return TG_OK;
}

void tg__stream_read_exactly(tg__stream *s)
{
    s->exact = true;
}

int tg__stream_leave(tg__stream *s)
{
    const int fd = s->fd;
    s->fd = -1;
    tg__stream_close(s);
    return fd;
}

void tg__stream_close(tg__stream *s)
{
    if (s->out || s->ssl || s->in) { /* zeroed: never begun, and fd 0 is not ours */
        SSL_free(s->ssl);
        tg__record_keys_end(&s->seals);
        tg__record_keys_end(&s->opens);
        OPENSSL_cleanse(s->secret, sizeof s->secret);
        free(s->out);
        free(s->in);
        if (s->fd >= 0)
            tg__fd_close(s->fd);
    }
    tg__local_close(s->local);
    s->local = NULL;
    s->ssl = NULL;
    s->out = s->in = NULL;
    s->fd = -1;
    (void)tg__stream_fail(s, "the connection is closed");
}

int tg__stream_end(tg__stream *s)
{
    if (!s->ending && !s->failed && !s->broken && s->tls && !s->ssl)
        tg__stream_say_goodbye(s);
    s->ending = true;
    const int flushed = s->ended ? 1 : tg__stream_flush(s);
    if (flushed == 1 && !s->ended)
        s->ended = shutdown(s->fd, SHUT_WR) == 0;
    return flushed;
}

void tg__stream_drain(tg__stream *s)
{
    uint8_t waste[4096];
    s->drained = true;
    if (s->reads_local)
        tg__local_forget(s->local);
    ptrdiff_t n = 1; /* A bound: the peer may send as fast as this reads. */
    for (int i = 0; i < 256 && n > 0; i++)
        n = recv(s->fd, waste, sizeof waste, MSG_DONTWAIT);
    if (s->writes_local && n == 0) /* memory, unlike a socket, does not tell who writes to it */
        (void)tg__stream_lose(s, "it closed the connection");
}

bool tg__stream_is_over(tg__stream *s)
{
    int unsent = 0;
    struct pollfd p = {.fd = s->fd};
    if (s->failed || tg__stream_end(s) < 0)
        return true;
    tg__stream_drain(s); /* closing with something unread would destroy what is on its way */
    /* After a reset, or when both directions have ended, nothing is left to wait for. */
    if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))
        return true;
    return s->ended && (ioctl(s->fd, SIOCOUTQ, &unsent) != 0 || unsent == 0);
}
