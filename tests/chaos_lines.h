/* Connections between servers and workers that come and go, in virtual time: they break off at both
 * ends or at one, are cut for a while, or slow. What src/net does with real ones (seats.c,
 * tcp_renew.c) is in chaos_ends.h in short. All threads are members of the clock, so one runs at a
 * time. */
#ifndef TESTS_CHAOS_LINES_H
#define TESTS_CHAOS_LINES_H

#include "base/mem.h"
#include "base/virtual_clock.h"
#include "telegrad/server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More seats than workers, so that a new one need not take that of one that may be back. */
enum { SLOTS = 4, SEATS = 6, SHARDS = 3, AT_SERVER = 0, AT_WORKER = 1 };

#define MS INT64_C(1000000)
#define CALL_NS (5000 * MS)        /* a call waits so long */
#define AGAIN_NS (20000 * MS)      /* a worker calls again for so long */
#define UNANSWERED_NS (25000 * MS) /* until TCP gives up on a peer that has vanished */
#define IDLE_NS (10000 * MS)       /* until a peer that waits only finds that the other has gone */

typedef struct parcel {
    struct parcel *next;
    int64_t due_ns;
    uint32_t tag;
    size_t len;
    _Alignas(16) uint8_t bytes[];
} parcel;

typedef struct shop shop;
typedef struct caller caller;

/* A connection. */
typedef struct line {
    shop *shop;
    caller *caller;
    parcel *first[2];    /* on their way to each end, in order */
    int64_t last_due[2]; /* of the last one that was sent */
    int64_t tells_ns[2]; /* when an end learns that it is over; TG__NEVER: it is not */
    bool held[2];        /* an end still has it */
    bool answered;       /* the worker has received something */
    bool bye;            /* the worker leaves as planned */
    bool dismissed;      /* the server has told the worker why it must go */
    char why[300];
} line;

/* A server's seat. */
typedef struct place {
    line *line; /* NULL: vacant */
    uint64_t token;
    int64_t lost_ns;
    uint64_t drops; /* requests of earlier connections are over */
} place;

/* What both ends of lines have: one thread that polls. */
typedef struct end {
    tg_transport base;
    pthread_cond_t cond;
    int64_t seen_ns; /* what came until then was seen */
    bool woken;
    bool dead; /* its process is killed */
} end;

struct shop {
    end end;
    int number;
    bool up;
    place place[SEATS];
    void (*looks)(void *arg); /* called when it waits */
    void *arg;
};

struct caller {
    end end;
    int slot; /* the machine where it is */
    int seat; /* -1: none yet */
    uint64_t token;
    line *line[SHARDS];
    struct {
        int64_t since_ns, next_ns, spent_ns;
        int turn;
        char why[300];
    } away[SHARDS];
    int losses;
    bool entered;       /* it has had a seat with all servers */
    bool seat_lost;     /* another one has had that since */
    bool refused;       /* in the last call, for good */
    bool known[SHARDS]; /* to the servers that have answered it */
    bool expelled;      /* a server goes on without it, because others waited for it too long */
};

/* The network between the machine of a worker and that of a server. */
typedef struct road {
    int64_t closed_until_ns, delay_ns;
} road;

static struct lines {
    tg_clock *clock;
    pthread_mutex_t mutex; /* for the clock's waits */
    int shards;
    shop shop[SHARDS];
    road road[SLOTS][SHARDS];
    uint64_t tokens;
    uint64_t holder[SHARDS][SEATS]; /* the worker that entered last */
    unsigned (*draw)(unsigned below);
} lines;

static inline int64_t now_ns(void)
{
    return tg_now_ns(lines.clock);
}

static inline void wake(end *e)
{
    e->woken = true;
    tg__clock_signal(lines.clock, &e->cond);
}

/* Something will come: if the end waits, it looks when. */
static inline void stir(end *e)
{
    tg__clock_signal(lines.clock, &e->cond);
}

static inline end *end_of(line *l, int at)
{
    return at == AT_SERVER ? &l->shop->end : &l->caller->end;
}

static inline road *road_of(const line *l)
{
    return &lines.road[l->caller->slot][l->shop->number];
}

/* ---- a connection ---------------------------------------------------------------------------- */

static inline void lose_parcels(line *l, int at, bool all)
{
    for (parcel **link = &l->first[at]; *link != NULL;) {
        parcel *p = *link;
        if (all || p->due_ns > now_ns()) {
            *link = p->next;
            free(p);
        } else {
            link = &p->next;
        }
    }
}

/* One end learns at this time that it is over. */
static inline void tell(line *l, int at, int64_t when_ns)
{
    if (when_ns >= l->tells_ns[at])
        return;
    l->tells_ns[at] = when_ns;
    if (l->held[at])
        stir(end_of(l, at));
}

static inline bool is_over(const line *l, int at)
{
    return l->tells_ns[at] <= now_ns();
}

/* What was sent over a connection that is over at the other end is answered by a reset, when it
 * gets there. */
static inline void let_go(line *l, int at)
{
    l->held[at] = false;
    lose_parcels(l, at, true);
    if (l->held[1 - at])
        return;
    lose_parcels(l, 1 - at, true);
    free(l);
}

/* It breaks off: one end learns it now, the other one when it sends something, or later. */
static inline void break_off(line *l, int at, bool both)
{
    for (int e = 0; e < 2; e++)
        lose_parcels(l, e, lines.draw(2) == 0);
    tell(l, at, now_ns() + 1);
    tell(l, 1 - at, now_ns() + (both ? 1 : IDLE_NS));
}

