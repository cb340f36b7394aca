#include "net/caller.h"
#include "net/fields.h"
#include "net/forked.h"
#include "telegrad/clock.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "tgnet"
#define MAGIC_LEN 5

static int64_t now_ns(void)
{
    return tg_now_ns(tg_clock_monotonic());
}

static bool fail(tg__caller *c, bool lost, const char *why)
{
    c->lost = lost;
    snprintf(c->why, sizeof c->why, "%s", why);
    return false;
}

static bool fail_stream(tg__caller *c)
{
    return fail(c, c->stream->lost, c->stream->why);
}

/* ---- begin ----------------------------------------------------------------------------------- */

static tg_status begin_stream(tg__caller *c, int fd, bool dialled)
{
    c->stream = malloc(sizeof *c->stream);
    if (!c->stream) {
        tg__fd_close(fd);
        return tg_fail(TG_E_NOMEM, "out of memory: connection");
    }
    TG_TRY(tg__stream_begin(c->stream, fd, c->tls, dialled, c->accepts, c->accepts_arg));
    if (c->exact)
        tg__stream_read_exactly(c->stream);
    return TG_OK;
}

tg_status tg__caller_accept(tg__caller *c, int fd, tg__tls *tls, size_t body_max,
                            bool (*accepts)(void *arg, const tg__public_key *key),
                            void *accepts_arg)
{
    *c = (tg__caller){.state = TG__CALLER_SHAKES,
                      .tls = tls,
                      .body_max = body_max,
                      .accepts = accepts,
                      .accepts_arg = accepts_arg,
                      .until_ns = now_ns() + TG__GREETING_NS};
    const tg_status status = begin_stream(c, fd, false);
    if (status != TG_OK)
        tg__caller_end(c);
    return status;
}

tg_status tg__caller_call(tg__caller *c, const tg__address *a, int turn, tg__tls *tls,
                          size_t body_max, bool (*accepts)(void *arg, const tg__public_key *key),
                          void *accepts_arg)
{
    *c = (tg__caller){.state = TG__CALLER_LOOKS_UP,
                      .tls = tls,
                      .body_max = body_max,
                      .accepts = accepts,
                      .accepts_arg = accepts_arg,
                      .turn = turn,
                      .until_ns = INT64_MAX};
    const tg_status status = tg__lookup_begin(a, false, &c->lookup);
    if (status != TG_OK)
        tg__caller_end(c);
    return status;
}

tg_status tg__caller_bridge(tg__caller *c, bool dialled,
                            bool (*accepts)(void *arg, const tg__public_key *key),
                            void *accepts_arg)
{
    tg_status status = TG_OK;
    tg__caller_next(c);
    c->accepts = accepts;
    c->accepts_arg = accepts_arg;
    c->exact = false;
    c->until_ns = now_ns() + TG__GREETING_NS;
    if (c->tls) {
        const int fd = tg__stream_leave(c->stream);
        free(c->stream);
        c->stream = NULL;
        c->state = TG__CALLER_SHAKES;
        status = begin_stream(c, fd, dialled);
        if (status != TG_OK)
            tg__caller_end(c);
    }
    return status;
}

/* ---- messages -------------------------------------------------------------------------------- */

tg_status tg__caller_say(tg__caller *c, enum tg__said kind, const void *body, size_t len)
{
    const size_t left = c->say_len - c->say_at, whole = left + TG__CALLER_HEAD + len;
    uint8_t *say = malloc(whole);
    if (!say)
        return tg_fail(TG_E_NOMEM, "out of memory: message of %zu bytes", len);
    if (left > 0)
        memcpy(say, c->say + c->say_at, left);
    tg__pack p = {.at = say + left, .end = say + whole};
    tg__pack_bytes(&p, MAGIC, MAGIC_LEN);
    tg__pack_number(&p, 1, TG__NET_VERSION);
    tg__pack_number(&p, 2, (uint64_t)kind);
    tg__pack_number(&p, 4, len);
    tg__pack_bytes(&p, body, len);
    free(c->say);
    c->say = say;
    c->say_len = whole;
    c->say_at = 0;
    return TG_OK;
}

enum tg__said tg__caller_kind(const tg__caller *c)
{
    return (enum tg__said)(c->head[6] | c->head[7] << 8);
}

void tg__caller_next(tg__caller *c)
{
    free(c->body);
    c->body = NULL;
    c->heard = c->body_len = 0;
    c->arrived = false;
}

static bool speak(tg__caller *c)
{
    while (c->say && c->say_at < c->say_len) {
        const ptrdiff_t n = tg__stream_write(c->stream, c->say + c->say_at, c->say_len - c->say_at);
        if (n <= 0)
            return n == 0;
        c->say_at += (size_t)n;
    }
    return tg__stream_flush(c->stream) >= 0;
}

