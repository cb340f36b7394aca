#include "net/door.h"
#include "net/forked.h"
#include "telegrad/clock.h"
#include "telegrad/tools.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define FULL_NS INT64_C(10000000) /* until those who wait are looked at again */
#define ACCEPTS 512               /* at once; then those who are in may speak */
#define HANDSHAKES 16             /* begun at once; each costs much more than to accept */

/* ---- who has most ---------------------------------------------------------------------------- */

/* The network that the connection comes from: an IPv4 address, or half of an IPv6 address. */
static uint8_t source_of(const tg__door *d, const struct sockaddr_storage *s)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)s)->sin6_addr;
    uint64_t hash = TG_HASH_START ^ d->salt;
    if (s->ss_family == AF_INET)
        hash = tg_hash(hash, &((const struct sockaddr_in *)s)->sin_addr, 4);
    else if (IN6_IS_ADDR_V4MAPPED(six))
        hash = tg_hash(hash, six->s6_addr + 12, 4);
    else
        hash = tg_hash(hash, six->s6_addr, 8);
    return (uint8_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* "10.0.0.7", "2001:db8::7" */
static void write_host(const struct sockaddr_storage *s, char host[TG__IP_MAX])
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)s)->sin6_addr;
    *host = '\0';
    if (s->ss_family == AF_INET)
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)s)->sin_addr, host, TG__IP_MAX);
    else if (IN6_IS_ADDR_V4MAPPED(six))
        (void)inet_ntop(AF_INET, six->s6_addr + 12, host, TG__IP_MAX);
    else
        (void)inet_ntop(AF_INET6, six, host, TG__IP_MAX);
}

static uint64_t roll(tg__door *d)
{
    d->dice ^= d->dice << 13;
    d->dice ^= d->dice >> 7;
    d->dice ^= d->dice << 17;
    return d->dice;
}

static uint8_t busiest(const int *count)
{
    int most = 0;
    for (int i = 1; i < TG__SOURCES; i++)
        if (count[i] > count[most])
            most = i;
    return (uint8_t)most;
}

/* ---- places ---------------------------------------------------------------------------------- */

static void end_knock(tg__door *d, tg__knock *k, bool closes)
{
    if (closes)
        tg__fd_close(k->fd);
    k->fd = -1;
    d->knocking[k->source]--;
}

static void say_failed(const tg__door *d, const char *host, const tg__caller *c, const char *why)
{
    if (d->on_failed)
        d->on_failed(d->on_failed_arg, host, c, why);
}

static void end_guest(tg__guest *g)
{
    tg__caller_end(&g->caller);
    g->rank = 0;
}

static tg__knock *place_knock(tg__door *d)
{
    const size_t from = roll(d) % d->knocks;
    tg__knock *victim = NULL;
    const uint8_t source = busiest(d->knocking);
    for (size_t i = 0; i < d->knocks; i++) {
        tg__knock *k = &d->knock[(from + i) % d->knocks];
        if (k->fd < 0)
            return k;
        if (!victim && k->source == source)
            victim = k;
    }
    end_knock(d, victim, true);
    return victim;
}

/* Who may be put out: has not proved a key, or without keys, not said a word. */
static bool is_unproved(const tg__door *d, const tg__guest *g)
{
    return !g->caller.arrived && (!d->tls || g->caller.state != TG__CALLER_TALKS);
}

/* Whether a guest may be put out now. */
static bool is_victim(const tg__door *d, const tg__guest *g, int64_t now)
{
    return is_unproved(d, g) && (now - g->since_ns >= TG__YOUNG_NS || !g->caller.stream->ssl ||
                                 !tg__stream_has_greeted(g->caller.stream));
}

/* A place for a connection from this source. NULL: none is empty, and no source with at least as
 * many inside has one that may be put out. */
static tg__guest *place_guest(tg__door *d, uint8_t source, int64_t now)
{
    int inside[TG__SOURCES] = {0}, victims[TG__SOURCES] = {0};
    for (size_t i = 0; i < d->room; i++) {
        tg__guest *g = &d->guest[i];
        if (g->caller.state == TG__CALLER_NONE)
            return g;
        inside[g->source] += is_unproved(d, g);
        victims[g->source] += is_victim(d, g, now);
    }
    const int own = inside[source];
    for (int i = 0; i < TG__SOURCES; i++)
        if (victims[i] == 0 || inside[i] < own)
            inside[i] = 0;
    const uint8_t most = busiest(inside);
    const size_t from = roll(d) % d->room;
    for (size_t i = 0; i < d->room && inside[most] > 0; i++) {
        tg__guest *g = &d->guest[(from + i) % d->room];
        if (g->source == most && is_victim(d, g, now)) {
            end_guest(g);
            return g;
        }
    }
    return NULL;
}

