/* A rank, or a stranger, played by hand: connections over which a test sends what it likes. Include
 * it after cmocka.h and free_ports.h. */
#ifndef TESTS_NET_BY_HAND_H
#define TESTS_NET_BY_HAND_H

#include "net/door.h"
#include "net/fields.h"
#include "net/membership.h"
#include "telegrad/clock.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static inline double hand_seconds(void)
{
    return (double)tg_now_ns(tg_clock_monotonic()) / 1e9;
}

/* Memory of this process, in MiB. */
static inline double hand_memory(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &pages, &resident), 2);
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

/* Sanitizers keep what is freed, so memory says nothing then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAND_MEMORY_COUNTS false
#else
#define HAND_MEMORY_COUNTS true
#endif

static inline bool hand_accepts(void *arg, const tg__public_key *key)
{
    (void)arg;
    (void)key;
    return true;
}

typedef struct hand {
    tg__tls *tls; /* NULL: without keys */
    tg__caller c;
} hand;

/* Call "tcp://127.0.0.1:PORT", with this key or none, until somebody listens. */
static inline void hand_call(hand *h, const char *address, const tg_key_pair *key)
{
    tg__address a;
    *h = (hand){.tls = NULL};
    if (key)
        assert_int_equal(tg__tls_create(key, &h->tls), TG_OK);
    assert_int_equal(tg__address_parse("hand", address, false, &a), TG_OK);
    for (int tries = 0; tries < 2000; tries++) {
        assert_int_equal(tg__caller_call(&h->c, &a, 0, h->tls, 1 << 16, hand_accepts, NULL), TG_OK);
        while (h->c.state <= TG__CALLER_DIALS && tg__caller_step(&h->c))
            if (h->c.state <= TG__CALLER_DIALS)
                usleep(100);
        if (h->c.state > TG__CALLER_DIALS) {
            h->c.until_ns = INT64_MAX;
            return;
        }
        tg__caller_end(&h->c);
        usleep(1000);
    }
    fail_msg("nobody listens at %s", address);
}

/* Listen at any port of "127.0.0.1" or "::1". Returns false if there is no such address here. */
static inline bool hand_listen(const char *host, int *fd_p, int *port_p)
{
    tg__address a = {.port = 0};
    tg__lookup *l;
    const struct addrinfo *found;
    snprintf(a.host, sizeof a.host, "%s", host);
    assert_int_equal(tg__lookup_begin(&a, true, &l), TG_OK);
    assert_int_equal(tg__lookup_found(l, &found), TG_OK);
    const bool listens = tg__address_listen(&a, found, fd_p, port_p) == TG_OK;
    tg__lookup_end(l);
    return listens;
}

/* Wait until a message has come, other than WAITS. Returns false if the connection has failed, or
 * after so long. */
static inline bool hand_hear(hand *h, double seconds)
{
    for (const double until = hand_seconds() + seconds; hand_seconds() < until;) {
        struct pollfd p = tg__caller_watch(&h->c);
        (void)poll(&p, 1, 50);
        if (!tg__caller_step(&h->c))
            return false;
        if (h->c.arrived && tg__caller_kind(&h->c) != TG__SAID_WAITS)
            return true;
        if (h->c.arrived)
            tg__caller_next(&h->c);
    }
    return false;
}

/* Say, and wait for the answer's body, which stays in h->c. */
static inline bool hand_ask(hand *h, enum tg__said kind, const void *body, size_t len)
{
    tg__caller_next(&h->c);
    assert_int_equal(tg__caller_say(&h->c, kind, body, len), TG_OK);
    return hand_hear(h, 20);
}

/* Ask to join as this rank. */
static inline void hand_say_join(hand *h, int rank, const char *job, int port)
{
    uint8_t body[TG__JOIN_MAX];
    tg__pack p = {.at = body, .end = body + sizeof body};
    tg__pack_number(&p, 4, (uint64_t)rank);
    tg__pack_number(&p, 4, 0);
    tg__pack_number(&p, 2, (uint64_t)port);
    tg__pack_number(&p, 8, 1);
    tg__pack_text(&p, job);
    tg__pack_text(&p, "");
    tg__caller_next(&h->c);
    assert_int_equal(tg__caller_say(&h->c, TG__SAID_JOIN, body, (size_t)(p.at - body)), TG_OK);
    (void)tg__caller_step(&h->c);
}

