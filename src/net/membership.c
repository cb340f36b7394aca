#include "net/membership.h"
#include "base/arg.h"
#include "base/sized.h"
#include "net/directory.h"
#include "net/fields.h"
#include "net/forked.h"
#include "net/seats.h"
#include "net/tcp_impl.h"
#include "telegrad/clock.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LAST_WORDS_MS 200

/* ---- giving up ------------------------------------------------------------------------------- */

size_t tg__net_write_leaves(tg_status status, uint8_t body[TG__LEAVES_MAX])
{
    tg__pack p = {.at = body, .end = body + TG__LEAVES_MAX};
    char text[TG__TEXT_MAX];
    snprintf(text, sizeof text, "%s", status == TG_E_STOPPED ? "it was interrupted" : tg_error());
    tg__make_printable(text);
    tg__pack_number(&p, 4, (uint64_t)status);
    tg__pack_text(&p, text);
    return (size_t)(p.at - body);
}

void tg__net_say_leaves(tg__caller *c, tg_status status)
{
    uint8_t body[TG__LEAVES_MAX];
    const size_t len = tg__net_write_leaves(status, body);
    c->body_max = 0;
    if (tg__caller_say(c, TG__SAID_LEAVES, body, len) != TG_OK || !tg__caller_step(c))
        return;
    /* Closing with something unread would destroy what is on its way. */
    for (int ms = 0; ms < LAST_WORDS_MS && !tg__stream_is_over(c->stream); ms++)
        (void)poll(NULL, 0, 1);
}

bool tg__net_read_leaves(const tg__caller *c, tg_status *status_p, char *text)
{
    tg__unpack u = {.at = c->body, .end = c->body + c->body_len};
    *status_p = tg__unpack_number(&u, 4) == TG_E_STOPPED ? TG_E_STOPPED : TG_E_PEER;
    tg__unpack_text(&u, text, TG__TEXT_MAX);
    return tg__caller_kind(c) == TG__SAID_LEAVES && tg__unpack_whole(&u);
}

bool tg__net_say_refused(tg__caller *c, tg_status status, const char *text)
{
    uint8_t body[4 + 2 + TG__TEXT_MAX];
    tg__pack p = {.at = body, .end = body + sizeof body};
    tg__pack_number(&p, 4, (uint64_t)status);
    tg__pack_text(&p, text);
    return tg__caller_say(c, TG__SAID_REFUSED, body, (size_t)(p.at - body)) == TG_OK;
}

bool tg__net_read_refused(const tg__caller *c, tg_status *status_p, char text[TG__TEXT_MAX])
{
    tg__unpack u = {.at = c->body, .end = c->body + c->body_len};
    const uint64_t status = tg__unpack_number(&u, 4);
    *status_p = status == TG_E_MISMATCH || status == TG_E_STATE ? (tg_status)status : TG_E_PEER;
    tg__unpack_text(&u, text, TG__TEXT_MAX);
    return tg__caller_kind(c) == TG__SAID_REFUSED && tg__unpack_whole(&u);
}

/* ---- who is who ------------------------------------------------------------------------------ */

const char *tg__net_name(const tg_net *n, int rank, char name[TG__NAME_MAX])
{
    const char *what = n->attached ? (rank == n->rank ? "worker" : "server")
                       : n->hosts  ? (rank == n->rank ? "server" : "worker")
                                   : "rank";
    snprintf(name, TG__NAME_MAX, "%s %d", what, n->attached ? rank - 1 : rank);
    return name;
}

bool tg__net_is_key(void *arg, const tg__public_key *key)
{
    return tg__key_equal(key, arg);
}

bool tg__net_describe_key(const tg__caller *c, const tg__public_key *expected, const char *source,
                          char *text, size_t room)
{
    static const tg__public_key none;
    char found[TG_KEY_TEXT], right[TG_KEY_TEXT];
    if (!c->stream || c->state != TG__CALLER_SHAKES || tg__key_equal(&c->stream->peer, &none) ||
        tg__key_equal(&c->stream->peer, expected))
        return false;
    tg__key_mark(&c->stream->peer, found);
    tg__key_mark(expected, right);
    snprintf(text, room, "its key is %s, but the expected one%s is %s", found, source, right);
    return true;
}

