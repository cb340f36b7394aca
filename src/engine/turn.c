/* A turn of the driving thread: takes up, moves and finishes the operations of all engines. */
#include "engine/hub.h"

#include "base/mem.h"
#include "telegrad/clock.h"
#include "telegrad/trace.h"

static void set_state(tg__hub *h, tg__op *op, tg__op_state state)
{
    tg__engine *e = op->engine;
    pthread_mutex_lock(&h->lock);
    op->state = state;
    if (state == TG__OP_DONE)
        tg__engine_close(op);
    e->bytes_sent = e->channel.bytes_sent;
    e->bytes_near = e->channel.bytes_near;
    tg__hub_changed(h);
    pthread_mutex_unlock(&h->lock);
}

static tg_status launch(tg__hub *h, tg__op *op, tg__exchange *x)
{
    tg__engine *e = op->engine;
    op->flight.x = x;
    op->flight.channel = &e->channel;
    op->flight.sequence = e->first + (op->sequence + op->flight.program_round) % e->at_once;
    op->flight.step = op->task.step;
    op->flight.flags_out = op->flags | op->flags_in;
    op->flight.group = op->task.group;
    return tg__pump_launch(&h->pump, &op->flight);
}

static bool defers(const tg__op *op)
{
    return op->method != NULL && op->method->def->program->defers;
}

/* Compensate, encode, launch. */
static tg_status take_up(tg__hub *h, tg__op *op)
{
    const tg_clock *clock = h->transport->clock;
    tg__exchange *x = op->x;
    op->flags_in = 0;
    op->left_out = op->late = false;
    op->bytes_sent = op->bytes_near = 0;
    op->decode_ns = 0;
    int64_t begin = tg_now_ns(clock);
    if (op->flight.costs != NULL)
        tg_clock_work(clock, op->flight.costs->encode_ns);
    const bool known = op->task.nonfinite;
    if (op->method != NULL)
        TG_TRY(op->method->def->program->begin(op->method, &op->task, &x));
    if (op->task.overflow != NULL)
        op->flags_in |= TG__FLAG_NONFINITE;
    if (op->task.nonfinite && !known) /* seen by begin, because the gradient is on a device */
        op->flags |= TG__FLAG_NONFINITE;
    int64_t end = tg_now_ns(clock);
    op->encode_ns = end - begin;
    op->begin_ns = end;
    if (op->method != NULL)
        tg_trace_span(op->engine->trace, h->transport->rank, TG_ROW_ENCODE,
                      op->task.coded ? "encode" : "encode dense", begin, end, op->task.step,
                      op->flight.bucket);
    TG_TRY(launch(h, op, x));
    op->next = h->active;
    h->active = op;
    set_state(h, op, defers(op) ? TG__OP_BEGUN : TG__OP_ENCODED);
    return TG_OK;
}

/* The last round is over: see whether servers have left this rank out. Otherwise their answers have
 * the flags of all ranks, who repeat those of earlier rounds.
 * own  what overflowed before the round's result was read */
static void note_left_out(const tg__hub *h, tg__op *op, const char *own)
{
    op->left_out = op->flight.x->ops->served && tg__op_flagged(op) &&
                   !(op->flight.flags_in & TG__FLAG_NONFINITE) && !op->flight.x->overflow &&
                   op->task.overflow == own;
    if (op->left_out)
        tg_log(TG_LOG_WARN,
               "rank %d: step %llu, bucket %u: this rank's vector is not finite, and the servers "
               "have left it out",
               h->transport->rank, (unsigned long long)op->task.step, op->flight.bucket);
}

