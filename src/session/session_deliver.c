/* Delivery of aggregates to the strategy: wait for what is due, check whether any rank flagged the
 * step, apply or drop it.
 *
 * With `early`, the step's last exchange decides: it belongs to the first layers and carries the
 * flags of all ranks. If no rank flagged the step, the other buckets are applied one by one, each
 * when its parameters are needed or its gradients are complete again. Otherwise all are waited for
 * and dropped together.
 *
 * A sum over ranks or over a node, or the sum of a gradient and the memory, can overflow f32. This
 * is known only after the bucket's exchange, perhaps after other buckets were applied. If buckets
 * are separable, only that bucket is dropped. This does not depend on the overlap, which can differ
 * between ranks. If it is the bucket that closes the step, all are dropped. */
#include "session/session_impl.h"
#include "base/mem.h"
#include "telegrad/clock.h"
#include "telegrad/trace.h"

void tg__session_expect(tg_session *s, lane_op *o)
{
    lane_op *before = s->last_waiting;
    while (before != NULL && before->order > o->order) /* a checkpoint may have any order */
        before = before->earlier;
    o->earlier = before;
    o->later = before == NULL ? s->first_waiting : before->later;
    *(o->earlier != NULL ? &o->earlier->later : &s->first_waiting) = o;
    *(o->later != NULL ? &o->later->earlier : &s->last_waiting) = o;
    o->waiting = true;
}

static void take_out(tg_session *s, lane_op *o)
{
    *(o->earlier != NULL ? &o->earlier->later : &s->first_waiting) = o->later;
    *(o->later != NULL ? &o->later->earlier : &s->last_waiting) = o->earlier;
    o->waiting = false;
}

/* From o on, the first exchange that is due; NULL: none. */
static lane_op *next_due(lane_op *o, uint64_t due)
{
    while (o != NULL && o->due > due)
        o = o->later;
    return o;
}

static void waited(tg_session *s, int64_t begin)
{
    int64_t end = tg_now_ns(s->transport->clock);
    s->wait_ns += end - begin;
    tg_trace_span(s->config.trace, s->transport->rank, TG_ROW_WAIT, "wait", begin, end, s->t, 0);
}

static void applied(tg_session *s, int64_t begin)
{
    int64_t end = tg_now_ns(s->transport->clock);
    s->apply_ns += end - begin;
    tg_trace_span(s->config.trace, s->transport->rank, TG_ROW_APPLY, "apply", begin, end, s->t, 0);
}

/* Servers have not waited for this rank's gradient. */
static tg_status note_late(tg_session *s, const lane_op *o)
{
    if (!s->strategy->ops->served)
        return tg_fail(TG_E_CORRUPT, "a server says that a vector came too late, though it keeps "
                                     "no parameters");
    s->since.late++;
    s->told = TG__MAX(s->told, o->op.told);
    if (!s->told_late)
        tg_log(TG_LOG_WARN,
               "rank %d: step %llu: the gradient came after the server's deadline: %s, and this "
               "worker goes on at step %llu",
               s->transport->rank, (unsigned long long)o->op.task.step,
               tg__method_remembers(o->op.method) ? "it is sent with the next one" : "it is lost",
               (unsigned long long)o->op.told);
    s->told_late = true;
    return TG_OK;
}

static tg_status await(tg_session *s, lane_op *o)
{
    if (!o->loaded)
        TG_TRY(tg__engine_wait(s->engine, &o->op));
    if (o->counted)
        return TG_OK;
    o->counted = true;
    tg__session_report_op(s, o);
    const uint16_t own = o->op.late ? 0 : o->op.flags; /* a late wish to stop is sent again */
    s->since.stop = s->since.stop || (o->op.flags_in | own) & TG__FLAG_STOP;
    s->stop_wished = s->stop_wished || o->op.flags_in & TG__FLAG_WISH;
    return o->op.late && !o->loaded ? note_late(s, o) : TG_OK;
}

/* Wait for everything that is due. Only then is it known which steps some rank flagged, in any
 * bucket. */
static tg_status await_due(tg_session *s, uint64_t due)
{
    int64_t begin = tg_now_ns(s->transport->clock);
    lane_op *first = next_due(s->first_waiting, due);
    for (lane_op *o = first; o != NULL; o = next_due(o->later, due))
        TG_TRY(await(s, o));
    if (first != NULL)
        waited(s, begin);
    return TG_OK;
}

tg_status tg__session_await_all(tg_session *s)
{
    for (lane_op *o = s->first_waiting; o != NULL; o = o->later)
        if (!o->loaded)
            TG_TRY(tg__engine_wait(s->engine, &o->op));
    return TG_OK;
}

bool tg__session_was_pushed(const tg_session *s, const lane_op *o)
{
    return s->strategy->pushes && o->update && !o->op.task.coded;
}

/* True if everything that waits of this step must be dropped. */
static bool step_flagged(const tg_session *s, uint64_t of_step)
{
    if (s->strategy->ops->served) /* a server applies a bucket as it comes */
        return false;
    for (const lane_op *o = s->first_waiting; o != NULL; o = o->later)
        if (o->op.task.step == of_step && tg__op_flagged(&o->op) && !tg__session_was_pushed(s, o) &&
            (!s->separable || s->config.on_nonfinite == TG_NONFINITE_FAIL ||
             o->op.flags & TG__FLAG_CLOSES))
            return true;
    return false;
}

