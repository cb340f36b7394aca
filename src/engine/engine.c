#include "engine/engine.h"
#include "base/mem.h"
#include "exchange/waits.h"
#include "engine/hub.h"
#include "transport/endpoint.h"
#include "telegrad/clock.h"
#include "telegrad/trace.h"

#include <stdlib.h>
#include <string.h>

static tg_status start(tg__engine *e, tg_driver driver)
{
    const tg_transport *t = e->hub->transport;
    if (driver == TG_DRIVER_THREAD && !t->any_thread)
        return tg_fail(TG_E_UNSUPPORTED,
                       "transport \"%s\" is bound to a thread (MPI needs MPI_THREAD_MULTIPLE): use "
                       "the inline driver",
                       t->ops->name);
    if (driver == TG_DRIVER_INLINE || !t->any_thread)
        return TG_OK;
    TG_TRY(tg__hub_want_thread(e->hub));
    e->threaded = true;
    return TG_OK;
}

tg_status tg__engine_create(tg_transport *transport, tg_driver driver, int64_t timeout_ns,
                            tg_trace *trace, tg__engine **e_p)
{
    tg__engine *e;
    TG_TRY(tg__transport_check("tg__engine_create", "transport", transport));
    if (transport->size > TG_RANKS_MAX)
        return tg_fail(TG_E_ARG, "%d ranks: allowed: at most %d", transport->size, TG_RANKS_MAX);
    TG_TRY(tg_alloc(1, sizeof *e, &e));
    e->trace = trace;
    e->channel.timeout_ns = timeout_ns;
    e->at_once = TG__BLOCK; /* tags of the first block, until it has joined */
    tg_status status = tg__waits_create(tg__peers_of(transport), &e->channel.waits);
    if (status == TG_OK)
        status = tg__hub_enter(transport, &e->hub);
    if (status == TG_OK) {
        status = start(e, driver);
        if (status != TG_OK)
            tg__hub_leave(e->hub);
    }
    if (status != TG_OK) {
        free(e->channel.waits);
        free(e);
        return status;
    }
    *e_p = e;
    return TG_OK;
}

/* ---- destroying ------------------------------------------------------------------------------ */

void tg__engine_close(tg__op *op)
{
    tg__engine *e = op->engine;
    *(op->older != NULL ? &op->older->newer : &e->oldest) = op->newer;
    *(op->newer != NULL ? &op->newer->older : &e->newest) = op->older;
}

static void take_out(tg__op **list, const tg__op *op)
{
    for (tg__op **link = list; *link != NULL; link = &(*link)->next)
        if (*link == op) {
            *link = op->next;
            return;
        }
}

/* Remove op: nobody will complete it. */
static void withdraw(tg__hub *h, tg__op *op)
{
    take_out(&h->queue, op);
    take_out(&h->active, op);
    tg__engine_close(op);
}

/* The engine failed before op was done: keep it while the transport may write to it. */
static void keep(tg__engine *e, tg__op *op)
{
    tg__hub *h = e->hub;
    pthread_mutex_lock(&h->lock);
    tg__hub_seize(h);
    withdraw(h, op);
    tg__hub_release(h);
    pthread_mutex_unlock(&h->lock);
    op->next = e->given;
    e->given = op;
}

static void free_op(tg__op *op)
{
    tg__flight_fini(&op->flight);
    tg__exchange_destroy(op->x);
    free(op);
}

void tg__op_release(tg__engine *e, tg__op *op)
{
    if (!tg__engine_is_done(e, op)) {
        keep(e, op);
        return;
    }
    free_op(op);
}

/* Call with the lock held. tg_error() does not change. */
static void abandon(tg__engine *e)
{
    tg__hub *h = e->hub;
    tg__hub_seize(h);
    if (e->oldest != NULL) {
        tg__hub_shut(h, TG_E_STATE, h->transport->rank,
                     "channel %u was destroyed on this rank (%d) with an exchange under way: the "
                     "transport is shut",
                     e->channel.number, h->transport->rank);
        while (e->oldest != NULL)
            withdraw(h, e->oldest);
    }
    tg__hub_release(h);
}

