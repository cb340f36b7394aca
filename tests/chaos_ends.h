/* The transports of servers and workers over the connections of chaos_lines.h. */
#ifndef TESTS_CHAOS_ENDS_H
#define TESTS_CHAOS_ENDS_H

#include "chaos_lines.h"

/* ---- a server's transport -------------------------------------------------------------------- */

static inline tg_status shop_send(tg_transport *t, int peer, uint32_t tag, const void *buf,
                                  size_t len, tg_request *req)
{
    shop *s = (shop *)t;
    place *p = &s->place[peer];
    TG_TRY(post(&s->end, peer, p->drops, tag, buf, len, true, req));
    if (p->line == NULL || is_over(p->line, AT_SERVER))
        return tg_fail(TG_E_PEER, "worker %d has left", peer);
    send_parcel(p->line, AT_WORKER, tag, buf, len);
    return TG_OK;
}

static inline tg_status shop_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                                  tg_request *req)
{
    const shop *s = (shop *)t;
    return post(&s->end, peer, s->place[peer].drops, tag, buf, cap, false, req);
}

static inline tg_status shop_test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    const shop *s = (shop *)t;
    const place *p = &s->place[req->word[0]];
    *done_p = false;
    if (s->end.dead)
        return killed();
    if (req->word[5] != p->drops)
        abort(); /* it belongs to an earlier connection */
    return p->line == NULL ? TG_OK : take(p->line, AT_SERVER, req, done_p, len_p);
}

static inline tg_status shop_poll(tg_transport *t, int64_t deadline_ns)
{
    shop *s = (shop *)t;
    line *all[SEATS];
    if (s->looks != NULL && !s->end.dead)
        s->looks(s->arg);
    for (int i = 0; i < SEATS; i++)
        all[i] = s->place[i].line;
    return poll_lines(&s->end, all, SEATS, AT_SERVER, deadline_ns);
}

/* The server has no more to do with a worker. */
static inline void vacate(shop *s, int seat, bool lost)
{
    place *p = &s->place[seat];
    p->lost_ns = lost ? now_ns() : 0;
    p->drops++;
    let_go(p->line, AT_SERVER);
    p->line = NULL;
}

static inline bool shop_drop(tg_transport *t, int peer)
{
    shop *s = (shop *)t;
    line *l = s->place[peer].line;
    if (l == NULL)
        return false;
    const bool over = is_over(l, AT_SERVER), lost = over && !l->bye;
    if (!over) {
        l->dismissed = true;
        snprintf(l->why, sizeof l->why, "%s", tg_error());
        l->caller->expelled |= strstr(l->why, "sent nothing for") != NULL;
        tell(l, AT_WORKER, arrival(l, AT_WORKER));
        l->tells_ns[AT_SERVER] = now_ns();
    }
    vacate(s, peer, !over || lost);
    return lost;
}

static inline void shop_expect(tg_transport *t, int peer)
{
    ((shop *)t)->place[peer].lost_ns = now_ns() + 1;
}

static inline bool shop_shut(tg_transport *t)
{
    shop *s = (shop *)t;
    for (int i = 0; i < SEATS; i++) {
        line *l = s->place[i].line;
        if (l == NULL)
            continue;
        /* one that vanishes says nothing: those who wait for it find out later */
        const bool silent = s->end.dead && lines.draw(2) == 0;
        l->tells_ns[AT_SERVER] = now_ns();
        lose_parcels(l, AT_WORKER, s->end.dead && lines.draw(2) == 0);
        tell(l, AT_WORKER, silent ? now_ns() + IDLE_NS : arrival(l, AT_WORKER));
        vacate(s, i, true);
    }
    return true;
}

static inline void ops_destroy(tg_transport *t)
{
    (void)t;
}

static const tg_transport_ops shop_ops = {.struct_size = sizeof shop_ops,
                                          .name = "shop",
                                          .post_send = shop_send,
                                          .post_recv = shop_recv,
                                          .test = shop_test,
                                          .poll = shop_poll,
                                          .wake = ops_wake,
                                          .shut = shop_shut,
                                          .destroy = ops_destroy,
                                          .drop = shop_drop,
                                          .expect = shop_expect};

