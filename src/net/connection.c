#include "net/connection.h"
#include "net/tls.h"
#include <errno.h>
#include <linux/sockios.h>
#include <openssl/err.h>
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

static int fail(tg__stream *s, const char *why)
{
    if (!s->failed)
        snprintf(s->why, sizeof s->why, "%s", why);
    s->failed = true;
    return -1;
}

static int lose(tg__stream *s, const char *why)
{
    s->lost = true;
    return fail(s, why);
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* Returns bytes sent; 0: the socket is full; -1: failed. */
static ptrdiff_t sendmsg_some(tg__stream *s, const struct msghdr *m)
{
    for (;;) {
        const ssize_t n = sendmsg(s->fd, m, MSG_NOSIGNAL);
        if (n >= 0)
            return n;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return lose(s, strerror(errno));
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
            return lose(s, "it closed the connection");
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return lose(s, strerror(errno));
    }
}

static ptrdiff_t recv_some(tg__stream *s, void *bytes, size_t len)
{
    struct iovec part = {bytes, len};
    return recvmsg_some(s, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1});
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

/* Put bytes aside for sending. Returns how many; 0 or -1 as send_some. */
static ptrdiff_t gather(tg__stream *s, const void *bytes, size_t len)
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

/* ---- TLS ------------------------------------------------------------------------------------- */

static int bio_write(BIO *bio, const char *bytes, int len)
{
    BIO_clear_retry_flags(bio);
    const ptrdiff_t n = gather(BIO_get_data(bio), bytes, (size_t)len);
    if (n == 0)
        BIO_set_retry_write(bio);
    return n > 0 ? (int)n : -1;
}

static int bio_read(BIO *bio, char *bytes, int len)
{
    BIO_clear_retry_flags(bio);
    if (((tg__stream *)BIO_get_data(bio))->failed)
        return -1; /* what OpenSSL has read was the reason */
    const ptrdiff_t n = recv_some(BIO_get_data(bio), bytes, (size_t)len);
    if (n == 0)
        BIO_set_retry_read(bio);
    return n > 0 ? (int)n : -1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *ptr)
{
    (void)bio;
    (void)number;
    (void)ptr;
    return command == BIO_CTRL_FLUSH; /* whoever writes flushes the stream */
}

BIO_METHOD *tg__stream_bio(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "telegrad stream");
    if (m) {
        BIO_meth_set_write(m, bio_write);
        BIO_meth_set_read(m, bio_read);
        BIO_meth_set_ctrl(m, bio_ctrl);
    }
    return m;
}

/* What OpenSSL's function returned: 0 to try again, -1 with the reason. */
static int ssl_says(tg__stream *s, int returned)
{
    const int error = SSL_get_error(s->ssl, returned);
    if (!s->failed && (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE))
        return 0;
    if (error == SSL_ERROR_ZERO_RETURN)
        return lose(s, "it closed the connection");
    const unsigned long code = ERR_peek_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    if (ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER)
        reason = "it does not speak TLS: another program, or a rank without keys (insecure)";
    else if (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED)
        reason = "its key is not one that is accepted here";
    else if (ERR_GET_REASON(code) == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
             ERR_GET_REASON(code) == SSL_R_TLSV1_ALERT_ACCESS_DENIED)
        reason = "it does not accept this rank's key";
    ERR_clear_error();
    return fail(s, reason ? reason : "TLS failed");
}

int tg__stream_shake(tg__stream *s)
{
    if (!s->ssl || s->failed)
        return s->failed ? -1 : 1;
    ERR_clear_error();
    const int n = SSL_do_handshake(s->ssl);
    const int said = n == 1 ? 1 : ssl_says(s, n);
    const bool failed = s->failed;
    s->failed = false; /* an alert tells the peer why */
    const int flushed = tg__stream_flush(s);
    s->failed |= failed;
    return said == 1 && flushed == 0 ? 1 : said < 0 || flushed < 0 ? -1 : said;
}

void tg__stream_aside(tg__stream *s)
{
    /* This is far more often than keys need to be changed, and costs less than the bytes do. */
    if (++s->asides > 8 + s->received / (TG__STREAM_KEY_BYTES / 64))
        (void)fail(s, "sends new keys without end");
}

bool tg__stream_has_greeted(const tg__stream *s)
{
    const OSSL_HANDSHAKE_STATE state = SSL_get_state(s->ssl);
    return state != TLS_ST_BEFORE && state != TLS_ST_SR_CLNT_HELLO;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

ptrdiff_t tg__stream_write(tg__stream *s, const void *bytes, size_t len)
{
    if (s->failed)
        return -1;
    if (s->ssl) {
        size_t n = 0;
        ERR_clear_error();
        if (s->key_left <= 0 && !s->retries &&
            SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
            s->key_left = TG__STREAM_KEY_BYTES;
        s->retries = SSL_write_ex(s->ssl, bytes, len, &n) != 1;
        s->key_left -= (int64_t)n;
        return s->retries ? ssl_says(s, 0) : (ptrdiff_t)n;
    }
    /* Long ones go from where they are, with what was gathered before. */
    return len < TG__STREAM_OUT / 16 ? gather(s, bytes, len) : send_both(s, bytes, len);
}

ptrdiff_t tg__stream_read(tg__stream *s, void *bytes, size_t len)
{
    if (s->failed || s->drained)
        return s->failed ? -1 : 0;
    if (s->ssl) {
        size_t n = 0;
        ERR_clear_error();
        if (SSL_read_ex(s->ssl, bytes, len, &n) != 1)
            return ssl_says(s, 0);
        s->received += (int64_t)n;
        return (ptrdiff_t)n;
    }
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

/* ---- begin and end --------------------------------------------------------------------------- */

tg_status tg__stream_begin(tg__stream *s, int fd, tg__tls *tls, bool dialled,
                           bool (*accepts)(void *arg, const tg__public_key *key), void *accepts_arg)
{
    *s = (tg__stream){
        .fd = fd, .accepts = accepts, .accepts_arg = accepts_arg, .key_left = TG__STREAM_KEY_BYTES};
    s->out = malloc(TG__STREAM_OUT);
    s->in = tls ? NULL : malloc(IN_MAX);
    s->ssl = tls ? SSL_new(tls->ctx) : NULL;
    BIO *bio = s->ssl ? BIO_new(tls->bio) : NULL;
    if (!s->out || (tls ? !bio : !s->in)) {
        BIO_free(bio);
        if (!s->out && !s->ssl && !s->in)
            close(fd); /* tg__stream_close takes it for one that never began */
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
    if (s->ssl)
        SSL_set_read_ahead(s->ssl, 0);
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
        free(s->out);
        free(s->in);
        if (s->fd >= 0)
            close(s->fd);
    }
    s->ssl = NULL;
    s->out = s->in = NULL;
    s->fd = -1;
    (void)fail(s, "the connection is closed");
}

int tg__stream_end(tg__stream *s)
{
    if (!s->ending && !s->failed && s->ssl)
        (void)SSL_shutdown(s->ssl);
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
    /* A bound: the peer may send as fast as this reads. */
    for (int i = 0; i < 256 && recv(s->fd, waste, sizeof waste, MSG_DONTWAIT) > 0; i++)
        ;
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
