/* Servers that apply each gradient as it comes: every rank has a time of its own, so events are
 * played in the order of their times, at equal times by kind and rank.
 *
 *     BEGIN   a rank takes the next step: it computes and encodes
 *     ARRIVE  its frame is at the servers' links, which carry one frame after the other
 *     APPLY   the whole frame is there. The rank is answered, unless it is too far ahead of the
 *             slowest one; then when that one has made a step. Answers leave one after the other
 *
 * All servers are alike, so one stands for all. */
#include "plan/simulate_impl.h"
#include "base/mem.h"
#include "exchange/sliced.h"
#include "server/mode.h"

#include <math.h>
#include <stdlib.h>

enum kind { APPLY, ARRIVE, BEGIN };

typedef struct event {
    double at;
    enum kind kind;
    int rank;
} event;

typedef struct worker {
    tg__star_load load, whole; /* whole: if its answer is not coded */
    double delay_ns;
    double begin_ns, sent_ns; /* of its step; its frame */
    double parts;             /* of its frame, which are answered one by one */
    double lead_ns;           /* the first of them has arrived */
    uint64_t begun, made;     /* steps that it has taken, and that servers have applied */
    uint64_t turn;            /* the number of the step in the run */
    bool lacks;               /* others had changed what it has before its first gradient */
    double compute_ns;
    bool held; /* it waits for the slowest */
} worker;

typedef struct async {
    tg__sim_player *p;
    worker *worker; /* (world) */
    event *heap;    /* (count of world: each rank has one event) */
    size_t count;
    double in_free_ns, out_free_ns; /* the servers' links */
    double compute_ns, encode_ns, end_ns, apply_ns;
    uint64_t begun, most; /* steps taken by all; the most that one rank has taken */
    uint64_t least;       /* steps made by the slowest */
    size_t at_least;      /* ranks that have made no more */
    uint64_t applied;     /* steps, by all */
    double last_ns;
} async;

/* ---- events ---------------------------------------------------------------------------------- */

static bool before(const event *a, const event *b)
{
    if (a->at < b->at || a->at > b->at)
        return a->at < b->at;
    return a->kind != b->kind ? a->kind < b->kind : a->rank < b->rank;
}

static void add(async *a, double at, enum kind kind, int rank)
{
    const event e = {at, kind, rank};
    size_t i = a->count++;
    for (; i > 0 && before(&e, &a->heap[(i - 1) / 2]); i = (i - 1) / 2)
        a->heap[i] = a->heap[(i - 1) / 2];
    a->heap[i] = e;
}

