/* A message is a header of 16 bytes (tag and length, little-endian) and its payload. A connection
 * delivers messages in order, but receivers ask for them by tag. A message that nobody has asked
 * for yet is kept aside, up to EARLY_MAX bytes per peer; beyond that its connection is not read
 * until somebody asks. */
#define _POSIX_C_SOURCE 200809L
#include "socket_transport.h"
#include "socket_mesh.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EARLY_MAX ((size_t)64 << 20)
#define TAG_MAX ((uint32_t)1 << 26) /* two more bits are for decorators */
enum { HEAD = 16, RANKS_MAX = 4096 };

enum op_state { OVER, WAITING, DONE, TOO_LONG };

/* What a tg_request points to. */
typedef struct op {
    struct op *next;
    uint8_t *buf;
    size_t len;  /* sending: bytes; receiving: room */
    size_t done; /* sending: bytes sent, header included; receiving: bytes received, in the end */
    uint32_t tag;
    int peer;
    bool send;
    uint8_t state;
} op;
_Static_assert(sizeof(op) <= sizeof(tg_request), "an operation fits into a request");

/* A message that arrived before anybody asked for it. */
typedef struct early {
    struct early *next;
    size_t len;
    uint32_t tag;
    uint8_t bytes[];
} early;

typedef struct list { /* FIFO of operations */
    op *first, **end;
} list;

typedef struct peer {
    int fd; /* -1: closed, or this rank itself */
    list sends, receives;
    early *kept, **kept_end;
    size_t kept_bytes;
    /* The message that is arriving. */
    uint8_t head[HEAD];
    size_t got; /* bytes of header and payload received so far */
    size_t len; /* of the payload */
    uint32_t tag;
    op *into;     /* the operation that asked for it ... */
    early *aside; /* ... or a place aside, if nobody has yet */
    bool placed;  /* it has a place (if too long for `into`, it is read and discarded) */
    char why[96]; /* why the connection is closed */
} peer;

typedef struct sockets {
    tg_transport base; /* must be first: both have the same address */
    int wake[2];       /* a pipe that ends a wait */
    bool shut;
    struct pollfd *polled; /* (size + 1) */
    peer peers[];          /* (size) */
} sockets;

static void append(list *l, op *o)
{
    o->next = NULL;
    *l->end = o;
    l->end = &o->next;
}

static void take_out(list *l, const op *o)
{
    op **link = &l->first;
    while (*link && *link != o)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = o->next;
    if (!o->next)
        l->end = link;
}

