/* The engine on a transport that records how long it is asked to sleep: it never sleeps when
 * something is done. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange/gather.h"
#include "engine/collect.h"
#include "engine/engine.h"
#include "telegrad/clock.h"

static const tg_transport_ops *plain;
static int sleeps;

static tg_status watched_poll(tg_transport *t, int64_t deadline_ns)
{
    const int64_t now = tg_now_ns(t->clock);
    sleeps += deadline_ns > now;
    return plain->poll(t, now);
}

/* An exchange without messages is done when it is launched, whatever else is in flight. */
static void test_done_at_launch(void **state)
{
    (void)state;
    tg_transport *t[2];
    tg__engine *e;
    tg__op far = {.task.step = 1}, own = {.task.step = 1, .flight.bucket = 1};
    assert_int_equal(tg_transport_inproc(2, t), TG_OK);
    plain = t[0]->ops;
    tg_transport_ops watched = *plain;
    watched.poll = watched_poll;
    t[0]->ops = &watched;
    assert_int_equal(tg__engine_create(t[0], TG_DRIVER_INLINE, INT64_C(20000000000), NULL, &e),
                     TG_OK);
    assert_int_equal(tg__gather_create(0, 2, 8, 0, &far.x), TG_OK);
    assert_int_equal(tg__gather_create(0, 1, 8, 0, &own.x), TG_OK);
    assert_int_equal(tg__engine_submit(e, &far), TG_OK); /* rank 1 never answers */
    assert_int_equal(tg__engine_submit(e, &own), TG_OK);
    assert_int_equal(tg__engine_wait(e, &own), TG_OK);
    assert_int_equal(sleeps, 0);
    assert_false(tg__engine_is_done(e, &far));
    assert_true(tg__engine_destroy(e));
    tg__flight_fini(&far.flight);
    tg__flight_fini(&own.flight);
    tg__exchange_destroy(far.x);
    tg__exchange_destroy(own.x);
    tg_transport_destroy(t[0]);
    tg_transport_destroy(t[1]);
}

static int told;

static void is_told(void *arg, const tg_wait *wait)
{
    (void)arg;
    told++;
    assert_int_equal(wait->rank, 1);
    assert_int_equal(wait->step, 95);
}

/* Rank 1 does not come when step 95 is done: no error says that this is step 0. */
static void test_between_steps(void **state)
{
    (void)state;
    tg_transport *t[2];
    tg__engine *e;
    tg__op own = {.task.step = 95};
    uint8_t says[8] = {0}, all[16];
    assert_int_equal(tg_transport_inproc(2, t), TG_OK);
    assert_int_equal(tg__engine_create(t[0], TG_DRIVER_INLINE, INT64_C(1200000000), NULL, &e),
                     TG_OK);
    tg__engine_on_wait(e, is_told, NULL);
    assert_int_equal(tg__gather_create(0, 1, 8, 0, &own.x), TG_OK);
    assert_int_equal(tg__engine_submit(e, &own), TG_OK);
    assert_int_equal(tg__engine_wait(e, &own), TG_OK);
    assert_int_equal(tg__gather_all(e, NULL, says, sizeof says, all), TG_E_PEER);
    assert_string_equal(tg_error(), "rank 1 sent nothing for 1.2 s (between steps)");
    assert_int_equal(told, 1);
    assert_true(tg__engine_destroy(e));
    tg__flight_fini(&own.flight);
    tg__exchange_destroy(own.x);
    tg_transport_destroy(t[0]);
    tg_transport_destroy(t[1]);
}

/* Rank 1 does not come to the handshake. */
static void test_before_steps(void **state)
{
    (void)state;
    tg_transport *t[2];
    tg__engine *e;
    uint8_t says[8] = {0}, all[16];
    assert_int_equal(tg_transport_inproc(2, t), TG_OK);
    assert_int_equal(tg__engine_create(t[0], TG_DRIVER_INLINE, INT64_C(300000000), NULL, &e),
                     TG_OK);
    assert_int_equal(tg__gather_all(e, NULL, says, sizeof says, all), TG_E_PEER);
    assert_string_equal(tg_error(), "rank 1 sent nothing for 0.3 s (before the first step)");
    assert_true(tg__engine_destroy(e));
    tg_transport_destroy(t[0]);
    tg_transport_destroy(t[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_done_at_launch),
                                       cmocka_unit_test(test_between_steps),
                                       cmocka_unit_test(test_before_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