void tg__engine_give_up(tg__engine *e, tg_status status, int because_of)
{
    if (!e->all_know)
        tg__hub_give_up(e->hub, status, because_of);
}

void tg__engine_stop_if(tg__engine *e, bool (*wants)(const void *arg), const void *arg)
{
    pthread_mutex_lock(&e->hub->lock);
    e->wants_stop = wants;
    e->stop_arg = arg;
    e->stop_ns = 0;
    pthread_mutex_unlock(&e->hub->lock);
}

void tg__engine_all_know(tg__engine *e)
{
    e->all_know = true;
}

static void free_given(tg__engine *e)
{
    while (e->given != NULL) {
        tg__op *op = e->given;
        e->given = op->next;
        free_op(op);
    }
}

bool tg__engine_destroy(tg__engine *e)
{
    if (e == NULL)
        return true;
    tg__hub *h = e->hub;
    pthread_mutex_lock(&h->lock);
    if (e->oldest != NULL)
        abandon(e);
    if (e->first > 0)
        tg__claim_mark(h->claim, e->first / TG__BLOCK, e->at_once / TG__BLOCK, false);
    const bool held = h->held;
    pthread_mutex_unlock(&h->lock);
    if (e->threaded)
        tg__hub_unwant_thread(h);
    tg__hub_leave(h);
    if (!held)
        free_given(e);
    tg__channel_fini(&e->channel);
    free(e->channel.waits);
    free(e);
    return !held;
}

/* ---- becoming a channel ---------------------------------------------------------------------- */

void tg__engine_begin_setup(tg__engine *e, uint8_t claim[TG__CLAIM_BYTES])
{
    tg__hub *h = e->hub;
    pthread_mutex_lock(&h->lock);
    while (h->in_setup)
        (void)tg__hub_wait(h);
    h->in_setup = true;
    memcpy(claim, h->claim, TG__CLAIM_BYTES);
    pthread_mutex_unlock(&h->lock);
}

void tg__engine_end_setup(tg__engine *e)
{
    tg__hub *h = e->hub;
    pthread_mutex_lock(&h->lock);
    h->in_setup = false;
    tg__hub_changed(h);
    pthread_mutex_unlock(&h->lock);
}

