#include "base/virtual_clock.h"
#include "base/arg.h"
#include "base/mem.h"
#include "base/thread.h"
#include <stdlib.h>

enum state {
    READY,   /* wants a turn */
    RUNNING, /* has a turn */
    WAITING, /* for a signal (on != NULL), for a time, or both */
    WORKING
};

typedef struct virtual virtual;

/* A thread that is a member of the clock. */
typedef struct member {
    struct member *next; /* sorted by order; equal orders as they arrived */
    virtual *v;
    uint64_t order;
    enum state state;
    int64_t when_ns; /* its next event; TG__NEVER: only a signal */
    const void *on;  /* WAITING: the condition that it waits for */
    tg__waited how;  /* how the wait ended */
    bool arrived;    /* WORKING: the real work is done */
    bool gone;
    pthread_cond_t turn;
    void *(*run)(void *);
    void *arg;
} member;

struct virtual
{
    tg_clock clock;
    pthread_mutex_t mutex;
    int64_t now_ns; /* changes only while nobody runs */
    member *members;
    member *running;
};

static _Thread_local member *self; /* the calling thread's; NULL: it is not a member */

static int64_t now_ns(void *arg);
static void sleep_until_ns(void *arg, int64_t when_ns);
static void work(void *arg, int64_t ns);

/* NULL: another kind of clock */
struct tg_clock_thread {
    pthread_t thread;
    member *member;
};

static virtual *virtual_of(const tg_clock *clock)
{
    return clock->now_ns == now_ns ? clock->arg : NULL;
}

static member *self_in(const virtual *v)
{
    return self != NULL && self->v == v ? self : NULL;
}

/* ---- turns; call with v->mutex held ---------------------------------------------------------- */

static void make_ready(member *m, tg__waited how)
{
    m->state = READY;
    m->when_ns = m->v->now_ns;
    m->on = NULL;
    m->how = how;
}

static member *earliest(const virtual *v)
{
    member *first = NULL;
    for (member *m = v->members; m != NULL; m = m->next)
        if (m->when_ns != TG__NEVER && (first == NULL || m->when_ns < first->when_ns))
            first = m;
    return first;
}

/* Nobody runs: decide whose turn is next. */
static void pass_on(virtual *v)
{
    v->running = NULL;
    member *next = earliest(v);
    if (next == NULL && v->members != NULL) {
        for (member *m = v->members; m != NULL; m = m->next)
            make_ready(m, TG__STUCK);
        next = v->members;
    }
    if (next == NULL || (next->state == WORKING && !next->arrived))
        return; /* a member that enters or arrives passes on again */
    v->now_ns = TG__MAX(v->now_ns, next->when_ns);
    if (next->state == WAITING)
        make_ready(next, TG__TIMED_OUT);
    next->state = RUNNING;
    v->running = next;
    pthread_cond_signal(&next->turn);
}

static void await_turn(member *m)
{
    while (m->v->running != m)
        pthread_cond_wait(&m->turn, &m->v->mutex);
}

/* The member's real work is done, if it works. */
static void settle(member *m)
{
    if (m->state != WORKING)
        return;
    m->arrived = true;
    if (m->v->running == NULL)
        pass_on(m->v);
    await_turn(m);
}

static void wait_for(member *m, const void *on, int64_t when_ns)
{
    m->state = WAITING;
    m->on = on;
    m->when_ns = when_ns;
    pass_on(m->v);
    await_turn(m);
}

static void signal_all(virtual *v, const void *on)
{
    for (member *m = v->members; m != NULL; m = m->next)
        if (m->state == WAITING && m->on == on)
            make_ready(m, TG__WOKEN);
    if (v->running == NULL) /* called by a thread that is not a member */
        pass_on(v);
}

/* ---- members --------------------------------------------------------------------------------- */

/* Add a member that is ready. */
static tg_status add(virtual *v, uint64_t order, member **m_p)
{
    member *m;
    TG_TRY(tg_alloc(1, sizeof *m, &m));
    m->v = v;
    m->order = order;
    pthread_cond_init(&m->turn, NULL);
    pthread_mutex_lock(&v->mutex);
    member **link = &v->members;
    while (*link != NULL && (*link)->order <= order)
        link = &(*link)->next;
    m->next = *link;
    *link = m;
    make_ready(m, TG__WOKEN);
    pthread_mutex_unlock(&v->mutex);
    *m_p = m;
    return TG_OK;
}

static void discard(member *m)
{
    pthread_cond_destroy(&m->turn);
    free(m);
}

static void remove_member(member *m)
{
    virtual *v = m->v;
    member **link = &v->members;
    while (*link != m)
        link = &(*link)->next;
    *link = m->next;
    m->gone = true;
    signal_all(v, m);
}

static void begin(member *m)
{
    self = m;
    pthread_mutex_lock(&m->v->mutex);
    if (m->v->running == NULL)
        pass_on(m->v);
    await_turn(m);
    pthread_mutex_unlock(&m->v->mutex);
}

static void end(member *m)
{
    pthread_mutex_lock(&m->v->mutex);
    settle(m);
    remove_member(m);
    pass_on(m->v);
    pthread_mutex_unlock(&m->v->mutex);
    self = NULL;
}

tg_status tg_clock_enter(const tg_clock *clock, uint64_t order)
{
    TG__ARG(clock);
    TG_TRY(tg__clock_check("tg_clock_enter: clock", clock));
    virtual *v = virtual_of(clock);
    member *m;
    if (v == NULL)
        return TG_OK;
    if (self != NULL)
        return tg_fail(TG_E_STATE, "this thread has already entered a virtual clock");
    TG_TRY(add(v, order, &m));
    begin(m);
    return TG_OK;
}

