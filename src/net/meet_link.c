/* The meeting point while ranks connect to each other: it brings together those that cannot.
 *
 * LINKED   nothing; of a rank that is connected to all others
 * BEGIN    nothing; to all, when all are
 * RELAY    nonce (16), the caller's rank (4), another rank (4): on a new connection. The higher
 *          rank asks first, and the lower one is told by INVITE
 * INVITE   the rank that has asked (4)
 * BRIDGED  nothing; to both. What follows on both connections goes from one to the other
 * LEAVES   as in meet.c
 *
 * For two ranks there is nothing to do, and none of these messages is sent. */
#include "net/fields.h"
#include "net/meet.h"
#include "telegrad/clock.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INVITES_MOST ((size_t)64 << 10) /* bytes that wait for a rank */

static tg__leg *find_leg(tg__hall *h, int from, int to)
{
    for (size_t i = 0; i < h->leg_count; i++)
        if (h->legs[i].from == from && h->legs[i].to == to)
            return &h->legs[i];
    return NULL;
}

static void end_leg(tg__hall *h, tg__leg *l)
{
    tg__caller_end(&l->caller);
    *l = h->legs[--h->leg_count];
}

static tg_status invite(tg__hall *h, int to, int from)
{
    uint8_t body[4];
    tg__pack p = {.at = body, .end = body + sizeof body};
    tg__caller *c = &h->at_rank[to]->caller;
    if (c->say_len - c->say_at > INVITES_MOST)
        return TG_OK; /* it does not read: `from` must ask again */
    tg__pack_number(&p, 4, (uint64_t)from);
    return tg__caller_say(c, TG__SAID_INVITE, body, sizeof body);
}

/* A caller at the door has asked for another rank. */
static tg_status take_leg(tg__hall *h, tg__caller *c, int from, int to)
{
    tg__leg *old = find_leg(h, from, to);
    if (old && old->bridging && find_leg(h, to, from))
        end_leg(h, find_leg(h, to, from));
    if (old)
        end_leg(h, find_leg(h, from, to));
    if (h->leg_count == h->leg_cap) {
        const size_t cap = h->leg_cap ? 2 * h->leg_cap : 16;
        tg__leg *grown = realloc(h->legs, cap * sizeof *grown);
        if (!grown)
            return tg_fail(TG_E_NOMEM, "out of memory: relay");
        h->legs = grown;
        h->leg_cap = cap;
    }
    tg__caller_next(c);
    c->body_max = 0; /* what comes next is for the other rank */
    c->until_ns = tg_now_ns(tg_clock_monotonic()) + TG__LEG_NS;
    h->legs[h->leg_count++] = (tg__leg){.caller = *c, .from = from, .to = to};
    *c = (tg__caller){.state = TG__CALLER_NONE};
    tg__leg *this = find_leg(h, from, to), *back = find_leg(h, to, from);
    if (!back || back->bridging)
        return from > to ? invite(h, to, from) : TG_OK;
    this->bridging = back->bridging = true;
    TG_TRY(tg__caller_say(&this->caller, TG__SAID_BRIDGED, "", 0));
    return tg__caller_say(&back->caller, TG__SAID_BRIDGED, "", 0);
}

static tg_status hear_guests(tg__hall *h)
{
    for (size_t i = 0; i < h->door.room; i++) {
        tg__guest *g = &h->door.guest[i];
        tg__caller *c = &g->caller;
        int from, to;
        if (!c->arrived || c->ends)
            continue;
        if (tg__caller_kind(c) == TG__SAID_RELAY && tg__net_read_pair(h->n, c, &from, &to))
            TG_TRY(take_leg(h, c, from, to));
        else
            tg__hall_refuse(h, g,
                            tg__caller_kind(c) == TG__SAID_ENTER
                                ? tg_fail(TG_E_MISMATCH, TG__NO_SERVER)
                                : tg_fail(TG_E_MISMATCH, "all %d ranks have joined", h->n->size));
    }
    return TG_OK;
}

/* Both ends know: the relay takes them over. */
static tg_status bridge(tg__hall *h, tg__leg *l)
{
    tg__leg *back = find_leg(h, l->to, l->from);
    tg_net *n = h->n;
    if (!back || !tg__caller_has_said(&l->caller) || !tg__caller_has_said(&back->caller))
        return TG_OK;
    if (!n->relay)
        TG_TRY(tg__relay_create(&n->relay));
    const int a = tg__stream_leave(l->caller.stream), b = tg__stream_leave(back->caller.stream);
    const int from = l->from, to = l->to;
    TG_TRY(tg__relay_add(n->relay, a, b, (uint64_t)from << 32 | (uint64_t)to));
    end_leg(h, find_leg(h, from, to));
    end_leg(h, find_leg(h, to, from));
    return TG_OK;
}

