#include "net/seats.h"
#include "base/arg.h"
#include "base/sized.h"
#include "net/fields.h"
#include "net/forked.h"
#include "telegrad/clock.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LIST_NS INT64_C(100000000)
#define BUSY_NS INT64_C(2000000)
#define OTHER_FILES 48

static bool is_allowed(void *arg, const tg__public_key *key)
{
    const tg__seats *s = arg;
    return tg__keys_find(s->config.allow, key) >= 0;
}

static const char *name_of(const tg__seats *s, const tg__public_key *key)
{
    const int position = key && s->n->tls ? tg__keys_find(s->config.allow, key) : -1;
    return position >= 0 ? s->config.allow->entry[position].name : "";
}

/* key   NULL: none was shown
 * text  "": on_event is not told again */
static void say(const tg__seats *s, tg_net_event_kind kind, int seat, const tg__public_key *key,
                const char *host, const char *reason, const char *text)
{
    char mark[TG_KEY_TEXT] = "";
    if (s->config.on_event && text[0] != '\0')
        s->config.on_event(s->config.on_event_arg, text);
    if (key && s->n->tls)
        tg__key_mark(key, mark);
    const tg_net_event event = {.struct_size = sizeof event,
                                .kind = (int)kind,
                                .seat = seat,
                                .host = host,
                                .name = name_of(s, key),
                                .key = mark,
                                .reason = reason,
                                .text = text};
    if (s->config.on_change)
        s->config.on_change(s->config.on_change_arg, &event);
}

/* A call has failed. */
static void note(void *arg, const char *host, const tg__caller *c, const char *why)
{
    static const tg__public_key none;
    tg__seats *s = arg;
    const tg__public_key *key = c && c->stream ? &c->stream->peer : NULL;
    if (key && tg__key_equal(key, &none))
        key = NULL;
    if (key && !is_allowed(s, key))
        why = "it is not on the list of allowed keys";
    const char *tells =
        tg__refusals_add(&s->refusals, tg_now_ns(tg_clock_monotonic()), host, key, why);
    say(s, TG_NET_REFUSED, -1, key, host, why, tells ? tells : "");
}

/* ---- who comes ------------------------------------------------------------------------------- */

/* A guest who has been promised a seat has it. */
static bool is_vacant(const tg__seats *s, int seat)
{
    if (s->n->stream[seat])
        return false;
    for (size_t i = 0; i < s->door.room; i++)
        if (s->door.guest[i].rank == seat + 1)
            return false;
    return true;
}

/* Any vacant seat, rather not one whose worker was lost, and may be back; -1: none. */
static int any_vacant(const tg__seats *s)
{
    int best = -1;
    for (int seat = 0; seat < s->n->size - 1; seat++)
        if (is_vacant(s, seat) &&
            (best < 0 || s->n->member[seat].lost_ns < s->n->member[best].lost_ns))
            best = seat;
    return best;
}

static bool is_back(const tg__seats *s, int seat, uint64_t token, const tg__public_key *key)
{
    const tg__member *m = &s->n->member[seat];
    return token != 0 && m->token == token && tg__key_equal(&m->key, key);
}

/* A worker that calls once more has no use for its last call, which may not have ended here yet. */
static void forget_last_call(tg__seats *s, const tg__guest *g, int seat)
{
    for (size_t i = 0; i < s->door.room; i++) {
        tg__guest *other = &s->door.guest[i];
        if (other != g && other->rank == seat + 1 && other->token == g->token &&
            other->caller.stream &&
            tg__key_equal(&other->caller.stream->peer, &g->caller.stream->peer)) {
            tg__caller_end(&other->caller);
            other->rank = 0;
        }
    }
}

/* One that has sent nothing yet may still go to another seat, and one whose connection has ended
 * leaves this seat. */
static bool is_settled(const tg__seats *s, int seat)
{
    const tg__stream *stream = s->n->stream[seat];
    return stream && !stream->failed && s->n->member[seat].settled;
}

/* *seat_p: -1: the worker is back before its old connection has ended. */
static tg_status choose_seat(tg__seats *s, uint64_t wants, const tg__guest *g, int *seat_p)
{
    const int seats = s->n->size - 1;
    if (wants > (uint64_t)seats)
        return tg_fail(TG_E_MISMATCH, "it asks for seat %lu: this server has %d seat%s",
                       (unsigned long)wants - 1, seats, seats == 1 ? "" : "s");
    const int seat = wants > 0 ? (int)wants - 1 : any_vacant(s);
    if (seat < 0)
        return seats == 1 ? tg_fail(TG_E_PEER, "the only seat for a worker is taken")
                          : tg_fail(TG_E_PEER, "all %d seats for workers are taken", seats);
    *seat_p = -1;
    if (wants > 0 && s->n->stream[seat] && is_back(s, seat, g->token, &g->caller.stream->peer)) {
        s->n->member[seat].is_back = s->returns = true;
        return TG_OK;
    }
    if (wants > 0 && g->token != 0)
        forget_last_call(s, g, seat);
    if (!is_vacant(s, seat))
        return tg_fail(is_settled(s, seat) ? TG_E_STATE : TG_E_PEER,
                       "seat %d is taken by another worker", seat);
    *seat_p = seat;
    return TG_OK;
}