void tg_clock_leave(const tg_clock *clock)
{
    const virtual *v = clock == NULL ? NULL : virtual_of(clock);
    member *m = v == NULL ? NULL : self_in(v);
    if (m == NULL)
        return;
    end(m);
    discard(m);
}

static void *run_member(void *arg)
{
    member *m = arg;
    begin(m);
    void *result = m->run(m->arg);
    end(m); /* the joining thread frees it */
    return result;
}

tg_status tg_clock_thread_start(const tg_clock *clock, uint64_t order, const char *name,
                                void *(*run)(void *), void *arg, tg_clock_thread **t_p)
{
    TG__ARGS(clock, name, t_p);
    TG__ARG(run);
    TG_TRY(tg__clock_check("tg_clock_thread_start: clock", clock));
    virtual *v = virtual_of(clock);
    member *m = NULL;
    tg_clock_thread *t = malloc(sizeof *t);
    if (t == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory: thread %s", name);
    tg_status status = v == NULL ? TG_OK : add(v, order, &m);
    if (m != NULL) {
        m->run = run;
        m->arg = arg;
    }
    if (status == TG_OK)
        status = m == NULL ? tg__thread_start(name, run, arg, &t->thread)
                           : tg__thread_start(name, run_member, m, &t->thread);
    if (status != TG_OK && m != NULL) {
        pthread_mutex_lock(&v->mutex);
        remove_member(m);
        pthread_mutex_unlock(&v->mutex);
        discard(m);
    }
    if (status != TG_OK) {
        free(t);
        return status;
    }
    t->member = m;
    *t_p = t;
    return TG_OK;
}

void tg_clock_thread_join(const tg_clock *clock, tg_clock_thread *t)
{
    if (clock == NULL || t == NULL)
        return;
    virtual *v = virtual_of(clock);
    member *m = v == NULL ? NULL : self_in(v), *other = t->member;
    if (m != NULL) {
        pthread_mutex_lock(&v->mutex);
        settle(m);
        while (!other->gone)
            wait_for(m, other, TG__NEVER);
        pthread_mutex_unlock(&v->mutex);
    }
    pthread_join(t->thread, NULL);
    if (other != NULL)
        discard(other);
    free(t);
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t now_ns(void *arg)
{
    virtual *v = arg;
    member *m = self_in(v);
    if (m != NULL && m->state == RUNNING)
        return v->now_ns;
    pthread_mutex_lock(&v->mutex);
    if (m != NULL)
        settle(m);
    const int64_t now = v->now_ns;
    pthread_mutex_unlock(&v->mutex);
    return now;
}

static void sleep_until_ns(void *arg, int64_t when_ns)
{
    virtual *v = arg;
    member *m = self_in(v);
    if (m == NULL)
        return;
    pthread_mutex_lock(&v->mutex);
    settle(m);
    if (when_ns > v->now_ns)
        wait_for(m, NULL, when_ns);
    pthread_mutex_unlock(&v->mutex);
}

static void work(void *arg, int64_t ns)
{
    virtual *v = arg;
    member *m = self_in(v);
    if (m == NULL || ns <= 0)
        return;
    pthread_mutex_lock(&v->mutex);
    settle(m);
    m->state = WORKING;
    m->arrived = false;
    m->when_ns = v->now_ns + ns;
    pass_on(v);
    pthread_mutex_unlock(&v->mutex);
}

tg_status tg__clock_stuck(void)
{
    return tg_fail(
        TG_E_STATE,
        "virtual clock: deadlock: every thread that has entered it waits for another one");
}

tg__waited tg__clock_wait(const tg_clock *clock, pthread_cond_t *cond, pthread_mutex_t *mutex,
                          int64_t when_ns)
{
    virtual *v = virtual_of(clock);
    if (v == NULL && when_ns == TG__NEVER) {
        pthread_cond_wait(cond, mutex);
        return TG__WOKEN;
    }
    if (v == NULL)
        return tg__cond_wait_until(cond, mutex, when_ns) ? TG__WOKEN : TG__TIMED_OUT;
    member *m = self_in(v);
    if (m == NULL)
        return TG__STUCK;
    if (m->state == RUNNING && when_ns <= v->now_ns)
        return TG__TIMED_OUT;
    pthread_mutex_lock(&v->mutex);
    const bool working = m->state == WORKING;
    pthread_mutex_unlock(mutex);
    if (working)
        settle(m);
    else
        wait_for(m, cond, when_ns);
    const tg__waited how = working ? TG__WOKEN : m->how;
    pthread_mutex_unlock(&v->mutex);
    pthread_mutex_lock(mutex);
    return how;
}

void tg__clock_signal(const tg_clock *clock, pthread_cond_t *cond)
{
    virtual *v = virtual_of(clock);
    if (v == NULL) {
        pthread_cond_broadcast(cond);
        return;
    }
    pthread_mutex_lock(&v->mutex);
    signal_all(v, cond);
    pthread_mutex_unlock(&v->mutex);
}

tg_status tg_clock_virtual_create(int64_t start_ns, tg_clock **clock_p)
{
    TG__ARG(clock_p);
    virtual *v;
    TG_TRY(tg_alloc(1, sizeof *v, &v));
    v->clock = (tg_clock){.struct_size = sizeof v->clock,
                          .arg = v,
                          .now_ns = now_ns,
                          .sleep_until_ns = sleep_until_ns,
                          .work = work};
    v->now_ns = start_ns;
    pthread_mutex_init(&v->mutex, NULL);
    *clock_p = &v->clock;
    return TG_OK;
}

void tg_clock_virtual_destroy(tg_clock *clock)
{
    if (clock == NULL)
        return;
    virtual *v = clock->arg;
    pthread_mutex_destroy(&v->mutex);
    free(v);
}
