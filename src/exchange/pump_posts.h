/* The inside of the pump: each message of a flight is a post. A post's slot does not move while the
 * transport uses it. */
#ifndef TG_PUMP_POSTS_H
#define TG_PUMP_POSTS_H

#include "exchange/pump.h"

typedef struct tg__post {
    tg_request req;
    uint8_t *msg;
    size_t len; /* payload bytes to send, or room to receive */
    int64_t since_ns;
    uint32_t id, order;
    int peer;
    bool busy, send;
    bool waiting; /* sealed, but not yet given to the transport */
    bool held;    /* to receive from a server: what it answers is not sent yet */
    struct tg__post *next;
} tg__post;

typedef struct tg__posts {
    size_t cap, used, taken; /* slots below `used` have been used; taken: number busy or waiting */
    tg__post *first, *last;  /* the waiting posts, in the order of wishes */
    tg__post slot[];
} tg__posts;

static inline tg__channel *tg__channel_of(tg__pump *p, const tg__flight *f)
{
    return f->channel != NULL ? f->channel : &p->own;
}

/* The identity of a message, for error texts: "(step 7, bucket 3, exchange ring, round 0)". */
typedef struct tg__where {
    char text[160];
} tg__where;
tg__where tg__where_of(tg__pump *p, const tg__flight *f, uint32_t order);

/* Blame `rank` for the failure of f. */
static inline void tg__accuse(tg__pump *p, const tg__flight *f, int rank)
{
    p->culprit = rank;
    p->timeout_ns = tg__channel_of(p, f)->timeout_ns;
}

/* When the last message from a peer (send: to a peer) was complete. */
static inline int64_t *tg__heard(const tg__pump *p, int peer, bool send)
{
    return &p->heard_ns[2 * peer + send];
}

/* Update the watched round, which all later ones wait for. Call it when posts have changed. */
void tg__late_watch(tg__flight *f, int64_t now);

/* Whether message m of f is waited for: it is of the watched round, and the peer has its turn. */
static inline bool tg__late_waits(const tg__flight *f, const tg__post *m)
{
    return m->busy && !m->held && m->order == f->order;
}

/* The time since when message m of f has been waited for. */
int64_t tg__late_since(const tg__pump *p, const tg__flight *f, const tg__post *m);

/* Check for late peers.
 * due_ns_p  [out] when the next peer will be too late; INT64_MAX: never
 * Errors    TG_E_PEER (a peer is too late) */
TG_NODISCARD tg_status tg__late_check(tg__pump *p, int64_t now, int64_t *due_ns_p);

/* The slack: the longest time without a look at the clock in which this rank counts as listening.
 * For one timeout; and the smallest of all flights. */
static inline int64_t tg__late_slack_ns(int64_t timeout_ns)
{
    return timeout_ns / 64 + 1000000;
}
int64_t tg__late_least_slack_ns(tg__pump *p);

/* Note that this rank runs. Since the last call it has not deliberately slept beyond until_ns (0:
 * not at all). If it has not listened for longer than the slack, that time does not count as a
 * peer's delay. Returns the current time. */
int64_t tg__late_ran(tg__pump *p, int64_t until_ns);

/* Shut the transport after a failure (p->failure, culprit), and tell the others which rank is
 * to blame. Adds to its text which rank the others blame. */
void tg__pump_give_up(tg__pump *p);

/* Complete the error text of a transport's failure with message m. A peer that gives up announces
 * it, often because it waited for the same third rank as this one; the text then names that rank as
 * well. Returns status. */
tg_status tg__late_blame(tg__pump *p, const tg__flight *f, const tg__post *m, tg_status status);

#endif
