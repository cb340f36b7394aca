/* Moves messages: posts and completes transfers, and handles failures. */
#include "exchange/pump_posts.h"
#include "base/mem.h"
#include "exchange/waits.h"
#include "telegrad/clock.h"
#include "transport/endpoint.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WISHES = 64 };

void tg__pump_init(tg__pump *p, tg_transport *t, uint64_t session, int64_t timeout_ns)
{
    memset(p, 0, sizeof *p);
    p->transport = t;
    p->own = (tg__channel){.session = session, .timeout_ns = timeout_ns};
    p->timeout_ns = timeout_ns;
    p->culprit = p->suspect = -1;
}

void tg__channel_fini(tg__channel *c)
{
    free(c->under_way);
    free(c->window);
    c->under_way = NULL;
    c->window = NULL;
    c->total_under_way = 0;
}

void tg__pump_fini(tg__pump *p)
{
    free(p->heard_ns);
    tg__channel_fini(&p->own);
    p->heard_ns = NULL;
    p->active = NULL;
}

void tg__flight_fini(tg__flight *f)
{
    free(f->posts);
    f->posts = NULL;
}

/* Record the failure and give up the transport. */
static tg_status fail(tg__pump *p, tg_status status)
{
    if (tg__latch_set(&p->failure, status))
        tg__pump_give_up(p);
    return tg__latch_get(&p->failure);
}

static uint32_t order_of(uint16_t round, uint32_t slice)
{
    return slice << 6 | round;
}

/* ---- messages -------------------------------------------------------------------------------- */

static tg__envelope envelope_of(tg__pump *p, const tg__flight *f, int sender, uint32_t order)
{
    return (tg__envelope){
        .session = tg__channel_of(p, f)->session,
        .channel = tg__channel_of(p, f)->number,
        .step = f->step,
        .sender = (uint32_t)sender,
        .slice = (uint16_t)(order >> 6),
        .bucket = f->bucket,
        .round = (uint16_t)((uint32_t)f->program_round << 6 | (order & 63)),
    };
}

static tg__post *free_slot(tg__posts *s)
{
    s->taken++;
    if (s->used < s->cap)
        return &s->slot[s->used++];
    tg__post *m = s->slot;
    while (m->busy || m->waiting)
        m++;
    return m;
}

static uint32_t tag_of(const tg__flight *f, uint32_t order)
{
    return f->sequence % TG__SEQUENCES << 12 | (order & 63) << 6 | order >> 6;
}

static tg_status post_recv(tg__pump *p, tg__flight *f, tg__post *m)
{
    tg_transport *t = p->transport;
    tg_status status = t->ops->post_recv(t, m->peer, tag_of(f, m->order), m->msg,
                                         TG__ENVELOPE_BYTES + m->len, &m->req);
    if (status != TG_OK)
        return tg__late_blame(p, f, m, status);
    m->busy = true;
    m->held = m->peer >= t->size;
    return TG_OK;
}

/* Seal a message and queue it for sending. */
static void queue_send(tg__pump *p, tg__flight *f, tg__post *m)
{
    tg__posts *s = f->posts;
    /* A message for several peers is sealed once, because its bytes may be in flight already. */
    if (f->sealed != m->msg || f->sealed_order != m->order) {
        tg__envelope e = envelope_of(p, f, p->transport->rank, m->order);
        e.flags = f->flags_out | f->flags_in;
        tg__envelope_seal(m->msg, &e, m->len);
        f->sealed = m->msg;
        f->sealed_order = m->order;
    }
    m->waiting = true;
    if (s->first == NULL)
        s->first = m;
    else
        s->last->next = m;
    s->last = m;
}

static bool is_in_group(const tg__flight *f)
{
    return f->group != NULL && f->group->rank != NULL;
}

/* The peer of the transport that the exchange calls `peer`. */
static int peer_of(const tg__pump *p, const tg__flight *f, int peer)
{
    if (peer >= f->x->size)
        return p->transport->size + peer - f->x->size;
    return is_in_group(f) ? f->group->rank[peer] : peer;
}

static tg_status take_wish(tg__pump *p, tg__flight *f, const tg__wish *w)
{
    tg__post *m = free_slot(f->posts);
    *m = (tg__post){.msg = w->msg,
                    .len = w->len,
                    .since_ns = tg_now_ns(p->transport->clock),
                    .id = w->id,
                    .order = order_of(w->round, w->slice),
                    .peer = peer_of(p, f, w->peer),
                    .send = w->send};
    if (!w->send)
        return post_recv(p, f, m);
    queue_send(p, f, m);
    return TG_OK;
}

