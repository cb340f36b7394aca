/* The virtual clock: whose turn it is and when, work outside of turns, ends of waits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/thread.h"
#include "base/virtual_clock.h"
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define MS INT64_C(1000000)

enum { MEMBERS = 4, NOTES = 64 };

/* The actions of members in their order: only the member with the turn writes. */
typedef struct world {
    tg_clock *clock;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool open;
    size_t count;
    struct note {
        int who;
        int64_t when_ns;
    } note[NOTES];
    tg__waited how[MEMBERS];
    atomic_int finished; /* finished in real time */
} world;

typedef struct actor {
    world *w;
    int who;
    tg_clock_thread *thread;
} actor;

static void note(const actor *a)
{
    world *w = a->w;
    const int64_t now = tg_now_ns(w->clock);
    w->note[w->count++] = (struct note){a->who, now};
}

static void sleep_to(const actor *a, int64_t when_ns)
{
    a->w->clock->sleep_until_ns(a->w->clock->arg, when_ns);
}

static void begin(world *w)
{
    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->mutex, NULL);
    assert_int_equal(tg__cond_init(&w->cond), TG_OK);
    assert_int_equal(tg_clock_virtual_create(0, &w->clock), TG_OK);
}

/* Each runs on a thread of its own; the one started last has the lowest order. */
static void play(world *w, void *(*const run[])(void *), int count)
{
    actor actors[MEMBERS];
    assert_int_equal(tg_clock_enter(w->clock, 100), TG_OK);
    for (int i = count; i-- > 0;) {
        actors[i] = (actor){.w = w, .who = i};
        assert_int_equal(tg_clock_thread_start(w->clock, (uint64_t)i, "actor", run[i], &actors[i],
                                               &actors[i].thread),
                         TG_OK);
    }
    for (int i = 0; i < count; i++)
        tg_clock_thread_join(w->clock, actors[i].thread);
    tg_clock_leave(w->clock);
}

static void finish(world *w)
{
    tg_clock_virtual_destroy(w->clock);
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->mutex);
}

