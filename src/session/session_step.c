/* One step: takes gradients in, sends exchanges out, delivers aggregates to the strategy. */
#include "session/session_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/sized.h"
#include "kernel/parallel.h"
#include "telegrad/clock.h"

#include <math.h>
#include <string.h>

static tg_status trained_tensor(tg_session *s, uint32_t id, const char *call, tensor **t_p)
{
    TG_TRY(tg__session_usable(s, call));
    if (id >= s->ntensors || s->tensor[id].kind != TG_TENSOR_TRAINED)
        return tg_fail(TG_E_ARG, "%s: %u is not the number of a trained tensor", call, id);
    *t_p = &s->tensor[id];
    return TG_OK;
}

/* Return a free lane. At most `lanes` exchanges of a bucket wait for delivery, as the strategy
 * promised. */
static lane_op *free_lane(bucket *b, size_t lanes, size_t *lane_p)
{
    for (size_t l = 0; l < lanes; l++)
        if (!b->lane[l].waiting) {
            *lane_p = l;
            return &b->lane[l];
        }
    return NULL;
}

/* Where ranks leave out steps they stop in two: what a rank wants comes back to those who are in
 * time, and they say STOP in their next step. */
static uint16_t stop_flags(const tg_session *s)
{
    const bool stops = s->leaves_out ? s->stop_wished : s->stop_now;
    return (uint16_t)((stops ? TG__FLAG_STOP : 0) |
                      (s->leaves_out && s->stop_now ? TG__FLAG_WISH : 0));
}

static tg_status submit(tg_session *s, const tg__action *a, bool closes)
{
    bucket *b = &s->bucket[a->bucket];
    size_t lane;
    lane_op *l = free_lane(b, s->lanes, &lane);
    if (l == NULL)
        return tg_fail(TG_E_STATE, "strategy \"%s\" has more than %zu exchanges in flight",
                       s->config.strategy, s->lanes);
    /* The flag describes what is exchanged: the gradient, or the strategy's own buffer. */
    const bool update = a->buffer != NULL, rated = !update || s->strategy->sends_directions;
    bool nonfinite = s->nonfinite && !a->absent;
    l->norm_sq = a->absent ? 0 : b->grad_sq;
    if (update && !a->absent) {
        tg__stats stats;
        tg__parallel_copy_stats(s->pool, NULL, a->buffer, b->n, &stats);
        const bool tells = s->lost && a->hop == 0 && s->config.on_nonfinite == TG_NONFINITE_FAIL;
        nonfinite = !stats.finite || tells || (s->strategy->sends_directions && s->nonfinite);
        l->norm_sq = stats.sum_sq;
    }
    tg__op *op = &l->op;
    op->method = b->method;
    op->task = (tg__task){.step = s->t,
                          .g = update ? a->buffer : b->g,
                          .coded = a->coded,
                          .nonfinite = nonfinite || a->absent,
                          .lane = lane,
                          .eta = rated ? s->lr : 1,
                          .hop = a->hop,
                          .no_update = rated && s->lr == 0};
    op->flight.costs = &tg__session_costs(s, a->bucket)->of[a->coded];
    op->flight.priority = a->priority;
    op->flags = nonfinite ? TG__FLAG_NONFINITE : 0;
    if (closes && a->hop == 0) /* all ranks receive these flags */
        op->flags |= TG__FLAG_CLOSES | stop_flags(s);
    l->counted = l->undone = l->loaded = l->absorbed = l->owes = false;
    l->due = a->due;
    l->tag = a->tag;
    l->update = update;
    l->order = s->order++;
    l->lr = s->lr;
    tg__session_expect(s, l);
    return tg__engine_submit(s->engine, op);
}

/* Submit the strategy's actions. final: all gradients of this step are in, so the last action
 * closes it. */
static tg_status submit_actions(tg_session *s, bool final)
{
    bool updates = false;
    TG_TRY(tg__actions_check(s->strategy, &s->actions));
    for (size_t i = 0; i < s->actions.count; i++) {
        updates = updates || (s->actions.item[i].buffer != NULL && s->actions.item[i].hop == 0);
        TG_TRY(submit(s, &s->actions.item[i], final && i + 1 == s->actions.count));
    }
    s->actions.count = 0;
    s->lost = s->lost && !updates; /* it has been reported */
    return TG_OK;
}

tg_status tg__session_submit(tg_session *s)
{
    return submit_actions(s, true);
}

/* Report complete buckets to the strategy, always from last to first, whatever the order of the
 * gradients, so that all ranks submit in the same order. */