bool tg__net_is_member(void *arg, const tg__public_key *key)
{
    const tg_net *n = arg;
    for (int r = 1; r < n->size; r++)
        if (r != n->rank && tg__key_equal(key, &n->member[r].key))
            return true;
    return false;
}

void tg__net_write_pair(const tg_net *n, int to, uint8_t body[TG__PAIR_BYTES])
{
    tg__pack p = {.at = body, .end = body + TG__PAIR_BYTES};
    tg__pack_bytes(&p, n->nonce, sizeof n->nonce);
    tg__pack_number(&p, 4, (uint64_t)n->rank);
    tg__pack_number(&p, 4, (uint64_t)to);
}

bool tg__net_read_pair(const tg_net *n, const tg__caller *c, int *from_p, int *to_p)
{
    uint8_t nonce[TG__NONCE_BYTES];
    tg__unpack u = {.at = c->body, .end = c->body + c->body_len};
    tg__unpack_bytes(&u, nonce, sizeof nonce);
    const uint64_t from = tg__unpack_number(&u, 4), to = tg__unpack_number(&u, 4),
                   size = (uint64_t)n->size;
    if (!tg__unpack_whole(&u) || memcmp(nonce, n->nonce, sizeof nonce) != 0 || from == to ||
        from == 0 || to == 0 || from >= size || to >= size ||
        !tg__key_equal(&c->stream->peer, &n->member[from].key))
        return false;
    *from_p = (int)from;
    *to_p = (int)to;
    return true;
}

/* ---- joining --------------------------------------------------------------------------------- */

tg_status tg__net_members(tg_net *n, int size)
{
    n->size = size;
    TG_TRY(tg_alloc((size_t)size, sizeof *n->member, &n->member));
    TG_TRY(tg_alloc((size_t)size, sizeof *n->relayed, &n->relayed));
    return tg_alloc((size_t)size, sizeof(tg__stream *), &n->stream);
}

uint64_t tg__this_machine(void)
{
    char text[320] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    const size_t len = f ? fread(text, 1, 64, f) : 0;
    if (f)
        fclose(f);
    text[len] = '\0';
    (void)gethostname(text + len, sizeof text - len - 1);
    return tg_hash(TG_HASH_START, text, strlen(text));
}

/* As telegrad/base.h says of structures that grow. The core's own functions for it are not public,
 * and this library uses public functions only. */
tg_status tg__net_take_config(const char *call, const void *from, size_t smallest, void *own,
                              size_t size)
{
    size_t given;
    memcpy(&given, from, sizeof given); /* struct_size comes first */
    if (given < smallest || given > TG__STRUCT_MAX)
        return tg_fail(TG_E_ARG, "%s: config->struct_size=%zu: allowed: %zu to %d", call, given,
                       smallest, TG__STRUCT_MAX);
    for (size_t i = size; i < given; i++)
        if (((const uint8_t *)from)[i] != 0)
            return tg_fail(TG_E_ARG,
                           "%s: config: byte %zu of %zu is %u: telegrad %s knows the first %zu "
                           "bytes; the others must be 0",
                           call, i, given, ((const uint8_t *)from)[i], tg_version(), size);
    memset(own, 0, size);
    memcpy(own, from, given < size ? given : size);
    return TG_OK;
}

tg_status tg__net_check_job(const char *call, const char *job)
{
    if (job && strlen(job) >= TG__JOB_MAX)
        return tg_fail(TG_E_ARG, "%s: job has %zu bytes: allowed: at most %d", call, strlen(job),
                       TG__JOB_MAX - 1);
    if (job && !tg__is_printable(job, strlen(job)))
        return tg_fail(TG_E_ARG, "%s: job has control characters: allowed: printable text", call);
    return TG_OK;
}