/* The same. True: the roster, or a refusal, has come. */
static inline bool hand_join(hand *h, int rank, const char *job, int port)
{
    hand_say_join(h, rank, job, port);
    return hand_hear(h, 20);
}

/* Of the roster that has come: the nonce, and where a rank listens. */
static inline void hand_roster(const hand *h, int rank, uint8_t nonce[TG__NONCE_BYTES],
                               char address[TG__ADDRESS_MAX])
{
    tg__unpack u = {.at = h->c.body, .end = h->c.body + h->c.body_len};
    tg__address a = {.port = 0};
    assert_int_equal(tg__caller_kind(&h->c), TG__SAID_ROSTER);
    tg__unpack_bytes(&u, nonce, TG__NONCE_BYTES);
    (void)tg__unpack_number(&u, 8);
    for (int r = 0; r <= rank; r++) {
        tg__public_key key;
        tg__unpack_bytes(&u, key.bytes, sizeof key.bytes);
        (void)tg__unpack_number(&u, 8);
        tg__unpack_text(&u, a.host, sizeof a.host);
        a.port = (int)tg__unpack_number(&u, 2);
    }
    assert_false(u.failed);
    if (!*a.host)
        snprintf(a.host, sizeof a.host, "127.0.0.1");
    tg__address_text(&a, address);
}

/* Say HELLO to a rank. True: it is welcome. */
static inline bool hand_hello(hand *h, const uint8_t nonce[TG__NONCE_BYTES], int from, int to)
{
    uint8_t body[TG__NONCE_BYTES + 8];
    tg__pack p = {.at = body, .end = body + sizeof body};
    tg__pack_bytes(&p, nonce, TG__NONCE_BYTES);
    tg__pack_number(&p, 4, (uint64_t)from);
    tg__pack_number(&p, 4, (uint64_t)to);
    return hand_ask(h, TG__SAID_HELLO, body, sizeof body) &&
           tg__caller_kind(&h->c) == TG__SAID_WELCOME;
}

/* Tell the meeting point that this rank is connected to all, and wait until all are. */
static inline bool hand_begin(hand *h)
{
    return hand_ask(h, TG__SAID_LINKED, "", 0) && tg__caller_kind(&h->c) == TG__SAID_BEGIN;
}

/* Write all. Returns false if the connection fails, or takes nothing for so long. */
static inline bool hand_write(hand *h, const void *bytes, size_t len, double seconds)
{
    const uint8_t *at = bytes;
    for (const double until = hand_seconds() + seconds; len > 0 && hand_seconds() < until;) {
        struct pollfd p = {.fd = h->c.stream->fd, .events = POLLOUT};
        const ptrdiff_t n = tg__stream_write(h->c.stream, at, len);
        if (n < 0 || tg__stream_flush(h->c.stream) < 0)
            return false;
        if (n == 0)
            (void)poll(&p, 1, 50);
        at += n;
        len -= (size_t)n;
    }
    while (len == 0 && tg__stream_is_full(h->c.stream)) {
        struct pollfd p = {.fd = h->c.stream->fd, .events = POLLOUT};
        if (tg__stream_flush(h->c.stream) < 0 || poll(&p, 1, (int)(seconds * 1000)) <= 0)
            return false;
    }
    return len == 0;
}

/* A frame's head, as tcp_impl.h has it. */
static inline void hand_frame(uint8_t at[16], int kind, uint32_t tag, size_t len, uint64_t number)
{
    tg__pack p = {.at = at, .end = at + 16};
    tg__pack_number(&p, 4, (uint64_t)kind << 28 | tag);
    tg__pack_number(&p, 4, len);
    tg__pack_number(&p, 8, number);
}

/* Whether the other end closes within so long. */
static inline bool hand_is_closed(int fd, double seconds)
{
    char waste[256];
    for (const double until = hand_seconds() + seconds; hand_seconds() < until;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 50) > 0 && recv(fd, waste, sizeof waste, MSG_DONTWAIT) <= 0)
            return true;
    }
    return false;
}

static inline void hand_end(hand *h)
{
    tg__caller_end(&h->c);
    tg__tls_destroy(h->tls);
    h->tls = NULL;
}

#endif
