/* A rank that joins, among others that say what the input says: at the meeting point, to it, and
 * where ranks connect with each other. The first byte of the input chooses which rank joins (modulo
 * 3: 0 is the meeting point) and how ranks find each other (bits 4 and 5: see `ways`); then each
 * action is a byte, with some more: see `act`. One action is done each time the joining rank asks
 * whether it is to stop. What it finds in a store is the input's, too: see `get`.
 *
 * It is linked with its own poll, which never waits, and its own connect and getaddrinfo, which
 * know this machine only. */
#include "net/caller.h"
#include "net/fields.h"
#include "net/membership.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define must(fact) ((fact) ? (void)0 : abort())

enum { SLOTS = 8, RANKS = 3, BODY_MAX = 2048 };
enum ways { BY_MEETING_POINT, BY_LIST, BY_STORE, BY_STORE_WITH_KEYS, WAYS };

int __real_poll(struct pollfd *p, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *p, nfds_t n, int timeout);
int __real_connect(int fd, const struct sockaddr *a, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *a, socklen_t len);
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int __wrap_poll(struct pollfd *p, nfds_t n, int timeout)
{
    (void)timeout;
    return n > 0 ? __real_poll(p, n, 0) : 0;
}

int __wrap_connect(int fd, const struct sockaddr *a, socklen_t len)
{
    if (a->sa_family == AF_INET &&
        ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) == INADDR_LOOPBACK)
        return __real_connect(fd, a, len);
    errno = ENETUNREACH;
    return -1;
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    struct addrinfo here = *hints;
    here.ai_flags |= AI_NUMERICHOST;
    return __real_getaddrinfo(host, port, &here, found);
}

/* ---- the others ------------------------------------------------------------------------------ */

typedef struct world {
    const uint8_t *at, *end; /* of the input */
    int rounds;              /* after its end */
    int listener[2], port[2];
    int fd[SLOTS]; /* -1: none */
    int its_port;  /* where the rank that joins listens; 0: not known */
    uint8_t nonce[TG__NONCE_BYTES];
    enum ways way;
} world;

static int listen_here(int *port_p)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    must(fd >= 0 && bind(fd, (struct sockaddr *)&in, len) == 0 && listen(fd, 64) == 0);
    must(getsockname(fd, (struct sockaddr *)&in, &len) == 0);
    *port_p = ntohs(in.sin_port);
    return fd;
}

static uint8_t next(world *w)
{
    return w->at < w->end ? *w->at++ : 0;
}

/* Close without a trace, so that ports are soon free. */
static void end(world *w, int i)
{
    const struct linger now = {.l_onoff = 1};
    if (w->fd[i] < 0)
        return;
    (void)setsockopt(w->fd[i], SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(w->fd[i]);
    w->fd[i] = -1;
}

static void hold(world *w, int fd)
{
    int i = 0;
    while (i < SLOTS - 1 && w->fd[i] >= 0)
        i++;
    end(w, i);
    w->fd[i] = fd;
}

/* Read what the rank says: a roster has the nonce, JOIN its port. */
static void listen_to_all(world *w)
{
    uint8_t said[4096];
    for (int k = 0; k < 2; k++)
        for (int fd; (fd = accept4(w->listener[k], NULL, NULL, SOCK_NONBLOCK)) >= 0;)
            hold(w, fd);
    for (int i = 0; i < SLOTS; i++) {
        const ssize_t n = w->fd[i] >= 0 ? recv(w->fd[i], said, sizeof said, MSG_DONTWAIT) : 0;
        if (n < 12 || memcmp(said, "tgnet", 5) != 0)
            continue;
        if (said[6] == TG__SAID_ROSTER && n >= 12 + TG__NONCE_BYTES)
            memcpy(w->nonce, said + 12, TG__NONCE_BYTES);
        if (said[6] == TG__SAID_JOIN && n >= 12 + 10)
            w->its_port = said[20] | said[21] << 8;
    }
}

static void call(world *w)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)w->its_port)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(fd >= 0);
    if (w->its_port == 0 || __real_connect(fd, (struct sockaddr *)&in, sizeof in) != 0)
        close(fd);
    else
        hold(w, fd);
}