static event take(async *a)
{
    const event first = a->heap[0], e = a->heap[--a->count];
    size_t i = 0;
    for (size_t next; (next = 2 * i + 1) < a->count; i = next) {
        next += next + 1 < a->count && before(&a->heap[next + 1], &a->heap[next]);
        if (!before(&a->heap[next], &e))
            break;
        a->heap[i] = a->heap[next];
    }
    a->heap[i] = e;
    return first;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static int reported(const async *a)
{
    return a->p->run->nranks > 0 ? a->p->run->rank[0] : 0;
}

/* Report the step that has ended. */
static tg_status tell(async *a, int rank, double now)
{
    const worker *w = &a->worker[rank];
    const tg_sim_run *run = a->p->run;
    const double P = run->world, n = (double)a->p->s->n;
    if (rank != reported(a) || w->begun == 0 || run->each == NULL)
        return TG_OK;
    const tg_sim_step told = {.struct_size = sizeof told,
                              .step = w->turn,
                              .coded = true,
                              .begin_ns = w->begin_ns,
                              .end_ns = now,
                              .compute_ns = w->compute_ns,
                              .wait_ns = now - w->begin_ns - w->compute_ns - a->apply_ns,
                              .apply_ns = a->apply_ns,
                              .encode_ns = a->encode_ns,
                              .exchange_ns = now - w->sent_ns - a->apply_ns,
                              .decode_ns = a->end_ns,
                              .bytes_sent = w->load.bytes,
                              .bytes_dense = 8.0 * n * (P - 1) / P,
                              .coded_bytes = w->load.bytes};
    return run->each(run->arg, &told);
}

/* Whether the rank takes another step: one is left, or others wait for it, who would wait for
 * ever. */
static bool takes_another(const async *a, const worker *w)
{
    const tg__sim_player *p = a->p;
    if (a->begun < p->run->steps * (uint64_t)p->run->world)
        return true;
    return p->staleness != TG__NO_BOUND && a->most > w->begun + (uint64_t)p->staleness;
}

static tg_status begin(async *a, int rank, double now)
{
    worker *w = &a->worker[rank];
    const tg_sim_run *run = a->p->run;
    TG_TRY(tell(a, rank, now));
    a->last_ns = TG__MAX(a->last_ns, now);
    if (!takes_another(a, w))
        return TG_OK;
    w->turn = TG__MIN(a->begun / (uint64_t)run->world, run->steps - 1);
    w->compute_ns = a->compute_ns * (run->pace == NULL ? 1 : run->pace(run->arg, rank, w->begun));
    w->begin_ns = now;
    w->sent_ns = now + w->compute_ns + a->encode_ns;
    a->begun++;
    w->begun++;
    a->most = TG__MAX(a->most, w->begun);
    add(a, w->sent_ns + w->delay_ns, ARRIVE, rank);
    return TG_OK;
}

static void arrive(async *a, int rank, double now)
{
    worker *w = &a->worker[rank];
    const double q = w->load.slices, from = TG__MAX(a->in_free_ns, now), in = 1e9 * w->load.in,
                 push = 1e9 * w->load.push;
    a->in_free_ns = from + in;
    w->lead_ns = TG__MAX(from + in / q, now + push / w->parts);
    add(a, TG__MAX(from + in, now + push), APPLY, rank);
}

/* The answers to the first parts leave while the last ones come. */
static void answer(async *a, int rank, double now, bool at_once)
{
    const worker *w = &a->worker[rank];
    const tg__star_load *load = w->lacks ? &w->whole : &w->load;
    const double q = w->load.slices, out = 1e9 * load->out, pull = 1e9 * load->pull,
                 from = TG__MAX(a->out_free_ns, at_once ? w->lead_ns : now),
                 left = TG__MAX(from + out, now + out / w->parts),
                 turns = ceil(q / TG__SLICES_OPEN) * 2 * w->delay_ns;
    const double arrived = TG__MAX(left, TG__MAX(from + pull, now + pull / w->parts)) + w->delay_ns;
    a->out_free_ns = from + out;
    add(a, TG__MAX(arrived, w->sent_ns + turns) + a->end_ns + a->apply_ns, BEGIN, rank);
}

static bool is_ahead(const async *a, const worker *w)
{
    return a->p->staleness != TG__NO_BOUND && w->made > a->least + (uint64_t)a->p->staleness;
}

/* The slowest ranks have made one more step. */
static void advance(async *a)
{
    a->least++;
    a->at_least = 0;
    for (int r = 0; r < a->p->run->world; r++)
        a->at_least += a->worker[r].made == a->least;
}

/* Answer those that have waited for them. */
static void release(async *a, double now)
{
    for (int r = 0; r < a->p->run->world; r++) {
        worker *w = &a->worker[r];
        if (!w->held || is_ahead(a, w))
            continue;
        w->held = false;
        answer(a, r, now, false);
    }
}

static void apply(async *a, int rank, double now)
{
    worker *w = &a->worker[rank];
    const bool slowest = w->made++ == a->least && --a->at_least == 0;
    w->lacks = w->made == 1 && a->applied > 0;
    a->applied++;
    if (slowest)
        advance(a);
    w->held = is_ahead(a, w);
    if (!w->held)
        answer(a, rank, now, true);
    if (slowest)
        release(a, now);
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* All buckets' exchanges as one, of one round. whole: answers that could be coded are not. */
static tg_status load_of(const tg__sim_player *p, const tg__star_net *net, bool whole,
                         tg__star_load *load)
{
    *load = (tg__star_load){.slices = 1, .servers = net->servers};
    for (size_t b = 0; b < p->s->nbuckets; b++) {
        const tg__rehearsal *way = &p->sim->bucket[b].way[TG__SIM_CODED];
        for (size_t i = 0; i < way->rounds; i++) {
            const bool coded = way->round[i].answered && !whole;
            const tg__star_load one = tg__star_load_of(way->round[i].n, way->round[i].frame,
                                                       way->round[i].cuts, coded, net);
            load->push += one.push;
            load->pull += one.pull;
            load->in += one.in;
            load->out += one.out;
            load->bytes += one.bytes;
            load->slices = TG__MAX(load->slices, one.slices);
        }
        if (way->rounds > 1)
            return tg_fail(TG_E_UNSUPPORTED,
                           "servers that keep parameters take methods of one round: bucket %zu has "
                           "%zu",
                           b, way->rounds);
    }
    return TG_OK;
}

static tg_status set_up(async *a)
{
    tg__sim_player *p = a->p;
    const tg_sim_run *run = p->run;
    const size_t world = (size_t)run->world;
    for (size_t i = 0; i < run->nwork; i++)
        a->compute_ns += run->work[i].kind == TG_WORK_COMPUTE ? (double)run->work[i].ns : 0;
    for (size_t b = 0; b < p->s->nbuckets; b++) {
        const tg__sim_route *r = &p->route[TG__SIM_WAYS * b + TG__SIM_CODED];
        a->encode_ns += r->encode_ns;
        a->apply_ns += (double)tg__session_costs(p->s, (uint32_t)b)->apply_ns;
        for (size_t i = 0; i < r->stages; i++)
            a->end_ns += r->stage[i].decode_ns + r->stage[i].around_ns;
    }
    TG_TRY(tg__owned_alloc(&p->owned, world, sizeof *a->worker, &a->worker));
    TG_TRY(tg__owned_alloc(&p->owned, world, sizeof *a->heap, &a->heap));
    for (int r = 0; r < run->world; r++) {
        const tg__star_net net = tg__sim_star_net(run, r);
        TG_TRY(load_of(p, &net, false, &a->worker[r].load));
        TG_TRY(load_of(p, &net, true, &a->worker[r].whole));
        a->worker[r].delay_ns = 1e9 * net.delay;
        a->worker[r].parts = (double)a->worker[r].load.slices * net.servers;
        add(a, 0, BEGIN, r);
    }
    a->at_least = world;
    return TG_OK;
}

tg_status tg__sim_play_async(tg__sim_player *p, tg_sim_end *end)
{
    async a = {.p = p};
    uint64_t most = 0;
    TG_TRY(set_up(&a));
    while (a.count > 0) {
        const event e = take(&a);
        if (e.kind == BEGIN)
            TG_TRY(begin(&a, e.rank, e.at));
        else if (e.kind == ARRIVE)
            arrive(&a, e.rank, e.at);
        else
            apply(&a, e.rank, e.at);
    }
    for (int r = 0; r < p->run->world; r++)
        most = TG__MAX(most, a.worker[r].begun);
    end->ns = a.last_ns;
    end->bytes = (double)most * a.worker[0].load.bytes;
    return TG_OK;
}
