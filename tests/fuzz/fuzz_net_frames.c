/* A member that sends what the input says to the TCP transport, which posts, cancels nothing, and
 * leaves as the input says. Each byte pair is an action: see `act`. The transport must stay within
 * its window, keep its own rules, end every request once the member is gone, and never wait. */

#include "net/fields.h"
#include "net/tcp_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <stdlib.h>
#include <unistd.h>

#define must(fact) ((fact) ? (void)0 : abort())

enum { REQUESTS = 24, TAGS = 3, LONG = 40 << 20 };

typedef struct request {
    tg_request req;
    uint8_t *buf; /* NULL: over, or never posted */
    size_t cap;
    bool shared; /* buf is not its own */
} request;

typedef struct play {
    tg_transport *t;
    int fd; /* the member's end; -1: closed */
    bool shut;
    request request[REQUESTS];
} play;

static uint8_t *long_message(void)
{
    static uint8_t *bytes;
    if (!bytes)
        bytes = calloc(1, LONG);
    if (!bytes)
        abort();
    return bytes;
}

static tg__tcp *tcp_of(const play *p)
{
    return (tg__tcp *)p->t;
}

static void begin(play *p)
{
    int fd[2];
    tg_net *n = calloc(1, sizeof *n);
    *p = (play){.fd = -1};
    must(n && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
    n->listener = -1;
    must(tg__net_members(n, 2) == TG_OK);
    n->stream[1] = malloc(sizeof *n->stream[1]);
    must(n->stream[1]);
    must(tg__stream_begin(n->stream[1], fd[0], NULL, false, NULL, NULL) == TG_OK);
    must(tg_transport_tcp(n, &p->t) == TG_OK);
    p->fd = fd[1];
}

/* What must hold between two calls. */
static void check(const play *p)
{
    const tg__peer *q = &tcp_of(p)->peer[1];
    uint64_t kept = q->aside ? tg__message_cost(q->arriving_len) : 0;
    int asks = 0;
    for (const tg__early *e = q->early.first; e; e = e->next) {
        kept += tg__message_cost(e->len);
        for (const tg__tcp_post *r = q->receives.first; r; r = r->next)
            must(r->granted || r->tag != e->tag); /* or it would have it */
    }
    for (const tg__early *e = q->asking.first; e; e = e->next)
        asks++;
    must(kept <= q->unreturned && q->unreturned <= TG__WINDOW);
    must(asks == q->wants && asks <= TG__WANTS_MAX);
    must(q->in_flight <= TG__WINDOW);
}

static void test_all(play *p)
{
    for (int i = 0; i < REQUESTS && !p->shut; i++) {
        request *r = &p->request[i];
        bool done = false;
        size_t len = 0;
        if (!r->buf)
            continue;
        const tg_status status = p->t->ops->test(p->t, &r->req, &done, &len);
        if (status == TG_OK && !done)
            continue;
        must(status == TG_OK || status == TG_E_PEER || status == TG_E_CORRUPT);
        must(status == TG_OK || *tg_error()); /* a refusal has a text */
        must(status != TG_OK || len <= r->cap);
        if (!r->shared)
            free(r->buf);
        r->buf = NULL;
    }
}

static void poll_once(play *p)
{
    if (!p->shut)
        must(p->t->ops->poll(p->t, 0) == TG_OK);
    test_all(p);
    check(p);
}

/* The member reads and forgets. */
static void drain(play *p)
{
    uint8_t waste[4096];
    while (p->fd >= 0 && recv(p->fd, waste, sizeof waste, MSG_DONTWAIT) > 0)
        ;
}

static void say(play *p, const uint8_t *bytes, size_t len)
{
    for (int stuck = 0; p->fd >= 0 && len > 0 && stuck < 3;) {
        const ssize_t n = send(p->fd, bytes, len, MSG_NOSIGNAL);
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
        stuck = n > 0 ? 0 : stuck + 1;
        if (n <= 0)
            poll_once(p);
    }
}

/* A frame whose fields fit together, most of the time. */
static void say_frame(play *p, uint8_t a, uint8_t b)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       64,
                                       1000,
                                       TG__SEGMENT,
                                       TG__SEGMENT + 1,
                                       1 << 20,
                                       TG__WINDOW / 2,
                                       TG__WINDOW - 64,
                                       TG__WINDOW,
                                       2,
                                       INT64_MAX,
                                       (uint64_t)INT64_MAX + 1,
                                       UINT64_MAX,
                                       3 * TG__SEGMENT,
                                       100};
    static uint8_t frame[TG__HEAD + TG__SEGMENT];
    const int kind = a & 15;
    const uint64_t number = numbers[b & 15];
    const bool begins = kind == TG__FRAME_FIRST || kind == TG__FRAME_GRANTED;
    size_t len = 0;
    if (begins)
        len = number < TG__SEGMENT ? (size_t)number : TG__SEGMENT;
    else if (kind == TG__FRAME_MORE) /* what is left of numbers[b >> 4] */
        len = (size_t)(numbers[b >> 4] % (TG__SEGMENT + 1));
    tg__pack w = {.at = frame, .end = frame + TG__HEAD};
    tg__pack_number(&w, 4, (uint64_t)kind << 28 | (uint64_t)(a >> 4) % TAGS);
    tg__pack_number(&w, 4, len + (begins && b >> 4 == 15));
    tg__pack_number(&w, 8, number);
    say(p, frame, TG__HEAD + len);
}

