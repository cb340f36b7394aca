/* Rounds with a deadline: workers that are late. */
#include "base/mem.h"
#include "base/time_after.h"
#include "server/round.h"
#include "telegrad/clock.h"

/* The step of which a worker sends these slices next. */
static uint64_t next_of(const tg__pace_of *p, uint64_t bits)
{
    return p->clock + ((p->came & bits) != 0);
}

/* The step of the next round of a slice; of a whole region, of the slice that is ahead. */
static uint64_t ended(const tg__region *r, uint16_t slice, size_t n)
{
    uint64_t step = r->ended[slice % TG__REGION_SLICES];
    for (size_t i = 0; n == r->n && i < TG__REGION_SLICES; i++)
        step = TG__MAX(step, r->ended[i]);
    return step;
}

bool tg__round_lacks(const tg__round *round, int rank)
{
    const tg__region *r = round->region;
    const tg__pace_of *p = &r->rank[rank];
    const uint64_t next = next_of(p, tg__slice_bits(r, round->slice, round->n));
    return p->counts && round->of[rank] == NULL && next <= round->number &&
           next >= ended(r, round->slice, round->n); /* else what it sends next is late */
}

bool tg__round_is_over(const tg_server *s, const tg__round *round)
{
    const tg__region *r = round->region;
    const uint64_t bits = tg__slice_bits(r, round->slice, round->n);
    if (s->deadline_ns == 0 || tg_now_ns(s->t->clock) - round->from_ns < s->deadline_ns)
        return false;
    for (int rank = 0; rank < s->ranks; rank++) /* rounds of the same elements end in their order */
        if (tg__round_lacks(round, rank) && next_of(&r->rank[rank], bits) < round->number)
            return false;
    return true;
}

void tg__round_note_end(const tg__round *round)
{
    tg__region *r = round->region;
    for (size_t i = 0; i < TG__REGION_SLICES; i++)
        if (round->n == r->n || i == round->slice % TG__REGION_SLICES)
            r->ended[i] = TG__MAX(r->ended[i], round->number + 1);
}

tg_status tg__rounds_expire(tg_server *s)
{
    if (s->deadline_ns == 0 || s->rounds == NULL)
        return TG_OK;
    const int64_t now = tg_now_ns(s->t->clock);
    if (now < s->expires_ns)
        return TG_OK;
    TG_TRY(tg__rounds_advance(s)); /* what expires meanwhile is seen in the next turn */
    tg__note_work(s, now);
    s->expires_ns = INT64_MAX;
    for (const tg__round *round = s->rounds; round != NULL; round = round->next) {
        const int64_t expires_ns = tg__time_after(round->from_ns, s->deadline_ns);
        if (expires_ns > now)
            s->expires_ns = TG__MIN(s->expires_ns, expires_ns);
    }
    return TG_OK;
}

/* The worker goes on at the step of now, in all regions to which it has sent this one. */
static void move_on(tg_server *s, const tg__gathering *g)
{
    for (tg__region *r = s->regions; r != NULL; r = r->next) {
        tg__pace_of *p = &r->rank[g->only];
        if (p->elements >= r->n && p->step == g->id.step)
            tg__pace_move(p, s->step);
    }
}

void tg__late_note_stop(tg_server *s, const tg__gathering *g, uint64_t number)
{
    if (s->hosts)
        return;
    s->stop_wished = s->stop_wished || (g->flags & TG__FLAG_WISH) != 0;
    if ((g->flags & TG__FLAG_STOP) != 0)
        s->stops_after = TG__MIN(s->stops_after, number);
}

/* Only those who were in time are told of the wish: they are at least min_workers, and all say
 * STOP in their next step, to all servers. */
void tg__late_say_stop(const tg_server *s, tg__gathering *g, uint64_t number)
{
    if (!s->hosts)
        g->flags = (uint16_t)((g->flags & ~(TG__FLAG_STOP | TG__FLAG_WISH)) |
                              (number >= s->stops_after ? TG__FLAG_STOP : 0) |
                              (s->stop_wished && !g->late ? TG__FLAG_WISH : 0));
}

/* The step that nobody has begun. */
static uint64_t next_number(const tg_server *s)
{
    uint64_t number = s->step;
    for (const tg__round *round = s->rounds; round != NULL; round = round->next)
        number = TG__MAX(number, round->number + 1);
    return number;
}

bool tg__late_take(tg_server *s, tg__gathering *g)
{
    tg__region *r = g->region;
    tg__pace_of *p = &r->rank[g->only];
    const uint64_t bits = tg__slice_bits(r, g->id.slice, g->n);
    const bool lags = g->id.step < p->clock;
    if (p->clock >= ended(r, g->id.slice, g->n) && !lags)
        return false;
    p->late = (p->late_step == g->id.step ? p->late : 0) | bits;
    p->late_step = g->id.step;
    if (lags) /* another answer has told the worker a later step, but it had begun this one */
        (void)tg__region_count(r, g->only, g->id.step, g->n);
    else {
        p->came |= bits;
        tg__region_note(r, g->only, g->id.step, g->n);
    }
    move_on(s, g);
    g->late = true;
    g->told = s->step;
    tg__late_note_stop(s, g, next_number(s));
    tg__late_say_stop(s, g, s->step - 1);
    s->stats.late++;
    if (s->ran) /* a rank that stays says so itself */
        tg__say_unapplied(s, g, TG_SERVER_LATE, s->hosts,
                          "its gradient came after the deadline: it goes on at step %llu",
                          (unsigned long long)s->step);
    return true;
}

void tg__late_take_again(const tg_server *s, tg__gathering *g)
{
    const tg__pace_of *p = &g->region->rank[g->only];
    g->late =
        p->late_step == g->id.step && (p->late & tg__slice_bits(g->region, g->id.slice, g->n)) != 0;
    g->told = s->step;
}

/* The worker has yet to send something of a round that has ended. */
static bool owes(const tg__region *r, const tg__pace_of *p)
{
    for (size_t i = 0; p->counts && i < TG__REGION_SLICES; i++)
        if (next_of(p, UINT64_C(1) << i) < r->ended[i])
            return true;
    return false;
}

int tg__late_absent(const tg_server *s, int64_t now, int64_t *due_ns_p)
{
    for (int rank = 0; s->deadline_ns > 0 && rank < s->ranks; rank++) {
        const tg__intake *in = &s->in[rank];
        bool any = false;
        for (const tg__region *r = s->regions; r != NULL; r = r->next)
            any = any || owes(r, &r->rank[rank]);
        if (!any || in->here)
            continue;
        if (now - in->heard_ns >= s->timeout_ns)
            return rank;
        *due_ns_p = TG__MIN(*due_ns_p, tg__time_after(in->heard_ns, s->timeout_ns));
    }
    return -1;
}
