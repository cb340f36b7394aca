/* A worker's side of servers: it calls one after the other. The messages are described in
 * seats.h. */
#include "net/attach.h"
#include "base/arg.h"
#include "base/mem.h"
#include "base/sized.h"
#include "net/fields.h"
#include "net/seats.h"
#include "telegrad/clock.h"
#include <openssl/rand.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* When a worker that can call again takes a server that it waits for to be gone. */
enum { WATCH_IDLE_S = 10, WATCH_LOST_S = 30 };
/* Between two calls, without what chance adds. */
#define PAUSE_NS INT64_C(50000000) /* at first */
#define PAUSE_MAX_NS INT64_C(1000000000)

/* The server that is called, and how that goes. */
typedef struct call {
    tg_net *n;
    const char *job;
    int count, server;
    char address[TG__ADDRESS_MAX];
    const char *last;    /* why the last call failed; "": there was none */
    int64_t patience_ns; /* once the name is looked up; 0: that of tg__net_patience */
    bool again;          /* the next may not */
    bool refused;        /* by the server, not by the network */
    bool taken;          /* ... because another worker uses the seat */
} call;

static tg_status malformed(const call *k)
{
    return tg_fail(TG_E_CORRUPT, "server %d at %s: its message is malformed", k->server,
                   k->address);
}

static tg_status say_enter(const call *k, tg__caller *c)
{
    uint8_t body[TG__ENTER_MAX];
    tg__pack p = {.at = body, .end = body + sizeof body};
    tg__pack_number(&p, 4, k->n->seats == 0 ? 0 : (uint64_t)k->n->seat + 1);
    tg__pack_number(&p, 4, (uint64_t)k->server);
    tg__pack_number(&p, 4, (uint64_t)k->count);
    tg__pack_number(&p, 8, k->n->token);
    tg__pack_text(&p, k->job);
    return tg__caller_say(c, TG__SAID_ENTER, body, (size_t)(p.at - body));
}

static tg_status read_answer(call *k, const tg__caller *c)
{
    tg_net *n = k->n;
    tg__unpack u = {.at = c->body, .end = c->body + c->body_len};
    char text[TG__TEXT_MAX];
    tg_status refused;
    if (tg__net_read_refused(c, &refused, text)) {
        k->again = refused != TG_E_MISMATCH; /* a seat may become vacant */
        k->refused = true;
        k->taken = refused == TG_E_STATE;
        return tg_fail(k->taken ? TG_E_PEER : refused, "server %d at %s refuses: %s", k->server,
                       k->address, text);
    }
    const uint64_t seat = tg__unpack_number(&u, 4), seats = tg__unpack_number(&u, 4);
    tg__unpack_text(&u, text, sizeof text);
    if (tg__caller_kind(c) != TG__SAID_SEAT || !tg__unpack_whole(&u) || seats >= TG_RANKS_MAX ||
        seat >= seats || (n->seats > 0 && seat != (uint64_t)n->seat))
        return malformed(k);
    if (n->seats > 0 && k->server > 0 && seats != (uint64_t)n->seats)
        return tg_fail(TG_E_MISMATCH,
                       "server %d at %s is for %lu worker%s, and server 0 for %d: start all "
                       "with the same number",
                       k->server, k->address, (unsigned long)seats, seats == 1 ? "" : "s",
                       n->seats);
    char **about_p = &n->member[k->server + 1].about;
    tg__make_printable(text);
    if (*about_p && strcmp(*about_p, text) != 0)
        return tg_fail(TG_E_MISMATCH, "server %d at %s now says \"%s\", and said \"%s\" before",
                       k->server, k->address, text, *about_p);
    if (!*about_p)
        *about_p = strdup(text);
    if (!*about_p)
        return tg_fail(TG_E_NOMEM, "out of memory: server");
    if (n->seats == 0) {
        n->seat = (int)seat;
        n->seats = (int)seats;
    }
    return TG_OK;
}

/* Why a call failed. */
static tg_status fail_call(call *k, const tg__caller *c)
{
    const bool early = c->lost && c->state == TG__CALLER_SHAKES;
    const char *hint = early ? " (was it started without keys, and this worker with keys?)"
                       : c->lost && c->state == TG__CALLER_TALKS && !k->n->tls
                           ? " (was it started with keys, and this worker without?)"
                           : "";
    char key[200];
    k->again = c->lost && !c->unknown;
    if (k->n->tls && tg__net_describe_key(c, &k->n->member[k->server + 1].key, "", key, sizeof key))
        return tg_fail(TG_E_PEER, "server %d at %s: %s", k->server, k->address, key);
    return tg_fail(c->unknown ? TG_E_IO : TG_E_PEER, "server %d at %s: %s%s", k->server, k->address,
                   c->why, hint);
}

