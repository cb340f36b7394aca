/* Steps of a simulation, in the order in which a session plays them (strategy.h, session_step.c).
 * First every rank computes, which determines when its buckets are complete. Then the wire carries
 * what was submitted. Then every rank delivers what is due, and ends the step. */
#include "plan/simulate_impl.h"
#include "base/mem.h"
#include "telegrad/spec.h"

#include <math.h>
#include <stdlib.h>

/* ---- what is submitted ----------------------------------------------------------------------- */

static int by_priority(const void *a, const void *b)
{
    const tg__action *x = a, *y = b;
    return (x->priority > y->priority) - (x->priority < y->priority);
}

/* Convert the strategy's actions into operations. */
static tg_status take_actions(tg__sim_player *p, uint32_t trigger, bool sorted)
{
    tg__actions *out = &p->s->actions;
    TG_TRY(tg__actions_check(p->s->strategy, out));
    if (p->nops + out->count > p->room)
        return tg_fail(TG_E_STATE, "strategy \"%s\" has more than %zu exchanges in flight",
                       tg_spec_text(p->s->strategy->spec), p->s->strategy->in_flight);
    if (sorted)
        qsort(out->item, out->count, sizeof *out->item, by_priority);
    for (size_t i = 0; i < out->count; i++) {
        const tg__action *a = &out->item[i];
        const tg__sim_way way = a->hop != 0 && !a->coded ? TG__SIM_PUSHED
                                : a->coded               ? TG__SIM_CODED
                                                         : TG__SIM_DENSE;
        const tg__sim_route *r = &p->route[TG__SIM_WAYS * a->bucket + way];
        p->trigger[p->nops] = trigger;
        p->op[p->nops++] = (tg__sim_op){.action = *a, .route = r, .step = p->t};
        p->told.bytes_sent += r->bytes;
    }
    out->count = 0;
    return TG_OK;
}

/* The rank's gradients or buffers of op are complete: encode them. */
static void submit(tg__sim_player *p, tg__sim_actor *a, tg__sim_op *op)
{
    const double begin = p->inline_coding ? a->now_ns : TG__MAX(a->now_ns, a->encoder_ns);
    const double end = begin + op->route->encode_ns;
    a->encoder_ns = end;
    if (p->inline_coding)
        a->now_ns = end;
    op->ready_ns = TG__MAX(op->ready_ns, end);
}

static void carry(tg__sim_player *p)
{
    tg__sim_wire_carry(&p->wire, p->op + p->fresh, p->nops - p->fresh);
    p->fresh = p->nops;
}

/* ---- what is delivered ----------------------------------------------------------------------- */

static double end_of(const tg__sim_player *p, const tg__sim_op *op)
{
    return p->inline_coding ? op->arrived_ns : op->end_ns;
}

static double apply_of(const tg__sim_player *p, const tg__sim_op *op)
{
    return (double)tg__session_costs(p->s, op->action.bucket)->apply_ns;
}

/* The rank waits for op, and decodes it unless that happens in parallel. */
static void wait_for(tg__sim_player *p, tg__sim_actor *a, const tg__sim_op *op)
{
    const double begin = a->now_ns;
    a->now_ns = TG__MAX(begin, end_of(p, op)) + (p->inline_coding ? op->decode_ns : 0);
    p->wait_ns += a == p->actor ? a->now_ns - begin : 0;
}

static void apply_to(tg__sim_player *p, tg__sim_actor *a, double ns)
{
    a->now_ns += ns;
    p->apply_ns += a == p->actor ? ns : 0;
}

static void deliver_to(tg__sim_player *p, tg__sim_actor *a, const tg__sim_op *op)
{
    wait_for(p, a, op);
    apply_to(p, a, apply_of(p, op));
}

static void count_delivered(tg__sim_player *p, const tg__sim_op *op)
{
    const double begin = TG__MAX(op->ready_ns, p->covered_ns);
    tg_sim_step *told = &p->told;
    told->exchange_ns += op->end_ns > begin ? op->end_ns - begin : 0;
    p->covered_ns = TG__MAX(p->covered_ns, op->end_ns);
    told->encode_ns += op->route->encode_ns;
    told->decode_ns += op->decode_ns;
    told->coded_bytes += op->route->coded_bytes;
    told->coded = op->action.coded;
}

/* Remove those due by then from the list, and deliver them to the strategy. */
static void settle(tg__sim_player *p, uint64_t due, bool early)
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
        tg__strategy_result(p->s->strategy, &r);
    }
    p->nops = p->fresh = left;
}

static void deliver(tg__sim_player *p, uint64_t due)
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

