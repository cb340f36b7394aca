#include "method/engine.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/virtual_clock.h"
#include "exchange/waits.h"
#include "transport/endpoint.h"

#include <stdlib.h>
#include <string.h>

struct tg__engine {
    tg_transport *transport;
    tg_trace *trace;
    bool threaded;
    tg__clock_thread thread;

    pthread_mutex_t lock; /* guards everything down to the next comment, and each op's state */
    pthread_cond_t changed;
    tg__op *queue; /* sorted by priority, FIFO among equals */
    bool quit;
    uint64_t bytes_sent, bytes_near;
    tg_status status; /* first failure, for good */
    char error[512];
    bool held;     /* the transport could not let go of posted buffers */
    tg__op *given; /* to be freed at the end */

    tg__pump pump;     /* the driving thread's alone from here */
    tg__op *active;    /* taken up, not finished */
    uint32_t sequence; /* the submitting thread's */
};

static void fail(tg__engine *e, tg_status status)
{
    pthread_mutex_lock(&e->lock);
    if (e->status == TG_OK) {
        e->status = status;
        strncpy(e->error, tg_error(), sizeof e->error - 1);
    }
    tg__clock_signal(e->transport->clock, &e->changed);
    e->held = !e->transport->ops->shut(e->transport) || e->held;
    pthread_mutex_unlock(&e->lock);
}

/* With the lock held. */
static tg_status failure(tg__engine *e)
{
    return e->status == TG_OK ? TG_OK : tg_fail(e->status, "%s", e->error);
}

static void set_state(tg__engine *e, tg__op *op, tg__op_state state)
{
    pthread_mutex_lock(&e->lock);
    op->state = state;
    e->bytes_sent = e->pump.bytes_sent;
    e->bytes_near = e->pump.bytes_near;
    tg__clock_signal(e->transport->clock, &e->changed);
    pthread_mutex_unlock(&e->lock);
}

static tg_status launch(tg__engine *e, tg__op *op, tg__exchange *x)
{
    op->flight.x = x;
    op->flight.step = op->step;
    op->flight.bucket = op->bucket;
    op->flight.priority = op->priority;
    op->flight.flags_out = op->flags | op->flags_in;
    op->flight.group = op->task.group;
    op->flight.start_cost_ns = op->start_cost_ns;
    op->flight.byte_cost_ps = op->decode_cost_ps;
    return tg__pump_launch(&e->pump, &op->flight);
}

static bool defers(const tg__op *op)
{
    return op->method != NULL && op->method->def->program->defers;
}

/* Compensate, encode, launch. */
static tg_status take_up(tg__engine *e, tg__op *op)
{
    tg__exchange *x = op->x;
    op->flags_in = 0;
    op->bytes_sent = 0;
    op->decode_ns = 0;
    int64_t begin = tg_now_ns(e->transport->clock);
    tg_clock_work(e->transport->clock, op->encode_cost_ns);
    if (op->method != NULL)
        TG_TRY(op->method->def->program->begin(op->method, &op->task, &x));
    int64_t end = tg_now_ns(e->transport->clock);
    op->encode_ns = end - begin;
    op->begin_ns = end;
    if (op->method != NULL)
        tg_trace_span(e->trace, e->transport->rank, TG_ROW_ENCODE,
                      op->task.coded ? "encode" : "encode dense", begin, end, op->step, op->bucket);
    TG_TRY(launch(e, op, x));
    op->next = e->active;
    e->active = op;
    set_state(e, op, defers(op) ? TG__OP_BEGUN : TG__OP_ENCODED);
    return TG_OK;
}