/* A server begins anew: who called before is unknown. */
static inline void open_shop(shop *s, int number, void (*looks)(void *arg), void *arg)
{
    *s = (shop){.number = number, .looks = looks, .arg = arg};
    begin_end(&s->end, &shop_ops, SEATS, SEATS + 1);
    s->up = true;
}

/* ---- a worker's transport -------------------------------------------------------------------- */

static inline void sleep_for(int64_t ns)
{
    lines.clock->sleep_until_ns(lines.clock->arg, now_ns() + ns);
}

static inline int any_vacant(const shop *s)
{
    int best = -1;
    for (int i = 0; i < SEATS; i++)
        if (s->place[i].line == NULL && (best < 0 || s->place[i].lost_ns < s->place[best].lost_ns))
            best = i;
    return best;
}

/* Call a server once. TG_E_PEER: another call may succeed. */
static inline tg_status call(caller *c, int q)
{
    shop *s = &lines.shop[q];
    const road *r = &lines.road[c->slot][q];
    const int64_t until = now_ns() + CALL_NS;
    c->refused = false;
    sleep_for(2 * r->delay_ns + 1);
    while (r->closed_until_ns > now_ns() && !c->end.dead)
        if (r->closed_until_ns > until) {
            sleep_for(until - now_ns());
            return tg_fail(TG_E_PEER, "server %d does not answer", q);
        } else {
            sleep_for(r->closed_until_ns - now_ns());
        }
    while (!c->end.dead && s->up && !s->end.dead) {
        const int seat = c->seat >= 0 ? c->seat : any_vacant(s);
        if (seat < 0)
            return tg_fail(TG_E_PEER, "all seats are taken");
        place *p = &s->place[seat];
        if (p->line == NULL) {
            line *l = calloc(1, sizeof *l);
            if (l == NULL)
                abort();
            *l = (line){
                .shop = s, .caller = c, .tells_ns = {TG__NEVER, TG__NEVER}, .held = {true, true}};
            p->line = c->line[q] = l;
            p->token = c->token;
            c->seat_lost |= c->entered && lines.holder[q][seat] != c->token;
            if (c->entered && !c->known[q]) /* what it sends is new to the server */
                lines.holder[q][seat] = c->token;
            c->seat = seat;
            return TG_OK;
        }
        if (p->token != c->token) {
            c->refused = lines.holder[q][seat] == p->token; /* else it may move on */
            return tg_fail(TG_E_PEER, "seat %d is taken by another worker", seat);
        }
        if (now_ns() >= until)
            return tg_fail(TG_E_PEER, "server %d does not give seat %d back", q, seat);
        tell(p->line, AT_SERVER, now_ns() + 1);
        sleep_for(20 * MS);
    }
    return c->end.dead ? killed() : tg_fail(TG_E_PEER, "server %d refuses the connection", q);
}

static inline line *line_to(tg_transport *t, int peer)
{
    return ((caller *)t)->line[peer - 1];
}

static inline tg_status caller_send(tg_transport *t, int peer, uint32_t tag, const void *buf,
                                    size_t len, tg_request *req)
{
    line *l = line_to(t, peer);
    TG_TRY(post((end *)t, peer, 0, tag, buf, len, true, req));
    if (l == NULL || is_over(l, AT_WORKER))
        return tg_fail(TG_E_PEER, "server %d has left", peer - 1);
    send_parcel(l, AT_SERVER, tag, buf, len);
    return TG_OK;
}

static inline tg_status caller_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                                    tg_request *req)
{
    return post((end *)t, peer, 0, tag, buf, cap, false, req);
}

static inline tg_status caller_test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    line *l = line_to(t, (int)req->word[0]);
    *done_p = false;
    if (((end *)t)->dead)
        return killed();
    if (l == NULL)
        return tg_fail(TG_E_PEER, "server %d has left", (int)req->word[0] - 1);
    TG_TRY(take(l, AT_WORKER, req, done_p, len_p));
    l->answered |= *done_p && req->word[4] == 0;
    ((caller *)t)->known[l->shop->number] |= l->answered;
    return TG_OK;
}

static inline tg_status caller_poll(tg_transport *t, int64_t deadline_ns)
{
    caller *c = (caller *)t;
    return poll_lines(&c->end, c->line, lines.shards, AT_WORKER, deadline_ns);
}

