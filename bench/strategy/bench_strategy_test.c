/* Every strategy has rows, and their bytes are the least that the strategy touches. */
#include "bench/strategy/bench_strategy.h"
#include "strategy/strategy.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct seen {
    char names[4096];
    size_t rows;
} seen;

static tg_status see(void *arg, const bench_strategy_row *row)
{
    seen *s = arg;
    const size_t len = strlen(s->names);
    if (row->error != NULL)
        fail_msg("%s with %s: %s", row->strategy, row->optimizer, row->error);
    snprintf(s->names + len, sizeof s->names - len, " %s:", row->strategy);
    assert_true(row->ms > 0 && row->ratio.median > 0 && row->passes >= 3 && row->samples > 0);
    s->rows++;
    return TG_OK;
}

static void every_strategy_has_rows(void **state)
{
    (void)state;
    seen s = {.rows = 0};
    const bench_strategy_options o = {.n = 4000, .seconds = 0.0005, .arg = &s, .row = see};
    assert_int_equal(bench_strategy(&o), TG_OK);
    size_t count;
    const tg_entry *const *entry = tg__strategy_entries(&count);
    for (size_t i = 0; i < count; i++) {
        char name[64];
        if (strcmp(entry[i]->name, "server") == 0) /* its work is the servers' */
            continue;
        snprintf(name, sizeof name, " %s:", entry[i]->name);
        if (strstr(s.names, name) == NULL)
            fail_msg("strategy %s has no row", entry[i]->name);
    }
    assert_true(s.rows > 5 * count - 6);
}

static void bytes_are_counted(void **state)
{
    (void)state;
    assert_true(bench_strategy_passes("ssgd", "sgd") == 3);
    assert_true(bench_strategy_passes("ssgd", "sgd:momentum=0.9") == 5);
    assert_true(bench_strategy_passes("ssgd", "adam") == 7);
    assert_true(bench_strategy_passes("ssgd", "lars") == 7);
    assert_true(bench_strategy_passes("dga:delay=4", "sgd:momentum=0.9") == 13);
    assert_true(bench_strategy_passes("local:every=4", "sgd") == 4);
    assert_true(bench_strategy_passes("demo", "adam") == 0);
    assert_true(bench_strategy_passes("none", "sgd") == 0);
}

static tg_status refuse(void *arg, const bench_strategy_row *row)
{
    (void)row;
    ++*(int *)arg;
    return tg_fail(TG_E_IO, "no more");
}

static void a_failing_reader_ends_it(void **state)
{
    (void)state;
    int rows = 0;
    const bench_strategy_options o = {
        .n = 1000, .filter = "ssgd", .seconds = 0.0005, .arg = &rows, .row = refuse};
    assert_int_equal(bench_strategy(&o), TG_E_IO);
    assert_int_equal(rows, 1);
    const bench_strategy_options few = {.n = 999, .arg = &rows, .row = refuse};
    assert_int_equal(bench_strategy(&few), TG_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_strategy_has_rows),
                                       cmocka_unit_test(bytes_are_counted),
                                       cmocka_unit_test(a_failing_reader_ends_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