/* Take the exchange's wishes, receives first, so that a message finds its buffer ready. */
static tg_status take_wishes(tg__pump *p, tg__flight *f)
{
    for (;;) {
        tg__wish wish[WISHES];
        size_t room = TG__MIN(f->posts->cap - f->posts->taken, (size_t)WISHES);
        size_t count = room > 0 ? f->x->ops->wants(f->x, wish, room) : 0;
        if (count == 0)
            return TG_OK;
        for (size_t i = 0; i < count; i++)
            if (!wish[i].send)
                TG_TRY(take_wish(p, f, &wish[i]));
        for (size_t i = 0; i < count; i++)
            if (wish[i].send)
                TG_TRY(take_wish(p, f, &wish[i]));
    }
}

/* A message to a server is sent: its answer is waited for from now on. */
static void note_asked(tg__pump *p, tg__flight *f, const tg__post *m)
{
    tg__posts *s = f->posts;
    const size_t part = m->id - f->x->nparts;
    const int server = m->peer - p->transport->size;
    f->x->unanswered[server] += m->len;
    f->x->sent_ns[part] =
        tg__server_window_sent(&tg__channel_of(p, f)->window[server], m->len, m->since_ns);
    for (size_t i = 0; i < s->used; i++)
        if (s->slot[i].held && s->slot[i].id == part) {
            s->slot[i].held = false;
            s->slot[i].since_ns = m->since_ns;
            break;
        }
}

static tg_status post_send(tg__pump *p, tg__flight *f, tg__post *m)
{
    tg_transport *t = p->transport;
    tg__channel *c = tg__channel_of(p, f);
    const size_t len = TG__ENVELOPE_BYTES + m->len;
    m->waiting = false;
    m->since_ns = tg_now_ns(t->clock);
    tg_status status = t->ops->post_send(t, m->peer, tag_of(f, m->order), m->msg, len, &m->req);
    if (status != TG_OK)
        return tg__late_blame(p, f, m, status);
    m->busy = true;
    f->bytes_sent += len;
    c->bytes_sent += len;
    if (c->near != NULL && m->peer < t->size && c->near[m->peer]) {
        f->bytes_near += len;
        c->bytes_near += len;
    }
    c->under_way[m->peer] += len;
    c->total_under_way += len;
    if (m->peer >= t->size)
        note_asked(p, f, m);
    return TG_OK;
}

/* How many send to servers, at most. */
static int senders(const tg_transport *t, const tg__channel *c)
{
    if (TG_HAS(tg_transport, t, seats) && t->seats > t->size)
        return t->seats;
    return c->talkers > 0 ? c->talkers : t->size;
}

/* Whether the windows let a message go. */
static bool may_go(const tg__pump *p, tg__channel *c, const tg__flight *f, const tg__post *m)
{
    if (c->total_under_way >= TG__PUMP_WINDOW && c->under_way[m->peer] > 0)
        return false;
    const int server = m->peer - p->transport->size;
    return server < 0 || tg__server_window_lets(&c->window[server], senders(p->transport, c),
                                                f->x->servers, f->x->unanswered[server], m->len);
}

/* Post sends as far as the windows allow. Messages to a server keep their order: the lowest one of
 * an exchange must be under way before later ones (server_window.h). */
static tg_status post_sends(tg__pump *p, bool *any_p)
{
    *any_p = false;
    for (tg__flight *f = p->active; f != NULL; f = f->next) {
        tg__posts *s = f->posts;
        tg__channel *c = tg__channel_of(p, f);
        tg__post *before = NULL;
        uint64_t held[TG_SERVERS_MAX / 64] = {0}; /* bits: a message to this server */
        for (tg__post *m = s->first, *next; m != NULL; m = next) {
            next = m->next;
            const int server = m->peer - p->transport->size;
            const uint64_t bit = server < 0 ? 0 : UINT64_C(1) << server % 64;
            uint64_t *bits = &held[server < 0 ? 0 : server / 64];
            if ((*bits & bit) != 0 || !may_go(p, c, f, m)) {
                *bits |= bit;
                before = m;
                continue;
            }
            if (before == NULL)
                s->first = next;
            else
                before->next = next;
            if (s->last == m)
                s->last = before;
            TG_TRY(post_send(p, f, m));
            *any_p = true;
        }
    }
    return TG_OK;
}

/* The cost of processing this many bytes of frames, on a simulated clock. */
static int64_t cost_ns(const tg__flight *f, size_t bytes)
{
    return f->costs == NULL ? 0
                            : (int64_t)((double)bytes * (double)f->costs->decode_byte_ps / 1000);
}

/* Bytes of the own frames that an exchange decodes when it starts. If the vector has one part per
 * rank, only this rank's part is decoded. */