/* op's exchange finished: the next round, or done. */
static tg_status advance(tg__engine *e, tg__op *op, bool *done_p)
{
    tg__exchange *x = NULL;
    const uint16_t round = op->flight.program_round;
    op->bytes_sent += op->flight.bytes_sent;
    op->flags_in |= op->flight.flags_in;
    int64_t begin = tg_now_ns(e->transport->clock);
    op->task.round = round + 1u;
    op->task.flagged = (op->flags_in & TG__FLAG_NONFINITE) != 0;
    tg_clock_work(e->transport->clock, op->finish_cost_ns);
    if (op->method != NULL)
        TG_TRY(op->method->def->program->next(op->method, &op->task, &x));
    if (op->task.overflow)
        op->flags_in |= TG__FLAG_NONFINITE;
    int64_t took = tg_now_ns(e->transport->clock) - begin;
    const bool encoded = round == 0 && defers(op);
    op->encode_ns += encoded ? took : 0;
    op->decode_ns += op->flight.combine_ns + (encoded ? 0 : took);
    if (encoded)
        set_state(e, op, TG__OP_ENCODED);
    *done_p = x == NULL;
    if (x != NULL) {
        op->flight.sequence += op->task.round - round;
        op->flight.program_round = (uint16_t)op->task.round;
        return launch(e, op, x);
    }
    op->end_ns = tg_now_ns(e->transport->clock);
    if (op->method != NULL)
        tg_trace_span(e->trace, e->transport->rank, TG_ROW_EXCHANGE,
                      op->task.coded ? "exchange" : "exchange dense", op->begin_ns, op->end_ns,
                      op->step, op->bucket);
    return TG_OK;
}

/* A memory must see its tasks in the order submitted, also where it is updated after the first
 * round: that one waits for those of the same method before it. */
static bool has_turn(const tg__engine *e, const tg__op *op)
{
    if (!defers(op) || op->flight.program_round > 0)
        return true;
    for (const tg__op *other = e->active; other != NULL; other = other->next)
        if (other->method == op->method && other->flight.program_round == 0 &&
            (int32_t)(other->flight.sequence - op->flight.sequence) < 0)
            return false;
    return true;
}

/* *any_p: whether some exchange was done. */
static tg_status finish_done(tg__engine *e, bool *any_p)
{
    bool any;
    *any_p = false;
    do {
        any = false;
        for (tg__op **link = &e->active; *link != NULL;) {
            tg__op *op = *link;
            bool done = false;
            if (op->flight.finished && has_turn(e, op)) {
                TG_TRY(advance(e, op, &done));
                any = true;
            }
            if (done) {
                *link = op->next; /* before DONE: then the op is the caller's again */
                set_state(e, op, TG__OP_DONE);
            } else {
                link = &op->next;
            }
        }
        *any_p = *any_p || any;
    } while (any); /* whose turn it is now */
    return TG_OK;
}

static tg_status take_up_queued(tg__engine *e)
{
    for (;;) {
        pthread_mutex_lock(&e->lock);
        tg__op *op = e->queue;
        if (op != NULL)
            e->queue = op->next;
        pthread_mutex_unlock(&e->lock);
        if (op == NULL)
            return TG_OK;
        TG_TRY(take_up(e, op));
    }
}

/* One turn: take up what is queued, move bytes until deadline at the latest, finish what is done.
 * An exchange without messages (a leader's who is alone in its node) is done when it is launched:
 * then what comes next, or whoever waits for it, must not wait for messages of others. */
static tg_status turn(tg__engine *e, int64_t deadline_ns)
{
    bool any;
    TG_TRY(take_up_queued(e));
    TG_TRY(finish_done(e, &any));
    if (e->active == NULL)
        return TG_OK;
    TG_TRY(tg__pump_run(&e->pump, any ? tg_now_ns(e->transport->clock) : deadline_ns));
    return finish_done(e, &any);
}

/* With the lock held. */
static tg__waited wait_change(tg__engine *e)
{
    return tg__clock_wait(e->transport->clock, &e->changed, &e->lock, TG__NEVER);
}

static void *communicate(void *arg)
{
    tg__engine *e = arg;
    for (;;) {
        pthread_mutex_lock(&e->lock);
        tg__waited how = TG__WOKEN;
        while (!e->quit && e->queue == NULL && e->active == NULL && how != TG__STUCK)
            how = wait_change(e);
        bool quit = e->quit;
        pthread_mutex_unlock(&e->lock);
        if (quit)
            return NULL;
        tg_status status = how == TG__STUCK
                               ? tg__clock_stuck()
                               : turn(e, tg_now_ns(e->transport->clock) + INT64_C(100000000));
        if (status != TG_OK) {
            fail(e, status);
            return NULL;
        }
    }
}

