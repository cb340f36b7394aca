#include "engine/hub.h"
#include "base/mem.h"
#include "telegrad/clock.h"
#include "transport/endpoint.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static tg__hub *hubs;   /* all with members */
static tg__hub *failed; /* those without, of transports that exist and have failed */

/* Call these two with the list's lock held. NULL: there is none. */
static tg__hub *find(const tg_transport *t)
{
    tg__hub *h = hubs;
    while (h != NULL && h->transport != t)
        h = h->next;
    return h;
}

static tg__hub *take(tg__hub **list, const tg_transport *t)
{
    while (*list != NULL && (*list)->transport != t)
        list = &(*list)->next;
    tg__hub *h = *list;
    if (h != NULL)
        *list = h->next;
    return h;
}

static tg_status make(tg_transport *t, tg__hub **h_p)
{
    tg__hub *h;
    TG_TRY(tg_alloc(1, sizeof *h, &h));
    tg_status status = tg__cond_init(&h->changed);
    if (status != TG_OK) {
        free(h);
        return status;
    }
    pthread_mutex_init(&h->lock, NULL);
    h->transport = t;
    h->owner = pthread_self();
    tg__claim_mark(h->claim, 0, 1, true); /* for setting up channels */
    tg__pump_init(&h->pump, t, 0, 0);
    *h_p = h;
    return TG_OK;
}

static bool may_use(const tg__hub *h)
{
    return h->transport->any_thread || pthread_equal(h->owner, pthread_self());
}

/* The engines fail. If this thread may not use the transport, the owner's next call shuts it. */
static void orphan(tg__hub *h)
{
    static const char why[] = "the transport was destroyed on this rank (%d) while a reducer or "
                              "session used it: destroy it after them";
    const int rank = h->transport->rank;
    pthread_mutex_lock(&h->lock);
    if (may_use(h)) {
        tg__hub_seize(h);
        tg__hub_shut(h, TG_E_STATE, rank, why, rank);
        tg__hub_release(h);
    } else if (h->failure.status == TG_OK) {
        (void)tg__latch_set(&h->failure, tg_fail(TG_E_STATE, why, rank));
        h->must_shut = true;
    }
    pthread_mutex_unlock(&h->lock);
}

/* If the transport is destroyed while engines use it, they fail, and the last one destroys it. */
static bool keep_orphan(tg_transport *t)
{
    pthread_mutex_lock(&list_lock);
    tg__hub *h = find(t);
    if (h == NULL)
        free(take(&failed, t));
    const bool first = h != NULL && !h->is_orphan;
    if (first) {
        h->is_orphan = true;
        h->members++;
    }
    pthread_mutex_unlock(&list_lock);
    if (first) {
        orphan(h);
        tg__hub_leave(h);
    }
    return h != NULL;
}

tg_status tg__hub_enter(tg_transport *t, tg__hub **h_p)
{
    tg_status status = TG_OK;
    tg__transport_keep(keep_orphan);
    pthread_mutex_lock(&list_lock);
    tg__hub *h = find(t);
    if (h == NULL) {
        status = make(t, &h);
        if (status == TG_OK) {
            tg__hub *old = take(&failed, t);
            if (old != NULL)
                h->before = old->failure.status != TG_OK ? old->failure : old->before;
            free(old);
            h->next = hubs;
            hubs = h;
        }
    }
    if (status == TG_OK) {
        h->members++;
        *h_p = h;
    }
    pthread_mutex_unlock(&list_lock);
    return status;
}

void tg__hub_leave(tg__hub *h)
{
    pthread_mutex_lock(&list_lock);
    const bool last = --h->members == 0;
    if (last) {
        (void)take(&hubs, h->transport);
        tg__pump_fini(&h->pump);
        pthread_cond_destroy(&h->changed);
        pthread_mutex_destroy(&h->lock);
    }
    const bool remember =
        last && !h->is_orphan && (h->failure.status != TG_OK || h->before.status != TG_OK);
    if (remember) {
        h->next = failed;
        failed = h;
    }
    pthread_mutex_unlock(&list_lock);
    if (!last || remember)
        return;
    tg_transport *orphan = h->is_orphan ? h->transport : NULL;
    free(h);
    if (orphan != NULL)
        orphan->ops->destroy(orphan);
}

