/* Connecting to all ranks but the meeting point, whose connection stays from the joining.
 *
 * HELLO    nonce (16), the caller's rank (4), the rank that it calls (4)
 * WELCOME  nothing. Until it has come, the caller calls again if the connection breaks off; a new
 *          one of the same rank takes the place of the old one
 *
 * Of two ranks the higher one calls. If it fails, it asks the meeting point to relay, which invites
 * the lower one: this calls back first, and comes to the relay if it fails, too. Through the relay
 * both shake hands as if the higher one had called. The higher rank decides which connection
 * counts: while its HELLO is under way, it does not answer the other's. */
#include "net/door.h"
#include "net/fields.h"
#include "net/membership.h"
#include "telegrad/clock.h"
#include "telegrad/tools.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS INT64_C(50000000)
#define DIRECT_NS INT64_C(500000000) /* calls that fail at once are tried again for so long */

typedef struct link {
    tg__caller caller;  /* state TG__CALLER_NONE: not calling now */
    tg__lookup *lookup; /* of a call that was given up. NULL: none */
    bool active;        /* this rank is to call */
    bool relays;        /* by way of the meeting point */
    bool waits;         /* it has asked for the other rank there */
    bool bridged;       /* the other rank is at the other end */
    int turn, failures; /* failures: since it tries this way */
    int64_t since_ns, next_ns;
    char why[240];
} link;

typedef struct mesh {
    tg_net *n;
    tg__door door;
    link *links; /* (size) */
    struct pollfd *polled;
    bool linked; /* the meeting point was told that all are connected */
    bool begins; /* and has answered */
} mesh;

static int64_t now_ns(void)
{
    return tg_now_ns(tg_clock_monotonic());
}

static bool is_committed(const link *l)
{
    return l->caller.state == TG__CALLER_TALKS && (!l->relays || l->bridged);
}

/* Give up a call. A lookup cannot be stopped: the next call waits until it has ended. So there is
 * one thread for each rank, however often that rank makes this one call it. */
static void end_call(link *l)
{
    if (l->caller.state == TG__CALLER_LOOKS_UP) {
        l->lookup = l->caller.lookup;
        l->caller.lookup = NULL;
    }
    tg__caller_end(&l->caller);
}

/* The connection to a rank is complete. */
static void take(mesh *m, int r, tg__caller *c, bool relayed)
{
    tg__stream **at = &m->n->stream[r];
    if (*at)
        tg__stream_close(*at);
    free(*at);
    *at = tg__caller_take(c);
    m->n->relayed[r] = relayed;
    end_call(&m->links[r]);
}

/* ---- calling --------------------------------------------------------------------------------- */

static tg_status say_pair(const tg_net *n, tg__caller *c, enum tg__said kind, int to)
{
    uint8_t body[TG__PAIR_BYTES];
    tg__net_write_pair(n, to, body);
    return tg__caller_say(c, kind, body, sizeof body);
}

static tg_status begin_call(mesh *m, int r)
{
    tg_net *n = m->n;
    link *l = &m->links[r];
    const int with = l->relays ? 0 : r;
    if (l->lookup && !tg__lookup_is_done(l->lookup))
        return TG_OK;
    tg__lookup_end(l->lookup);
    l->lookup = NULL;
    l->waits = l->bridged = false;
    TG_TRY(tg__caller_call(&l->caller, l->relays ? &n->meeting : &n->member[r].address,
                           l->relays ? n->meeting_turn : l->turn++, n->tls, 1024, tg__net_is_key,
                           &n->member[with].key));
    l->caller.exact = l->relays;
    return say_pair(n, &l->caller, l->relays ? TG__SAID_RELAY : TG__SAID_HELLO, r);
}

/* A call has failed: try again, or another way. */
static void fail_call(mesh *m, int r)
{
    link *l = &m->links[r];
    const int addresses = l->caller.addresses > 1 ? l->caller.addresses : 1;
    const bool calls_back = m->n->rank < r;
    char address[TG__ADDRESS_MAX], why[160];
    tg__address_text(&m->n->member[r].address, address);
    if (!m->n->tls || l->caller.accepts_arg == NULL ||
        !tg__net_describe_key(&l->caller, l->caller.accepts_arg, "", why, sizeof why))
        snprintf(why, sizeof why, "%s", l->caller.why);
    if (!l->relays)
        snprintf(l->why, sizeof l->why, "%.70s: %.140s", address, why);
    else
        snprintf(l->why, sizeof l->why, "relayed by rank 0: %.140s", why);
    end_call(l);
    l->next_ns = now_ns() + AGAIN_NS;
    l->failures++;
    if (l->relays) {
        l->active = !calls_back; /* until it is invited again */
        l->relays = false;
        l->failures = 0;
        l->since_ns = now_ns();
    } else if (l->failures >= addresses && (calls_back || now_ns() - l->since_ns >= DIRECT_NS))
        l->relays = true;
}