static tg_status start(tg__engine *e, tg_driver driver)
{
    if (driver == TG_DRIVER_THREAD && !e->transport->any_thread)
        return tg_fail(TG_E_UNSUPPORTED,
                       "driver thread: transport \"%s\" is bound to the thread that made it (MPI "
                       "needs MPI_THREAD_MULTIPLE): use the inline driver",
                       e->transport->ops->name);
    if (driver == TG_DRIVER_INLINE || !e->transport->any_thread)
        return TG_OK;
    const uint64_t order = 2 * (uint64_t)e->transport->rank + 1; /* the caller's: 2 * rank */
    TG_TRY(
        tg__clock_thread_start(e->transport->clock, order, "tg-comm", communicate, e, &e->thread));
    e->threaded = true;
    return TG_OK;
}

tg_status tg__engine_create(tg_transport *transport, tg_driver driver, int64_t timeout_ns,
                            tg_trace *trace, tg__engine **e_p)
{
    tg__engine *e;
    TG_TRY(tg__transport_check("an engine", transport));
    if (transport->size > TG__WORLD_MAX)
        return tg_fail(TG_E_ARG, "%d ranks: allowed: at most %d", transport->size, TG__WORLD_MAX);
    TG_TRY(tg__alloc(1, sizeof *e, &e));
    e->transport = transport;
    e->trace = trace;
    tg__pump_init(&e->pump, transport, 0, timeout_ns);
    tg_status status = tg__waits_create(transport->size, &e->pump.waits);
    if (status != TG_OK) {
        free(e);
        return status;
    }
    pthread_mutex_init(&e->lock, NULL);
    status = tg__cond_init(&e->changed);
    if (status == TG_OK) {
        status = start(e, driver);
        if (status != TG_OK)
            pthread_cond_destroy(&e->changed);
    }
    if (status != TG_OK) {
        pthread_mutex_destroy(&e->lock);
        tg__waits_destroy(e->pump.waits);
        tg__pump_fini(&e->pump);
        free(e);
        return status;
    }
    *e_p = e;
    return TG_OK;
}

static void free_given(tg__engine *e)
{
    while (e->given != NULL && !e->held) {
        tg__op *op = e->given;
        e->given = op->next;
        tg__flight_fini(&op->flight);
        tg__exchange_destroy(op->x);
        free(op);
    }
}

/* The engine has failed with op not done: keep it for as long as the transport may write to it. */
static void keep(tg__engine *e, tg__op *op)
{
    pthread_mutex_lock(&e->lock);
    for (tg__op **link = &e->queue; *link != NULL; link = &(*link)->next)
        if (*link == op) {
            *link = op->next;
            break;
        }
    pthread_mutex_unlock(&e->lock);
    if (e->threaded) { /* it failed, so the thread is leaving */
        tg__clock_thread_join(e->transport->clock, &e->thread);
        e->threaded = false;
    }
    for (tg__op **link = &e->active; *link != NULL; link = &(*link)->next)
        if (*link == op) {
            *link = op->next;
            break;
        }
    op->next = e->given;
    e->given = op;
}

void tg__op_release(tg__engine *e, tg__op *op)
{
    if (!tg__engine_is_done(e, op)) {
        keep(e, op);
        return;
    }
    tg__flight_fini(&op->flight);
    tg__exchange_destroy(op->x);
    free(op);
}

bool tg__engine_destroy(tg__engine *e)
{
    if (e == NULL)
        return true;
    if (e->threaded) {
        pthread_mutex_lock(&e->lock);
        e->quit = true;
        tg__clock_signal(e->transport->clock, &e->changed);
        pthread_mutex_unlock(&e->lock);
        if (e->transport->ops->wake != NULL)
            e->transport->ops->wake(e->transport);
        tg__clock_thread_join(e->transport->clock, &e->thread);
    }
    if (e->active != NULL || e->queue != NULL)
        e->held = !e->transport->ops->shut(e->transport) || e->held;
    tg__waits_destroy(e->pump.waits);
    tg__pump_fini(&e->pump);
    free_given(e);
    bool held = e->held;
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e);
    return !held;
}

void tg__engine_set_session(tg__engine *e, uint64_t hash)
{
    e->pump.session = hash;
}

