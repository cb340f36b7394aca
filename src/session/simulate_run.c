/* Steps of a simulation, in the order in which a session plays them (strategy.h, session_step.c):
 * first every rank computes, which says when its buckets are complete; then the wire carries what
 * was submitted; then every rank delivers what is due, and steps on. */
#include "session/simulate_impl.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A rank: of all that are alike, one. */
typedef struct actor {
    int rank;                  /* -1: any that takes part in all rounds */
    double now_ns, encoder_ns; /* the encoder is busy until then */
    bool idle;                 /* sits this step out */
} actor;

typedef struct player {
    tg_simulation *sim;
    tg_session *s;
    const tg_sim_run *run;
    actor *actor; /* (nactors) */
    size_t nactors;
    tg__sim_route *route; /* (nbuckets, 2) */
    tg__sim_op *op;       /* (nops of room) in the order submitted: on their way, not delivered */
    size_t nops, room, fresh; /* from `fresh` on the wire has not seen them */
    tg__sim_wire wire;
    uint32_t *trigger; /* (room) of the fresh ones: the bucket that was complete */
    uint32_t *missing; /* (nbuckets) */
    bool *read;        /* (nbuckets) delivered to this rank in this step */
    bool early, inline_coding;
    uint64_t t;
    tg_sim_step told;
    double compute_ns, wait_ns, apply_ns, covered_ns;
    double bytes;
} player;

/* ---- what is submitted ----------------------------------------------------------------------- */

static int by_priority(const void *a, const void *b)
{
    const tg__action *x = a, *y = b;
    return (x->priority > y->priority) - (x->priority < y->priority);
}

/* What the strategy asked for becomes operations. */
static tg_status take_actions(player *p, uint32_t trigger, bool sorted)
{
    tg__actions *out = &p->s->actions;
    if (p->nops + out->count > p->room)
        return tg_fail(TG_E_STATE, "strategy \"%s\" has more than %zu exchanges in flight",
                       tg_spec_text(p->s->strategy->spec), p->s->strategy->in_flight);
    if (sorted)
        qsort(out->item, out->count, sizeof *out->item, by_priority);
    for (size_t i = 0; i < out->count; i++) {
        const tg__action *a = &out->item[i];
        const tg__sim_route *r = &p->route[2 * a->bucket + a->coded];
        p->trigger[p->nops] = trigger;
        p->op[p->nops++] = (tg__sim_op){.action = *a, .route = r, .step = p->t};
        p->told.bytes_sent += r->bytes;
    }
    out->count = 0;
    return TG_OK;
}

/* The rank's gradients, or buffers, of op are complete: it encodes. */
static void submit(player *p, actor *a, tg__sim_op *op)
{
    const double begin = p->inline_coding ? a->now_ns : TG__MAX(a->now_ns, a->encoder_ns);
    const double end = begin + op->route->encode_ns;
    a->encoder_ns = end;
    if (p->inline_coding)
        a->now_ns = end;
    op->ready_ns = TG__MAX(op->ready_ns, end);
}

static void carry(player *p)
{
    tg__sim_wire_carry(&p->wire, p->op + p->fresh, p->nops - p->fresh);
    p->fresh = p->nops;
}

/* ---- what is delivered ----------------------------------------------------------------------- */

static double end_of(const player *p, const tg__sim_op *op)
{
    return p->inline_coding ? op->arrived_ns : op->end_ns;
}

static double apply_of(const player *p, const tg__sim_op *op)
{
    return (double)p->s->bucket[op->action.bucket].cost.apply_ns;
}

/* The rank waits for op, and decodes it where nobody else does. */
static void wait_for(player *p, actor *a, const tg__sim_op *op)
{
    const double begin = a->now_ns;
    a->now_ns = TG__MAX(begin, end_of(p, op)) + (p->inline_coding ? op->decode_ns : 0);
    p->wait_ns += a == p->actor ? a->now_ns - begin : 0;
}

static void apply_to(player *p, actor *a, double ns)
{
    a->now_ns += ns;
    p->apply_ns += a == p->actor ? ns : 0;
}

static void deliver_to(player *p, actor *a, const tg__sim_op *op)
{
    wait_for(p, a, op);
    apply_to(p, a, apply_of(p, op));
}

