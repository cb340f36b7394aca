/* Inside of the pump: a flight's messages are posts; a post's slot does not move while the
 * transport works on it. */
#ifndef TG_PUMP_POSTS_H
#define TG_PUMP_POSTS_H

#include "exchange/pump.h"

typedef struct tg__post {
    tg_request req;
    uint8_t *msg;
    size_t len; /* payload bytes: sent, or room for */
    int64_t since_ns;
    uint32_t id, order;
    int peer;
    bool busy, send;
    bool waiting; /* sealed, not given to the transport yet */
    struct tg__post *next;
} tg__post;

typedef struct tg__posts {
    size_t cap, used, taken; /* slots below `used` have been used; taken: busy or waiting */
    tg__post *first, *last;  /* those that wait, in the order told */
    tg__post slot[];
} tg__posts;

/* What a message is, for error texts. */
#define TG__WHERE "(%s%.0u%sstep %llu, bucket %u, exchange %s, round %u)"
#define TG__WHERE_ARGS(p, f, order)                                                           \
    tg__channel_of(p, f)->number ? "channel " : "", tg__channel_of(p, f)->number,             \
        tg__channel_of(p, f)->number ? ", " : "", (unsigned long long)(f)->step, (f)->bucket, \
        (f)->x->ops->entry.name, (order)&63u

static inline tg__channel *tg__channel_of(tg__pump *p, const tg__flight *f)
{
    return f->channel != NULL ? f->channel : &p->own;
}

/* The failure of f is because of this rank. */
static inline void tg__accuse(tg__pump *p, const tg__flight *f, int rank)
{
    p->culprit = rank;
    p->timeout_ns = tg__channel_of(p, f)->timeout_ns;
}

/* When the last message from (send: to) a peer was complete. */
static inline int64_t *tg__heard(const tg__pump *p, int peer, bool send)
{
    return &p->heard_ns[2 * peer + send];
}

/* Note which round everything later waits for. Call when posts have changed. */
void tg__late_watch(tg__flight *f, int64_t now);

/* Since when message m of f is waited for. */
int64_t tg__late_since(const tg__pump *p, const tg__flight *f, const tg__post *m);

/* TG_E_PEER if a peer is too late; else *due_ns_p is when the next one would be (INT64_MAX: never).
 */
TG_NODISCARD tg_status tg__late_check(tg__pump *p, int64_t now, int64_t *due_ns_p);

/* Longest time at a stretch without a look at the clock that counts as if this rank had listened:
 * for this timeout; for the flights under way, the shortest. */
static inline int64_t tg__late_slack_ns(int64_t timeout_ns)
{
    return timeout_ns / 64 + 1000000;
}
int64_t tg__late_least_slack_ns(tg__pump *p);

/* This rank runs, and has not chosen to sleep for longer than to until_ns (0: at all) since the
 * last call. If it did not listen for longer than the slack, that is no lateness of a peer. Returns
 * what time it is. */
int64_t tg__late_ran(tg__pump *p, int64_t until_ns);

/* Shut the transport after a failure (p->status, error, culprit), and tell the others who is to
 * blame; completes p->error with whom they blame. */
void tg__pump_give_up(tg__pump *p);

/* Complete the text of a transport's failure with message m. A peer that gave up says so at once,
 * often because it waited for a third one as we do: names that one too. Returns status. */
tg_status tg__late_blame(tg__pump *p, const tg__flight *f, const tg__post *m, tg_status status);

#endif