/* ---- the door -------------------------------------------------------------------------------- */

/* Descriptors are scarce where the limit is the usual 1,024. */
static size_t knocks_for(int size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 64;
    const size_t cur = limit.rlim_cur < 8 * TG__KNOCKS ? (size_t)limit.rlim_cur : 8 * TG__KNOCKS;
    const size_t taken = 4 * (size_t)size, spare = cur > taken ? (cur - taken) / 4 : 0;
    return spare < 16 ? 16 : spare < TG__KNOCKS ? spare : TG__KNOCKS;
}

tg_status tg__door_open(tg__door *d, int listener, tg__tls *tls, int size, size_t body_max,
                        bool (*accepts)(void *arg, const tg__public_key *key), void *accepts_arg)
{
    *d = (tg__door){.listener = listener,
                    .tls = tls,
                    .accepts = accepts,
                    .accepts_arg = accepts_arg,
                    .body_max = body_max,
                    .knocks = knocks_for(size),
                    .room = (size_t)size + TG__HALF_OPEN};
    ERR_clear_error();
    if (RAND_bytes((unsigned char *)&d->salt, sizeof d->salt) != 1 ||
        RAND_bytes((unsigned char *)&d->dice, sizeof d->dice) != 1)
        return tg__ssl_fail(TG_E_IO, "random numbers");
    d->dice |= 1;
    TG_TRY(tg_alloc(d->knocks, sizeof *d->knock, &d->knock));
    for (size_t i = 0; i < d->knocks; i++)
        d->knock[i].fd = -1;
    return tg_alloc(d->room, sizeof *d->guest, &d->guest);
}

size_t tg__door_watch_max(const tg__door *d)
{
    return 1 + d->knocks + d->room;
}

size_t tg__door_watch(tg__door *d, struct pollfd *p)
{
    size_t count = 0;
    d->polled = p;
    p[count++] = (struct pollfd){.fd = d->listener, .events = POLLIN};
    const short in = tg_now_ns(tg_clock_monotonic()) < d->full_ns ? 0 : POLLIN;
    /* Empty places are left out: poll() takes no more entries than a process may have files. */
    for (size_t i = 0; i < d->knocks; i++) {
        tg__knock *k = &d->knock[i];
        k->at = count;
        if (k->fd >= 0)
            p[count++] = (struct pollfd){.fd = k->fd, .events = in};
    }
    for (size_t i = 0; i < d->room; i++)
        if (d->guest[i].caller.state != TG__CALLER_NONE)
            p[count++] = tg__caller_watch(&d->guest[i].caller);
    return count;
}

/* A connection has sent its first bytes. Only what begins like a greeting, of TLS or without it, is
 * worth a place. */