static void count_delivered(player *p, const tg__sim_op *op)
{
    const double begin = TG__MAX(op->ready_ns, p->covered_ns);
    tg_sim_step *told = &p->told;
    told->exchange_ns += op->end_ns > begin ? llround(op->end_ns - begin) : 0;
    p->covered_ns = TG__MAX(p->covered_ns, op->end_ns);
    told->encode_ns += llround(op->route->encode_ns);
    told->decode_ns += llround(op->decode_ns);
    told->coded_bytes += op->route->coded_bytes;
    told->coded = op->action.coded;
}

/* Those that were due by then leave the list, to the strategy. */
static void settle(player *p, uint64_t due, bool early)
{
    size_t left = 0;
    for (size_t i = 0; i < p->nops; i++) {
        const tg__sim_op op = p->op[i];
        if (op.action.due > due || op.early != early) {
            p->op[left++] = op;
            continue;
        }
        const tg__result r = {.of_step = op.step,
                              .bucket = op.action.bucket,
                              .tag = op.action.tag,
                              .agg = p->sim->none,
                              .lr = p->s->lr};
        count_delivered(p, &op);
        p->s->strategy->ops->result(p->s->strategy, &r);
    }
    p->nops = p->fresh = left;
}

static void deliver(player *p, uint64_t due)
{
    for (size_t k = 0; k < p->nactors; k++) {
        double apply_ns = 0;
        for (size_t i = 0; i < p->nops; i++)
            if (p->op[i].action.due <= due && !p->op[i].early) {
                wait_for(p, &p->actor[k], &p->op[i]);
                apply_ns += apply_of(p, &p->op[i]);
            }
        apply_to(p, &p->actor[k], apply_ns);
    }
    settle(p, due, false);
}