/* The message that has arrived. Returns false if it is not one that should. */
static bool hear_call(mesh *m, int r, tg_status *status)
{
    link *l = &m->links[r];
    tg__caller *c = &l->caller;
    const enum tg__said kind = tg__caller_kind(c);
    const bool calls = m->n->rank > r;
    int from, to;
    if (l->relays && !l->bridged) {
        if (kind != TG__SAID_BRIDGED)
            return false;
        l->bridged = true;
        *status = tg__caller_bridge(c, calls, tg__net_is_key, &m->n->member[r].key);
        if (*status == TG_OK && calls)
            *status = say_pair(m->n, c, TG__SAID_HELLO, r);
        return true;
    }
    if (kind == TG__SAID_WELCOME && (calls || !l->relays)) {
        take(m, r, c, l->relays);
        return true;
    }
    if (kind != TG__SAID_HELLO || calls || !l->relays || !tg__net_read_pair(m->n, c, &from, &to) ||
        from != r || to != m->n->rank)
        return false;
    tg__caller_next(c);
    c->body_max = 0;
    *status = tg__caller_say(c, TG__SAID_WELCOME, "", 0);
    return true;
}

static tg_status step_call(mesh *m, int r)
{
    link *l = &m->links[r];
    tg__caller *c = &l->caller;
    if (c->state == TG__CALLER_NONE)
        return !l->active || m->n->stream[r] || now_ns() < l->next_ns ? TG_OK : begin_call(m, r);
    tg_status status = TG_OK;
    bool ok = tg__caller_step(c);
    if (ok && l->relays && !l->waits && c->state == TG__CALLER_TALKS) {
        l->waits = true;
        c->until_ns = now_ns() + TG__LEG_NS;
    }
    if (ok && c->arrived && !hear_call(m, r, &status)) {
        snprintf(c->why, sizeof c->why, "an answer that is malformed");
        ok = false;
    }
    if (!ok)
        fail_call(m, r);
    else if (c->state == TG__CALLER_TALKS && c->body_max == 0 && tg__caller_step(c) &&
             tg__caller_has_said(c))
        take(m, r, c, true); /* it was welcomed through the relay */
    return status;
}

/* ---- being called ---------------------------------------------------------------------------- */

static tg_status step_guest(mesh *m, tg__guest *g)
{
    tg__caller *c = &g->caller;
    int from, to;
    if (c->arrived && g->rank == 0) {
        if (tg__caller_kind(c) != TG__SAID_HELLO || !tg__net_read_pair(m->n, c, &from, &to) ||
            to != m->n->rank) {
            tg__caller_end(c);
            return TG_OK;
        }
        g->rank = from;
    }
    if (g->rank == 0 || (g->rank < m->n->rank && is_committed(&m->links[g->rank])))
        return TG_OK;
    link *l = &m->links[g->rank];
    end_call(l);
    l->next_ns = now_ns() + AGAIN_NS;
    if (!c->say)
        TG_TRY(tg__caller_say(c, TG__SAID_WELCOME, "", 0));
    if (tg__caller_step(c) && tg__caller_has_said(c)) {
        take(m, g->rank, c, false);
        g->rank = 0;
    }
    return TG_OK;
}

/* ---- the meeting point ----------------------------------------------------------------------- */