static tg_status plan_ready(tg_session *s)
{
    if (s->config.overlap == TG_OVERLAP_NONE && s->unready > 0)
        return TG_OK;
    while (s->next_ready > 0 && s->bucket[s->next_ready - 1].missing == 0) {
        s->next_ready--;
        if (s->next_ready == 0)
            s->stop_now = tg__session_wants_stop(s);
        s->strategy->finite = isfinite(s->bucket[s->next_ready].grad_sq);
        tg__strategy_ready(s->strategy, s->t, (uint32_t)s->next_ready, &s->actions);
        TG_TRY(submit_actions(s, s->next_ready == 0));
    }
    return TG_OK;
}

/* Note which element of a gradient is not finite, for the error that ends the run. */
static void note_nonfinite(tg_session *s, const tensor *t)
{
    if (s->config.on_nonfinite != TG_NONFINITE_FAIL || s->bad.tensor != NULL)
        return;
    for (size_t i = 0; i < t->n; i++)
        if (!isfinite(t->grad[i])) {
            s->bad = (bad_element){t->name, i, t->grad[i], s->t};
            return;
        }
}

static tg_status take_gradient(tg_session *s, tensor *t)
{
    bucket *b = &s->bucket[t->bucket];
    tg__stats stats;
    /* of the last step, if nobody has read its parameters */
    TG_TRY(tg__session_deliver_bucket(s, b));
    float *staged = b->staging == NULL ? NULL : b->staging + t->offset;
    if (staged != NULL) /* the last step's copy may still be unread */
        for (size_t l = 0; l < s->lanes; l++)
            TG_TRY(tg__engine_wait_for(s->engine, &b->lane[l].op, TG__OP_BEGUN));
    tg__parallel_copy_stats(s->pool, staged, t->grad, t->n, &stats);
    b->grad_sq += stats.sum_sq;
    if (!stats.finite && !tg_session_idle(s)) { /* an idle rank's gradient is not used */
        s->nonfinite = true;
        note_nonfinite(s, t);
    }
    const double decay = b->fold_decay != 0 ? tg__optimizer_decay(s->optimizer, t->ndim) : 0;
    if (decay != 0)
        tg__kernel()->axpy(staged, (float)decay, t->param, t->n);
    t->ready = true;
    b->missing--;
    s->unready--;
    return plan_ready(s);
}

tg_status tg_session_grad_ready(tg_session *s, uint32_t id)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    tensor *t = NULL;
    TG_TRY(trained_tensor(s, id, "tg_session_grad_ready", &t));
    if (s->external && !tg__session_reads_gradients(s))
        return TG_OK;
    if (t->ready)
        return tg_fail(TG_E_STATE, "the gradient of \"%s\" was made ready twice in step %llu",
                       t->name, (unsigned long long)s->t);
    return tg__session_failed(s, take_gradient(s, t));
}

tg_status tg_session_grad_wait(tg_session *s, uint32_t id)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    tensor *t = NULL;
    TG_TRY(trained_tensor(s, id, "tg_session_grad_wait", &t));
    bucket *b = &s->bucket[t->bucket];
    if (b->staging != NULL || s->external)
        return TG_OK;
    for (size_t l = 0; l < s->lanes; l++)
        TG_TRY(tg__session_failed(s, tg__engine_wait_for(s->engine, &b->lane[l].op, TG__OP_BEGUN)));
    return TG_OK;
}

tg_status tg_session_param_wait(tg_session *s, uint32_t id)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    TG_TRY(tg__session_usable(s, "tg_session_param_wait"));
    if (id >= s->ntensors)
        return tg_fail(TG_E_ARG, "tg_session_param_wait: %u is not the number of a tensor", id);
    if (s->tensor[id].kind != TG_TENSOR_TRAINED)
        return TG_OK;
    return tg__session_failed(s, tg__session_deliver_bucket(s, &s->bucket[s->tensor[id].bucket]));
}

tg_status tg_session_progress(tg_session *s)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    TG_TRY(tg__session_usable(s, "tg_session_progress"));
    return tg__session_failed(s, tg__engine_progress(s->engine));
}

void tg_session_request_stop(tg_session *s)
{
    if (s != NULL)
        atomic_fetch_add(&s->stop_requested, 1);
}

static bool flag_is_set(const tg_session *s)
{
    const volatile sig_atomic_t *stop = s->config.stop;
    return stop != NULL && __atomic_load_n(stop, __ATOMIC_RELAXED) != 0;
}

bool tg__session_wants_stop(const void *session)
{
    const tg_session *s = session;
    return atomic_load(&s->stop_requested) != 0 || flag_is_set(s);
}

bool tg__session_ends_waits(const void *session)
{
    const tg_session *s = session;
    /* an external optimizer has steps with nobody who would end the run after one of them */
    return atomic_load(&s->stop_requested) > 1 || (s->external && flag_is_set(s));
}

/* ---- the step -------------------------------------------------------------------------------- */

