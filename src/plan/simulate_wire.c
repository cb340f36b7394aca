/* The wire between the ranks. Every exchange occupies it for its serial bytes, and arrives after
 * its delays, as given by cost() (exchange.h). The delays of one exchange overlap the bytes of
 * others.
 *
 *     all ranks have encoded it ---bytes / rate---> sent ---delays---> arrived ---decode---> end */
#include "plan/simulate_impl.h"
#include "base/mem.h"
#include "exchange/sliced.h"

#include <math.h>
#include <string.h>

tg__network tg__sim_network(const tg_link *link, int world)
{
    const double down = link->down_bps, up = link->up_bps;
    const double rate = up > 0 && (up < down || !(down > 0)) ? up : down;
    /* The last of (P-1) messages determines the time; each has a jitter of U[0, jitter). */
    const double late = world > 1 ? (double)(world - 1) / world : 0;
    return (tg__network){.delay = ((double)link->delay_ns + late * (double)link->jitter_ns) / 1e9,
                         .byte = rate > 0 ? 8 / rate : 0};
}

tg_status tg__sim_check_link(const char *what, const tg_link *link)
{
    if (link->struct_size != sizeof *link)
        return tg_fail(TG_E_ARG, "%s: struct_size of the link is %zu: allowed: %zu", what,
                       link->struct_size, sizeof *link);
    if (!(link->up_bps >= 0 && link->down_bps >= 0) || link->delay_ns < 0 || link->jitter_ns < 0)
        return tg_fail(TG_E_ARG,
                       "%s: up_bps=%g, down_bps=%g, delay_ns=%lld, jitter_ns=%lld: allowed: 0 and "
                       "above",
                       what, link->up_bps, link->down_bps, (long long)link->delay_ns,
                       (long long)link->jitter_ns);
    return TG_OK;
}

static uint32_t slices_of(const tg__exchange_ops *x, int world, size_t n, double frame,
                          const tg__cost *c)
{
    return x->sliceable ? tg__slice_count(world, n, frame, c->rounds) : 1;
}

/* While messages of one slice are in flight, those of others are sent: of several delays in
 * sequence, all but the last are hidden, as far as there are slices (sliced.h). */
static double delays_ns(uint32_t slices, const tg__cost *c, const tg__network *net)
{
    const double one = 1e9 * net->delay;
    if (c->delays < 2)
        return c->delays * one;
    const double others = TG__MIN(slices, TG__SLICES_OPEN) - 1,
                 hidden = others / slices * 1e9 * c->serial * net->byte / c->delays;
    return one + (c->delays - 1) * TG__MAX(one - hidden, 0);
}

/* Replace a stage with two delays in sequence by two stages of one delay each, half as long: in
 * between, the wire is free for others. */
static void halve(tg__sim_route *r)
{
    tg__sim_stage *s = &r->stage[r->stages - 1];
    s->wire_ns /= 2;
    s->delay_ns /= 2;
    s->decode_ns /= 2;
    s[1] = s[0];
    s[0].around_ns = 0;
    r->stages++;
}

/* A round by way of servers. Ranks decode the answers only. */
static void star_stage(const tg__costs *cost, const tg__rehearsal *way, size_t i, int world,
                       const tg__star_net *net, tg__sim_route *r)
{
    const tg__star_load load = tg__star_load_of(way->round[i].n, way->round[i].frame,
                                                way->round[i].cuts, way->round[i].answered, net);
    tg__sim_stage *s = &r->stage[r->stages++];
    s->delay_ns = 2e9 * net->delay;
    s->wire_ns = 1e9 * tg__star_seconds(&load, world, net->delay) - s->delay_ns;
    s->decode_ns = s->last_ns = load.answer * (double)cost->decode_byte_ps / 1000;
    s->around_ns = (double)(cost->start_ns + cost->finish_ns);
    r->bytes += load.bytes;
}

void tg__sim_route_make(const tg__sim_bucket *b, const bucket_costs *costs, tg__sim_way kind,
                        int world, const tg__network *net, const tg__star_net *star,
                        tg__sim_route *r)
{
    const tg__costs *cost = &costs->of[kind == TG__SIM_CODED];
    const tg__rehearsal *way = &b->way[kind];
    *r = (tg__sim_route){.encode_ns = (double)cost->encode_ns,
                         .coded_bytes = (double)(way->bytes + TG__ENVELOPE_BYTES)};
    for (size_t i = 0; i < way->rounds; i++) {
        const tg__exchange_ops *x = way->round[i].x;
        const double frame = way->round[i].frame;
        tg__cost c;
        if (star != NULL) {
            star_stage(cost, way, i, world, star, r);
            continue;
        }
        x->cost(world, way->round[i].n, frame, &c);
        const uint32_t slices = slices_of(x, world, way->round[i].n, frame, &c);
        const double messages = (double)(world - 1) * TG__MAX(c.rounds, 1u),
                     frames = c.bytes + frame / (c.rounds > 1 ? world : 1);
        tg__sim_stage *s = &r->stage[r->stages++];
        s->wire_ns = 1e9 * c.serial * net->byte;
        s->delay_ns = delays_ns(slices, &c, net);
        s->decode_ns = frames * (double)cost->decode_byte_ps / 1000;
        s->last_ns = messages > 0 ? s->decode_ns / messages : s->decode_ns;
        s->around_ns = (double)(cost->start_ns + cost->finish_ns);
        if (slices == 1 && c.rounds == 2 && c.delays == 2)
            halve(r);
        r->bytes += c.bytes;
    }
}