/* Read a caller's ENTER, and check it. */
static tg_status read_enter(tg__seats *s, tg__guest *g, int *seat_p)
{
    const tg__caller *c = &g->caller;
    tg__unpack u = {.at = c->body, .end = c->body + c->body_len};
    char job[TG__JOB_MAX];
    const uint64_t wants = tg__unpack_number(&u, 4), shard = tg__unpack_number(&u, 4),
                   shards = tg__unpack_number(&u, 4), token = tg__unpack_number(&u, 8);
    tg__unpack_text(&u, job, sizeof job);
    if (tg__caller_kind(c) == TG__SAID_JOIN)
        return tg_fail(TG_E_MISMATCH, TG__NO_MEETING);
    if (s->n->tls && tg__keys_find(s->config.allow, &c->stream->peer) < 0)
        return tg_fail(TG_E_PEER, TG__TAKEN_OFF);
    if (tg__caller_kind(c) != TG__SAID_ENTER || !tg__unpack_whole(&u))
        return tg_fail(TG_E_CORRUPT, "the first message of a worker is malformed");
    if (strcmp(job, s->job) != 0)
        return tg_fail(TG_E_MISMATCH, "job \"%s\": this server is for job \"%s\"", job, s->job);
    if (shards != (uint64_t)s->config.shards || shard != (uint64_t)s->config.shard)
        return tg_fail(TG_E_MISMATCH, "shard %lu of %lu is expected here: this is shard %d of %d",
                       (unsigned long)shard, (unsigned long)shards, s->config.shard,
                       s->config.shards);
    g->token = token;
    return choose_seat(s, wants, g, seat_p);
}

static void refuse(tg__seats *s, tg__guest *g, tg_status status)
{
    char text[TG__TEXT_MAX];
    snprintf(text, sizeof text, "%s", tg_error());
    tg__make_printable(text);
    note(s, g->host, &g->caller, text);
    tg__caller_next(&g->caller);
    g->caller.body_max = 0;
    if (tg__net_say_refused(&g->caller, status, text))
        g->caller.ends = true;
    else
        tg__caller_end(&g->caller);
}

/* A guest has said its message. */
static void hear(tg__seats *s, tg__guest *g)
{
    tg__caller *c = &g->caller;
    uint8_t body[TG__SEAT_MAX];
    tg__pack p = {.at = body, .end = body + sizeof body};
    int seat = 0;
    const tg_status status = read_enter(s, g, &seat);
    if (status != TG_OK) {
        refuse(s, g, status);
        return;
    }
    if (seat < 0)
        return; /* asked again when its seat is vacant */
    g->rank = seat + 1;
    tg__caller_next(c);
    c->body_max = 0; /* what follows is of the transport */
    tg__pack_number(&p, 4, (uint64_t)seat);
    tg__pack_number(&p, 4, (uint64_t)s->n->size - 1);
    tg__pack_text(&p, s->about);
    const tg_status said = tg__caller_say(c, TG__SAID_SEAT, body, (size_t)(p.at - body));
    if (said != TG_OK) {
        g->rank = 0;
        refuse(s, g, said);
    }
}

static const char *describe(const tg__seats *s, int seat, char text[200])
{
    const tg__member *m = &s->n->member[seat];
    char mark[TG_KEY_TEXT];
    const char *name = name_of(s, &m->key);
    if (s->n->tls)
        tg__key_mark(&m->key, mark);
    snprintf(text, 200, "worker %d (%.63s%s%.60s)", seat,
             *name       ? name
             : s->n->tls ? mark
                         : "",
             s->n->tls ? ", " : "", m->address.host);
    return text;
}

bool tg__seats_is_back(const tg__seats *s, int seat)
{
    return s->n->member[seat].is_back;
}

bool tg__seats_allow(const tg__seats *s, int seat)
{
    return !s->n->tls || tg__keys_find(s->config.allow, &s->n->member[seat].key) >= 0;
}