/* A body that is right, but for what the input says. */
static size_t make_body(world *w, int kind, uint8_t *body)
{
    static const char *const hosts[] = {"", "127.0.0.1", "::1", "nowhere", "10.1.2.3", "\033[2J"};
    static const char *const addresses[] = {"", "tcp://127.0.0.1:9", "tcp://[::1]:9", "tcp://"};
    tg__pack p = {.at = body, .end = body + BODY_MAX};
    const uint8_t a = next(w), b = next(w);
    switch (kind) {
    case TG__SAID_JOIN:
        tg__pack_number(&p, 4, a & 3);
        tg__pack_number(&p, 4, (uint64_t)(a >> 2 & 3));
        tg__pack_number(&p, 2, (uint64_t)w->port[1]);
        tg__pack_number(&p, 8, a >> 4);
        tg__pack_text(&p, b & 64 ? "other" : w->way >= BY_STORE ? "fuzz" : "");
        tg__pack_text(&p, addresses[b & 3]);
        break;
    case TG__SAID_ROSTER:
        tg__pack_bytes(&p, w->nonce, sizeof w->nonce);
        tg__pack_number(&p, 4, b & 15 ? RANKS : (uint64_t)(a & 7));
        tg__pack_number(&p, 4, a & 3);
        for (int i = 0; i < RANKS + (b >> 4 == 15); i++) {
            for (int k = 0; k < TG__KEY_BYTES; k++)
                tg__pack_number(&p, 1, 0);
            tg__pack_number(&p, 8, a);
            tg__pack_text(&p, hosts[(a >> 2) % 6]);
            tg__pack_number(&p, 2, i == 0 ? 0 : (uint64_t)w->port[i - 1 < 1 ? 0 : 1]);
        }
        break;
    case TG__SAID_REFUSED:
        tg__pack_number(&p, 4, a);
        tg__pack_text(&p, hosts[b % 6]);
        break;
    case TG__SAID_HELLO:
    case TG__SAID_RELAY:
        tg__pack_bytes(&p, w->nonce, sizeof w->nonce);
        tg__pack_number(&p, 4, a & 3);
        tg__pack_number(&p, 4, (uint64_t)(a >> 2 & 3));
        break;
    case TG__SAID_WAITS:
        tg__pack_text(&p, hosts[a % 6]);
        tg__pack_text(&p, hosts[b % 6]);
        break;
    case TG__SAID_LEAVES:
        tg__pack_number(&p, 4, a);
        tg__pack_text(&p, hosts[b % 6]);
        break;
    case TG__SAID_INVITE:
        tg__pack_number(&p, 4, a & 3);
        break;
    default:
        tg__pack_bytes(&p, w->nonce, b & 7);
    }
    return (size_t)(p.at - body) - (b >> 4 == 7 && p.at > body) + (b >> 4 == 8);
}