tg_status tg__hub_check_thread(const tg__hub *h)
{
    if (may_use(h))
        return TG_OK;
    return tg_fail(TG_E_STATE,
                   "transport \"%s\" is bound to a thread (MPI needs MPI_THREAD_MULTIPLE): call "
                   "from the thread that created its first reducer or session",
                   h->transport->ops->name);
}

/* ---- with the lock held ---------------------------------------------------------------------- */

static void leave(tg__hub *h, int because_of)
{
    tg_transport *t = h->transport;
    if (because_of >= 0 && h->pump.failure.status == TG_OK && t->ops->blame != NULL)
        t->ops->blame(t, because_of);
    h->held = !t->ops->shut(t) || h->held;
}

tg_status tg__hub_failure(tg__hub *h)
{
    if (h->must_shut && may_use(h)) {
        h->must_shut = false;
        leave(h, h->transport->rank);
    }
    return tg__latch_get(&h->failure);
}

/* After `shut` a transport only says that this rank has left it: repeat why. */
void tg__hub_fail(tg__hub *h, tg_status status)
{
    if (status == TG_E_STATE && h->before.status != TG_OK)
        status = tg__latch_get(&h->before);
    tg__hub_shut(h, status, status == TG_E_NOMEM ? h->transport->rank : -1, "%s", tg_error());
}

/* A failed pump has already reported whom it blames, and shut the transport. */
void tg__hub_shut(tg__hub *h, tg_status status, int because_of, const char *format, ...)
{
    if (h->failure.status == TG_OK) {
        va_list args;
        va_start(args, format);
        vsnprintf(h->failure.error, sizeof h->failure.error, format, args);
        va_end(args);
        h->failure.status = status;
    } else {
        because_of = -1;
    }
    tg__hub_changed(h);
    leave(h, because_of);
}

void tg__hub_changed(tg__hub *h)
{
    tg__clock_signal(h->transport->clock, &h->changed);
}

tg__waited tg__hub_wait(tg__hub *h)
{
    return tg__clock_wait(h->transport->clock, &h->changed, &h->lock, TG__NEVER);
}

tg__waited tg__hub_wait_driver(tg__hub *h)
{
    h->waiting++;
    const tg__waited how = tg__hub_wait(h);
    h->waiting--;
    return how;
}

void tg__hub_release(tg__hub *h)
{
    h->driving = false;
    if (h->waiting > 0)
        tg__hub_changed(h);
}

void tg__hub_seize(tg__hub *h)
{
    h->seizing++;
    while (h->driving) {
        if (h->transport->ops->wake != NULL)
            h->transport->ops->wake(h->transport);
        (void)tg__hub_wait_driver(h);
    }
    h->seizing--;
    h->driving = true;
}

bool tg__hub_may_drive(const tg__hub *h)
{
    return !h->driving && h->seizing == 0;
}

#define STOP_AFTER_NS INT64_C(1000000000)

/* True if an operation in flight should have stopped at least a second ago. This uses real time,
 * whatever the transport's clock, because a person is waiting. */
static bool must_stop(const tg__hub *h)
{
    for (const tg__op *op = h->active; op != NULL; op = op->next) {
        tg__engine *e = op->engine;
        if (e->wants_stop == NULL || !e->wants_stop(e->stop_arg)) {
            e->stop_ns = 0;
            continue;
        }
        const int64_t now = tg_now_ns(tg_clock_monotonic());
        if (e->stop_ns == 0)
            e->stop_ns = now;
        if (now - e->stop_ns >= STOP_AFTER_NS)
            return true;
    }
    return false;
}