static bool has_hung_up(const tg__caller *c)
{
    struct pollfd p = {.fd = c->stream->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static tg_status step_legs(tg__hall *h)
{
    for (size_t i = 0; i < h->leg_count;) {
        tg__leg *l = &h->legs[i];
        if (l->caller.state && tg__caller_step(&l->caller) && !has_hung_up(&l->caller)) {
            i++;
            continue;
        }
        tg__leg *back = l->bridging ? find_leg(h, l->to, l->from) : NULL;
        if (back)
            tg__caller_end(&back->caller);
        end_leg(h, l);
        i = 0;
    }
    for (size_t i = 0; i < h->leg_count; i++)
        if (h->legs[i].bridging && h->legs[i].from > h->legs[i].to) {
            const size_t before = h->leg_count;
            TG_TRY(bridge(h, &h->legs[i]));
            if (h->leg_count < before)
                i = SIZE_MAX; /* they have changed places */
        }
    return TG_OK;
}

/* Hear those who have joined. *linked_p: how many are connected to all others. */
static tg_status hear_joined(tg__hall *h, int *linked_p)
{
    *linked_p = 0;
    for (int r = 1; r < h->n->size; r++) {
        tg__joined *g = h->at_rank[r];
        char why[TG__TEXT_MAX];
        tg_status left;
        const bool lost = !tg__caller_step(&g->caller);
        if (lost)
            snprintf(why, sizeof why, "%s", g->caller.why);
        if (lost || (g->caller.arrived && tg__net_read_leaves(&g->caller, &left, why)))
            return tg_fail(TG_E_PEER, "rank %d has left while ranks connected to each other: %s", r,
                           why);
        if (g->caller.arrived && tg__caller_kind(&g->caller) == TG__SAID_LINKED) {
            g->linked = true;
            tg__caller_next(&g->caller);
        }
        if (g->caller.arrived) /* nothing more of it would be read */
            return tg_fail(TG_E_PEER,
                           "rank %d sent a malformed message while ranks connected to "
                           "each other",
                           r);
        *linked_p += g->linked;
    }
    return TG_OK;
}

/* Send what is to be said to all.
 * what  what they are to do then */
static tg_status flush(tg__hall *h, const char *what)
{
    for (int r = 1; r < h->n->size; r++)
        for (tg__caller *c = &h->at_rank[r]->caller; !tg__caller_has_said(c);) {
            struct pollfd p = {.fd = c->stream->fd, .events = POLLOUT};
            char text[60];
            if (!tg__caller_step(c))
                return tg_fail(TG_E_PEER, "rank %d has left: %s", r, c->why);
            if (tg__caller_has_said(c))
                break;
            (void)poll(&p, 1, TG__LOOK_MS);
            snprintf(text, sizeof text, "rank %d to %s", r, what);
            TG_TRY(tg__net_patience(h->n, text)); /* also if it reads, byte by byte */
        }
    return TG_OK;
}

static void describe(const tg__hall *h, int linked, char *text, size_t room)
{
    int r = 1;
    while (r < h->n->size - 1 && h->at_rank[r]->linked)
        r++;
    snprintf(text, room, "%d ranks to connect to each other (rank %d)", h->n->size - 1 - linked, r);
}

tg_status tg__hall_link(tg__hall *h)
{
    tg_net *n = h->n;
    TG_TRY(flush(h, "read the roster"));
    if (n->size == 2)
        return TG_OK;
    h->door.accepts = tg__net_is_member;
    for (int r = 1; r < n->size; r++)
        h->at_rank[r]->caller.body_max = TG__LEAVES_MAX;
    for (int linked = 0;;) {
        char text[100];
        TG_TRY(hear_joined(h, &linked));
        if (linked == n->size - 1)
            break;
        TG_TRY(tg__hall_look(h));
        TG_TRY(hear_guests(h));
        TG_TRY(step_legs(h));
        describe(h, linked, text, sizeof text);
        TG_TRY(tg__net_patience(n, text));
    }
    for (int r = 1; r < n->size; r++) {
        h->at_rank[r]->caller.body_max = 0; /* what comes next is for the transport */
        TG_TRY(tg__caller_say(&h->at_rank[r]->caller, TG__SAID_BEGIN, "", 0));
    }
    return flush(h, "begin");
}