static inline tg_status caller_renew(tg_transport *t, int peer, bool *back_p)
{
    caller *c = (caller *)t;
    const int q = peer - 1;
    line *l = c->line[q];
    *back_p = l != NULL && !is_over(l, AT_WORKER);
    if (*back_p)
        return TG_OK;
    if (l != NULL) {
        if (l->dismissed)
            return tg_fail(TG_E_PEER, "server %d: %s", q, l->why);
        if (l->answered) {
            c->away[q].spent_ns = 0;
            c->away[q].turn = 0;
        }
        c->away[q].since_ns = now_ns() - c->away[q].spent_ns;
        c->away[q].next_ns = now_ns() + TG__MIN(50 * MS * c->away[q].turn, 1000 * MS);
        c->losses++;
        c->line[q] = NULL;
        let_go(l, AT_WORKER);
    }
    if (c->end.dead)
        return killed();
    if (now_ns() < c->away[q].next_ns)
        return TG_OK;
    if (now_ns() - c->away[q].since_ns >= AGAIN_NS)
        return tg_fail(TG_E_PEER, "server %d was called for 20 s: %s", q, c->away[q].why);
    c->away[q].turn++;
    const tg_status status = call(c, q);
    if (c->refused)
        return status;
    c->away[q].next_ns = now_ns() + TG__MIN(50 * MS * c->away[q].turn, 1000 * MS);
    if (status != TG_OK && status != TG_E_PEER)
        return status;
    snprintf(c->away[q].why, sizeof c->away[q].why, "%s", status == TG_OK ? "" : tg_error());
    c->away[q].spent_ns = now_ns() - c->away[q].since_ns;
    *back_p = status == TG_OK;
    return TG_OK;
}

/* It leaves. One that was killed says nothing; its machine, if it still runs, resets the
 * connections.
 * bye  as planned */
static inline void leave_all(caller *c, bool bye)
{
    for (int q = 0; q < lines.shards; q++) {
        line *l = c->line[q];
        if (l == NULL)
            continue;
        l->bye = bye && !c->end.dead;
        l->tells_ns[AT_WORKER] = now_ns();
        lose_parcels(l, AT_SERVER, c->end.dead && lines.draw(2) == 0);
        tell(l, AT_SERVER,
             c->end.dead && lines.draw(2) == 0 ? now_ns() + UNANSWERED_NS : arrival(l, AT_SERVER));
        c->line[q] = NULL;
        let_go(l, AT_WORKER);
    }
}

static inline bool caller_shut(tg_transport *t)
{
    leave_all((caller *)t, true);
    return true;
}

static inline void caller_destroy(tg_transport *t)
{
    (void)caller_shut(t);
}

static const tg_transport_ops caller_ops = {.struct_size = sizeof caller_ops,
                                            .name = "caller",
                                            .post_send = caller_send,
                                            .post_recv = caller_recv,
                                            .test = caller_test,
                                            .poll = caller_poll,
                                            .wake = ops_wake,
                                            .shut = caller_shut,
                                            .destroy = caller_destroy,
                                            .renew = caller_renew};

static inline void open_caller(caller *c, int slot)
{
    *c = (caller){.slot = slot, .seat = -1, .token = ++lines.tokens};
    begin_end(&c->end, &caller_ops, 0, 1 + lines.shards);
}

/* Call all servers, as tg_net_attach does. */
static inline tg_status attach(caller *c)
{
    const int64_t until = now_ns() + AGAIN_NS;
    for (int q = 0; q < lines.shards;) {
        const tg_status status = call(c, q);
        if (status == TG_OK) {
            q++;
            continue;
        }
        if (status != TG_E_PEER || now_ns() >= until)
            return status;
        if (c->seat >= 0 && strstr(tg_error(), "is taken") != NULL) { /* try the next seat */
            leave_all(c, false);
            c->seat = (c->seat + 1) % SEATS;
            q = 0;
        }
        sleep_for(50 * MS);
    }
    for (int q = 0; q < lines.shards; q++)
        lines.holder[q][c->seat] = c->token;
    c->entered = true;
    c->end.base.seat = c->seat;
    c->end.base.seats = SEATS;
    return TG_OK;
}

#endif