double tg__session_weight(const tg_session *s, uint64_t t)
{
    const tg__strategy *y = s->strategy;
    return y->ops->weight == NULL ? 1 : y->ops->weight(y, t, y->rank);
}

bool tg_session_idle(const tg_session *s)
{
    TG__OWN_FLOATS;
    return s != NULL && s->begun && (s->late || tg__session_weight(s, s->t) == 0);
}

/* Not a final failure: the caller may make the tensor ready and call tg_session_step again. */
tg_status tg__session_check_ready(const tg_session *s)
{
    const bool error = s->config.on_unready == TG_UNREADY_ERROR && !tg_session_idle(s);
    for (size_t i = 0; error && i < s->ntrained; i++)
        if (!s->tensor[s->trained[i]].ready)
            return tg_fail(TG_E_STATE, "step %llu: the gradient of \"%s\" was never made ready",
                           (unsigned long long)s->t, s->tensor[s->trained[i]].name);
    return TG_OK;
}

/* No gradient is needed: all are complete. */
static tg_status skip_gradients(tg_session *s)
{
    for (size_t i = 0; i < s->ntrained; i++)
        s->tensor[s->trained[i]].ready = true;
    for (size_t b = 0; b < s->nbuckets; b++)
        s->bucket[b].missing = 0;
    s->unready = 0;
    return plan_ready(s);
}

/* A tensor that was never made ready counts as zero; on an idle rank, all tensors do. */
static tg_status complete_gradients(tg_session *s)
{
    if (s->external && !tg__session_reads_gradients(s))
        return skip_gradients(s);
    for (size_t i = s->ntrained; i-- > 0;) {
        tensor *t = &s->tensor[s->trained[i]];
        bucket *b = &s->bucket[t->bucket];
        if (t->ready)
            continue;
        for (size_t l = 0; l < s->lanes; l++) /* the last step's copy may still be unread */
            TG_TRY(tg__engine_wait_for(s->engine, &b->lane[l].op, TG__OP_BEGUN));
        memset(t->grad, 0, t->n * sizeof *t->grad);
        TG_TRY(take_gradient(s, t));
    }
    return TG_OK;
}

/* The rate set at this point holds for the whole step, including buckets that were exchanged
 * early. */
static void rate_step(tg_session *s)
{
    for (lane_op *o = s->first_waiting; o != NULL; o = o->later)
        if (!o->loaded && o->op.task.step == s->t)
            o->lr = s->lr;
}

static double grad_norm(const tg_session *s)
{
    double sum = 0;
    for (size_t b = 0; b < s->nbuckets; b++)
        sum += s->bucket[b].grad_sq;
    return sqrt(sum);
}

static tg_status compare_hashes(tg_session *s)
{
    if (s->config.hash_every == 0 || s->t % s->config.hash_every != 0)
        return TG_OK;
    uint64_t own, all[TG_RANKS_MAX];
    TG_TRY(tg_session_params_hash(s, &own));
    TG_TRY(tg__gather_all(s->engine, NULL, &own, sizeof own, all));
    for (int rank = 0; rank < s->transport->size; rank++)
        if (all[rank] != all[0])
            return tg_fail(TG_E_MISMATCH,
                           "after step %llu the parameters of rank %d differ from those of rank 0 "
                           "(hash %016llx, %016llx)",
                           (unsigned long long)s->t, rank, (unsigned long long)all[rank],
                           (unsigned long long)all[0]);
    return TG_OK;
}

static void open_step(tg_session *s)
{
    for (size_t b = 0; b < s->nbuckets; b++) {
        s->bucket[b].missing = s->bucket[b].count;
        s->bucket[b].grad_sq = 0;
    }
    for (size_t i = 0; i < s->ntrained; i++)
        s->tensor[s->trained[i]].ready = false;
    s->next_ready = s->nbuckets;
    s->unready = s->ntrained;
    s->nonfinite = false;
    s->opened = false;
    s->apply_ns = s->wait_ns = 0;
}

/* Count an own step that this rank cannot take. Other ranks need not know: what this rank exchanges
 * is finite. */
static void count_lost(tg_session *s)
{
    if (!s->strategy->sends_updates || s->strategy->sends_directions || !s->nonfinite ||
        s->dropped == s->t + 1)
        return;
    s->skipped++;
    s->since.skipped = true;
    s->lost = true;
}

/* Deliver what is due, with the turn of the strategy's step. */
static tg_status deliver_due(tg_session *s, const tg__turn *turn)
{
    tg__session_clip_own(s, grad_norm(s));
    s->turn = turn;
    tg_status status = tg__session_deliver_step(s);
    s->turn = NULL;
    return status;
}

/* Run the strategy's own part of the step, and wait for what it wants exchanged before the next
 * one. */