/* When what is sent now gets to an end. */
static inline int64_t arrival(const line *l, int to)
{
    const road *r = road_of(l);
    return TG__MAX(TG__MAX(now_ns(), r->closed_until_ns) + r->delay_ns, l->last_due[to]) + 1;
}

static inline void send_parcel(line *l, int to, uint32_t tag, const void *bytes, size_t len)
{
    if (l->tells_ns[to] != TG__NEVER) { /* the other end is gone, or will be */
        tell(l, 1 - to, arrival(l, to) + road_of(l)->delay_ns);
        return;
    }
    parcel *p = malloc(sizeof *p + len);
    if (p == NULL)
        abort();
    *p = (parcel){.due_ns = arrival(l, to), .tag = tag, .len = len};
    memcpy(p->bytes, bytes, len);
    l->last_due[to] = p->due_ns;
    parcel **last = &l->first[to];
    while (*last != NULL)
        last = &(*last)->next;
    *last = p;
    stir(end_of(l, to));
}

/* What is on its way when the network is closed comes later. */
static inline void delay_parcels(line *l)
{
    int64_t open = road_of(l)->closed_until_ns + road_of(l)->delay_ns;
    for (int to = 0; to < 2; to++)
        for (parcel *p = l->first[to]; p != NULL; p = p->next)
            if (p->due_ns > now_ns()) {
                p->due_ns = TG__MAX(p->due_ns, ++open);
                l->last_due[to] = p->due_ns;
            }
}

/* The network between two machines is closed for a while. After a long while TCP gives up. */
static inline void close_road(int slot, int shard, int64_t ns)
{
    lines.road[slot][shard].closed_until_ns = now_ns() + ns;
    for (int i = 0; i < SEATS; i++) {
        line *l = lines.shop[shard].place[i].line;
        if (l == NULL || l->caller->slot != slot)
            continue;
        delay_parcels(l);
        for (int e = 0; e < 2 && ns > UNANSWERED_NS; e++)
            tell(l, e, now_ns() + UNANSWERED_NS);
    }
}

/* ---- both ends ------------------------------------------------------------------------------- */

static inline tg_status killed(void)
{
    return tg_fail(TG_E_NOMEM, "its process was killed");
}

/* word: whose line, tag, buffer, room, whether it sends, drops */
static inline tg_status post(const end *e, int peer, uint64_t drops, uint32_t tag, const void *buf,
                             size_t len, bool sends, tg_request *req)
{
    *req = (tg_request){{(uint64_t)peer, tag, (uint64_t)(uintptr_t)buf, len, sends, drops}};
    return e->dead ? killed() : TG_OK;
}

/* Take what has arrived for a request from a line. */
static inline tg_status take(line *l, int at, const tg_request *req, bool *done_p, size_t *len_p)
{
    *done_p = req->word[4] != 0;
    *len_p = (size_t)req->word[3];
    if (*done_p && !is_over(l, at))
        return TG_OK;
    for (parcel **link = &l->first[at]; req->word[4] == 0 && *link != NULL; link = &(*link)->next) {
        parcel *p = *link;
        if (p->due_ns > now_ns())
            break;
        if (p->tag != req->word[1])
            continue;
        if (p->len > req->word[3])
            return tg_fail(TG_E_CORRUPT, "%zu bytes came for %zu", p->len, (size_t)req->word[3]);
        memcpy((void *)(uintptr_t)req->word[2], p->bytes, p->len);
        *len_p = p->len;
        *done_p = true;
        *link = p->next;
        free(p);
        return TG_OK;
    }
    *done_p = false;
    return is_over(l, at) ? tg_fail(TG_E_PEER, "%s", *l->why ? l->why : "its connection broke")
                          : TG_OK;
}

/* When something comes on a line that was not seen yet. */
static inline int64_t next_on(const line *l, int at, int64_t seen_ns)
{
    int64_t next = l->tells_ns[at] > seen_ns ? l->tells_ns[at] : TG__NEVER;
    for (const parcel *p = l->first[at]; p != NULL; p = p->next)
        if (p->due_ns > seen_ns)
            next = TG__MIN(next, p->due_ns);
    return next;
}

/* Wait for it.
 * all  (count) lines; NULL: none there */
static inline tg_status poll_lines(end *e, line *const *all, int count, int at, int64_t deadline_ns)
{
    pthread_mutex_lock(&lines.mutex);
    while (!e->dead) {
        int64_t next = deadline_ns;
        for (int i = 0; i < count; i++)
            if (all[i] != NULL)
                next = TG__MIN(next, next_on(all[i], at, e->seen_ns));
        if (e->woken || next <= now_ns())
            break;
        (void)tg__clock_wait(lines.clock, &e->cond, &lines.mutex, next);
    }
    e->woken = false;
    e->seen_ns = now_ns();
    pthread_mutex_unlock(&lines.mutex);
    return e->dead ? killed() : TG_OK;
}

static inline void ops_wake(tg_transport *t)
{
    wake((end *)t);
}

static inline void begin_end(end *e, const tg_transport_ops *ops, int rank, int size)
{
    *e = (end){.base = {.struct_size = sizeof e->base,
                        .ops = ops,
                        .rank = rank,
                        .size = size,
                        .any_thread = true,
                        .clock = lines.clock}};
    pthread_cond_init(&e->cond, NULL);
}

#endif