bool tg__session_drops(const tg_session *s, const lane_op *o)
{
    return step_flagged(s, o->op.task.step) || tg__op_flagged(&o->op);
}

#define SPOILS                                                                               \
    "the server does not apply this gradient, because the update would make parameters not " \
    "finite: "                                                                               \
    "use a lower learning rate"

/* All ranks must learn of the failure: none may leave while others wait for exchanges it has
 * begun. */
static tg_status refuse(tg_session *s, uint64_t of_step)
{
    bool own = false;
    bool spoils = false;
    const char *overflow = NULL;
    TG_TRY(tg__session_await_all(s));
    for (const lane_op *o = s->first_waiting; o != NULL; o = o->later) {
        if (o->op.task.step != of_step)
            continue;
        spoils = spoils || o->op.flags_in & TG__FLAG_SPOILS;
        own = own || o->op.flags & TG__FLAG_NONFINITE;
        if (overflow == NULL)
            overflow = o->op.task.overflow;
    }
    if (!own && overflow != NULL)
        return tg_fail(TG_E_NONFINITE, "step %llu: %s is not finite, though the gradient is",
                       (unsigned long long)of_step, overflow);
    if (own && s->bad.tensor != NULL)
        return tg_fail(TG_E_NONFINITE,
                       "step %llu: rank %d: tensor \"%s\": element %zu of the gradient is %g: "
                       "allowed: finite numbers",
                       (unsigned long long)s->bad.step, s->transport->rank, s->bad.tensor,
                       s->bad.element, (double)s->bad.value);
    if (own)
        return tg_fail(TG_E_NONFINITE, "step %llu: rank %d: what this rank exchanges is not finite",
                       (unsigned long long)of_step, s->transport->rank);
    if (spoils)
        return tg_fail(TG_E_NONFINITE, "step %llu: " SPOILS, (unsigned long long)of_step);
    return tg_fail(
        TG_E_NONFINITE,
        "step %llu: another rank's gradient, or a sum of it, is not finite: see that rank's error",
        (unsigned long long)of_step);
}

/* Called after a bucket's part of a step was dropped: its memory must not make the next step
 * overflow f32 again. A program of several rounds uses its memory until it is done. */
static tg_status heal(tg_session *s, const lane_op *o)
{
    const bucket *b = &s->bucket[o->bucket];
    const unsigned long long step = o->op.task.step;
    for (size_t l = 0; b->method->def->program->rounds > 1 && l < s->lanes; l++)
        if (!b->lane[l].loaded)
            TG_TRY(tg__engine_wait(s->engine, &b->lane[l].op));
    if (o->op.task.overflow != NULL)
        tg_log(TG_LOG_WARN, "rank %d: step %llu, bucket %u is dropped: %s is not finite",
               s->transport->rank, step, o->bucket, o->op.task.overflow);
    if (tg__method_heal(b->method, false))
        tg_log(TG_LOG_WARN,
               "rank %d: step %llu, bucket %u: what was kept of dropped gradients is too large to "
               "send; it was reset to 0",
               s->transport->rank, step, o->bucket);
    return TG_OK;
}

/* Pay what the exchange owes the method's memory, as loaded from a checkpoint. */
static void repay(lane_op *o)
{
    if (o->owes)
        tg__method_repay(o->op.method, o->op.task.eta, o->owed);
    o->owes = false;
}

/* Drop a step in which some rank's gradient, or a sum of gradients, was not finite. only: drop just
 * this exchange; NULL: all that waits of that step. */
static tg_status drop(tg_session *s, uint64_t of_step, const lane_op *only)
{
    const bool alone = only != NULL && tg__session_was_pushed(s, only);
    if (s->config.on_nonfinite == TG_NONFINITE_FAIL && !alone)
        return refuse(s, of_step);
    for (lane_op *o = s->first_waiting; o != NULL; o = o->later) /* no begin() beside undo() */
        if (!o->loaded && (only == NULL || only->bucket == o->bucket))
            TG_TRY(tg__engine_wait_for(s->engine, &o->op, TG__OP_ENCODED));
    for (lane_op *o = s->first_waiting, *later; o != NULL; o = later) {
        later = o->later;
        if (o->op.task.step != of_step || (only != NULL && o != only))
            continue;
        if (o->op.flags_in & TG__FLAG_SPOILS && !s->told_spoils) {
            tg_log(TG_LOG_WARN, "rank %d: step %llu: " SPOILS, s->transport->rank,
                   (unsigned long long)of_step);
            s->told_spoils = true;
        }
        if (!o->undone)
            TG_TRY(o->op.method->def->program->undo(o->op.method, &o->op.task));
        repay(o);
        if (!alone)
            TG_TRY(heal(s, o));
        take_out(s, o);
        const tg__result dropped = {
            .of_step = of_step, .bucket = o->bucket, .tag = o->tag, .lr = o->lr};
        tg__strategy_result(s->strategy, &dropped);
    }
    if (alone) { /* all ranks are informed with the next mean */
        s->lost = s->lost || (only->op.flags & TG__FLAG_NONFINITE) != 0;
        return TG_OK;
    }
    s->skipped += s->dropped != of_step + 1;
    s->dropped = of_step + 1;
    s->since.skipped = true;
    return TG_OK;
}