static void post(play *p, bool sends, uint8_t a)
{
    const uint32_t tag = a % TAGS;
    const size_t x = a / TAGS, len = sends ? x * x * 24 : x * x * 16;
    const bool is_long = sends && x == 255 / TAGS;
    int i = 0;
    while (i < REQUESTS && p->request[i].buf)
        i++;
    if (i == REQUESTS || p->shut)
        return;
    request *r = &p->request[i];
    r->shared = is_long;
    r->cap = is_long ? LONG : len;
    r->buf = is_long ? long_message() : calloc(1, r->cap ? r->cap : 1);
    must(r->buf);
    const tg_status status = sends ? p->t->ops->post_send(p->t, 1, tag, r->buf, r->cap, &r->req)
                                   : p->t->ops->post_recv(p->t, 1, tag, r->buf, r->cap, &r->req);
    must(status == TG_OK || status == TG_E_PEER);
    if (status != TG_OK) {
        if (!r->shared)
            free(r->buf);
        r->buf = NULL;
    }
}

/* Returns how many bytes of the input it took. */
static size_t act(play *p, const uint8_t *in, size_t left)
{
    const uint8_t a = left > 1 ? in[1] : 0, b = left > 2 ? in[2] : 0;
    switch (in[0] & 7) {
    case 0:
        post(p, false, a);
        return 2;
    case 1:
        post(p, true, a);
        return 2;
    case 2: { /* bytes as they are */
        const size_t len = (size_t)a % 40 < left - 1 ? (size_t)a % 40 : left - 1;
        say(p, in + (left > 1 ? 2 : 1), left > 2 && len > left - 2 ? left - 2 : left > 2 ? len : 0);
        return 2 + len;
    }
    case 3:
        say_frame(p, a, b);
        return 3;
    case 4:
        poll_once(p);
        return 1;
    case 5:
        drain(p);
        return 1;
    case 6:
        if (p->fd >= 0 && a < 128)
            shutdown(p->fd, SHUT_WR);
        else if (p->fd >= 0) {
            close(p->fd);
            p->fd = -1;
        }
        return 2;
    default:
        if (a > 200 && !p->shut) {
            p->t->ops->blame(p->t, a & 1);
            p->shut = p->t->ops->shut(p->t);
            for (int i = 0; i < REQUESTS; i++) { /* nothing uses them any more */
                if (!p->request[i].shared)
                    free(p->request[i].buf);
                p->request[i].buf = NULL;
            }
        }
        return 2;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static play p;
    begin(&p);
    for (size_t at = 0; at < size && at < 4096;) {
        at += act(&p, data + at, size - at);
        check(&p);
        drain(&p); /* or a shut waits for a member that does not read */
    }
    if (p.fd >= 0)
        close(p.fd);
    for (int i = 0; i < 3; i++) /* it reads as much as it does in a turn, and then the rest */
        for (int k = 0; k < 20; k++)
            poll_once(&p);
    for (int i = 0; i < REQUESTS; i++)
        must(!p.request[i].buf); /* each is over */
    tg_transport_destroy(p.t);
    return 0;
}
