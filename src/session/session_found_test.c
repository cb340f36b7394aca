/* The folder of checkpoints changes while ranks look into it: a run that is still saving commits a
 * checkpoint that rank 0 has not found, and the other rank has. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "hostile_ranks.h"
#include "session_fixture.h"

#include <stdatomic.h>

enum { WORLD = 2 };

static char later[64], hidden[64];
static atomic_bool looked, blames;
static fixture_result result[WORLD];

/* With its first message rank 0 has looked. */
static void appear(void *arg, uint64_t number, uint16_t *flags_p, uint8_t *payload, size_t *len_p)
{
    (void)arg;
    (void)flags_p;
    (void)payload;
    (void)len_p;
    if (number == 0 && rename(hidden, later) == 0)
        atomic_store(&looked, true);
}

static tg_status look_later(fixture_rank *r)
{
    while (r->rank == 1 && !atomic_load(&looked))
        fixture_pause(1);
    return fixture_session(r);
}

static void listen(void *arg, tg_log_level level, const char *message)
{
    (void)arg;
    if (level == TG_LOG_WARN && strstr(message, " lacks it") != NULL)
        atomic_store(&blames, true);
}

static void run_from(const fixture_job *job)
{
    tg_transport *t[WORLD];
    pthread_t thread[WORLD];
    fixture_rank rank[WORLD];
    hostile_connect(WORLD, 0, appear, NULL, t);
    for (int r = 0; r < WORLD; r++) {
        rank[r] = (fixture_rank){.job = job, .transport = t[r], .out = &result[r], .rank = r};
        assert_int_equal(pthread_create(&thread[r], NULL, fixture_thread, &rank[r]), 0);
    }
    for (int r = 0; r < WORLD; r++)
        pthread_join(thread[r], NULL);
}

static void the_newest_by_then_is_read(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-session-XXXXXX", command[64];
    fixture_job job = fixture_defaults();
    assert_non_null(mkdtemp(dir));
    job.world = WORLD;
    for (job.save_at = 4; job.save_at <= 6; job.save_at += 2) {
        job.save_dir = dir;
        fixture_run(&job, result);
        assert_int_equal(result[0].status, TG_OK);
        job.load_dir = dir;
    }
    const uint64_t hash = result[0].hash;
    snprintf(later, sizeof later, "%s/step-000000000006", dir);
    snprintf(hidden, sizeof hidden, "%s/hidden", dir);
    assert_int_equal(rename(later, hidden), 0);
    job.save_dir = NULL;
    job.trains = look_later;
    tg_log_set(listen, NULL);
    run_from(&job);
    tg_log_set(NULL, NULL);
    for (int r = 0; r < WORLD; r++) {
        if (result[r].status != TG_OK)
            fail_msg("rank %d: %s", r, result[r].error);
        assert_true(result[r].hash == hash);
    }
    assert_false(atomic_load(&blames)); /* no rank lacks what it has found */
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_newest_by_then_is_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