tg_status tg__session_absorb(tg_session *s, lane_op *o)
{
    const bucket *b = &s->bucket[o->bucket];
    const tg__program_ops *program = b->method->def->program;
    if (program->absorb == NULL || o->absorbed || (o->loaded && !o->owes))
        return TG_OK;
    for (size_t l = 0; l < s->lanes; l++) /* no begin() may run beside it */
        if (!b->lane[l].loaded)
            TG_TRY(tg__engine_wait_for(s->engine, &b->lane[l].op, TG__OP_ENCODED));
    if (o->loaded)
        repay(o);
    else
        program->absorb(b->method, &o->op.task);
    o->absorbed = true;
    return TG_OK;
}

/* The turn that delivers o's result: s->turn, if o is the bucket's last delivery before that
 * turn. */
static const tg__turn *turn_of(const tg_session *s, const lane_op *o)
{
    const bucket *b = &s->bucket[o->bucket];
    for (size_t l = 0; s->turn != NULL && l < s->lanes; l++)
        if (&b->lane[l] != o && b->lane[l].waiting && b->lane[l].due <= s->turn->t)
            return NULL;
    return s->turn;
}

static void apply(tg_session *s, lane_op *o)
{
    const float *agg = tg__session_aggregate(s, o);
    const size_t n = s->bucket[o->bucket].n;
    const tg__result r = {.of_step = o->op.task.step,
                          .bucket = o->bucket,
                          .tag = o->tag,
                          .agg = o->update ? agg : tg__session_clip(s, agg, n),
                          .lr = o->lr,
                          .turn = turn_of(s, o)};
    take_out(s, o);
    s->means += !o->update;
    if (!tg__session_was_pushed(s, o)) /* a push is an addition, not an update */
        tg_clock_work(s->transport->clock, tg__session_costs(s, o->bucket)->apply_ns);
    tg__strategy_result(s->strategy, &r);
    (void)tg_now_ns(s->transport->clock); /* ends the work measured by the clock */
}

tg_status tg__session_deliver(tg_session *s, uint64_t due)
{
    TG_TRY(await_due(s, due));
    int64_t begin = tg_now_ns(s->transport->clock);
    bool any = false;
    uint64_t measured = UINT64_MAX; /* the step whose norm is known */
    for (lane_op *o; (o = next_due(s->first_waiting, due)) != NULL;) {
        any = true;
        const uint64_t of_step = o->op.task.step;
        if (step_flagged(s, of_step)) {
            TG_TRY(drop(s, of_step, NULL));
        } else if (tg__op_flagged(&o->op)) {
            TG_TRY(drop(s, of_step, o));
        } else {
            if (measured != of_step)
                tg__session_clip_measure(s, of_step);
            measured = of_step;
            TG_TRY(tg__session_absorb(s, o));
            apply(s, o);
        }
    }
    if (any)
        applied(s, begin);
    return TG_OK;
}

/* The exchange that closes the step. */
static lane_op *closing(tg_session *s)
{
    lane_op *o = s->last_waiting;
    while (o != NULL && !(o->op.task.step == s->t && o->op.flags & TG__FLAG_CLOSES))
        o = o->earlier;
    return o;
}

/* Wait for a single exchange. */
static tg_status await_one(tg_session *s, lane_op *o)
{
    int64_t begin = tg_now_ns(s->transport->clock);
    TG_TRY(await(s, o));
    waited(s, begin);
    return TG_OK;
}

static tg_status deliver_one(tg_session *s, lane_op *o)
{
    int64_t begin = tg_now_ns(s->transport->clock);
    if (tg__op_flagged(&o->op))
        return drop(s, o->op.task.step, o);
    TG_TRY(tg__session_absorb(s, o));
    apply(s, o);
    applied(s, begin);
    return TG_OK;
}

tg_status tg__session_deliver_step(tg_session *s)
{
    lane_op *o = s->early ? closing(s) : NULL;
    if (o == NULL)
        return tg__session_deliver(s, s->t);
    TG_TRY(await_one(s, o));
    if (tg__op_flagged(&o->op))
        return tg__session_deliver(s, s->t);
    return deliver_one(s, o);
}

tg_status tg__session_deliver_bucket(tg_session *s, const bucket *b)
{
    for (size_t l = 0; s->early && l < s->lanes; l++) {
        lane_op *o = &b->lane[l];
        if (!o->waiting || o->due >= s->t)
            continue;
        TG_TRY(await_one(s, o));
        TG_TRY(deliver_one(s, o));
    }
    return TG_OK;
}

tg_status tg__session_deliver_early(tg_session *s)
{
    return s->early && s->t > 0 ? tg__session_deliver(s, s->t - 1) : TG_OK;
}