/* op's exchange has finished: start the next round, or complete op. */
static tg_status advance(tg__hub *h, tg__op *op, bool *done_p)
{
    const tg_clock *clock = h->transport->clock;
    tg__exchange *x = NULL;
    const uint16_t round = op->flight.program_round;
    const char *own = op->task.overflow;
    op->bytes_sent += op->flight.bytes_sent;
    op->bytes_near += op->flight.bytes_near;
    op->flags_in |= op->flight.flags_in;
    int64_t begin = tg_now_ns(clock);
    op->task.round = round + 1u;
    op->task.flagged = (op->flags_in & TG__FLAG_NONFINITE) != 0;
    if (op->flight.costs != NULL)
        tg_clock_work(clock, op->flight.costs->finish_ns);
    if (op->method != NULL)
        TG_TRY(op->method->def->program->next(op->method, &op->task, &x));
    if (op->flight.x->overflow && op->task.overflow == NULL)
        op->task.overflow = "the sum over ranks";
    if (op->task.overflow != NULL)
        op->flags_in |= TG__FLAG_NONFINITE;
    int64_t took = tg_now_ns(clock) - begin;
    const bool encoded = round == 0 && defers(op);
    op->encode_ns += encoded ? took : 0;
    op->decode_ns += op->flight.combine_ns + (encoded ? 0 : took);
    if (encoded)
        set_state(h, op, TG__OP_ENCODED);
    *done_p = x == NULL;
    if (x != NULL) {
        op->flight.program_round = (uint16_t)op->task.round;
        return launch(h, op, x);
    }
    note_left_out(h, op, own);
    op->late = op->flight.x->is_late;
    op->told = op->flight.x->step;
    op->end_ns = tg_now_ns(clock);
    if (op->method != NULL)
        tg_trace_span(op->engine->trace, h->transport->rank, TG_ROW_EXCHANGE,
                      op->task.coded ? "exchange" : "exchange dense", op->begin_ns, op->end_ns,
                      op->task.step, op->flight.bucket);
    return TG_OK;
}

/* A method's memory must see its tasks in the order submitted. If it is updated only after the
 * first round, op waits for the method's earlier tasks. */
static bool has_turn(const tg__hub *h, const tg__op *op)
{
    if (!defers(op) || op->flight.program_round > 0)
        return true;
    for (const tg__op *other = h->active; other != NULL; other = other->next)
        if (other->method == op->method && other->flight.program_round == 0 &&
            (int32_t)(other->sequence - op->sequence) < 0)
            return false;
    return true;
}

/* *any_p: set if an exchange was completed. */
static tg_status finish_done(tg__hub *h, bool *any_p)
{
    bool any;
    *any_p = false;
    do {
        any = false;
        for (tg__op **link = &h->active; *link != NULL;) {
            tg__op *op = *link;
            bool done = false;
            if (op->flight.finished && has_turn(h, op)) {
                TG_TRY(advance(h, op, &done));
                any = true;
            }
            if (done) {
                *link = op->next; /* before DONE: from then on the caller owns op */
                set_state(h, op, TG__OP_DONE);
            } else {
                link = &op->next;
            }
        }
        *any_p = *any_p || any;
    } while (any); /* another op may have its turn now */
    return TG_OK;
}

/* True if op's tags are free on every rank: if the oldest open operation of its engine is close
 * enough for the tags to differ. An earlier operation with the same tags is complete here, but may
 * be in flight elsewhere. This rank sent its messages before, and messages with the same tag arrive
 * in order, so that operation gets its own. Call with the lock held. */
static bool tags_are_free(const tg__op *op)
{
    const tg__engine *e = op->engine;
    const uint32_t rounds = op->method == NULL ? 1 : op->method->def->program->rounds;
    return op == e->oldest || op->sequence + rounds - e->oldest->sequence <= e->at_once;
}

static tg__op *next_queued(tg__hub *h)
{
    tg__op *op = NULL;
    pthread_mutex_lock(&h->lock);
    for (tg__op **link = &h->queue; *link != NULL; link = &(*link)->next)
        if (tags_are_free(*link)) {
            op = *link;
            *link = op->next;
            break;
        }
    pthread_mutex_unlock(&h->lock);
    return op;
}

static tg_status take_up_queued(tg__hub *h)
{
    for (tg__op *op; (op = next_queued(h)) != NULL;)
        TG_TRY(take_up(h, op));
    return TG_OK;
}

/* An exchange without messages (a leader alone in its node) is complete when launched. Neither what
 * follows it nor its waiter may wait for messages of other exchanges. */
tg_status tg__hub_turn(tg__hub *h, int64_t deadline_ns)
{
    bool any;
    TG_TRY(take_up_queued(h));
    TG_TRY(finish_done(h, &any));
    if (h->active == NULL)
        return TG_OK;
    TG_TRY(tg__pump_run(&h->pump, any ? tg_now_ns(h->transport->clock) : deadline_ns));
    return finish_done(h, &any);
}