tg_status tg__engine_join(tg__engine *e, const uint8_t claims[TG__CLAIM_BYTES], uint64_t hash,
                          uint32_t at_once)
{
    tg__hub *h = e->hub;
    const uint32_t before = tg__get32(claims);
    uint32_t first;
    const uint32_t blocks = tg__claim_find(claims, TG__MAX(at_once / TG__BLOCK, 1u), &first);
    if (blocks == 0)
        return tg_fail(TG_E_STATE,
                       "no tags are left for another reducer or session on this transport: destroy "
                       "some, on all ranks (allowed: %u reducers at a time, fewer with sessions)",
                       TG__BLOCKS - 1);
    pthread_mutex_lock(&h->lock);
    tg__claim_mark(h->claim, first, blocks, true);
    tg__put32(h->claim, before + 1);
    pthread_mutex_unlock(&h->lock);
    e->first = first * TG__BLOCK;
    e->at_once = blocks * TG__BLOCK;
    e->channel.number = (uint16_t)(1 + before % UINT16_MAX);
    e->channel.session = hash;
    return TG_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

tg_status tg__engine_submit(tg__engine *e, tg__op *op)
{
    tg__hub *h = e->hub;
    TG_TRY(tg__hub_check_thread(h));
    e->all_know = false;
    pthread_mutex_lock(&h->lock);
    const bool driven = h->driving || h->has_thread;
    tg_status status = tg__hub_failure(h);
    if (status == TG_OK) {
        op->engine = e;
        op->sequence = e->sequence;
        op->flight.program_round = 0;
        e->sequence += op->method == NULL ? 1 : op->method->def->program->rounds;
        op->newer = NULL;
        op->older = e->newest;
        *(e->newest != NULL ? &e->newest->newer : &e->oldest) = op;
        e->newest = op;
        op->state = TG__OP_QUEUED;
        tg__op **link = &h->queue;
        while (*link != NULL && (*link)->flight.priority <= op->flight.priority)
            link = &(*link)->next;
        op->next = *link;
        *link = op;
        tg__hub_changed(h);
    }
    pthread_mutex_unlock(&h->lock);
    if (status == TG_OK && driven && h->transport->ops->wake != NULL)
        h->transport->ops->wake(h->transport);
    return status;
}

void tg__engine_skip(tg__engine *e, uint64_t count)
{
    pthread_mutex_lock(&e->hub->lock);
    e->sequence += (uint32_t)count;
    pthread_mutex_unlock(&e->hub->lock);
}

static bool is_past(const tg__op *op, tg__op_state state)
{
    return op->state == TG__OP_IDLE || op->state >= state;
}

tg_status tg__engine_wait_for(tg__engine *e, tg__op *op, tg__op_state state)
{
    tg__hub *h = e->hub;
    TG_TRY(tg__hub_check_thread(h));
    pthread_mutex_lock(&h->lock);
    if (h->failure.status == TG_OK && !is_past(op, state))
        tg__waits_begin(e->channel.waits, h->transport->clock);
    while (h->failure.status == TG_OK && !is_past(op, state)) {
        tg__waited how = TG__WOKEN;
        if (h->has_thread)
            how = tg__hub_wait(h);
        else if (!tg__hub_may_drive(h))
            how = tg__hub_wait_driver(h);
        else
            tg__hub_drive(h, tg_now_ns(h->transport->clock) + INT64_C(100000000));
        if (how == TG__STUCK)
            tg__hub_fail(h, tg__clock_stuck());
    }
    tg__waits_end(e->channel.waits);
    const tg_status status = is_past(op, state) ? TG_OK : tg__hub_failure(h);
    pthread_mutex_unlock(&h->lock);
    return status;
}

tg_status tg__engine_progress(tg__engine *e)
{
    tg__hub *h = e->hub;
    TG_TRY(tg__hub_check_thread(h));
    pthread_mutex_lock(&h->lock);
    if (!h->has_thread && tg__hub_may_drive(h) && h->failure.status == TG_OK)
        tg__hub_drive(h, tg_now_ns(h->transport->clock));
    const tg_status status = tg__hub_failure(h);
    pthread_mutex_unlock(&h->lock);
    return status;
}

bool tg__engine_is_done(tg__engine *e, const tg__op *op)
{
    pthread_mutex_lock(&e->hub->lock);
    bool done = is_past(op, TG__OP_DONE);
    pthread_mutex_unlock(&e->hub->lock);
    return done;
}

/* ---- figures --------------------------------------------------------------------------------- */

uint64_t tg__engine_bytes(tg__engine *e, uint64_t *near_p)
{
    pthread_mutex_lock(&e->hub->lock);
    const uint64_t bytes = e->bytes_sent;
    if (near_p != NULL)
        *near_p = e->bytes_near;
    pthread_mutex_unlock(&e->hub->lock);
    return bytes;
}

uint64_t tg__engine_control_bytes(const tg__engine *e)
{
    return e->control_bytes;
}

void tg__engine_set_nodes(tg__engine *e, const tg__nodes *nodes)
{
    e->channel.near = nodes->near;
    e->channel.talkers = nodes->count;
}

void tg__engine_on_wait(tg__engine *e, void (*tell)(void *arg, const tg_wait *wait), void *arg)
{
    e->channel.waits->tell = tell;
    e->channel.waits->arg = arg;
}

void tg__engine_waited(const tg__engine *e, int64_t *ns)
{
    const tg__waits *w = e->channel.waits;
    for (int rank = 0; rank < e->hub->transport->size; rank++)
        ns[rank] = atomic_load_explicit(&w->peer[rank].total_ns, memory_order_relaxed);
}

tg_transport *tg__engine_transport(const tg__engine *e)
{
    return e->hub->transport;
}