static void hear_knock(tg__door *d, tg__knock *k)
{
    uint8_t first[6];
    const ssize_t n = recv(k->fd, first, sizeof first, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    k->greets = n > 0 && (memcmp(first, "tgnet", n < 5 ? (size_t)n : 5) == 0 ||
                          (first[0] == 22 && (n < 2 || first[1] == 3) && (n < 6 || first[5] == 1)));
    if (k->greets)
        return;
    end_knock(d, k, true);
    if (n > 0)
        say_failed(d, k->host, NULL, "it does not speak telegrad's protocol");
}

/* Who is asked in next: from the source with the fewest inside, the one that has waited longest.
 * NULL: nobody waits. */
static tg__knock *next_knock(tg__door *d, const int *inside)
{
    tg__knock *next = NULL;
    for (size_t i = 0; i < d->knocks; i++) {
        tg__knock *k = &d->knock[i];
        if (k->fd < 0 || !k->greets)
            continue;
        const int more = next ? inside[k->source] - inside[next->source] : -1;
        if (more < 0 || (more == 0 && k->until_ns < next->until_ns))
            next = k;
    }
    return next;
}

/* Begin handshakes with those who have greeted, as places allow. */
static void ask_in(tg__door *d)
{
    int inside[TG__SOURCES] = {0};
    for (size_t i = 0; i < d->room; i++)
        if (d->guest[i].caller.state != TG__CALLER_NONE)
            inside[d->guest[i].source] += is_unproved(d, &d->guest[i]);
    for (int i = 0; i < HANDSHAKES; i++) {
        const int64_t now = tg_now_ns(tg_clock_monotonic());
        tg__knock *k = next_knock(d, inside);
        tg__guest *g = k ? place_guest(d, k->source, now) : NULL;
        if (k && !g)
            d->full_ns = now + FULL_NS; /* it waits */
        if (!g)
            return;
        const int fd = k->fd;
        end_knock(d, k, false);
        inside[k->source]++; /* it has had its turn, even if it fails at once */
        *g = (tg__guest){.source = k->source, .since_ns = now};
        memcpy(g->host, k->host, sizeof g->host);
        if (tg__caller_accept(&g->caller, fd, d->tls, d->body_max, d->accepts, d->accepts_arg) !=
            TG_OK) { /* others may need less, or come later */
            say_failed(d, g->host, NULL, "this rank is out of memory");
            end_guest(g);
        } else if (!tg__caller_step(&g->caller)) { /* before another one may take the place */
            say_failed(d, g->host, &g->caller, g->caller.why);
            end_guest(g);
        }
    }
}

/* No descriptor is left for those who come: put out one of those who only knock. */
static void free_descriptor(tg__door *d)
{
    const uint8_t source = busiest(d->knocking);
    for (size_t i = 0; i < d->knocks; i++)
        if (d->knock[i].fd >= 0 && d->knock[i].source == source) {
            end_knock(d, &d->knock[i], true);
            return;
        }
    (void)poll(NULL, 0, 10); /* until the process has closed something */
}

static void let_in(tg__door *d)
{
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from;
        socklen_t len = sizeof from;
        tg__fd_lock();
        const int fd = tg__fd_keep(
            accept4(d->listener, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd < 0) { /* none, or it is gone already */
            d->few_files |= errno == EMFILE;
            if (errno == EMFILE || errno == ENFILE)
                free_descriptor(d);
            return;
        }
        if (!tg__socket_prepare(fd)) {
            tg__fd_close(fd);
            continue;
        }
        tg__knock *k = place_knock(d);
        *k = (tg__knock){.fd = fd,
                         .until_ns = tg_now_ns(tg_clock_monotonic()) + TG__GREETING_NS,
                         .source = source_of(d, &from)};
        write_host(&from, k->host);
        d->knocking[k->source]++;
    }
}

void tg__door_step(tg__door *d)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    for (size_t i = 0; i < d->knocks; i++) {
        tg__knock *k = &d->knock[i];
        if (k->fd < 0)
            continue;
        if (now > k->until_ns)
            end_knock(d, k, true);
        else if (d->polled[k->at].revents && !k->greets)
            hear_knock(d, k);
    }
    if (now >= d->full_ns)
        ask_in(d);
    if (d->polled[0].revents)
        let_in(d);
    for (size_t i = 0; i < d->room; i++) {
        tg__guest *g = &d->guest[i];
        if (g->caller.state == TG__CALLER_NONE)
            continue;
        const bool ok = tg__caller_step(&g->caller);
        if (!ok && !g->caller.ends && !g->caller.arrived)
            say_failed(d, g->host, &g->caller, g->caller.why);
        if (!ok || now > g->caller.until_ns || (g->caller.ends && tg__caller_has_said(&g->caller)))
            end_guest(g);
    }
}

const char *tg__files_text(char text[TG__FILES_TEXT])
{
    struct rlimit limit = {.rlim_cur = 0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(text, TG__FILES_TEXT, "this process may open only %llu files",
             (unsigned long long)limit.rlim_cur);
    return text;
}

void tg__door_close(tg__door *d)
{
    for (size_t i = 0; d->knock && i < d->knocks; i++)
        if (d->knock[i].fd >= 0)
            tg__fd_close(d->knock[i].fd);
    for (size_t i = 0; d->guest && i < d->room; i++)
        tg__caller_end(&d->guest[i].caller);
    free(d->knock);
    free(d->guest);
    *d = (tg__door){.listener = -1};
}