tg_status tg__net_create(const tg_net_config *config, double timeout_s, tg_net **n_p)
{
    tg_net *n = calloc(1, sizeof *n);
    if (!n)
        return tg_fail(TG_E_NOMEM, "out of memory: membership");
    n->listener = -1;
    n->forks = tg__forks();
    atomic_init(&n->expelled, 0);
    atomic_init(&n->wake, -1);
    n->config = config;
    n->told_ns = tg_now_ns(tg_clock_monotonic());
    n->timeout_ns = (int64_t)((timeout_s > 0 ? timeout_s : 60) * 1e9);
    n->deadline_ns = n->told_ns + n->timeout_ns;
    *n_p = n;
    return TG_OK;
}

tg_status tg__net_created(tg_net *n, tg_status status, tg_net **net_p)
{
    n->config = NULL;
    if (status == TG_OK)
        *net_p = n;
    else
        tg__net_leave(n, 0);
    return status;
}

static tg_status check(const tg_net_config *c)
{
    const bool meets = !c->join;
    if (c->size < (meets ? 1 : 0) || c->size > TG_RANKS_MAX)
        return tg_fail(TG_E_ARG, "tg_net_join: size=%d: allowed: %d to %d", c->size, meets ? 1 : 0,
                       TG_RANKS_MAX);
    if (c->rank < 0 || (meets && c->rank != 0) || (c->size > 0 && c->rank >= c->size) ||
        c->rank >= TG_RANKS_MAX)
        return tg_fail(TG_E_ARG, "tg_net_join: rank=%d: allowed: 0%s", c->rank,
                       meets ? " for the meeting point" : ", or a rank from 1 to size - 1");
    if (meets && !c->listen)
        return tg_fail(TG_E_ARG, "tg_net_join: listen and join are NULL: give listen at the "
                                 "meeting point, join on other ranks");
    TG_TRY(tg__net_check_job("tg_net_join", c->job));
    if (!(c->timeout_s >= 0) || c->timeout_s > 1e6)
        return tg_fail(TG_E_ARG, "tg_net_join: timeout_s=%g: allowed: 0 to 1000000", c->timeout_s);
    if (c->insecure && (c->key || c->allow || c->peer_key))
        return tg_fail(TG_E_ARG, "tg_net_join: key, allow and peer_key must be NULL with insecure");
    const bool told = c->addresses || c->set; /* whose keys are right */
    if (!c->insecure && (!c->key || (!told && (meets ? c->size > 1 && !c->allow : !c->peer_key))))
        return tg_fail(TG_E_ARG,
                       "tg_net_join: %s is NULL: every connection needs keys, unless "
                       "insecure is set",
                       !c->key ? "key"
                       : meets ? "allow"
                               : "peer_key");
    return TG_OK;
}

tg_status tg__net_listen(tg_net *n)
{
    const tg_net_config *c = n->config;
    tg__address at = {.port = 0};
    if (c->listen)
        TG_TRY(tg__address_parse("listen", c->listen, true, &at));
    if (!c->join && at.port == 0 && !c->set)
        return tg_fail(TG_E_SPEC, "listen \"%s\": the meeting point's port must be 1 to 65535",
                       c->listen);
    if (!c->join && c->size == 1)
        return TG_OK;
    tg__lookup *l;
    const struct addrinfo *found;
    TG_TRY(tg__lookup_begin(&at, true, &l));
    tg_status status = TG_OK;
    while (status == TG_OK && !tg__lookup_is_done(l)) {
        struct pollfd p = {.fd = tg__lookup_fd(l), .events = POLLIN};
        (void)poll(&p, 1, TG__LOOK_MS);
        status = tg__net_patience(n, "the name to listen at to be looked up");
    }
    if (status == TG_OK)
        status = tg__lookup_found(l, &found);
    if (status == TG_OK)
        status = tg__address_listen(&at, found, &n->listener, &n->port);
    tg__lookup_end(l);
    return status;
}

