/* Receives what ranks send: a stamp, then the message that it announces. */
#include "base/mem.h"
#include "base/printable.h"
#include "server/round.h"
#include "server/tensors.h"
#include "telegrad/clock.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_STEPS = 64 }; /* bits of tg__intake.reported.bits */

/* Most bytes that a rank's messages may take while they wait for those of lower ranks. A rank that
 * follows the protocol stays below it, because it waits for answers itself. */
#define HELD_MOST (UINT64_C(4) << 30)

const char *tg__server_where(const tg__envelope *id, char text[64])
{
    snprintf(text, 64, "(step %llu, bucket %u)", (unsigned long long)id->step, id->bucket);
    return text;
}

tg_status tg__intake_begin(tg_server *s, int rank)
{
    tg__intake *in = &s->in[rank];
    in->awaits = TG__AWAITS_STAMP;
    return s->t->ops->post_recv(s->t, tg__server_peer(s, rank), TG__TAG_STAMP, in->stamp,
                                sizeof in->stamp, &in->req);
}

#define OWED_FREE ((uint64_t)64 << 20)

/* Whether the answers that the rank has not received exceed 64 MiB and twice all parameters. */
static bool owes_too_much(const tg_server *s, const tg__intake *in)
{
    uint64_t most = OWED_FREE;
    if (in->owed <= most)
        return false;
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        most += 2 * sizeof *r->w * (uint64_t)r->n;
    return in->owed > most;
}

/* Most bytes of a message for a region: twice those of a dense gradient, or 64 MiB. */
static uint64_t longest(const tg_server *s)
{
    uint64_t n = 0;
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        n = TG__MAX(n, r->n);
    return TG__MAX(8 * n, (uint64_t)64 << 20) + 4096;
}

/* The messages of a worker that may come back are numbered. */
static tg_status check_number(const tg__intake *in)
{
    const tg__stamp *said = &in->said;
    if ((said->worker == 0) != (said->number == 0))
        return tg_fail(TG_E_CORRUPT, "message %llu of worker %#x is announced: one of them is 0",
                       (unsigned long long)said->number, said->worker);
    const bool knows = said->worker == in->worker;
    const uint64_t next = knows ? in->number + 1 : 1;
    if (said->number <= next)
        return TG_OK;
    return knows && in->met ? tg_fail(TG_E_CORRUPT, "message %llu is announced: expected %llu",
                                      (unsigned long long)said->number, (unsigned long long)next)
                            : tg_fail(TG_E_MISMATCH,
                                      "this worker has been here, but the server does not "
                                      "remember it: it was started again without its journal, has "
                                      "given the seat to another worker, or goes on without it");
}

static tg_status await_message(tg_server *s, int rank)
{
    tg__intake *in = &s->in[rank];
    const tg__stamp said = tg__stamp_read(in->stamp);
    const uint64_t len = said.len;
    const uint64_t least = TG__ENVELOPE_BYTES + TG__STAR_HEAD + TG__FRAME_HEAD;
    const uint64_t most = s->founded ? longest(s) : HELD_MOST - in->held;
    if (said.tag >= TG_TAG_LIMIT || len < least || len > most)
        return tg_fail(TG_E_CORRUPT,
                       "a message with tag %u of %llu bytes is announced: allowed: %llu to %llu "
                       "bytes",
                       said.tag, (unsigned long long)len, (unsigned long long)least,
                       (unsigned long long)most);
    in->said = said;
    TG_TRY(check_number(in));
    if (tg__store_take(&s->store, (size_t)len, &in->msg) !=
        TG_OK) /* of several, only this one goes */
        return tg_fail(s->hosts ? TG_E_PEER : TG_E_NOMEM,
                       "out of memory for a message of %llu bytes", (unsigned long long)len);
    in->awaits = TG__AWAITS_MESSAGE;
    return s->t->ops->post_recv(s->t, tg__server_peer(s, rank), TG__TAG_STAMPED, in->msg,
                                (size_t)len, &in->req);
}