static tg_status wait_once(const call *k, const tg__caller *c)
{
    char what[700];
    const bool before = *k->last && strncmp(k->last, TG__TIMED_OUT, strlen(TG__TIMED_OUT)) != 0;
    snprintf(what, sizeof what, "server %d at %s to %s%s%s", k->server, k->address,
             c->state == TG__CALLER_TALKS ? "assign a seat" : "answer", before ? "; before: " : "",
             before ? k->last : "");
    return tg__net_patience(k->n, what);
}

/* The server's name is looked up: this call ends soon. */
static void limit_call(const call *k)
{
    const int64_t until = tg_now_ns(tg_clock_monotonic()) + k->patience_ns;
    if (k->patience_ns > 0 && until < k->n->deadline_ns)
        k->n->deadline_ns = until;
}

/* One call, until it is answered or has failed. */
static tg_status call_once(call *k, int turn)
{
    tg_net *n = k->n;
    tg__caller c;
    k->again = false;
    TG_TRY(tg__caller_call(&c, &n->member[k->server + 1].address, turn, n->tls, TG__SEAT_MAX,
                           tg__net_is_key, &n->member[k->server + 1].key));
    tg_status status = say_enter(k, &c);
    while (status == TG_OK && !c.arrived) {
        struct pollfd p = tg__caller_watch(&c);
        const bool looks_up = c.state == TG__CALLER_LOOKS_UP;
        (void)poll(&p, 1, TG__LOOK_MS);
        const bool goes_on = tg__caller_step(&c);
        if (looks_up && c.state != TG__CALLER_LOOKS_UP)
            limit_call(k);
        status = goes_on ? wait_once(k, &c) : fail_call(k, &c);
    }
    if (status == TG_OK)
        status = read_answer(k, &c);
    if (status == TG_OK) {
        tg__caller_next(&c);
        n->stream[k->server + 1] = tg__caller_take(&c);
        if (n->renewal) /* else it waits as long as TCP does, or its session */
            tg__socket_watch(n->stream[k->server + 1]->fd, WATCH_IDLE_S, WATCH_LOST_S);
    } else
        tg__caller_end(&c);
    return status;
}

tg_status tg__net_call_server(tg_net *n, const char *job, int count, int server, const char *last,
                              int turn, int64_t patience_ns, tg__called *how_p)
{
    call k = {.n = n,
              .job = job,
              .count = count,
              .server = server,
              .last = last,
              .patience_ns = patience_ns};
    tg__address_text(&n->member[server + 1].address, k.address);
    const tg_status status = call_once(&k, turn);
    *how_p = status != TG_E_PEER || !k.again ? TG__CALL_FAILED
             : k.taken                       ? TG__CALL_TAKEN
             : k.refused                     ? TG__CALL_REFUSED
                                             : TG__CALL_AGAIN;
    return status;
}

int64_t tg__call_pause_ns(int calls)
{
    unsigned char chance = 0;
    const int64_t pause = calls < PAUSE_MAX_NS / PAUSE_NS ? PAUSE_NS * calls : PAUSE_MAX_NS;
    if (RAND_bytes(&chance, 1) != 1)
        chance = 0;
    return pause + pause / 2 * chance / 256;
}

static tg_status pause_calls(tg_net *n, int calls, const char *last)
{
    const int64_t until = tg_now_ns(tg_clock_monotonic()) + tg__call_pause_ns(calls);
    while (tg_now_ns(tg_clock_monotonic()) < until) {
        TG_TRY(tg__net_patience(n, last));
        (void)poll(NULL, 0, 20);
    }
    return TG_OK;
}

/* Ask the servers before `server` for the next seat: this one refuses that which they gave. After
 * all seats, server 0 may choose again. */
static void try_next_seat(tg_net *n, int server, int first_seat)
{
    for (int q = 0; q < server; q++) {
        tg__stream_close(n->stream[q + 1]);
        free(n->stream[q + 1]);
        n->stream[q + 1] = NULL;
    }
    n->seat = (n->seat + 1) % n->seats;
    if (n->seat == first_seat)
        n->seats = 0;
}

static tg_status call_all(tg_net *n, const tg_net_attach_config *config)
{
    const char *job = config->job ? config->job : "";
    char last[300] = "";
    int first_seat = -1; /* that which server 0 gave */
    int calls = 1;       /* in vain; a round of all seats counts as one */
    for (int q = 0, turn = 0; q < config->count;) {
        tg__called how;
        const bool any = n->seats == 0;
        const tg_status status =
            tg__net_call_server(n, job, config->count, q, last, turn++, 0, &how);
        if (status == TG_OK) {
            first_seat = any ? n->seat : first_seat;
            turn = 0;
            *last = '\0';
            q++;
            continue;
        }
        if (how == TG__CALL_FAILED)
            return status;
        snprintf(last, sizeof last, "%s", tg_error());
        const bool next = how != TG__CALL_AGAIN && n->seats > 0;
        if (next) {
            try_next_seat(n, q, first_seat);
            q = 0;
        }
        TG_TRY(pause_calls(n, calls, last));
        calls += !next || n->seats == 0;
    }
    return TG_OK;
}