static void take_seat(tg__seats *s, tg__guest *g)
{
    char who[200], text[240];
    const int seat = g->rank - 1;
    tg__member *m = &s->n->member[seat];
    const bool back = is_back(s, seat, g->token, &g->caller.stream->peer);
    *m = (tg__member){.key = g->caller.stream->peer, .token = g->token};
    snprintf(m->address.host, sizeof m->address.host, "%s", g->host);
    s->n->stream[seat] = tg__caller_take(&g->caller);
    g->rank = 0;
    tg__socket_watch(s->n->stream[seat]->fd, 60, 120); /* then its seat is free */
    s->renewed |= !tg__seats_allow(s, seat);           /* its key may have gone meanwhile */
    snprintf(text, sizeof text, "%s %s", describe(s, seat, who), back ? "is back" : "has come");
    say(s, back ? TG_NET_BACK : TG_NET_CAME, seat, &m->key, m->address.host, "", text);
}

/* ---- who leaves ------------------------------------------------------------------------------ */

static void end_parting(tg__parting *p)
{
    tg__stream_close(p->stream);
    free(p->stream);
    free(p->bytes);
    *p = (tg__parting){.stream = NULL};
}

/* Returns true if it is over. */
static bool step_parting(tg__parting *p, int64_t now)
{
    while (p->at < p->len && !p->stream->failed) {
        const ptrdiff_t n = tg__stream_write(p->stream, p->bytes + p->at, p->len - p->at);
        if (n <= 0)
            break;
        p->at += (size_t)n;
    }
    if (p->at < p->len) /* what it sends meanwhile must not keep it from reading */
        tg__stream_drain(p->stream);
    (void)tg__stream_flush(p->stream);
    return now > p->until_ns || p->stream->failed ||
           (p->at == p->len && tg__stream_is_over(p->stream));
}

void tg__seats_part(tg__seats *s, int seat, tg_net_event_kind kind, const char *why, uint8_t *bytes,
                    size_t at, size_t len)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    char who[200], text[200 + TG__TEXT_MAX + 32];
    tg__parting *place = &s->parting[0];
    for (size_t i = 1; i < TG__PARTINGS && place->stream; i++)
        if (!s->parting[i].stream || s->parting[i].until_ns < place->until_ns)
            place = &s->parting[i];
    if (place->stream)
        end_parting(place);
    *place = (tg__parting){.stream = s->n->stream[seat],
                           .bytes = bytes,
                           .at = at,
                           .len = len,
                           .until_ns = now + TG__LEAVE_NS};
    s->n->stream[seat] = NULL;
    s->n->member[seat].lost_ns = *why ? now : 0;
    s->n->member[seat].is_back = false;
    if (step_parting(place, now))
        end_parting(place);
    snprintf(text, sizeof text, "%s has left%s%s", describe(s, seat, who), *why ? ": " : "", why);
    const tg__member *m = &s->n->member[seat];
    say(s, kind, seat, &m->key, m->address.host, why, text);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void renew_list(tg__seats *s, int64_t now)
{
    if (!s->config.allow_now || now - s->listed_ns < LIST_NS)
        return;
    s->listed_ns = now;
    const tg_keys *list = s->config.allow_now(s->config.allow_now_arg);
    s->renewed |= list && list != s->config.allow;
    if (list)
        s->config.allow = list;
}

void tg__seats_step(tg__seats *s, void (*take)(void *arg, int seat), void *arg)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    renew_list(s, now);
    if (!s->knocked && (!s->busy || now - s->looked_ns < BUSY_NS))
        return;
    s->looked_ns = now;
    s->knocked = false;
    const size_t count = tg__door_watch(&s->door, s->polled);
    (void)poll(s->polled, (nfds_t)count, 0);
    tg__door_step(&s->door);
    s->busy = false;
    for (size_t i = 0; i < s->door.room; i++) {
        tg__guest *g = &s->door.guest[i];
        tg__caller *c = &g->caller;
        if (g->rank == 0 && c->arrived && !c->ends)
            hear(s, g);
        if (g->rank > 0 && tg__caller_step(c) && tg__caller_has_said(c)) {
            const int seat = g->rank - 1;
            take_seat(s, g);
            take(arg, seat);
        }
        s->busy |= c->state != TG__CALLER_NONE;
    }
    for (size_t i = 0; i < s->door.knocks; i++)
        s->busy |= s->door.knock[i].fd >= 0;
    for (size_t i = 0; i < TG__PARTINGS; i++) {
        tg__parting *p = &s->parting[i];
        if (p->stream && step_parting(p, now))
            end_parting(p);
        s->busy |= p->stream != NULL;
    }
}

int64_t tg__seats_due_ns(const tg__seats *s, int64_t now)
{
    return s->busy ? now + BUSY_NS : s->config.allow_now ? s->listed_ns + LIST_NS : INT64_MAX;
}