static void expect(const world *w, size_t i, int who, int64_t when_ns)
{
    assert_true(i < w->count);
    assert_int_equal(w->note[i].who, who);
    assert_int_equal(w->note[i].when_ns, when_ns);
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void *sleeps(void *arg)
{
    const actor *a = arg;
    note(a);
    sleep_to(a, 10 * MS);
    note(a);
    sleep_to(a, (20 - a->who) * MS);
    note(a);
    sleep_to(a, 5 * MS); /* in the past */
    note(a);
    return NULL;
}

static void turns_go_by_time_and_order(void **state)
{
    (void)state;
    world w;
    begin(&w);
    play(&w, (void *(*const[])(void *)){sleeps, sleeps, sleeps}, 3);
    assert_int_equal(w.count, 12);
    for (int i = 0; i < 3; i++) {
        expect(&w, (size_t)i, i, 0);
        expect(&w, 3 + (size_t)i, i, 10 * MS);
        expect(&w, 6 + 2 * (size_t)i, 2 - i, (18 + i) * MS);
        expect(&w, 7 + 2 * (size_t)i, 2 - i, (18 + i) * MS);
    }
    finish(&w);
}

/* ---- signals --------------------------------------------------------------------------------- */

static void wait_open(actor *a, int64_t when_ns)
{
    world *w = a->w;
    tg__waited how = TG__WOKEN;
    pthread_mutex_lock(&w->mutex);
    while (!w->open && how == TG__WOKEN)
        how = tg__clock_wait(w->clock, &w->cond, &w->mutex, when_ns);
    pthread_mutex_unlock(&w->mutex);
    w->how[a->who] = how;
    note(a);
}

static void *waits_long(void *arg)
{
    wait_open(arg, 100 * MS);
    return NULL;
}

static void *waits_for_ever(void *arg)
{
    wait_open(arg, TG__NEVER);
    return NULL;
}

static void *waits_briefly(void *arg)
{
    wait_open(arg, 4 * MS);
    return NULL;
}

static void *opens(void *arg)
{
    actor *a = arg;
    sleep_to(a, 10 * MS);
    pthread_mutex_lock(&a->w->mutex);
    a->w->open = true;
    tg__clock_signal(a->w->clock, &a->w->cond);
    pthread_mutex_unlock(&a->w->mutex);
    note(a); /* continues: those that were woken wait for their turn */
    sleep_to(a, 10 * MS + 1);
    note(a);
    return NULL;
}

static void a_signal_wakes_before_time_goes_on(void **state)
{
    (void)state;
    world w;
    begin(&w);
    play(&w, (void *(*const[])(void *)){waits_long, opens, waits_for_ever, waits_briefly}, 4);
    assert_int_equal(w.count, 5);
    expect(&w, 0, 3, 4 * MS);
    expect(&w, 1, 1, 10 * MS);
    expect(&w, 2, 0, 10 * MS);
    expect(&w, 3, 2, 10 * MS);
    expect(&w, 4, 1, 10 * MS + 1);
    assert_int_equal(w.how[0], TG__WOKEN);
    assert_int_equal(w.how[2], TG__WOKEN);
    assert_int_equal(w.how[3], TG__TIMED_OUT);
    finish(&w);
}

/* ---- work ------------------------------------------------------------------------------------ */

static void pass_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Long in real time, short in virtual time. */
static void *works_slowly(void *arg)
{
    const actor *a = arg;
    tg_clock_work(a->w->clock, 5 * MS);
    pass_ms(30);
    atomic_fetch_add(&a->w->finished, 1);
    note(a);
    tg_clock_work(a->w->clock, 0);
    note(a);
    return NULL;
}

static void *works_quickly(void *arg)
{
    const actor *a = arg;
    tg_clock_work(a->w->clock, 8 * MS);
    tg_clock_work(a->w->clock, 2 * MS);
    note(a);
    return NULL;
}

/* Has turns while the others work, but none after the end of their work. */
static void *looks_on(void *arg)
{
    const actor *a = arg;
    sleep_to(a, 4 * MS);
    note(a);
    sleep_to(a, 6 * MS);
    assert_int_equal(atomic_load(&a->w->finished), 2);
    note(a);
    return NULL;
}

static void work_runs_beside_turns(void **state)
{
    (void)state;
    world w;
    begin(&w);
    play(&w, (void *(*const[])(void *)){works_slowly, works_quickly, looks_on, works_slowly}, 4);
    assert_int_equal(w.count, 7);
    expect(&w, 0, 2, 4 * MS);
    expect(&w, 1, 0, 5 * MS);
    expect(&w, 2, 0, 5 * MS);
    expect(&w, 3, 3, 5 * MS);
    expect(&w, 4, 3, 5 * MS);
    expect(&w, 5, 2, 6 * MS);
    expect(&w, 6, 1, 10 * MS);
    finish(&w);
}

/* ---- ends of waits --------------------------------------------------------------------------- */

static void who_can_never_be_woken_is_told(void **state)
{
    (void)state;
    world w;
    begin(&w);
    play(&w, (void *(*const[])(void *)){waits_for_ever, waits_for_ever}, 2);
    assert_int_equal(w.count, 2);
    assert_int_equal(w.how[0], TG__STUCK);
    assert_int_equal(w.how[1], TG__STUCK);
    assert_int_equal(tg__clock_stuck(), TG_E_STATE);
    assert_non_null(strstr(tg_error(), "waits for another"));

    actor outside = {.w = &w, .who = 2}; /* this thread is not a member */
    wait_open(&outside, TG__NEVER);
    assert_int_equal(w.how[2], TG__STUCK);
    sleep_to(&outside, 1000 * MS);
    assert_int_equal(tg_now_ns(w.clock), 0);

    assert_int_equal(tg_clock_enter(w.clock, 0), TG_OK);
    assert_int_equal(tg_clock_enter(w.clock, 1), TG_E_STATE);
    sleep_to(&outside, 1000 * MS); /* alone: returns at once */
    assert_int_equal(tg_now_ns(w.clock), 1000 * MS);
    tg_clock_leave(w.clock);
    finish(&w);
}

static void other_clocks_are_plain(void **state)
{
    (void)state;
    tg_clock clock = *tg_clock_monotonic();
    world w = {.clock = &clock, .mutex = PTHREAD_MUTEX_INITIALIZER};
    actor late = {.w = &w, .who = 0}, waits = {.w = &w, .who = 1};
    assert_int_equal(tg__cond_init(&w.cond), TG_OK);
    assert_int_equal(tg_clock_enter(&clock, 0), TG_OK);
    tg_clock_work(&clock, INT64_MAX);
    wait_open(&late, tg_now_ns(&clock) + 1000);
    assert_int_equal(w.how[0], TG__TIMED_OUT);
    assert_int_equal(
        tg_clock_thread_start(&clock, 0, "actor", waits_for_ever, &waits, &waits.thread), TG_OK);
    pthread_mutex_lock(&w.mutex);
    w.open = true;
    tg__clock_signal(&clock, &w.cond);
    pthread_mutex_unlock(&w.mutex);
    tg_clock_thread_join(&clock, waits.thread);
    assert_int_equal(w.how[1], TG__WOKEN);
    tg_clock_leave(&clock);
    pthread_cond_destroy(&w.cond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_go_by_time_and_order),
        cmocka_unit_test(a_signal_wakes_before_time_goes_on),
        cmocka_unit_test(work_runs_beside_turns),
        cmocka_unit_test(who_can_never_be_woken_is_told),
        cmocka_unit_test(other_clocks_are_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
