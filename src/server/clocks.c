/* How many steps workers have made: for the bound of staleness, and for workers that join later. */
#include "base/mem.h"
#include "server/round.h"
#include "telegrad/clock.h"
#include "transport/endpoint.h"
#include <string.h>

/* Of those for whom `counts`; NULL: of all. */
static int slowest(const tg_server *s, const tg__region *r, bool (*counts)(const tg_server *, int))
{
    int least = -1;
    for (int rank = 0; rank < s->ranks; rank++)
        if (!tg__has_left(s, rank) && r->rank[rank].counts &&
            (least < 0 || r->rank[rank].clock < r->rank[least].clock) &&
            (counts == NULL || counts(s, rank)))
            least = rank;
    return least;
}

int tg__clocks_slowest(const tg_server *s, const tg__region *r)
{
    return slowest(s, r, NULL);
}

/* The worker of this seat was heard within the timeout. */
static bool is_heard(const tg_server *s, int rank)
{
    const int64_t moved = tg__active_ns(s->t, tg__server_peer(s, rank));
    return tg_now_ns(s->t->clock) - TG__MAX(s->in[rank].heard_ns, moved) < s->timeout_ns;
}

uint64_t tg__clocks_newest(const tg_server *s, const tg__region *r)
{
    uint64_t clock = r->began;
    for (int rank = 0; rank < s->ranks; rank++)
        clock = TG__MAX(clock, r->rank[rank].clock);
    return clock;
}

enum tg__star_age tg__clocks_age(const tg_server *s)
{
    uint64_t newest = s->step;
    if (!s->hosts)
        return s->deadline_ns > 0 ? TG__STAR_LEAVES_OUT : 0;
    if (!s->founded)
        return s->journal.dir == NULL ? TG__STAR_NEW : TG__STAR_EMPTY;
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        newest = TG__MAX(newest, tg__clocks_newest(s, r));
    return newest < 2 ? TG__STAR_BEGUN : newest < TG__STAR_AGED ? TG__STAR_YOUNG : TG__STAR_OLD;
}

/* The least over all regions, because a step is complete once its gradients have arrived for all of
 * them. A worker that hangs does not hold back those that join, unless all do. */
uint64_t tg__clocks_now(const tg_server *s)
{
    if (s->hosts && s->mode.gathers)
        return s->step;
    uint64_t step = UINT64_MAX;
    for (const tg__region *r = s->regions; r != NULL; r = r->next) {
        const int heard = slowest(s, r, is_heard);
        const int rank = heard >= 0 ? heard : tg__clocks_slowest(s, r);
        step = TG__MIN(step, rank >= 0 ? r->rank[rank].clock : tg__clocks_newest(s, r));
    }
    return s->regions == NULL ? 0 : step;
}

void tg__clocks_clear(tg_server *s)
{
    s->step = 0;
    tg__rounds_clear(s);
    for (int rank = 0; s->mode.gathers && rank < s->ranks; rank++)
        s->in[rank].worker = 0; /* the others are away, and their steps are not these */
    for (tg__region *r = s->regions; r != NULL; r = r->next) {
        r->began = 0;
        memset(r->ended, 0, sizeof r->ended);
        for (int rank = 0; rank < s->ranks; rank++) {
            r->rank[rank].clock = r->rank[rank].late = r->rank[rank].came = 0;
            r->rank[rank].counts &= !s->mode.gathers;
        }
    }
}

void tg__clocks_begin(tg_server *s, int rank, tg__gathering *g)
{
    const bool comes = g->region != NULL && g->star.combine == &tg__combine_parameters;
    bool others = false;
    for (int other = 0; other < s->ranks; other++)
        others |= other != rank && s->in[other].met;
    g->anew = comes && (g->star.flags & TG__STAR_ANEW) != 0 && !others;
    if (g->anew)
        tg__clocks_clear(s);
    if (g->star.combine == &tg__combine_parameters)
        s->in[rank].base = tg__clocks_now(s);
}

void tg__clocks_return(tg_server *s, int rank, uint64_t step)
{
    for (tg__region *r = s->regions; r != NULL && !s->mode.gathers; r = r->next) {
        tg__pace_of *p = &r->rank[rank];
        p->clock = TG__MAX(p->clock, step);
        p->counts = true;
    }
}

/* If workers come and go, the server counts their steps itself. Only the first gradient of a worker
 * may say a later step, which another server has told it: at most one more than the fastest worker
 * has made. */
void tg__clocks_note(const tg_server *s, const tg__gathering *g, int rank)
{
    tg__region *r = g->region;
    tg__pace_of *p = &r->rank[rank];
    if (p->fresh)
        p->clock = TG__MAX(p->clock, TG__MIN(g->id.step, tg__clocks_newest(s, r) + 1));
    p->fresh = false;
    tg__region_note(r, rank, g->id.step, g->n);
}

bool tg__clocks_ahead(const tg_server *s, const tg__gathering *g)
{
    if (g->region == NULL || g->only < 0 || s->mode.gathers || s->mode.staleness == TG__NO_BOUND ||
        g->star.combine == &tg__combine_parameters)
        return false;
    const int rank = tg__clocks_slowest(s, g->region);
    const tg__pace_of *p = &g->region->rank[g->only];
    const uint64_t own = s->hosts ? p->clock + (p->elements < g->region->n) : g->id.step + 1,
                   least = rank < 0 ? own : g->region->rank[rank].clock;
    return own > least && own - least > (uint64_t)s->mode.staleness;
}