static size_t own_bytes(const tg__exchange *x)
{
    size_t bytes = 0;
    for (size_t i = 0; x->ops->decodes_own && i < x->nparts; i++)
        bytes += x->parts[i].len;
    return x->nparts > 1 ? bytes / (size_t)x->size : bytes;
}

/* From now on, all messages carry the overflow. */
static void say_overflow(tg__flight *f)
{
    if (f->x->overflow)
        f->flags_in |= TG__FLAG_NONFINITE;
}

/* A transfer completed. */
static tg_status complete(tg__pump *p, tg__flight *f, tg__post *m, size_t bytes)
{
    size_t len = m->len;
    m->busy = false;
    f->posts->taken--;
    if (m->send) {
        tg__channel *c = tg__channel_of(p, f);
        c->under_way[m->peer] -= TG__ENVELOPE_BYTES + m->len;
        c->total_under_way -= TG__ENVELOPE_BYTES + m->len;
    }
    *tg__heard(p, m->peer, m->send) = tg_now_ns(p->transport->clock);
    if (!m->send) {
        tg__envelope want = envelope_of(p, f, m->peer, m->order);
        uint16_t flags;
        TG_TRY(tg__envelope_open(m->msg, bytes, &want, &flags, &len));
        f->flags_in |= flags;
    }
    const int64_t begin = f->x->now_ns = tg_now_ns(p->transport->clock);
    if (!m->send)
        tg_clock_work(p->transport->clock, cost_ns(f, len));
    tg_status status = f->x->ops->done(f->x, m->id, len);
    say_overflow(f);
    if (f->x->answered > 0) {
        const int server = m->peer - p->transport->size;
        if (m->held || f->x->answered > f->x->unanswered[server])
            return tg_fail(TG_E_CORRUPT, "server %d has answered what was not sent yet %s", server,
                           tg__where_of(p, f, m->order).text);
        tg__server_window_answered(&tg__channel_of(p, f)->window[server], f->x->answered,
                                   f->x->sent_ns[f->x->answered_part], begin);
        f->x->unanswered[server] -= f->x->answered;
        f->x->answered = 0;
    }
    f->combine_ns += tg_now_ns(p->transport->clock) - begin;
    if (status != TG_OK && is_in_group(f)) /* the exchange knows only numbers within its group */
        return tg_fail(status, "%s (in a group, of which this message's peer is rank %d) %s",
                       tg_error(), m->peer, tg__where_of(p, f, m->order).text);
    if (status != TG_OK)
        return tg_fail(status, "%s %s", tg_error(), tg__where_of(p, f, m->order).text);
    return TG_OK;
}

/* Complete and post transfers until no more progress is possible. */
static tg_status move_flight(tg__pump *p, tg__flight *f)
{
    tg_transport *t = p->transport;
    tg__posts *s = f->posts;
    bool moved = true;
    while (moved) {
        moved = false;
        for (size_t i = 0; i < s->used; i++) {
            tg__post *m = &s->slot[i];
            if (!m->busy)
                continue;
            bool over = false;
            size_t bytes = 0;
            tg_status status = t->ops->test(t, &m->req, &over, &bytes);
            if (status == TG_E_CORRUPT)
                status = tg_fail(status, "%s: damaged, or " TG__OTHER_CALL, tg_error());
            if (status != TG_OK)
                return tg__late_blame(p, f, m, status);
            if (!over)
                continue;
            status = complete(p, f, m, bytes);
            if (status != TG_OK) {
                tg__accuse(p, f, m->peer);
                return status;
            }
            moved = true;
        }
        if (moved)
            TG_TRY(take_wishes(p, f));
    }
    tg__late_watch(f, tg_now_ns(t->clock));
    return TG_OK;
}

/* ---- flights --------------------------------------------------------------------------------- */

/* Allocate the slots of one flight: no exchange has more than 4 messages per rank and slice in
 * flight. */
static tg_status prepare_posts(const tg__pump *p, tg__flight *f)
{
    size_t cap = 4 * tg__peers_of(p->transport) * TG__MAX(f->x->open_slices, 1u);
    if (!f->posts || f->posts->cap < cap) {
        tg__flight_fini(f);
        TG_TRY(tg_alloc(1, sizeof *f->posts + cap * sizeof f->posts->slot[0], &f->posts));
        f->posts->cap = cap;
    }
    f->posts->used = f->posts->taken = 0;
    f->posts->first = f->posts->last = NULL;
    return TG_OK;
}

static void land(const tg__pump *p, tg__flight *f)
{
    f->next = NULL;
    f->end_ns = tg_now_ns(p->transport->clock);
    f->finished = true;
}