/* With early parameters, wait only for the bucket that closes the step. */
static void deliver_step(tg__sim_player *p)
{
    for (size_t i = 0; p->early && i < p->nops; i++)
        p->op[i].early = p->op[i].step == p->t && i + 1 < p->nops;
    deliver(p, p->t);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static bool sits_out(const tg__sim_player *p, int rank)
{
    const tg__strategy *y = p->s->strategy;
    return rank >= 0 && y->some_absent && y->ops->weight(y, p->t, rank) == 0;
}

/* Apply the strategy's deadline as a session does: decide whether the rank sits out the step that
 * begins. */
static void watch_deadline(const tg__sim_player *p, tg__sim_actor *a)
{
    const tg__strategy *y = p->s->strategy;
    if (y->deadline_ns == 0)
        return;
    if (p->t % y->round_steps == 0)
        a->round_ns = a->now_ns;
    a->late = a->now_ns - a->round_ns > (double)y->deadline_ns;
}

/* Deliver what an earlier step left for this bucket. */
static void read_bucket(tg__sim_player *p, tg__sim_actor *a, uint32_t b)
{
    for (size_t i = 0; p->early && !p->read[b] && i < p->nops; i++)
        if (p->op[i].early && p->op[i].action.bucket == b)
            deliver_to(p, a, &p->op[i]);
    p->read[b] = true;
}

/* Submit the operations that waited for buckets >= b. */
static size_t submit_down_to(tg__sim_player *p, tg__sim_actor *a, uint32_t b, size_t next)
{
    while (next < p->nops && p->trigger[next] >= b)
        submit(p, a, &p->op[next++]);
    return next;
}

static void begin_rank(tg__sim_player *p)
{
    const tg_session *s = p->s;
    for (size_t b = 0; b < s->nbuckets; b++) {
        p->missing[b] = s->bucket[b].count;
        p->read[b] = false;
    }
}

/* The forward and backward pass; p->fresh: the first operation of this step. */
static void compute(tg__sim_player *p, tg__sim_actor *a, double pace)
{
    const tg_session *s = p->s;
    size_t next = p->fresh, first = s->nbuckets;
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
        while (first > 0 && p->missing[first - 1] == 0)
            first--;
        if (s->config.overlap != TG_OVERLAP_NONE)
            next = submit_down_to(p, a, (uint32_t)first, next);
    }
    for (uint32_t b = 0; b < s->nbuckets; b++)
        read_bucket(p, a, b);
    submit_down_to(p, a, 0, next);
}

/* The plan of step t does not depend on times, so it is known before any rank computes. What
 * remains of the previous step is delivered first; ranks still wait for it when they read it. */
static tg_status plan(tg__sim_player *p)
{
    tg__strategy *y = p->s->strategy;
    for (size_t b = p->s->nbuckets; b-- > 0;) {
        tg__strategy_ready(y, p->t, (uint32_t)b, &p->s->actions);
        TG_TRY(take_actions(p, (uint32_t)b, false));
    }
    return TG_OK;
}

static tg_status step_strategy(tg__sim_player *p)
{
    tg__strategy *y = p->s->strategy;
    bool now = false;
    for (size_t k = 0; y->ops->steps && k < p->nactors; k++)
        for (size_t b = 0; !p->actor[k].idle && b < p->s->nbuckets; b++)
            apply_to(p, &p->actor[k], (double)tg__session_costs(p->s, b)->apply_ns);
    tg__strategy_step(y, p->t, true, p->s->lr, &p->s->actions);
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

static tg_status tell(tg__sim_player *p)
{
    tg_sim_step *told = &p->told;
    const double P = p->run->world;
    told->struct_size = sizeof *told;
    told->step = p->t;
    told->end_ns = p->actor[0].now_ns;
    told->compute_ns = p->compute_ns;
    told->wait_ns = p->wait_ns;
    told->apply_ns = p->apply_ns;
    told->bytes_dense = 8.0 * (double)p->s->n * (P - 1) / P;
    p->bytes += told->bytes_sent;
    const tg_status status = p->run->each == NULL ? TG_OK : p->run->each(p->run->arg, told);
    *told = (tg_sim_step){.begin_ns = told->end_ns};
    p->compute_ns = p->wait_ns = p->apply_ns = p->covered_ns = 0;
    return status;
}

tg_status tg__sim_play_step(tg__sim_player *p)
{
    const tg_sim_run *run = p->run;
    const size_t before = p->nops;
    p->fresh = before;
    TG_TRY(plan(p));
    for (size_t k = 0; k < p->nactors; k++) {
        tg__sim_actor *a = &p->actor[k];
        watch_deadline(p, a);
        a->idle = a->late || sits_out(p, a->rank);
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

tg_status tg__sim_drain(tg__sim_player *p)
{
    tg__strategy *y = p->s->strategy;
    for (size_t k = 0; k < p->nactors; k++)
        for (size_t i = 0; i < p->nops; i++)
            if (p->op[i].early)
                deliver_to(p, &p->actor[k], &p->op[i]);
    settle(p, UINT64_MAX, true);
    do {
        deliver(p, UINT64_MAX);
        tg__strategy_drained(y, p->t, &p->s->actions);
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