tg_status tg__engine_submit(tg__engine *e, tg__op *op)
{
    pthread_mutex_lock(&e->lock);
    tg_status status = failure(e);
    if (status == TG_OK) {
        op->flight.sequence = e->sequence;
        op->flight.program_round = 0;
        e->sequence += op->method == NULL ? 1 : op->method->def->program->rounds;
        op->state = TG__OP_QUEUED;
        tg__op **link = &e->queue;
        while (*link != NULL && (*link)->priority <= op->priority)
            link = &(*link)->next;
        op->next = *link;
        *link = op;
        tg__clock_signal(e->transport->clock, &e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    if (status == TG_OK && e->threaded && e->transport->ops->wake != NULL)
        e->transport->ops->wake(e->transport);
    return status;
}

static bool is_past(const tg__op *op, tg__op_state state)
{
    return op->state == TG__OP_IDLE || op->state >= state;
}

static tg_status wait_for_thread(tg__engine *e, const tg__op *op, tg__op_state state)
{
    pthread_mutex_lock(&e->lock);
    tg__waited how = TG__WOKEN;
    if (e->status == TG_OK && !is_past(op, state))
        tg__waits_begin(e->pump.waits, e->transport->clock);
    while (e->status == TG_OK && !is_past(op, state) && how != TG__STUCK)
        how = wait_change(e);
    tg__waits_end(e->pump.waits);
    if (how == TG__STUCK) {
        pthread_mutex_unlock(&e->lock);
        fail(e, tg__clock_stuck());
        pthread_mutex_lock(&e->lock);
    }
    tg_status status = is_past(op, state) ? TG_OK : failure(e);
    pthread_mutex_unlock(&e->lock);
    return status;
}

static tg_status wait_inline(tg__engine *e, const tg__op *op, tg__op_state state)
{
    while (!is_past(op, state)) {
        TG_TRY(failure(e));
        tg_status status = turn(e, tg_now_ns(e->transport->clock) + INT64_C(100000000));
        if (status != TG_OK)
            fail(e, status);
    }
    return TG_OK;
}

static tg_status wait_for(tg__engine *e, const tg__op *op, tg__op_state state)
{
    if (e->threaded)
        return wait_for_thread(e, op, state);
    if (is_past(op, state))
        return TG_OK;
    tg__waits_begin(e->pump.waits, e->transport->clock);
    const tg_status status = wait_inline(e, op, state);
    tg__waits_end(e->pump.waits);
    return status;
}

tg_status tg__engine_wait_begun(tg__engine *e, tg__op *op)
{
    return wait_for(e, op, TG__OP_BEGUN);
}

tg_status tg__engine_wait_encoded(tg__engine *e, tg__op *op)
{
    return wait_for(e, op, TG__OP_ENCODED);
}

tg_status tg__engine_wait(tg__engine *e, tg__op *op)
{
    return wait_for(e, op, TG__OP_DONE);
}

tg_status tg__engine_progress(tg__engine *e)
{
    if (!e->threaded && e->status == TG_OK) {
        tg_status status = turn(e, tg_now_ns(e->transport->clock));
        if (status != TG_OK)
            fail(e, status);
    }
    pthread_mutex_lock(&e->lock);
    tg_status status = failure(e);
    pthread_mutex_unlock(&e->lock);
    return status;
}

bool tg__engine_is_done(tg__engine *e, const tg__op *op)
{
    pthread_mutex_lock(&e->lock);
    bool done = op->state == TG__OP_IDLE || op->state == TG__OP_DONE;
    pthread_mutex_unlock(&e->lock);
    return done;
}

uint64_t tg__engine_bytes(tg__engine *e)
{
    pthread_mutex_lock(&e->lock);
    uint64_t bytes = e->bytes_sent;
    pthread_mutex_unlock(&e->lock);
    return bytes;
}

uint64_t tg__engine_bytes_near(tg__engine *e, uint64_t *sent_p)
{
    pthread_mutex_lock(&e->lock);
    uint64_t bytes = e->bytes_near;
    *sent_p = e->bytes_sent;
    pthread_mutex_unlock(&e->lock);
    return bytes;
}

void tg__engine_set_near(tg__engine *e, const bool *near)
{
    e->pump.near = near;
}

void tg__engine_on_wait(tg__engine *e, void (*tell)(void *arg, const tg_wait *wait), void *arg)
{
    e->pump.waits->tell = tell;
    e->pump.waits->arg = arg;
}

void tg__engine_waited(const tg__engine *e, int64_t *ns)
{
    const tg__waits *w = e->pump.waits;
    for (int rank = 0; rank < e->transport->size; rank++)
        ns[rank] = atomic_load_explicit(&w->total_ns[rank], memory_order_relaxed);
}

tg_transport *tg__engine_transport(const tg__engine *e)
{
    return e->transport;
}