/* ---- sessions -------------------------------------------------------------------------------- */

static tg__heard_on *heard_on(const tg_server *s, const tg__envelope *said)
{
    for (size_t i = 0; i < s->nchannels; i++)
        if (s->channels[i].channel == said->channel)
            return &s->channels[i];
    return NULL;
}

/* The texts that a message tells, which may be anything; empty: none. */
static tg__star_texts texts_in(const tg__intake *in)
{
    const uint8_t *payload = in->msg + TG__ENVELOPE_BYTES;
    const size_t len = (size_t)in->said.len - TG__ENVELOPE_BYTES;
    tg__star_texts texts = {{NULL, 0}, {NULL, 0}};
    tg__star star;
    size_t frame_len;
    if (tg__star_read(payload, &star) != TG_OK ||
        tg__star_frame(payload, len, &star, &frame_len, &texts) != TG_OK)
        texts.settings.len = texts.tensors.len = 0;
    return texts;
}

/* Note the session of a channel, that of the first valid message on it, and its settings. */
static tg_status note_session(tg_server *s, const tg__envelope *said, const tg__intake *in)
{
    tg__heard_on *h = heard_on(s, said);
    const size_t count = s->nchannels;
    if (h == NULL) {
        TG_TRY(tg__grow(&s->channels, &s->channels_cap, count + 1, sizeof *h, "channels"));
        h = &s->channels[s->nchannels++];
        *h = (tg__heard_on){.channel = said->channel, .session = said->session};
    }
    if (h->settings != NULL)
        return TG_OK;
    const tg__settings told = texts_in(in).settings;
    if (told.len == 0)
        return TG_OK;
    TG_TRY(tg_alloc(told.len, 1, &h->settings));
    memcpy(h->settings, told.text, told.len);
    h->settings_len = told.len;
    return TG_OK;
}

void tg__intake_forget_sessions(tg_server *s)
{
    for (size_t i = 0; i < s->nchannels; i++)
        free(s->channels[i].settings);
    s->nchannels = 0;
}

/* A worker's message is of another session than those that are there. Texts of settings are cut, so
 * they may lack tensors. */