static tg_status join(tg_net *n)
{
    const tg_net_config *c = n->config;
    if (c->join && !c->set)
        TG_TRY(tg__address_parse("join", c->join, false, &n->meeting));
    tg__address advertised = {.port = 0};
    if (c->advertise)
        TG_TRY(tg__address_parse("advertise", c->advertise, true, &advertised));
    if (c->advertise && !*advertised.host)
        return tg_fail(TG_E_SPEC, "advertise \"%.256s\": it has no host: allowed: tcp://HOST:PORT",
                       c->advertise);
    if (!c->insecure)
        TG_TRY(tg__tls_create(c->key, &n->tls));
    TG_TRY(tg__net_listen(n));
    if (advertised.port == 0)
        advertised.port = n->port;
    if (c->advertise)
        tg__address_text(&advertised, n->advertise);
    if (n->listener >= 0)
        TG_TRY(tg__directory_publish(n));
    if (!c->join)
        return tg__net_host(n);
    TG_TRY(tg__net_call(n));
    return tg__net_mesh(n);
}

tg_status tg_net_join(const tg_net_config *config, tg_net **net_p)
{
    TG__ARG(config);
    TG__ARG(net_p);
    tg_net_config c;
    TG_TRY(tg__net_take_config("tg_net_join", config, TG__FIRST_SIZE(tg_net_config, on_wait_arg),
                               &c, sizeof c));
    tg_net *n;
    TG_TRY(tg__net_create(&c, c.timeout_s > 0 && c.timeout_s <= 1e6 ? c.timeout_s : 0, &n));
    tg_status status = tg__directory_open(n, &c);
    if (status == TG_OK)
        status = check(&c);
    if (status == TG_OK) {
        n->allow = c.allow;
        status = join(n);
    }
    n->allow = NULL;
    tg__directory_close(n);
    if (n->listener >= 0)
        tg__fd_close(n->listener); /* members are complete: nobody else is let in */
    n->listener = -1;
    if (status != TG_OK) {
        tg__relay_destroy(n->relay); /* there is nothing to wait for */
        n->relay = NULL;
    }
    return tg__net_created(n, status, net_p);
}

/* ---- a membership ---------------------------------------------------------------------------- */

int tg_net_rank(const tg_net *net)
{
    return net ? net->rank : 0;
}

int tg_net_size(const tg_net *net)
{
    return net ? net->size : 0;
}

void tg_net_nodes(const tg_net *net, int *nodes)
{
    for (int r = 0; net && nodes && r < net->size; r++) {
        nodes[r] = r;
        for (int lower = 0; lower < r && nodes[r] == r; lower++)
            if (net->member[lower].machine == net->member[r].machine)
                nodes[r] = lower;
    }
}

tg_status tg_net_allow(tg_net *net, const tg_keys *allow)
{
    TG__ARG(net);
    TG__ARG(allow);
    const uint64_t one = 1;
    TG_TRY(tg__net_check_own(net, "tg_net_allow"));
    if (net->hosts || net->attached)
        return tg_fail(TG_E_STATE, "tg_net_allow: only for jobs joined by tg_net_join");
    if (!net->tls || net->rank != 0)
        return tg_fail(TG_E_STATE, "tg_net_allow: %s",
                       net->tls ? "only rank 0 has a list of keys" : "the job has no keys");
    for (int r = 1; r < net->size; r++)
        if (tg__keys_find(allow, &net->member[r].key) < 0) {
            atomic_store(&net->expelled, r);
            const int wake = atomic_load(&net->wake);
            if (wake >= 0)
                (void)!write(wake, &one, sizeof one);
            break;
        }
    return TG_OK;
}

static void describe_tcp(int fd, tg_net_peer_info *info)
{
    struct tcp_info tcp = {0}; /* an older system fills less of it */
    socklen_t len = sizeof tcp;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &tcp, &len) != 0)
        return;
    info->packets_sent = tcp.tcpi_data_segs_out - tcp.tcpi_total_retrans;
    info->packets_resent = tcp.tcpi_total_retrans;
    len = sizeof info->congestion - 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, info->congestion, &len) != 0)
        info->congestion[0] = '\0';
}