static bool has_hung_up(const tg__stream *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* A higher rank has failed to call this one. */
static void be_invited(mesh *m, int r)
{
    link *l = &m->links[r];
    if (m->n->stream[r] && !has_hung_up(m->n->stream[r]))
        return; /* it was asked for before this connection came about */
    if (m->n->stream[r]) {
        tg__stream_close(m->n->stream[r]);
        free(m->n->stream[r]);
        m->n->stream[r] = NULL;
    }
    if (l->active)
        return;
    l->active = true;
    l->relays = false;
    l->failures = 0;
    l->next_ns = 0;
}

static tg_status hear_meeting_point(mesh *m)
{
    tg__caller *c = &m->n->control;
    if (!tg__caller_step(c))
        return tg_fail(TG_E_PEER, "the meeting point has left: %s", c->why);
    if (!c->arrived)
        return TG_OK;
    char text[TG__TEXT_MAX];
    tg_status left;
    if (tg__net_read_leaves(c, &left, text))
        return tg_fail(TG_E_PEER, "the meeting point has left: %s", text);
    tg__unpack u = {.at = c->body, .end = c->body + c->body_len};
    const enum tg__said kind = tg__caller_kind(c);
    const uint64_t from = c->body_len > 0 ? tg__unpack_number(&u, 4) : 0;
    if (kind == TG__SAID_BEGIN && m->linked && c->body_len == 0)
        m->begins = true;
    else if (kind == TG__SAID_INVITE && tg__unpack_whole(&u) && from > (uint64_t)m->n->rank &&
             from < (uint64_t)m->n->size)
        be_invited(m, (int)from);
    else
        return tg_fail(TG_E_CORRUPT, "the meeting point's message is malformed");
    tg__caller_next(c);
    return TG_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int missing(const mesh *m)
{
    int count = 0;
    for (int r = 1; r < m->n->size; r++)
        count += r != m->n->rank && !m->n->stream[r];
    return count;
}

/* What is missing: "rank 2 (tcp://10.0.0.3:4000: Connection refused)", "rank 3 to call" */
static void describe(const mesh *m, char *text, size_t room)
{
    const tg_net *n = m->n;
    char address[TG__ADDRESS_MAX];
    int r = 1;
    while (r < n->size && (r == n->rank || n->stream[r]))
        r++;
    if (r == n->size)
        snprintf(text, room, "the other ranks to connect to each other");
    else if (*m->links[r].why)
        snprintf(text, room, "rank %d (%s)", r, m->links[r].why);
    else if (r > n->rank)
        snprintf(text, room, "rank %d to connect to this rank (%d)", r, n->rank);
    else {
        tg__address_text(&n->member[r].address, address);
        snprintf(text, room, "rank %d at %s to answer", r, address);
    }
}

static tg_status look(mesh *m)
{
    tg_net *n = m->n;
    for (int r = 1; r < n->size; r++)
        if (r != n->rank)
            TG_TRY(step_call(m, r));
    if (!m->linked && missing(m) == 0) {
        m->linked = true;
        TG_TRY(tg__caller_say(&n->control, TG__SAID_LINKED, "", 0));
    }
    size_t count = tg__door_watch(&m->door, m->polled);
    m->polled[count++] = tg__caller_watch(&n->control);
    for (int r = 1; r < n->size; r++)
        if (m->links[r].caller.state)
            m->polled[count++] = tg__caller_watch(&m->links[r].caller);
    (void)poll(m->polled, (nfds_t)count, TG__LOOK_MS);
    TG_TRY(hear_meeting_point(m));
    if (m->begins)
        return TG_OK;
    tg__door_step(&m->door);
    n->few_files |= m->door.few_files;
    for (size_t i = 0; i < m->door.room; i++)
        if (m->door.guest[i].caller.state)
            TG_TRY(step_guest(m, &m->door.guest[i]));
    return TG_OK;
}

static tg_status connect_all(mesh *m)
{
    tg_net *n = m->n;
    TG_TRY(tg_alloc((size_t)n->size, sizeof *m->links, &m->links));
    TG_TRY(tg__door_open(&m->door, n->listener, n->tls, n->size, TG__PAIR_BYTES, tg__net_is_member,
                         n));
    TG_TRY(tg_alloc(tg__door_watch_max(&m->door) + 1 + (size_t)n->size, sizeof *m->polled,
                    &m->polled));
    for (int r = 1; r < n->size; r++)
        m->links[r] = (link){.active = r < n->rank, .since_ns = now_ns()};
    for (;;) {
        char text[400];
        TG_TRY(look(m));
        if (m->begins)
            return TG_OK;
        describe(m, text, sizeof text);
        TG_TRY(tg__net_patience(n, text));
    }
}

tg_status tg__net_mesh(tg_net *n)
{
    mesh m = {.n = n};
    const tg_status status = n->size > 2 ? connect_all(&m) : TG_OK;
    if (status == TG_OK)
        n->stream[0] = tg__caller_take(&n->control);
    else if (n->control.state == TG__CALLER_TALKS)
        tg__net_say_leaves(&n->control, status);
    tg__door_close(&m.door);
    for (int r = 1; m.links && r < n->size; r++) {
        end_call(&m.links[r]);
        tg__lookup_end(m.links[r].lookup);
    }
    free(m.links);
    free(m.polled);
    return status;
}