void tg__hub_drive(tg__hub *h, int64_t deadline_ns)
{
    h->driving = true;
    pthread_mutex_unlock(&h->lock);
    const tg_status status = tg__hub_turn(h, deadline_ns);
    pthread_mutex_lock(&h->lock);
    if (status != TG_OK)
        tg__hub_fail(h, status);
    else if (must_stop(h))
        tg__hub_shut(h, TG_E_STOPPED, h->transport->rank,
                     "stopped on request of this rank (%d), with an exchange under way",
                     h->transport->rank);
    tg__hub_release(h);
}

/* ---- giving up ------------------------------------------------------------------------------- */

void tg__hub_give_up(tg__hub *h, tg_status status, int because_of)
{
    tg__latch failure = {0};
    tg__latch_set(&failure, status);
    if (tg__hub_check_thread(h) == TG_OK) {
        pthread_mutex_lock(&h->lock);
        tg__hub_seize(h);
        if (h->failure.status == TG_OK)
            tg__hub_shut(h, status, because_of, "%s", failure.error);
        tg__hub_release(h);
        pthread_mutex_unlock(&h->lock);
    }
    (void)tg__latch_get(&failure);
}

/* Shut a transport that has no engine. None can be created while the list is locked. */
static void shut_alone(tg_transport *t)
{
    if (t->ops->blame != NULL)
        t->ops->blame(t, t->rank);
    (void)t->ops->shut(t);
}

void tg__leave_transport(tg_transport *t, tg_status status)
{
    tg__latch failure = {0};
    tg__latch_set(&failure, status);
    if (tg__transport_check("leaving", "transport", t) == TG_OK) {
        pthread_mutex_lock(&list_lock);
        tg__hub *h = find(t);
        if (h == NULL)
            shut_alone(t);
        else
            h->members++;
        pthread_mutex_unlock(&list_lock);
        if (h != NULL) {
            tg__hub_give_up(h, status, t->rank);
            tg__hub_leave(h);
        }
    }
    (void)tg__latch_get(&failure);
}

/* ---- the communication thread ---------------------------------------------------------------- */

static void *communicate(void *arg)
{
    tg__hub *h = arg;
    tg__waited how = TG__WOKEN;
    pthread_mutex_lock(&h->lock);
    while (!h->quit && h->failure.status == TG_OK) {
        if (how == TG__STUCK)
            tg__hub_fail(h, tg__clock_stuck());
        else if (!tg__hub_may_drive(h))
            how = tg__hub_wait_driver(h);
        else if (h->queue == NULL && h->active == NULL)
            how = tg__hub_wait(h);
        else
            tg__hub_drive(h, tg_now_ns(h->transport->clock) + INT64_C(100000000));
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

tg_status tg__hub_want_thread(tg__hub *h)
{
    const uint64_t order = 2 * (uint64_t)h->transport->rank + 1; /* the caller's: 2 * rank */
    tg_status status = TG_OK;
    pthread_mutex_lock(&h->lock);
    while (h->starts_or_ends)
        (void)tg__hub_wait(h);
    if (h->want_thread++ == 0) {
        h->starts_or_ends = true;
        pthread_mutex_unlock(&h->lock);
        status = tg_clock_thread_start(h->transport->clock, order, "tg-comm", communicate, h,
                                       &h->thread);
        pthread_mutex_lock(&h->lock);
        h->has_thread = status == TG_OK;
        h->want_thread = status == TG_OK;
        h->starts_or_ends = false;
        tg__hub_changed(h);
    }
    pthread_mutex_unlock(&h->lock);
    return status;
}

void tg__hub_unwant_thread(tg__hub *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->starts_or_ends)
        (void)tg__hub_wait(h);
    if (--h->want_thread == 0) {
        h->starts_or_ends = h->quit = true;
        tg__hub_changed(h);
        pthread_mutex_unlock(&h->lock);
        if (h->transport->ops->wake != NULL)
            h->transport->ops->wake(h->transport);
        tg_clock_thread_join(h->transport->clock, h->thread);
        pthread_mutex_lock(&h->lock);
        h->has_thread = h->quit = h->starts_or_ends = false;
        tg__hub_changed(h);
    }
    pthread_mutex_unlock(&h->lock);
}