/* With early parameters only the bucket that closes the step is waited for. */
static void deliver_step(player *p)
{
    for (size_t i = 0; p->early && i < p->nops; i++)
        p->op[i].early = p->op[i].step == p->t && i + 1 < p->nops;
    deliver(p, p->t);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static bool sits_out(const player *p, int rank)
{
    tg__strategy *y = p->s->strategy;
    if (rank < 0 || !y->some_absent)
        return false;
    y->rank = rank;
    const bool out = y->ops->weight(y, p->t) == 0;
    y->rank = 0;
    return out;
}

/* What an earlier step left for this bucket. */
static void read_bucket(player *p, actor *a, uint32_t b)
{
    for (size_t i = 0; p->early && !p->read[b] && i < p->nops; i++)
        if (p->op[i].early && p->op[i].action.bucket == b)
            deliver_to(p, a, &p->op[i]);
    p->read[b] = true;
}

/* Submit what waited for buckets >= b. */
static size_t submit_down_to(player *p, actor *a, uint32_t b, size_t next)
{
    while (next < p->nops && p->trigger[next] >= b)
        submit(p, a, &p->op[next++]);
    return next;
}

static void begin_rank(player *p)
{
    const tg_session *s = p->s;
    for (size_t b = 0; b < s->nbuckets; b++) {
        p->missing[b] = s->bucket[b].count;
        p->read[b] = false;
    }
}

/* Forward and backward; p->fresh: the first operation of this step. */
static void compute(player *p, actor *a, double pace)
{
    const tg_session *s = p->s;
    size_t unready = s->ntrained, next = p->fresh, first = s->nbuckets;
    begin_rank(p);
    for (size_t i = 0; !a->idle && i < p->run->nwork; i++) {
        const tg_work *w = &p->run->work[i];
        const uint32_t b = s->tensor[w->tensor].bucket;
        if (w->kind == TG_WORK_COMPUTE) {
            const double ns = round(pace * (double)w->ns);
            a->now_ns += ns;
            p->compute_ns += a == p->actor ? ns : 0;
            continue;
        }
        read_bucket(p, a, b);
        if (w->kind != TG_WORK_GRAD_READY || p->missing[b] == 0)
            continue;
        p->missing[b]--;
        unready--;
        while (first > 0 && p->missing[first - 1] == 0)
            first--;
        if (s->config.overlap != TG_OVERLAP_NONE)
            next = submit_down_to(p, a, (uint32_t)first, next);
    }
    for (uint32_t b = 0; b < s->nbuckets; b++)
        read_bucket(p, a, b);
    submit_down_to(p, a, 0, next);
}

/* What is done in step t is known before any rank computes: plans do not depend on times. What is
 * left of the step before is handed over first; ranks still wait for it where they read it. */
static tg_status plan(player *p)
{
    tg__strategy *y = p->s->strategy;
    for (size_t b = p->s->nbuckets; b-- > 0;) {
        y->ops->ready(y, p->t, (uint32_t)b, &p->s->actions);
        TG_TRY(take_actions(p, (uint32_t)b, false));
    }
    return TG_OK;
}

static tg_status step_strategy(player *p)
{
    tg__strategy *y = p->s->strategy;
    bool now = false;
    for (size_t k = 0; y->ops->steps && k < p->nactors; k++)
        for (size_t b = 0; !p->actor[k].idle && b < p->s->nbuckets; b++)
            apply_to(p, &p->actor[k], (double)p->s->bucket[b].cost.apply_ns);
    y->ops->step(y, p->t, true, p->s->lr, &p->s->actions);
    for (size_t i = 0; i < p->s->actions.count; i++)
        now = now || p->s->actions.item[i].due <= p->t;
    p->fresh = p->nops;
    TG_TRY(take_actions(p, 0, true));
    for (size_t k = 0; k < p->nactors; k++)
        for (size_t i = p->fresh; i < p->nops; i++)
            submit(p, &p->actor[k], &p->op[i]);
    carry(p);
    if (now)
        deliver(p, p->t);
    return TG_OK;
}

static tg_status tell(player *p)
{
    tg_sim_step *told = &p->told;
    const double P = p->run->world;
    told->step = p->t;
    told->end_ns = llround(p->actor[0].now_ns);
    told->compute_ns = llround(p->compute_ns);
    told->wait_ns = llround(p->wait_ns);
    told->apply_ns = llround(p->apply_ns);
    told->bytes_dense = 8.0 * (double)p->s->n * (P - 1) / P;
    p->bytes += told->bytes_sent;
    const tg_status status = p->run->each == NULL ? TG_OK : p->run->each(p->run->arg, told);
    *told = (tg_sim_step){.begin_ns = told->end_ns};
    p->compute_ns = p->wait_ns = p->apply_ns = p->covered_ns = 0;
    return status;
}

static tg_status play_step(player *p)
{
    const tg_sim_run *run = p->run;
    const size_t before = p->nops;
    p->fresh = before;
    TG_TRY(plan(p));
    for (size_t k = 0; k < p->nactors; k++) {
        actor *a = &p->actor[k];
        a->idle = sits_out(p, a->rank);
        compute(p, a, run->pace == NULL || a->rank < 0 ? 1 : run->pace(run->arg, a->rank, p->t));
    }
    carry(p);
    settle(p, UINT64_MAX, true);
    deliver_step(p);
    TG_TRY(step_strategy(p));
    TG_TRY(tell(p));
    p->t++;
    return TG_OK;
}

/* As tg_session_finish. */
static tg_status drain(player *p)
{
    tg__strategy *y = p->s->strategy;
    for (size_t k = 0; k < p->nactors; k++)
        for (size_t i = 0; i < p->nops; i++)
            if (p->op[i].early)
                deliver_to(p, &p->actor[k], &p->op[i]);
    settle(p, UINT64_MAX, true);
    do {
        deliver(p, UINT64_MAX);
        y->ops->drained(y, p->t, &p->s->actions);
        TG_TRY(take_actions(p, 0, true));
        for (size_t k = 0; k < p->nactors; k++)
            for (size_t i = 0; i < p->nops; i++)
                submit(p, &p->actor[k], &p->op[i]);
        p->fresh = 0;
        carry(p);
    } while (p->nops > 0);
    p->bytes += p->told.bytes_sent;
    return TG_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

static tg_status make_actors(player *p)
{
    const tg_sim_run *run = p->run;
    const size_t own = TG__MAX(run->nranks, 1);
    p->nactors = own + p->s->strategy->some_absent;
    TG_TRY(tg__alloc(p->nactors, sizeof *p->actor, &p->actor));
    for (size_t i = 0; i < run->nranks; i++)
        p->actor[i].rank = run->rank[i];
    if (p->nactors > own)
        p->actor[own].rank = -1;
    return TG_OK;
}

static tg_status make_routes(player *p)
{
    const tg_session *s = p->s;
    const tg__network net = tg__sim_network(&p->run->link, p->run->world);
    TG_TRY(tg__alloc(2 * s->nbuckets, sizeof *p->route, &p->route));
    for (uint32_t b = 0; b < s->nbuckets; b++) {
        TG_TRY(tg__sim_find_way(p->sim, b, p->run->world, &net));
        for (size_t coded = 0; coded < 2; coded++)
            tg__sim_route_make(&p->sim->bucket[b], &s->bucket[b].cost, coded, p->run->world, &net,
                               &p->route[2 * b + coded]);
    }
    return TG_OK;
}

static bool is_early(const tg_session *s)
{
    for (size_t b = 0; b < s->nbuckets; b++)
        if (s->rules.rule[s->bucket[b].rule].def->properties & TG__NEEDS_ALL)
            return false;
    return s->strategy->ops->by_bucket && !s->optimizer->needs_all &&
           s->config.overlap == TG_OVERLAP_FULL;
}

static tg_status prepare(player *p)
{
    const tg_session *s = p->s;
    p->room = s->nbuckets * s->strategy->in_flight * 2; /* early ones of the step before */
    p->early = is_early(s);
    p->inline_coding = s->config.driver == TG_DRIVER_INLINE;
    TG_TRY(make_actors(p));
    TG_TRY(make_routes(p));
    TG_TRY(tg__alloc(p->room, sizeof *p->op, &p->op));
    TG_TRY(tg__alloc(p->room, sizeof *p->trigger, &p->trigger));
    TG_TRY(tg__alloc(s->nbuckets, sizeof *p->missing, &p->missing));
    return tg__alloc(s->nbuckets, sizeof *p->read, &p->read);
}

static tg_status play(player *p, tg_sim_end *end_p)
{
    const tg_sim_run *run = p->run;
    TG_TRY(prepare(p));
    p->s->strategy->ops->begin(p->s->strategy);
    while (p->t < run->steps)
        TG_TRY(play_step(p));
    TG_TRY(drain(p));
    if (end_p != NULL)
        *end_p = (tg_sim_end){.ns = llround(p->actor[0].now_ns), .bytes = p->bytes};
    return TG_OK;
}

static tg_status check(const tg_simulation *sim, const tg_sim_run *run)
{
    if (run == NULL || run->struct_size != sizeof *run || run->steps == 0 ||
        (run->nwork > 0 && run->work == NULL) || (run->nranks > 0 && run->rank == NULL))
        return tg_fail(TG_E_ARG, "tg_simulation_run: struct_size, steps above 0, and the work and "
                                 "ranks that are counted are needed");
    if (run->world < 1 || run->world > TG_SIM_WORLD_MAX)
        return tg_fail(TG_E_ARG, "world=%d: allowed: 1 to %d", run->world, TG_SIM_WORLD_MAX);
    for (size_t i = 0; i < run->nwork; i++)
        if (run->work[i].tensor >= sim->session->ntrained || run->work[i].ns < 0 ||
            (unsigned)run->work[i].kind > TG_WORK_GRAD_READY)
            return tg_fail(TG_E_ARG, "work %zu: kind=%d tensor=%u ns=%lld: there are %zu tensors",
                           i, (int)run->work[i].kind, run->work[i].tensor,
                           (long long)run->work[i].ns, sim->session->ntrained);
    return TG_OK;
}

tg_status tg_simulation_run(tg_simulation *sim, const tg_sim_run *run, tg_sim_end *end_p)
{
    TG_TRY(check(sim, run));
    player p = {.sim = sim, .s = sim->session, .run = run};
    TG_TRY(tg__sim_open_strategy(
        sim, run->strategy == NULL ? sim->session->config.strategy : run->strategy, run->world));
    const tg_status status = play(&p, end_p);
    tg__sim_close_strategy(sim);
    free(p.actor);
    free(p.route);
    free(p.op);
    free(p.trigger);
    free(p.missing);
    free(p.read);
    return status;
}