static tg_status move_flights(tg__pump *p, size_t *finished_p)
{
    *finished_p = 0;
    for (tg__flight **link = &p->active; *link;) {
        tg__flight *f = *link;
        TG_TRY(move_flight(p, f));
        if (f->x->ops->finished(f->x)) {
            *link = f->next;
            land(p, f);
            ++*finished_p;
        } else {
            link = &f->next;
        }
    }
    return TG_OK;
}

/* Move all flights until nothing more can proceed without waiting, or something finished. */
static tg_status move_all(tg__pump *p, size_t *finished_p)
{
    bool posted;
    do {
        TG_TRY(move_flights(p, finished_p));
        TG_TRY(post_sends(p, &posted));
    } while (posted && *finished_p == 0);
    return TG_OK;
}

static tg_status launch(tg__pump *p, tg__flight *f)
{
    tg__channel *c = tg__channel_of(p, f);
    bool posted;
    for (tg__flight **link = &p->active; *link; link = &(*link)->next)
        if (((*link)->sequence - f->sequence) % TG__SEQUENCES == 0)
            return tg_fail(
                TG_E_STATE,
                "exchanges %u and %u are in flight at once: their numbers must differ modulo %u",
                (unsigned)(*link)->sequence, (unsigned)f->sequence, TG__SEQUENCES);
    if (!p->heard_ns)
        TG_TRY(tg_alloc(2 * tg__peers_of(p->transport), sizeof *p->heard_ns, &p->heard_ns));
    if (!c->under_way)
        TG_TRY(tg_alloc(tg__peers_of(p->transport), sizeof *c->under_way, &c->under_way));
    if (!c->window && f->x->servers > 0)
        TG_TRY(tg_alloc(tg__peers_of(p->transport) - (size_t)p->transport->size, sizeof *c->window,
                        &c->window));
    if (c->waits != NULL && !f->no_step)
        c->waits->step = f->step;
    p->stepped = p->stepped || !f->no_step;
    f->flags_in = 0;
    f->finished = false;
    f->bytes_sent = f->bytes_near = 0;
    f->sealed = NULL;
    f->order = UINT32_MAX;
    f->begin_ns = f->end_ns = f->order_ns = tg_now_ns(p->transport->clock);
    TG_TRY(prepare_posts(p, f));
    tg__flight **link = &p->active;
    while (*link && (*link)->priority <= f->priority)
        link = &(*link)->next;
    f->next = *link;
    *link = f;
    f->x->now_ns = f->begin_ns;
    f->x->overflow = false;
    if (f->costs != NULL)
        tg_clock_work(p->transport->clock, f->costs->start_ns + cost_ns(f, own_bytes(f->x)));
    TG_TRY(f->x->ops->start(f->x));
    say_overflow(f);
    f->combine_ns = tg_now_ns(p->transport->clock) - f->begin_ns;
    TG_TRY(take_wishes(p, f));
    TG_TRY(post_sends(p, &posted));
    tg__late_watch(f, f->begin_ns);
    if (f->x->ops->finished(f->x)) {
        *link = f->next;
        land(p, f);
    }
    return TG_OK;
}

tg_status tg__pump_launch(tg__pump *p, tg__flight *f)
{
    if (p->failure.status != TG_OK)
        return tg__latch_get(&p->failure);
    tg_status status = launch(p, f);
    return status == TG_OK ? TG_OK : fail(p, status);
}

static tg_status run(tg__pump *p, int64_t deadline_ns)
{
    tg_transport *t = p->transport;
    size_t finished;
    int64_t due;
    TG_TRY(move_all(p, &finished));
    if (finished > 0 || !p->active)
        return TG_OK;
    const int64_t now = tg__late_ran(p, 0);
    TG_TRY(tg__late_check(p, now, &due));
    tg__waits_tell(p, now);
    /* Sleep only briefly, so that it can be detected if the process did not run meanwhile. */
    const int64_t slack = tg__late_least_slack_ns(p);
    const int64_t until = TG__MIN(TG__MIN(deadline_ns, due), now + slack);
    tg_status status = t->ops->poll(t, until);
    if (status != TG_OK)
        return status;
    tg__waits_slept(p, now, TG__MIN(tg__late_ran(p, until), until + slack));
    /* Return even if nothing finished: the poll may have ended because of a call of wake. */
    return move_all(p, &finished);
}

tg_status tg__pump_run(tg__pump *p, int64_t deadline_ns)
{
    if (p->failure.status != TG_OK)
        return tg__latch_get(&p->failure);
    (void)tg__late_ran(p, 0);
    tg_status status = run(p, deadline_ns);
    return status == TG_OK ? TG_OK : fail(p, status);
}