static void say(world *w, int i, const uint8_t *bytes, size_t len)
{
    if (w->fd[i] >= 0)
        (void)!send(w->fd[i], bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_message(world *w, int i, int kind)
{
    uint8_t bytes[12 + BODY_MAX + 1] = "tgnet";
    const size_t len = make_body(w, kind, bytes + 12);
    const uint8_t change = next(w);
    tg__pack p = {.at = bytes + 5, .end = bytes + 12};
    tg__pack_number(&p, 1, change == 250 ? 2 : TG__NET_VERSION);
    tg__pack_number(&p, 2, (uint64_t)kind | (change == 251 ? 256 : 0));
    tg__pack_number(&p, 4, change == 252 ? UINT32_MAX : change == 253 ? len + 1 : len);
    if (change > 128 && change < 140 && len > 0) /* one byte of it */
        bytes[12 + (size_t)next(w) % len] ^= (uint8_t)(1 << (change & 7));
    if (change > 140 && change < 150) { /* in two parts */
        say(w, i, bytes, 7);
        say(w, i, bytes + 7, 5 + len);
    } else
        say(w, i, bytes, 12 + len);
}

static void act(world *w)
{
    const uint8_t what = next(w);
    const int i = what & 7;
    switch (what >> 3 & 7) {
    case 0:
        call(w);
        break;
    case 1: {
        const size_t want = next(w), left = (size_t)(w->end - w->at);
        const size_t len = want < left ? want : left;
        say(w, i, w->at, len);
        w->at += len;
        break;
    }
    case 2:
        end(w, i);
        break;
    case 3:
        if (w->fd[i] >= 0)
            shutdown(w->fd[i], SHUT_WR);
        break;
    case 4:
        break; /* a round without anything */
    default:
        say_message(w, i, next(w) % TG__SAID_COUNT);
    }
}

/* Asked by the rank that joins, in each of its rounds. */
static bool play(void *arg)
{
    world *w = arg;
    listen_to_all(w);
    if (w->at < w->end)
        act(w);
    else
        w->rounds++;
    listen_to_all(w);
    return w->rounds > 6;
}

/* ---- the store ------------------------------------------------------------------------------- */

static tg_status set(void *arg, const char *name, const char *value)
{
    world *w = arg;
    const char *at = strrchr(value, ':');
    must(tg__is_printable(name, strlen(name)) && strlen(value) < TG_NET_VALUE);
    if (strcmp(name, "telegrad/fuzz/0") == 0 && at)
        w->its_port = atoi(at + 1);
    return next(w) == 99 ? tg_fail(TG_E_IO, "the store is down") : TG_OK;
}

/* What rank 0 would say, or another rank, or something else. */
static tg_status get(void *arg, const char *name, char *value, size_t room)
{
    static const char key[] = "tgk1:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE";
    static const char *const addresses[] = {"tcp://127.0.0.1:9", "tcp://[::1]:9", "tcp://nowhere:1",
                                            "tcp://127.0.0.1:0", "udp://a:1",     ""};
    world *w = arg;
    const uint8_t what = next(w);
    const bool keys = w->way == BY_STORE_WITH_KEYS;
    size_t len = 0;
    must(room == TG_NET_VALUE && strncmp(name, "telegrad/fuzz/", 14) == 0);
    if (what >= 250)
        return what == 250 ? tg_fail(TG_E_IO, "the store is down") : TG_OK; /* "" as it came */
    if (name[14] != '0' && what < 200)
        len = (size_t)snprintf(value, room, "%s", key);
    else if (what < 200)
        len = (size_t)snprintf(value, room, "%s %x tcp://127.0.0.1:%d %s %s", keys ? key : "-",
                               what, w->port[0], addresses[what % 6], addresses[what / 6 % 6]);
    for (size_t n = what >= 200 ? next(w) : 0; len < n && w->at < w->end; len++)
        value[len] = (char)next(w);
    if (what % 5 == 1 && len > 0) /* one byte of it */
        value[next(w) % len] = (char)next(w);
    value[len] = '\0';
    if (what == 249) /* no end, against the rules */
        memset(value + len, 'x', room - len);
    return TG_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static world w; /* keeps its listeners */
    static int own_port;
    char listens[48], joins[48];
    if (w.listener[0] == 0) {
        for (int i = 0; i < 2; i++)
            w.listener[i] = listen_here(&w.port[i]);
        const int probe = listen_here(&own_port);
        close(probe);
    }
    w.at = data + (size > 0);
    w.end = data + (size < 2048 ? size : 2048);
    w.rounds = 0;
    memset(w.nonce, 7, sizeof w.nonce);
    for (int i = 0; i < SLOTS; i++)
        w.fd[i] = -1;
    const int rank = size > 0 ? data[0] % RANKS : 0;
    w.way = size > 0 ? (enum ways)(data[0] >> 4 & 3) : BY_MEETING_POINT;
    const bool stored = w.way >= BY_STORE, met = w.way == BY_MEETING_POINT;
    const bool fixed = !stored && (rank == 0 || !met); /* its port is known before */
    w.its_port = fixed ? own_port : 0;
    snprintf(listens, sizeof listens, "tcp://127.0.0.1:%d", fixed ? own_port : 0);
    snprintf(joins, sizeof joins, "tcp://127.0.0.1:%d", w.port[0]);
    char address[RANKS][48];
    const char *addresses[RANKS];
    for (int r = 0, other = 0; r < RANKS; r++) {
        snprintf(address[r], sizeof address[r], "tcp://127.0.0.1:%d",
                 r == rank ? own_port : w.port[other++]);
        addresses[r] = address[r];
    }
    const tg_net_config config = {.struct_size = sizeof config,
                                  .listen = listens,
                                  .join = rank == 0 || !met ? NULL : joins,
                                  .size = rank == 0 || !met ? RANKS : 0,
                                  .rank = rank,
                                  .job = stored ? "fuzz" : NULL,
                                  .insecure = w.way != BY_STORE_WITH_KEYS,
                                  .addresses = w.way == BY_LIST ? addresses : NULL,
                                  .set = stored ? set : NULL,
                                  .get = stored ? get : NULL,
                                  .store_arg = &w,
                                  .stop = play,
                                  .stop_arg = &w,
                                  .timeout_s = 10};
    tg_net *net = NULL;
    const tg_status status = tg_net_join(&config, &net);
    must(status == TG_OK ? net && tg_net_size(net) == RANKS : !net && *tg_error());
    must(tg__is_printable(tg_error(), strlen(tg_error()))); /* it is shown to people */
    for (int i = 0; i < SLOTS; i++)
        end(&w, i);
    listen_to_all(&w); /* who has called, and was not heard */
    for (int i = 0; i < SLOTS; i++)
        end(&w, i);
    tg_net_destroy(net);
    return 0;
}
