/* Giving up: determines whom this rank names, to the caller and to the other ranks.
 *
 * A rank learns of most failures from a rank that gave up before it. In a ring, for example, only
 * the next rank notices that a rank has stalled. So a rank that leaves says whom it blames, and
 * adopts what the rank that it waited for has said. */
#include "exchange/pump_posts.h"
#include "base/mem.h"
#include "telegrad/clock.h"

#include <stdio.h>
#include <string.h>

/* Follow the chain of blame from `rank` as far as it is known. Returns the last rank's blamed(). */
static int follow(const tg__pump *p, int *rank)
{
    tg_transport *t = p->transport;
    int said = TG_BLAMED_NOBODY;
    for (int hops = 0; hops < t->size && *rank != t->rank; hops++) {
        said = t->ops->blamed(t, *rank);
        if (said < 0 || said == *rank)
            break;
        *rank = said;
    }
    return said;
}

/* Ranks that wait for each other time out at the same moment. Give the rank that this one waited
 * for a short time to say whom it blames. */
static void listen(const tg__pump *p, int *rank)
{
    const tg_clock *clock = p->transport->clock;
    const int64_t most = INT64_C(2000) * 1000000, step = 1000000;
    int64_t now = tg_now_ns(clock);
    const int64_t end = now + TG__MIN(most, p->timeout_ns / 4 * 3);
    while (follow(p, rank) == TG_NOT_LEFT && now < end) {
        clock->sleep_until_ns(clock->arg, now + step);
        now = tg_now_ns(clock);
    }
}

tg__where tg__where_of(tg__pump *p, const tg__flight *f, uint32_t order)
{
    tg__where w;
    char channel[32] = "";
    const unsigned number = tg__channel_of(p, f)->number;
    if (number > 0)
        snprintf(channel, sizeof channel, "channel %u, ", number);
    if (f->no_step)
        snprintf(w.text, sizeof w.text, "(%s%s)", channel,
                 p->stepped ? "between steps" : "before the first step");
    else
        snprintf(w.text, sizeof w.text, "(%sstep %llu, bucket %u, exchange %s, round %u)", channel,
                 (unsigned long long)f->step, f->bucket, f->x->ops->entry.name, order & 63u);
    return w;
}

void tg__pump_give_up(tg__pump *p)
{
    tg_transport *t = p->transport;
    int rank = p->culprit, said = TG_BLAMED_NOBODY;
    if (p->failure.status == TG_E_NOMEM) /* whichever message it was for */
        rank = p->culprit = t->rank;
    if (rank < 0 || t->ops->blame == NULL) {
        (void)t->ops->shut(t);
        return;
    }
    if (p->failure.status == TG_E_PEER)
        said = follow(p, &rank);
    /* the rank that left did not know whom this rank waits for */
    const bool adopted = rank != t->rank || p->suspect < 0;
    if (!adopted)
        rank = p->suspect;
    t->ops->blame(t, rank);
    (void)t->ops->shut(t);
    if (p->failure.status == TG_E_PEER)
        listen(p, &rank);
    const size_t len = strlen(p->failure.error);
    char *more = p->failure.error + len;
    const size_t room = sizeof p->failure.error - len;
    if (rank != p->culprit && adopted && t->ops->blamed(t, p->culprit) == t->rank)
        snprintf(more, room, ": rank %d was waiting for this rank, rank %d, and gave up",
                 p->culprit, t->rank);
    else if (rank != p->culprit && adopted)
        snprintf(more, room, ": rank %d gave up because of %srank %d", p->culprit,
                 rank == t->rank ? "this rank, " : "", rank);
    else if (rank != p->culprit)
        snprintf(more, room, ": because of rank %d", rank);
    else if (said == rank)
        snprintf(more, room, ": its own error says why");
}