/* The most urgent operation that is ready and not sent; count: there is none. */
static size_t urgent(const tg__sim_op *op, size_t count, double now_ns)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++)
        if (op[i].at < op[i].route->stages && op[i].begin_ns <= now_ns &&
            (best == count || op[i].action.priority < op[best].action.priority))
            best = i;
    return best;
}

/* When the next operation becomes ready that would overtake op[i]; with i = count: any
 * operation. */
static double next_ready(const tg__sim_op *op, size_t count, size_t i, double now_ns)
{
    double next = INFINITY;
    for (size_t k = 0; k < count; k++)
        if (op[k].at < op[k].route->stages && op[k].begin_ns > now_ns && op[k].begin_ns < next &&
            (i == count || op[k].action.priority < op[i].action.priority))
            next = op[k].begin_ns;
    return next;
}

/* The stage's last byte has been sent. */
static void advance(tg__sim_wire *w, tg__sim_op *o, double sent_ns)
{
    const tg__sim_stage *s = &o->route->stage[o->at++];
    const double first_ns = sent_ns - s->wire_ns + s->delay_ns,
                 idle_ns = TG__MAX(w->decoder_ns, first_ns), work_ns = s->decode_ns + s->around_ns;
    o->arrived_ns = o->end_ns = sent_ns + s->delay_ns;
    if (work_ns > 0)
        o->end_ns = w->decoder_ns =
            TG__MAX(o->arrived_ns + s->last_ns, idle_ns + s->decode_ns) + s->around_ns;
    o->decode_ns += work_ns;
    o->begin_ns = o->end_ns;
    o->left_ns = o->at < o->route->stages ? o->route->stage[o->at].wire_ns : 0;
}

/* The first idle time from now on; *until_p: when it ends. */
static double idle_from(const tg__sim_wire *w, double now, double *until_p)
{
    *until_p = INFINITY;
    for (size_t i = 0; i < w->count; i++) {
        if (w->busy[i].begin_ns > now) {
            *until_p = w->busy[i].begin_ns;
            return now;
        }
        now = TG__MAX(now, w->busy[i].end_ns);
    }
    return now;
}

/* Mark the time from begin to end, which was idle, as busy. */
static void take(tg__sim_wire *w, double begin, double end)
{
    size_t at = w->count;
    if (begin == end)
        return;
    while (at > 0 && w->busy[at - 1].begin_ns > begin)
        at--;
    if (at > 0 && w->busy[at - 1].end_ns == begin) {
        w->busy[at - 1].end_ns = end;
        return;
    }
    if (w->count == TG__SIM_STRETCHES) {
        if (at == 0)
            return;
        memmove(w->busy, w->busy + 1, --w->count * sizeof *w->busy);
        at--;
    }
    memmove(w->busy + at + 1, w->busy + at, (w->count++ - at) * sizeof *w->busy);
    w->busy[at] = (struct tg__sim_stretch){begin, end};
}

void tg__sim_wire_carry(tg__sim_wire *w, tg__sim_op *op, size_t count)
{
    double now = 0;
    for (size_t i = 0; i < count; i++) {
        tg__sim_op *o = &op[i];
        o->at = 0;
        o->begin_ns = o->arrived_ns = o->end_ns = o->ready_ns;
        o->decode_ns = 0;
        o->left_ns = o->route->stages > 0 ? o->route->stage[0].wire_ns : 0;
    }
    for (;;) {
        const size_t i = urgent(op, count, now);
        double until, next = next_ready(op, count, i, now);
        if (i == count && next == INFINITY)
            return;
        if (i == count) {
            now = next;
            continue;
        }
        if (op[i].left_ns > 0)
            now = idle_from(w, now, &until);
        else
            until = INFINITY;
        next = TG__MIN(next_ready(op, count, i, now), until);
        if (urgent(op, count, now) != i)
            continue; /* a more urgent one became ready meanwhile */
        const double end = TG__MIN(now + op[i].left_ns, next);
        const bool sent = now + op[i].left_ns <= next;
        take(w, now, end);
        op[i].left_ns = sent ? 0 : op[i].left_ns - (end - now);
        now = end;
        if (sent)
            advance(w, &op[i], now);
    }
}