static tg_status check(const tg_net_attach_config *c)
{
    if (c->count < 1 || c->count > TG_SERVERS_MAX)
        return tg_fail(TG_E_ARG, "tg_net_attach: config.count=%d: allowed: 1 to %d", c->count,
                       TG_SERVERS_MAX);
    if (!c->servers)
        return tg_fail(TG_E_ARG, "tg_net_attach: config.servers is NULL");
    if (!(c->timeout_s >= 0) || c->timeout_s > 1e6)
        return tg_fail(TG_E_ARG, "tg_net_attach: config.timeout_s=%g: allowed: 0 to 1000000",
                       c->timeout_s);
    if (!(c->again_s >= 0) || c->again_s > 1e6)
        return tg_fail(TG_E_ARG, "tg_net_attach: config.again_s=%g: allowed: 0 to 1000000",
                       c->again_s);
    if (c->insecure && (c->key || c->server_keys))
        return tg_fail(TG_E_ARG, "tg_net_attach: key and server_keys must be NULL with insecure");
    if (!c->insecure && (!c->key || !c->server_keys))
        return tg_fail(TG_E_ARG,
                       "tg_net_attach: config.%s is NULL: every connection needs keys, unless "
                       "insecure is set",
                       c->key ? "server_keys" : "key");
    for (int q = 0; q < c->count; q++)
        if (!c->servers[q] || (c->server_keys && !c->server_keys[q]))
            return tg_fail(TG_E_ARG, "tg_net_attach: config.%s[%d] is NULL",
                           c->servers[q] ? "server_keys" : "servers", q);
    return tg__net_check_job("tg_net_attach", c->job);
}

/* Who the servers are, as the configuration says. */
static tg_status know_servers(tg_net *n, const tg_net_attach_config *c)
{
    TG_TRY(tg__net_members(n, c->count + 1));
    for (int q = 0; q < c->count; q++) {
        tg__member *m = &n->member[q + 1];
        TG_TRY(tg__address_parse("server", c->servers[q], false, &m->address));
        const char *key = c->insecure ? NULL : c->server_keys[q];
        if (key && !tg__key_parse(key, strlen(key), &m->key))
            return tg_fail(TG_E_SPEC,
                           "server key \"%.64s\" is not a public key: allowed: tgk1: and 43 "
                           "characters, as printed by \"telegrad key show\"",
                           key);
    }
    return c->insecure ? TG_OK : tg__tls_create(c->key, &n->tls);
}

/* Remember what calls after a connection has broken off need. */
static tg_status prepare_renewal(tg_net *n, const tg_net_attach_config *c)
{
    tg__renewal *again;
    if (c->again_s <= 0)
        return TG_OK;
    if (RAND_bytes((unsigned char *)&n->token, sizeof n->token) != 1)
        return tg_fail(TG_E_IO, "no random numbers for a worker's token");
    TG_TRY(tg_alloc(1, sizeof *again + (size_t)c->count * sizeof again->server[0], &again));
    again->config = (tg_net_config){
        .struct_size = sizeof again->config, .stop = c->stop, .stop_arg = c->stop_arg};
    snprintf(again->job, sizeof again->job, "%s", c->job ? c->job : "");
    again->count = c->count;
    again->limit_ns = (int64_t)(c->again_s * 1e9);
    n->renewal = again;
    return TG_OK;
}

const char *tg_net_about(const tg_net *net, int rank)
{
    const bool known = net && rank >= 0 && rank < net->size && net->member[rank].about;
    return known ? net->member[rank].about : "";
}

tg_status tg_net_attach(const tg_net_attach_config *config, tg_net **net_p)
{
    TG__ARG(config);
    TG__ARG(net_p);
    tg_net_attach_config c;
    tg_net *n;
    TG_TRY(tg__net_take_config("tg_net_attach", config,
                               TG__FIRST_SIZE(tg_net_attach_config, on_wait_arg), &c, sizeof c));
    TG_TRY(check(&c));
    const tg_net_config own = {.struct_size = sizeof own,
                               .stop = c.stop,
                               .stop_arg = c.stop_arg,
                               .on_wait = c.on_wait,
                               .on_wait_arg = c.on_wait_arg};
    TG_TRY(tg__net_create(&own, c.timeout_s, &n));
    n->attached = true;
    tg_status status = know_servers(n, &c);
    if (status == TG_OK)
        status = prepare_renewal(n, &c);
    if (status == TG_OK)
        status = call_all(n, &c);
    return tg__net_created(n, status, net_p);
}