static tg_status fail_unlike(const tg_server *s, const tg__heard_on *h, const tg__intake *in)
{
    const tg__star_texts told = texts_in(in);
    const tg__settings tensors = tg__tensors_of(s, h->channel);
    char differs[800] = "";
    tg__unlike u;
    tg__tensors_unlike t;
    if (h->settings != NULL && told.settings.len > 0 &&
        tg__settings_differ((tg__settings){h->settings, h->settings_len}, told.settings, NULL,
                            &u)) {
        tg__make_printable(u.text[0]);
        tg__make_printable(u.text[1]);
        snprintf(differs, sizeof differs, "they have %s%s, this one has %s%s; ",
                 u.has[0] ? "" : "no such ", u.text[0], u.has[1] ? "" : "no such ", u.text[1]);
    } else if (tensors.len > 0 && told.tensors.len > 0 &&
               tg__tensors_differ(tensors, told.tensors, &t) && t.number > 0) {
        snprintf(differs, sizeof differs, "their tensor %zu is %s, that of this one is %s; ",
                 t.number, t.text[0], t.text[1]);
    }
    return tg_fail(TG_E_MISMATCH,
                   "the workers that are there have other settings: %sall must be started alike "
                   "(model, data, batch, method, optimizer, rate, schedule, seed, precision)",
                   differs);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* A rank has left: check that no other rank waits for its gradient. */
static tg_status missing(tg_server *s, int rank)
{
    char where[64];
    for (const tg__gathering *g = s->active; g != NULL; g = g->link)
        if (g->next < s->ranks && g->next <= rank && g->rank[rank].msg == NULL) {
            s->culprit = rank;
            return tg_fail(TG_E_PEER, "rank %d has left, but other ranks wait for its gradient %s",
                           tg__server_peer(s, rank), tg__server_where(&g->id, where));
        }
    return TG_OK;
}

/* The gathering that a message belongs to: one that has begun, or a new one. */
static tg_status gathering_of(tg_server *s, int rank, tg__envelope *want, size_t *len_p,
                              uint16_t *flags_p, tg__gathering **g_p)
{
    tg__intake *in = &s->in[rank];
    tg__gathering *g = s->active;
    while (g != NULL && (g->tag != in->said.tag || g->next == s->ranks))
        g = g->link;
    tg__envelope_peek(in->msg, want);
    if (g != NULL)
        *want = g->id;
    want->sender = s->hosts ? 0 : (uint32_t)tg__server_peer(s, rank); /* each worker is a rank 0 */
    const uint64_t session = want->session;
    const tg__heard_on *h = heard_on(s, want);
    if (g == NULL && h != NULL)
        want->session = h->session;
    if (s->hosts && h != NULL && session != want->session)
        return fail_unlike(s, h, in);
    TG_TRY(tg__envelope_open(in->msg, (size_t)in->said.len, want, flags_p, len_p));
    if (g == NULL)
        TG_TRY(tg__gathering_open(s, in->said.tag, rank, want, in->msg + TG__ENVELOPE_BYTES, *len_p,
                                  &g));
    TG_TRY(note_session(s, want, in));
    *g_p = g;
    return TG_OK;
}

/* Whether the worker that sends the message has had this seat before. */
static bool is_known(const tg__intake *in)
{
    return in->said.worker != 0 && in->said.worker == in->worker;
}

/* On a new worker's first message: discard parameters for which no gradient has arrived, unless a
 * worker that has them is here or may come back. */
static tg_status forget_offers(tg_server *s, int rank)
{
    const int64_t now = tg_now_ns(s->t->clock);
    if (!s->hosts || s->in[rank].met || is_known(&s->in[rank]))
        return TG_OK;
    for (int other = 0; other < s->ranks; other++) {
        const tg__intake *in = &s->in[other];
        const bool away = in->worker != 0 && now - in->heard_ns < s->timeout_ns;
        if (other != rank && (in->met || away))
            return TG_OK;
    }
    return tg__regions_abandon(s);
}

/* A worker has one event for a step, in whatever order parts of its gradients fail. Steps that are
 * long past have none. */
static bool has_event(const tg__intake *in, int kind, uint64_t step)
{
    const uint64_t latest = in->reported[kind].step, at = step + 1;
    return at <= latest &&
           (latest - at >= EVENT_STEPS || (in->reported[kind].bits >> (latest - at) & 1) != 0);
}

static void note_event(tg__intake *in, int kind, uint64_t step)
{
    const uint64_t latest = in->reported[kind].step, at = step + 1;
    if (at > latest) {
        const uint64_t by = at - latest;
        in->reported[kind].bits = (by < EVENT_STEPS ? in->reported[kind].bits << by : 0) | 1;
        in->reported[kind].step = at;
    } else {
        in->reported[kind].bits |= (uint64_t)1 << (latest - at);
    }
}

void tg__say_unapplied(tg_server *s, const tg__gathering *g, tg_server_event_kind kind, bool logs,
                       const char *format, ...)
{
    char where[64], why[300], text[400];
    tg__intake *in = &s->in[g->only];
    const bool says = logs && !in->named[kind];
    const bool tells = s->on_event != NULL && !has_event(in, (int)kind, g->id.step);
    if (!says && !tells)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    snprintf(text, sizeof text, "%s %d %s: %s", s->hosts ? "worker" : "rank",
             tg__server_peer(s, g->only), tg__server_where(&g->id, where), why);
    if (says)
        tg_log(TG_LOG_WARN, "%s", text);
    in->named[kind] |= logs;
    if (!tells)
        return;
    note_event(in, (int)kind, g->id.step);
    const tg_server_event event = {.struct_size = sizeof event,
                                   .kind = (int)kind,
                                   .rank = tg__server_peer(s, g->only),
                                   .step = g->id.step,
                                   .text = text};
    s->on_event(s->on_event_arg, &event);
}

void tg__note_unfit(tg_server *s, const tg__gathering *g)
{
    if (!s->ran || g->again || g->region == NULL || (g->flags & TG__FLAG_NONFINITE) == 0)
        return;
    s->stats.unfit++;
    if (g->only < 0)
        return;
    tg__say_unapplied(s, g, TG_SERVER_UNFIT, true, "%s: it is not applied",
                      (g->flags & TG__FLAG_SPOILS) != 0
                          ? "the update by its gradient would make parameters not finite (the "
                            "learning rate may be too high)"
                          : "its gradient is not finite");
}

/* A worker's first message since it came, which g is about. */
static tg_status meet(tg_server *s, int rank, tg__gathering *g)
{
    const uint64_t step = tg__clocks_now(s);
    if (!is_known(&s->in[rank])) {
        if (g->star.combine != &tg__combine_parameters) {
            tg__gathering_end(s, g);
            return tg_fail(TG_E_CORRUPT, "a new worker sends a gradient before its parameters");
        }
        g->first = true;
        g->alone = s->mode.gathers && tg__rounds_nobody_counts(s);
        if (g->alone)
            tg__rounds_clear(s);
        memset(s->in[rank].named, 0, sizeof s->in[rank].named);
        memset(s->in[rank].reported, 0, sizeof s->in[rank].reported);
        tg__clocks_begin(s, rank, g);
        if (s->mode.gathers)
            tg__rounds_admit(s, rank, s->in[rank].base);
        return TG_OK;
    }
    if (s->journal.dir != NULL && !s->mode.gathers) {
        TG_TRY(tg__gathering_note_return(s, rank, step));
        s->unsynced = true;
    }
    tg__clocks_return(s, rank, step);
    return TG_OK;
}

void tg__note_work(tg_server *s, int64_t begin_ns)
{
    const int64_t took = tg_now_ns(s->t->clock) - begin_ns;
    s->stats.combined_ns += took;
    s->worked_ns += took;
}

/* A message has arrived in in->msg. */
static tg_status take(tg_server *s, int rank)
{
    tg__intake *in = &s->in[rank];
    tg__envelope want;
    tg__gathering *g = NULL;
    uint16_t flags;
    size_t len;
    const int64_t begin = tg_now_ns(s->t->clock);
    TG_TRY(forget_offers(s, rank));
    TG_TRY(gathering_of(s, rank, &want, &len, &flags, &g));
    g->again = is_known(in) && in->said.number <= in->number;
    if (s->hosts && !in->met)
        TG_TRY(meet(s, rank, g));
    if (s->journal.dir != NULL && !g->again) {
        TG_TRY(tg__gathering_note(s, g, rank, in->msg));
        s->unsynced = true;
    }
    const int from = g->next;
    TG_TRY(tg__gathering_add(g, &s->store, s->ranks, rank, in->msg, len, flags));
    in->msg = NULL;
    s->stats.bytes_in += in->said.len;
    s->stats.repeated += g->again;
    if (!g->again && tg__gathering_has_gradients(g) && (flags & TG__FLAG_NONFINITE) == 0) {
        s->stats.gradients++;
        s->stats.gradient_elements += g->n;
        s->stats.gradient_bytes += in->said.len;
    }
    in->met = true;
    if (!g->again) {
        in->worker = in->said.worker;
        in->number = in->said.number;
    }
    if (g->only < 0) {
        in->held += in->said.len;
        for (int summed = from; summed < g->next; summed++)
            s->in[summed].held -= g->rank[summed].whole;
    }
    for (int other = 0; g->next < s->ranks && other < s->ranks; other++)
        if (tg__has_left(s, other))
            TG_TRY(missing(s, other));
    if (g->next == s->ranks) {
        TG_TRY(tg__gathering_complete(s, g));
        TG_TRY(tg__gatherings_release(s));
    }
    tg__note_work(s, begin);
    return TG_OK;
}

tg_status tg__intake_vacate(tg_server *s, int rank)
{
    tg__intake *in = &s->in[rank];
    const bool returns = s->t->ops->drop(s->t, rank);
    if (in->met) { /* else it was not the worker that is remembered here, which may still be back */
        in->worker = returns ? in->worker : 0;
        in->heard_ns = tg_now_ns(s->t->clock);
    }
    tg__store_give(&s->store, in->msg);
    in->msg = NULL;
    tg__store_fini(&s->store); /* the other workers may not need as much */
    s->stats.ranks -= in->here;
    in->here = in->met = false;
    for (tg__region *r = s->regions; r != NULL; r = r->next) {
        r->rank[rank].has = 0; /* answers may be lost */
        if (in->worker == 0)
            tg__region_forget(r, rank);
    }
    if (!s->mode.gathers || in->worker == 0) /* else it may be back in time */
        TG_TRY(tg__rounds_pass(s, rank));
    TG_TRY(tg__gatherings_forget(s, rank));
    if (s->stats.ranks == 0) /* the next workers may have other settings */
        tg__intake_forget_sessions(s);
    return tg__intake_begin(s, rank);
}

/* The rank has left. The others continue without it, unless they wait for it. */
static tg_status part(tg_server *s, int rank)
{
    if (s->hosts)
        return tg__intake_vacate(s, rank);
    s->in[rank].awaits = TG__AWAITS_NOTHING;
    s->in[rank].here = false;
    s->stats.ranks--;
    TG_TRY(missing(s, rank));
    if (s->deadline_ns > 0) {
        TG_TRY(tg__rounds_pass(s, rank));
        if (s->rounds != NULL)
            TG_TRY(tg__rounds_check_ranks(s, rank));
    }
    return tg__gatherings_release(s);
}

/* The stamp or message that was awaited has arrived. */
static tg_status go_on(tg_server *s, int rank, size_t len)
{
    const tg__intake *in = &s->in[rank];
    const size_t expected =
        in->awaits == TG__AWAITS_STAMP ? sizeof in->stamp : (size_t)in->said.len;
    if (len != expected)
        return tg_fail(TG_E_CORRUPT, "%zu bytes arrived: expected %zu", len, expected);
    s->stats.ranks += !in->here;
    s->in[rank].here = true;
    s->in[rank].heard_ns = tg_now_ns(s->t->clock);
    if (in->awaits == TG__AWAITS_STAMP)
        return await_message(s, rank);
    TG_TRY(take(s, rank));
    return tg__intake_begin(s, rank);
}

tg_status tg__intake_receive(tg_server *s, int rank, bool *any_p)
{
    tg__intake *in = &s->in[rank];
    while (in->awaits != TG__AWAITS_NOTHING) {
        bool done = false;
        size_t len = 0;
        if (s->hosts && owes_too_much(s, in))
            return TG_OK; /* it must receive its answers first */
        tg_status status = s->t->ops->test(s->t, &in->req, &done, &len);
        if (status == TG_OK && !done)
            return TG_OK;
        *any_p = true;
        if (status == TG_OK) {
            status = go_on(s, rank, len);
            if (status == TG_E_PEER && in->awaits != TG__AWAITS_STAMP)
                return status; /* other ranks, or this one in the middle of a message */
        }
        if (status == TG_E_PEER && in->awaits == TG__AWAITS_STAMP)
            return part(s, rank);
        TG_TRY(status);
        if (s->hosts && in->awaits == TG__AWAITS_STAMP)
            return TG_OK; /* now the other ranks' turn */
    }
    return TG_OK;
}