static tg_status step_strategy(tg_session *s, const tg__turn *turn)
{
    bool now = false;
    tg__session_clip_own_told(s, grad_norm(s));
    count_lost(s);
    int64_t begin = tg_now_ns(s->transport->clock);
    const bool works = s->strategy->ops->steps && !s->nonfinite && !tg_session_idle(s);
    for (size_t b = 0; works && b < s->nbuckets; b++)
        tg_clock_work(s->transport->clock, tg__session_costs(s, b)->apply_ns);
    tg__strategy_step(s->strategy, turn->t, turn->finite, turn->lr, &s->actions);
    s->apply_ns += tg_now_ns(s->transport->clock) - begin;
    for (size_t i = 0; i < s->actions.count; i++)
        now = now || s->actions.item[i].due <= s->t;
    if (!now)
        return TG_OK; /* report this step's deliveries before submitting more */
    TG_TRY(submit_actions(s, true));
    return tg__session_deliver(s, s->t);
}

/* Once all gradients are complete. */
static tg__turn this_turn(const tg_session *s)
{
    return (tg__turn){s->t, !s->nonfinite && !s->late, s->lr};
}

tg_status tg__session_take_in(tg_session *s)
{
    TG_TRY(complete_gradients(s));
    rate_step(s);
    const tg__turn turn = this_turn(s);
    return deliver_due(s, s->external ? NULL : &turn);
}

/* If servers have gone on without this rank, it leaves out steps, each an exchange per bucket. */
static void next_step(tg_session *s)
{
    const uint64_t made = s->t + 1;
    s->t = TG__MAX(made, s->told);
    if (s->t > made)
        tg__engine_skip(s->engine, (s->t - made) * s->nbuckets);
}

static tg_status step(tg_session *s, tg_step_info *info)
{
    TG_TRY(s->external ? TG_OK : tg__session_take_in(s));
    const tg__turn turn = this_turn(s);
    TG_TRY(step_strategy(s, &turn));
    TG_TRY(tg__session_report_end(s, info));
    TG_TRY(submit_actions(s, true));
    TG_TRY(tg__engine_progress(s->engine));
    uint64_t near, bytes = tg__engine_bytes(s->engine, &near);
    info->step = s->t;
    info->grad_norm = grad_norm(s);
    info->bytes_sent = bytes - s->bytes_reported;
    info->bytes_near = near - s->near_reported;
    info->bytes_dense =
        (uint64_t)tg__dense_bytes(s->nodes == NULL ? s->transport->size : s->nodes->count, s->n);
    info->apply_ns = s->apply_ns;
    info->wait_ns = s->wait_ns;
    s->bytes_reported = bytes;
    s->near_reported = near;
    next_step(s);
    open_step(s);
    tg__session_round_step(s);
    return compare_hashes(s);
}

tg_status tg_session_step(tg_session *s, tg_step_info *info)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    TG_TRY(tg__session_usable(s, "tg_session_step"));
    tg_step_info own = {0};
    if (info != NULL)
        TG_TRY(tg__sized_in("tg_session_step: info", &own, sizeof own,
                            TG__FIRST_SIZE(tg_step_info, nmethods), info));
    own = (tg_step_info){.struct_size = sizeof own, .want_residual_norm = own.want_residual_norm};
    TG_TRY(s->external ? tg__session_check_open(s) : tg__session_check_ready(s));
    TG_TRY(tg__session_failed(s, step(s, &own)));
    if (info != NULL)
        tg__sized_out(info, &own, sizeof own);
    return TG_OK;
}

tg_status tg_session_set_lr(tg_session *s, double lr)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    if (!(lr >= 0 && lr <= 1e30))
        return tg_fail(TG_E_ARG, "tg_session_set_lr: lr=%g: allowed: 0 <= lr <= 1e30", lr);
    s->lr = lr;
    return TG_OK;
}

uint64_t tg_session_steps(const tg_session *s)
{
    return s != NULL ? s->t : 0;
}

tg_status tg_session_waited(const tg_session *s, int64_t *ns)
{
    TG__ARGS(s, ns);
    tg__engine_waited(s->engine, ns);
    return TG_OK;
}

uint64_t tg_session_skipped(const tg_session *s)
{
    return s != NULL ? s->skipped : 0;
}

uint64_t tg_session_bytes_sent(const tg_session *s)
{
    return s != NULL ? tg__engine_bytes(s->engine, NULL) : 0;
}

uint64_t tg_session_bytes_control(const tg_session *s)
{
    return s != NULL ? tg__engine_control_bytes(s->engine) : 0;
}

uint64_t tg_session_bytes_near(const tg_session *s)
{
    uint64_t near = 0;
    if (s != NULL)
        (void)tg__engine_bytes(s->engine, &near);
    return near;
}