static void lose(peer *p, const char *why)
{
    close(p->fd);
    p->fd = -1;
    snprintf(p->why, sizeof p->why, "%s", why);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Find a place for the message whose header has arrived. Returns false if there is none now. */
static bool place(peer *p)
{
    for (op *o = p->receives.first; o; o = o->next)
        if (o->tag == p->tag) {
            take_out(&p->receives, o);
            p->into = o;
            return p->placed = true;
        }
    p->aside = p->len <= EARLY_MAX - p->kept_bytes ? malloc(sizeof *p->aside + p->len) : NULL;
    if (!p->aside)
        return false;
    *p->aside = (early){.len = p->len, .tag = p->tag};
    p->kept_bytes += p->len;
    return p->placed = true;
}

static void delivered(peer *p)
{
    if (p->aside) {
        *p->kept_end = p->aside;
        p->kept_end = &p->aside->next;
    } else {
        p->into->done = p->len;
        p->into->state = p->len <= p->into->len ? DONE : TOO_LONG;
    }
    p->got = 0;
    p->placed = false;
    p->into = NULL;
    p->aside = NULL;
}

/* Where the next bytes go, and how many are needed. */
static uint8_t *target(peer *p, uint8_t *waste, size_t waste_len, size_t *want)
{
    if (p->got < HEAD) {
        *want = HEAD - p->got;
        return p->head + p->got;
    }
    const size_t at = p->got - HEAD;
    *want = p->len - at;
    if (p->aside)
        return p->aside->bytes + at;
    if (p->len <= p->into->len)
        return p->into->buf + at;
    *want = *want < waste_len ? *want : waste_len;
    return waste;
}

/* Receive as much as there is. Returns true if anything arrived. */
static bool pull(peer *p)
{
    uint8_t waste[4096];
    bool moved = false;
    for (;;) {
        if (p->got >= HEAD && !p->placed && !place(p))
            return moved;
        if (p->placed && p->got == HEAD + p->len) {
            delivered(p);
            moved = true;
        }
        if (p->fd < 0)
            return moved;
        size_t want;
        uint8_t *bytes = target(p, waste, sizeof waste, &want);
        const ssize_t n = recv(p->fd, bytes, want, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return moved;
        if (n <= 0) {
            lose(p, n == 0 ? "closed the connection" : strerror(errno));
            return true;
        }
        p->got += (size_t)n;
        if (p->got == HEAD) {
            p->tag = (uint32_t)get_le(p->head, 4);
            p->len = get_le(p->head + 8, 8);
        }
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Send as much as the connection accepts. Returns true if anything was sent. */
static bool push(peer *p)
{
    bool moved = false;
    while (p->fd >= 0 && p->sends.first) {
        op *o = p->sends.first;
        uint8_t head[HEAD] = {0};
        put_le(head, 4, o->tag);
        put_le(head + 8, 8, o->len);
        struct iovec parts[2];
        int count = 0;
        if (o->done < HEAD)
            parts[count++] = (struct iovec){head + o->done, HEAD - o->done};
        const size_t gone = o->done < HEAD ? 0 : o->done - HEAD;
        if (gone < o->len)
            parts[count++] = (struct iovec){o->buf + gone, o->len - gone};
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
        const ssize_t n = sendmsg(p->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return moved;
        if (n < 0) {
            const int error = errno;
            (void)pull(p); /* what it sent before it closed */
            if (p->fd >= 0)
                lose(p, strerror(error));
            return true;
        }
        moved = true;
        o->done += (size_t)n;
        if (o->done == HEAD + o->len) {
            take_out(&p->sends, o);
            o->state = DONE;
        }
    }
    return moved;
}

/* ---- the table ------------------------------------------------------------------------------- */

static tg_status post(sockets *s, bool send, int to, uint32_t tag, void *buf, size_t len,
                      tg_request *req)
{
    if (s->shut)
        return tg_fail(TG_E_STATE, "this rank has shut its transport");
    if (to < 0 || to >= s->base.size || to == s->base.rank || tag >= TAG_MAX || !req ||
        (!buf && len))
        return tg_fail(TG_E_ARG,
                       "peer=%d, tag=%u: allowed: a peer of 0..%d other than %d, tag < %u, and no "
                       "NULL",
                       to, tag, s->base.size - 1, s->base.rank, TAG_MAX);
    peer *p = &s->peers[to];
    op *o = (op *)req;
    *o = (op){.buf = buf, .len = len, .tag = tag, .peer = to, .send = send, .state = WAITING};
    append(send ? &p->sends : &p->receives, o);
    if (send)
        (void)push(p);
    return TG_OK;
}

static tg_status post_send(tg_transport *t, int to, uint32_t tag, const void *buf, size_t len,
                           tg_request *req)
{
    return post((sockets *)t, true, to, tag, (void *)buf, len, req);
}

/* Complete o with a message that was kept aside. Returns whether there was one. */
static bool take_kept(peer *p, op *o)
{
    for (early **link = &p->kept; *link; link = &(*link)->next) {
        early *e = *link;
        if (e->tag != o->tag)
            continue;
        take_out(&p->receives, o);
        o->done = e->len;
        o->state = e->len <= o->len ? DONE : TOO_LONG;
        if (o->state == DONE && e->len > 0)
            memcpy(o->buf, e->bytes, e->len);
        *link = e->next;
        if (!e->next)
            p->kept_end = link;
        p->kept_bytes -= e->len;
        free(e);
        return true;
    }
    return false;
}

static tg_status post_recv(tg_transport *t, int from, uint32_t tag, void *buf, size_t cap,
                           tg_request *req)
{
    sockets *s = (sockets *)t;
    const tg_status status = post(s, false, from, tag, buf, cap, req);
    if (status != TG_OK)
        return status;
    peer *p = &s->peers[from];
    op *o = (op *)req;
    /* The arriving message with this tag comes after those kept aside and before any other. */
    if (!take_kept(p, o) && p->aside && p->tag == tag) {
        take_out(&p->receives, o);
        const size_t have = p->got - HEAD;
        if (p->len <= o->len && have > 0)
            memcpy(o->buf, p->aside->bytes, have);
        p->kept_bytes -= p->len;
        free(p->aside);
        p->aside = NULL;
        p->into = o;
    }
    return TG_OK;
}

static tg_status test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    sockets *s = (sockets *)t;
    op *o = (op *)req;
    if (s->shut)
        return tg_fail(TG_E_STATE, "this rank has shut its transport");
    if (!o || o->state == OVER)
        return tg_fail(TG_E_ARG, "this request is over");
    peer *p = &s->peers[o->peer];
    *done_p = o->state != WAITING;
    if (o->state == WAITING && p->fd < 0 && !p->placed) {
        take_out(o->send ? &p->sends : &p->receives, o);
        o->state = OVER;
        return tg_fail(TG_E_PEER, "rank %d is gone: %s", o->peer, p->why);
    }
    if (o->state == TOO_LONG) {
        o->state = OVER;
        return tg_fail(TG_E_CORRUPT, "rank %d sent %zu bytes: at most %zu were expected", o->peer,
                       o->done, o->len);
    }
    if (o->state == DONE) {
        o->state = OVER;
        *len_p = o->send ? o->len : o->done;
    }
    return TG_OK;
}

static bool move(sockets *s)
{
    bool moved = false;
    for (int i = 0; i < s->base.size; i++) {
        peer *p = &s->peers[i];
        moved |= p->fd >= 0 && push(p);
        moved |= p->fd >= 0 && pull(p);
        if (p->fd < 0 && p->placed) { /* its last message is incomplete */
            free(p->aside);
            p->aside = NULL;
            if (p->into)
                append(&p->receives, p->into);
            p->into = NULL;
            p->placed = false;
        }
    }
    return moved;
}

static tg_status wait_until(tg_transport *t, int64_t deadline_ns)
{
    sockets *s = (sockets *)t;
    if (s->shut)
        return tg_fail(TG_E_STATE, "this rank has shut its transport");
    if (move(s))
        return TG_OK;
    for (int i = 0; i < t->size; i++) {
        const peer *p = &s->peers[i];
        const bool reads = p->got < HEAD || p->placed;
        s->polled[i] = (struct pollfd){
            .fd = p->fd, .events = (short)((reads ? POLLIN : 0) | (p->sends.first ? POLLOUT : 0))};
    }
    s->polled[t->size] = (struct pollfd){.fd = s->wake[0], .events = POLLIN};
    const int64_t now = tg_now_ns(t->clock), left = deadline_ns > now ? deadline_ns - now : 0;
    const int64_t ms = (left + 999999) / 1000000;
    if (poll(s->polled, (nfds_t)t->size + 1, ms < 1000 ? (int)ms : 1000) > 0 &&
        s->polled[t->size].revents) {
        char bytes[64];
        while (read(s->wake[0], bytes, sizeof bytes) > 0)
            ;
    }
    (void)move(s);
    return TG_OK;
}

static void wake(tg_transport *t)
{
    const int saved = errno;
    ssize_t n = write(((sockets *)t)->wake[1], "", 1);
    (void)n; /* a full pipe also ends the wait */
    errno = saved;
}

static bool shut(tg_transport *t)
{
    sockets *s = (sockets *)t;
    s->shut = true;
    for (int i = 0; i < t->size; i++)
        if (s->peers[i].fd >= 0)
            lose(&s->peers[i], "shut");
    return true; /* the callers' memory is no longer in use */
}

static void destroy(tg_transport *t)
{
    sockets *s = (sockets *)t;
    shut(t);
    for (int i = 0; i < t->size; i++) {
        free(s->peers[i].aside);
        while (s->peers[i].kept) {
            early *e = s->peers[i].kept;
            s->peers[i].kept = e->next;
            free(e);
        }
    }
    close(s->wake[0]);
    close(s->wake[1]);
    free(s->polled);
    free(s);
}

static const tg_transport_ops ops = {.struct_size = sizeof ops,
                                     .name = "sockets",
                                     .post_send = post_send,
                                     .post_recv = post_recv,
                                     .test = test,
                                     .poll = wait_until,
                                     .wake = wake,
                                     .shut = shut,
                                     .destroy = destroy};

tg_status socket_transport(int rank, int size, const char *const *address, int64_t timeout_ms,
                           tg_transport **t_p)
{
    if (size < 1 || size > RANKS_MAX || rank < 0 || rank >= size)
        return tg_fail(TG_E_ARG, "rank %d of %d: allowed: 1 to 4096 ranks, counted from 0", rank,
                       size);
    sockets *s = calloc(1, sizeof *s + (size_t)size * sizeof *s->peers);
    if (!s)
        return tg_fail(TG_E_NOMEM, "out of memory");
    s->base = (tg_transport){.struct_size = sizeof s->base,
                             .ops = &ops,
                             .rank = rank,
                             .size = size,
                             .clock = tg_clock_monotonic(),
                             .any_thread = true};
    for (int i = 0; i < size; i++) {
        peer *p = &s->peers[i];
        p->fd = -1;
        p->sends.end = &p->sends.first;
        p->receives.end = &p->receives.first;
        p->kept_end = &p->kept;
    }
    s->wake[0] = s->wake[1] = -1;
    s->polled = calloc((size_t)size + 1, sizeof *s->polled);
    tg_status status = TG_OK;
    if (!s->polled || pipe(s->wake) < 0 || !unblock(s->wake[0]) || !unblock(s->wake[1]))
        status = tg_fail(TG_E_NOMEM, "a pipe: %s", strerror(errno));
    int fd[RANKS_MAX];
    if (status == TG_OK)
        status = socket_mesh(rank, size, address, timeout_ms, fd);
    for (int i = 0; status == TG_OK && i < size; i++)
        s->peers[i].fd = fd[i];
    if (status == TG_OK)
        *t_p = &s->base;
    else
        destroy(&s->base);
    return status;
}
