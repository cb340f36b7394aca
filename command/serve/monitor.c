#include "command/serve/monitor.h"
#include "telegrad/clock.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CALLS = 8, BACKLOG = 64, REQUEST = 2048 };
#define PATIENCE_NS INT64_C(2000000000) /* for a request, and for its answer to be taken */

struct call {
    int fd; /* -1: none */
    int64_t until_ns;
    char request[REQUEST + 1];
    size_t len;
    char *answer; /* NULL: the request is incomplete */
    size_t answer_len, sent;
};

struct monitor {
    int listener;
    struct call call[CALLS];
};

/* ---- opening --------------------------------------------------------------------------------- */

static tg_status bad_address(const char *address)
{
    return tg_fail(TG_E_SPEC,
                   "--status \"%.64s\": allowed: :PORT, for this machine alone, or HOST:PORT, with "
                   "PORT 1 to 65535",
                   address);
}

static tg_status look_up(const char *address, struct addrinfo **found_p)
{
    const char *colon = strrchr(address, ':');
    char host[256];
    char *end = NULL;
    const unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (!colon || colon[1] < '0' || colon[1] > '9' || *end || port < 1 || port > 65535 ||
        (size_t)(colon - address) >= sizeof host)
        return bad_address(address);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    char *name = host;
    const size_t len = strlen(host);
    if (len > 1 && host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        name++;
    }
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const int error = getaddrinfo(*name ? name : "127.0.0.1", colon + 1, &hints, found_p);
    return error == 0 ? TG_OK
                      : tg_fail(TG_E_IO, "--status %.64s: %s", address, gai_strerror(error));
}

tg_status monitor_open(const char *address, struct monitor **s_p)
{
    struct addrinfo *found;
    const int on = 1;
    TG_TRY(look_up(address, &found));
    const int fd =
        socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    const bool listens = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                         bind(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                         listen(fd, BACKLOG) == 0;
    const int error = errno;
    freeaddrinfo(found);
    struct monitor *s = listens ? calloc(1, sizeof *s) : NULL;
    if (!s && fd >= 0)
        close(fd);
    if (!listens)
        return tg_fail(TG_E_IO, "--status %.64s: %s", address, strerror(error));
    if (!s)
        return tg_fail(TG_E_NOMEM, "out of memory: --status");
    s->listener = fd;
    for (int i = 0; i < CALLS; i++)
        s->call[i].fd = -1;
    *s_p = s;
    return TG_OK;
}

static void end_call(struct call *c)
{
    if (c->fd >= 0)
        close(c->fd);
    free(c->answer);
    *c = (struct call){.fd = -1};
}

void monitor_close(struct monitor *s)
{
    if (!s)
        return;
    for (int i = 0; i < CALLS; i++)
        end_call(&s->call[i]);
    close(s->listener);
    free(s);
}

/* ---- answering ------------------------------------------------------------------------------- */

static void write_answer(FILE *f, const char *status, const char *type, const char *body,
                         size_t len, bool head)
{
    fprintf(f,
            "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
            status, type, len);
    if (!head)
        fwrite(body, 1, len, f);
}

/* Whether the request's path is this one. */
static bool is_path(const char *at, const char *path)
{
    const size_t len = strlen(path);
    return strncmp(at, path, len) == 0 && (at[len] == ' ' || at[len] == '?');
}

struct pages { /* as for monitor_step */
    const char *starts;
    void (*write)(void *arg, FILE *f);
    void *arg;
};

/* The body for a path. NULL: there is no such page, or no memory. */
static char *body_of(const char *path, const struct pages *p, size_t *len_p)
{
    char *body = NULL;
    const bool metrics = is_path(path, "/metrics"), health = is_path(path, "/healthz");
    FILE *f = metrics || health ? open_memstream(&body, len_p) : NULL;
    if (!f)
        return NULL;
    if (p->starts)
        fprintf(f, "%s\n", p->starts);
    else if (metrics)
        p->write(p->arg, f);
    else
        fputs("ok\n", f);
    if (fclose(f) == 0)
        return body;
    free(body);
    return NULL;
}

static void answer(struct call *c, const struct pages *p)
{
    static const char text[] = "text/plain; charset=utf-8";
    static const char none[] = "telegrad serve has /metrics and /healthz\n";
    const bool head = strncmp(c->request, "HEAD ", 5) == 0;
    FILE *f = open_memstream(&c->answer, &c->answer_len);
    if (!f)
        return;
    size_t len = 0;
    char *body = NULL;
    if (!head && strncmp(c->request, "GET ", 4) != 0)
        write_answer(f, "405 Method Not Allowed", text, none, sizeof none - 1, false);
    else if ((body = body_of(c->request + (head ? 5 : 4), p, &len)))
        write_answer(f, p->starts ? "503 Service Unavailable" : "200 OK",
                     "text/plain; version=0.0.4; charset=utf-8", body, len, head);
    else
        write_answer(f, "404 Not Found", text, none, sizeof none - 1, head);
    free(body);
    if (fclose(f) != 0) {
        free(c->answer);
        c->answer = NULL;
    }
}

/* Returns false if the call is over. */
static bool step(struct call *c, const struct pages *p)
{
    while (!c->answer) {
        const ssize_t n = recv(c->fd, c->request + c->len, REQUEST - c->len, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0)
            return false;
        c->len += (size_t)n;
        c->request[c->len] = '\0';
        if (!strstr(c->request, "\r\n\r\n") && !strstr(c->request, "\n\n")) {
            if (c->len == REQUEST)
                return false;
            continue;
        }
        answer(c, p);
        if (!c->answer)
            return false;
    }
    while (c->sent < c->answer_len) {
        const ssize_t n = send(c->fd, c->answer + c->sent, c->answer_len - c->sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0)
            return false;
        c->sent += (size_t)n;
    }
    (void)shutdown(c->fd, SHUT_WR);
    return false;
}

/* A place for a new call: a free one, or that of the oldest call that has asked nothing yet. NULL:
 * all are being answered. */
static struct call *place(struct monitor *s)
{
    struct call *oldest = NULL;
    for (int i = 0; i < CALLS; i++) {
        struct call *c = &s->call[i];
        if (c->fd < 0)
            return c;
        if (!c->answer && (!oldest || c->until_ns < oldest->until_ns))
            oldest = c;
    }
    return oldest;
}

void monitor_step(struct monitor *s, const char *starts, void (*write)(void *arg, FILE *f),
                  void *arg)
{
    const struct pages p = {starts, write, arg};
    for (int i = 0; i < CALLS; i++) {
        struct call *c = &s->call[i];
        if (c->fd >= 0 && (!step(c, &p) || tg_now_ns(tg_clock_monotonic()) > c->until_ns))
            end_call(c);
    }
    for (int i = 0; i < BACKLOG; i++) { /* silent calls do not hold up others */
        struct call *c = place(s);
        const int fd = c ? accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;
        if (fd < 0)
            return;
        end_call(c);
        c->fd = fd;
        c->until_ns = tg_now_ns(tg_clock_monotonic()) + PATIENCE_NS;
        if (!step(c, &p))
            end_call(c);
    }
}