/* The head is complete. */
static bool take_head(tg__caller *c)
{
    tg__unpack u = {.at = c->head + MAGIC_LEN, .end = c->head + sizeof c->head};
    char text[TG__STREAM_WHY];
    if (memcmp(c->head, MAGIC, MAGIC_LEN) != 0)
        return fail(c, false, "it does not speak telegrad's protocol");
    const int version = (int)tg__unpack_number(&u, 1);
    (void)tg__unpack_number(&u, 2);
    const size_t len = (size_t)tg__unpack_number(&u, 4);
    if (version != TG__NET_VERSION) {
        if (!c->say && tg__caller_say(c, TG__SAID_REFUSED, "", 0) == TG_OK)
            (void)speak(c); /* its head tells the peer this rank's version */
        snprintf(text, sizeof text, "it speaks version %d of the protocol, and this rank %d",
                 version, TG__NET_VERSION);
        return fail(c, false, text);
    }
    if (len > c->body_max)
        return fail(c, false, "its message is longer than allowed");
    c->body = malloc(len + 1);
    c->body_len = len;
    return c->body ? true : fail(c, false, "out of memory");
}

static bool listen_to(tg__caller *c)
{
    while (!c->arrived) {
        const bool in_head = c->heard < TG__CALLER_HEAD;
        const size_t at = in_head ? c->heard : c->heard - TG__CALLER_HEAD;
        const size_t want = (in_head ? TG__CALLER_HEAD : c->body_len) - at;
        if (want > 0) {
            const ptrdiff_t n =
                tg__stream_read(c->stream, (in_head ? c->head : c->body) + at, want);
            if (n <= 0)
                return n == 0 || fail_stream(c);
            c->heard += (size_t)n;
        }
        if (in_head && c->heard == TG__CALLER_HEAD && !take_head(c))
            return false;
        c->arrived = c->body && c->heard == TG__CALLER_HEAD + c->body_len;
    }
    return true;
}

/* Sending has failed. If the peer said why before it closed, this is the reason. */
static bool hear_why(tg__caller *c)
{
    char why[TG__STREAM_WHY];
    memcpy(why, c->stream->why, sizeof why);
    c->stream->failed = c->stream->lost = false;
    if (!c->arrived && listen_to(c) && !c->arrived)
        return fail(c, true, why); /* nothing more was said */
    if (!c->arrived && c->lost)
        return fail(c, true, why);
    return c->arrived;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool dial(tg__caller *c)
{
    const struct addrinfo *found;
    int fd = -1;
    const tg_status status = tg__lookup_found(c->lookup, &found);
    if (status != TG_OK) {
        c->unknown = status == TG_E_IO;
        return fail(c, true, tg_error());
    }
    c->addresses = tg__address_count(found);
    const int error = tg__address_dial(found, c->turn, &fd);
    tg__lookup_end(c->lookup);
    c->lookup = NULL;
    if (error != 0)
        return fail(c, true, strerror(error));
    if (begin_stream(c, fd, true) != TG_OK)
        return fail(c, false, tg_error());
    c->state = TG__CALLER_DIALS;
    c->until_ns = now_ns() + TG__DIAL_NS;
    return true;
}

static bool step(tg__caller *c)
{
    if (c->state == TG__CALLER_LOOKS_UP && !tg__lookup_is_done(c->lookup))
        return true;
    if (c->state == TG__CALLER_LOOKS_UP && !dial(c))
        return false;
    if (c->state == TG__CALLER_DIALS) {
        struct pollfd p = {.fd = c->stream->fd, .events = POLLOUT};
        if (poll(&p, 1, 0) <= 0)
            return true;
        const int error = tg__dial_result(c->stream->fd);
        if (error != 0)
            return fail(c, true, strerror(error));
        c->state = TG__CALLER_SHAKES;
        c->until_ns = now_ns() + TG__GREETING_NS;
    }
    if (c->state == TG__CALLER_SHAKES) {
        const int shaken = tg__stream_shake(c->stream);
        if (shaken <= 0)
            return shaken == 0 || fail_stream(c);
        c->state = TG__CALLER_TALKS;
    }
    if (!speak(c))
        return hear_why(c);
    return c->body_max == 0 || listen_to(c);
}

bool tg__caller_step(tg__caller *c)
{
    if (!step(c))
        return false;
    if (now_ns() <= c->until_ns || c->arrived)
        return true;
    return fail(c, true, c->state == TG__CALLER_DIALS ? "no answer" : "no answer in time");
}

bool tg__caller_has_said(const tg__caller *c)
{
    return c->say && c->say_at == c->say_len && !tg__stream_is_full(c->stream);
}

struct pollfd tg__caller_watch(const tg__caller *c)
{
    if (c->state == TG__CALLER_LOOKS_UP)
        return (struct pollfd){.fd = tg__lookup_fd(c->lookup), .events = POLLIN};
    if (c->state == TG__CALLER_DIALS)
        return (struct pollfd){.fd = c->stream->fd, .events = POLLOUT};
    const bool speaks = c->state == TG__CALLER_TALKS && c->say_at < c->say_len;
    const short out = speaks || tg__stream_is_full(c->stream) ? POLLOUT : 0;
    const short in = c->state == TG__CALLER_SHAKES || c->body_max > 0 ? POLLIN : POLLRDHUP;
    return (struct pollfd){.fd = c->stream->fd, .events = (short)(in | out)};
}

tg__stream *tg__caller_take(tg__caller *c)
{
    tg__stream *s = c->stream;
    c->stream = NULL;
    tg__caller_end(c);
    return s;
}

void tg__caller_end(tg__caller *c)
{
    if (c->stream) {
        tg__stream_close(c->stream);
        free(c->stream);
    }
    tg__lookup_end(c->lookup);
    free(c->say);
    free(c->body);
    *c = (tg__caller){.state = TG__CALLER_NONE};
}
