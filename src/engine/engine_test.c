/* The engine on a transport that records how long it is asked to sleep: it never sleeps when
 * something is done. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange/gather.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_done_at_launch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