void tg__seats_close(tg_net *n)
{
    tg__seats *s = n->hosts;
    if (!s)
        return;
    tg__door_close(&s->door);
    for (size_t i = 0; i < TG__PARTINGS; i++)
        if (s->parting[i].stream)
            end_parting(&s->parting[i]);
    if (n->listener >= 0)
        tg__fd_close(n->listener);
    n->listener = -1;
    free(s->polled);
    free(s);
    n->hosts = NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static tg_status check(const tg_net_serve_config *c)
{
    const int most = TG_RANKS_MAX - 1;
    if (!c->listen)
        return tg_fail(TG_E_ARG, "tg_net_serve: config.listen is NULL");
    if (c->workers < 1 || c->workers > most)
        return tg_fail(TG_E_ARG, "tg_net_serve: config.workers=%d: allowed: 1 to %d", c->workers,
                       most);
    if (c->shards < 1 || c->shards > TG_SERVERS_MAX || c->shard < 0 || c->shard >= c->shards)
        return tg_fail(TG_E_ARG,
                       "tg_net_serve: config.shard=%d of shards=%d: allowed: 0 to shards - 1, and "
                       "at most %d shards",
                       c->shard, c->shards, TG_SERVERS_MAX);
    if (c->insecure && (c->key || c->allow))
        return tg_fail(TG_E_ARG, "tg_net_serve: key and allow must be NULL with insecure");
    if (!c->insecure && (!c->key || !c->allow))
        return tg_fail(TG_E_ARG,
                       "tg_net_serve: config.%s is NULL: every connection needs keys, unless "
                       "insecure is set",
                       c->key ? "allow" : "key");
    if (c->allow && tg_keys_count(c->allow) == 0)
        return tg_fail(TG_E_ARG, "tg_net_serve: config.allow has no keys");
    const size_t len = c->about ? strlen(c->about) : 0;
    if (len >= TG__TEXT_MAX || (c->about && !tg__is_printable(c->about, len)))
        return tg_fail(TG_E_ARG,
                       "tg_net_serve: config.about of %zu bytes: allowed: at most %d, printable",
                       len, TG__TEXT_MAX - 1);
    return tg__net_check_job("tg_net_serve", c->job);
}

/* Each connection takes a file descriptor; so do the transport, the door, and what else the process
 * has open. */
static tg_status check_descriptors(int workers)
{
    struct rlimit limit;
    char text[TG__FILES_TEXT];
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= (rlim_t)workers + OTHER_FILES)
        return TG_OK;
    return tg_fail(
        TG_E_IO,
        "tg_net_serve: config.workers=%d: each needs a file descriptor, and %s, of which "
        "it needs %d itself: raise the limit (ulimit -n %d), or allow fewer workers",
        workers, tg__files_text(text), OTHER_FILES, workers + OTHER_FILES);
}

static tg_status open_seats(tg_net *n, const tg_net_serve_config *c)
{
    tg__seats *s;
    TG_TRY(check_descriptors(c->workers));
    TG_TRY(tg__net_members(n, c->workers + 1));
    n->rank = c->workers;
    TG_TRY(tg_alloc(1, sizeof *s, &n->hosts));
    s = n->hosts;
    s->n = n;
    s->config = *c;
    s->config.key = NULL;
    snprintf(s->job, sizeof s->job, "%s", c->job ? c->job : "");
    s->config.job = s->job;
    snprintf(s->about, sizeof s->about, "%s", c->about ? c->about : "");
    s->config.about = s->about;
    if (c->key)
        n->member[n->rank].key = c->key->public_key;
    if (!c->insecure)
        TG_TRY(tg__tls_create(c->key, &n->tls));
    TG_TRY(tg__net_listen(n));
    TG_TRY(tg__door_open(&s->door, n->listener, n->tls, n->size, TG__ENTER_MAX, is_allowed, s));
    s->door.on_failed = note;
    s->door.on_failed_arg = s;
    return tg_alloc(tg__door_watch_max(&s->door), sizeof *s->polled, &s->polled);
}

tg_status tg_net_serve(const tg_net_serve_config *config, tg_net **net_p)
{
    TG__ARG(config);
    TG__ARG(net_p);
    tg_net_serve_config c;
    tg_net *n;
    TG_TRY(tg__net_take_config("tg_net_serve", config,
                               TG__FIRST_SIZE(tg_net_serve_config, on_event_arg), &c, sizeof c));
    c.shards = c.shards == 0 && c.shard == 0 ? 1 : c.shards;
    TG_TRY(check(&c));
    const tg_net_config own = {
        .struct_size = sizeof own, .listen = c.listen, .size = c.workers + 1};
    TG_TRY(tg__net_create(&own, 0, &n));
    return tg__net_created(n, open_seats(n, &c), net_p);
}