tg_status tg_net_peer(const tg_net *net, int rank, tg_net_peer_info *info)
{
    TG__ARG(net);
    TG__ARG(info);
    const size_t size = info->struct_size;
    tg_net_peer_info own = {.way = TG_NET_SELF};
    const size_t smallest = TG__FIRST_SIZE(tg_net_peer_info, congestion);
    if (size < smallest || size > TG__STRUCT_MAX)
        return tg_fail(TG_E_ARG, "tg_net_peer: info->struct_size=%zu: allowed: %zu to %d", size,
                       smallest, TG__STRUCT_MAX);
    if (rank < 0 || rank >= net->size)
        return tg_fail(TG_E_ARG, "tg_net_peer: rank=%d: allowed: 0 to %d", rank, net->size - 1);
    TG_TRY(tg__net_check_own(net, "tg_net_peer"));
    if (rank != net->rank && !net->stream[rank])
        return tg_fail(TG_E_STATE, "tg_net_peer: rank=%d: no worker has this seat now", rank);
    if (rank != net->rank) {
        describe_tcp(net->stream[rank]->fd, &own);
        const tg__stream *s = net->stream[rank];
        own.way = net->relayed[rank]                  ? TG_NET_RELAYED
                  : s->writes_local && s->reads_local ? TG_NET_LOCAL
                                                      : TG_NET_DIRECT;
        tg__address_text(&net->member[rank].address, own.address);
    }
    if (net->tls)
        tg__key_text(&net->member[rank].key, own.key);
    own.struct_size = size; /* the caller's */
    memset(info, 0, size);
    memcpy(info, &own, size < sizeof own ? size : sizeof own);
    return TG_OK;
}

void tg__net_leave(tg_net *n, int64_t until_ns)
{
    tg__caller_end(&n->control);
    for (bool over = false; n->stream && !over;) {
        over = !n->relay || tg__relay_is_idle(n->relay);
        for (int r = 0; r < n->size; r++)
            over &= !n->stream[r] || tg__stream_is_over(n->stream[r]);
        over |= tg_now_ns(tg_clock_monotonic()) >= until_ns;
        if (!over)
            (void)poll(NULL, 0, 1);
    }
    for (int r = 0; n->stream && r < n->size; r++)
        if (n->stream[r]) {
            tg__stream_close(n->stream[r]);
            free(n->stream[r]);
        }
    tg__relay_destroy(n->relay);
    tg__seats_close(n);
    free(n->stream);
    free(n->relayed);
    for (int r = 0; n->member && r < n->size; r++)
        free(n->member[r].about);
    free(n->member);
    tg__tls_destroy(n->tls);
    free(n->renewal);
    free(n);
}

void tg_net_leave(tg_net *net, const char *why)
{
    uint8_t bytes[TG__REASON_MAX + TG__HEAD];
    if (!net || tg__net_is_foreign(net))
        return;
    size_t len = why ? tg__reason_write(why, bytes) : 0;
    tg__pack bye = {.at = bytes + len, .end = bytes + sizeof bytes};
    tg__pack_number(&bye, 4, (uint64_t)TG__FRAME_BYE << 28);
    tg__pack_number(&bye, 4, 0);
    tg__pack_number(&bye, 8, 0);
    for (int r = 0; r < net->size; r++)
        if (net->stream[r] && tg__stream_write(net->stream[r], bytes, (size_t)(bye.at - bytes)) > 0)
            (void)tg__stream_flush(net->stream[r]);
    tg__net_leave(net, tg_now_ns(tg_clock_monotonic()) + TG__LEAVE_NS);
}

void tg_net_destroy(tg_net *net)
{
    if (net && !tg__net_is_foreign(net))
        tg__net_leave(net, tg_now_ns(tg_clock_monotonic()) + TG__LEAVE_NS);
}
