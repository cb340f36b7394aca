/* Reading of servers' records. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "report/report_fixture.h"
#include "report/run_file.h"
#include "report/server_json.h"
#include <math.h>

#define BEGIN_AT(time) "{\"type\":\"server_start\",\"mode\":\"async\",\"time\":\"" time "\"}\n"
#define BEGIN BEGIN_AT("2026-11-26T16:00:00Z")
#define ZEROS "0,0,0,0,0,0,0,0,0,0,0,0]}\n"

/* A record without "unfit", as older ones are: seconds, step, answers, bytes in, and gradients of
 * staleness 0, 1, 2 to 3, 4 to 7. */
#define AT(type, seconds, step, answers, in, stale)                                        \
    "{\"type\":\"" type "\",\"seconds\":" #seconds ",\"workers\":2,\"step\":" #step        \
    ",\"answers\":" #answers ",\"bytes_in\":" #in ",\"bytes_out\":800,\"combine_s\":0.25," \
    "\"journal_bytes\":64,\"journal_syncs\":4,\"journal_s\":0.5,\"staleness\":[" stale "," ZEROS

#define UNFIT(type, seconds, count)                                                             \
    "{\"type\":\"" type "\",\"seconds\":" #seconds ",\"workers\":2,\"step\":10,\"answers\":20," \
    "\"bytes_in\":1000,\"bytes_out\":800,\"combine_s\":0.25,\"journal_bytes\":64,"              \
    "\"journal_syncs\":4,\"journal_s\":0.5,\"unfit\":" #count ",\"staleness\":[6,2,0,0," ZEROS

static run_files read_servers(const char *text)
{
    run_files f = {0};
    write_text(text);
    if (run_files_add(&f, path) != TG_OK)
        fail_msg("%s", tg_error());
    assert_int_equal(f.count, 0);
    return f;
}

static void refused(const char *text, const char *words)
{
    run_files f = {0};
    write_text(text);
    assert_int_equal(run_files_add(&f, path), TG_E_CORRUPT);
    if (!strstr(tg_error(), words))
        fail_msg("\"%s\" is not in: %s", words, tg_error());
    run_files_free(&f);
}

static void test_rates(void **state)
{
    (void)state;
    run_files f = read_servers(BEGIN AT("server", 2, 10, 20, 1000, "6,2,0,0")
                                   AT("server_end", 4, 30, 60, 5000, "6,4,6,0"));
    assert_int_equal(f.servers.count, 1);
    const server_file *s = &f.servers.file[0];
    assert_int_equal(s->rows.count, 2);
    assert_true(s->ended);
    const double *first = s->rows.v, *second = first + SERVER_COLUMNS;
    assert_float_equal(first[SERVER_SECONDS], 2, 0);
    assert_float_equal(first[SERVER_WORKERS], 2, 0);
    assert_true(isnan(first[SERVER_PACE])); /* from where it counted is not known */
    assert_float_equal(first[SERVER_GRADIENTS], 4, 0);
    assert_float_equal(first[SERVER_IN], 500, 0);
    assert_float_equal(first[SERVER_STALENESS], 0.25, 0);
    assert_float_equal(first[SERVER_SYNC], 0.25, 0);
    assert_float_equal(second[SERVER_PACE], 10, 0);
    assert_float_equal(second[SERVER_GRADIENTS], 4, 0);
    assert_float_equal(second[SERVER_IN], 2000, 0);
    assert_float_equal(second[SERVER_OUT], 0, 0);
    assert_float_equal(second[SERVER_STALENESS], (2 * 1 + 6 * 2.5) / 8, 1e-12);
    assert_float_equal(second[SERVER_BUSY], 0, 0);
    assert_float_equal(second[SERVER_JOURNAL], 64, 0);
    run_files_free(&f);
}

#define EVENT(seconds, kind) \
    "{\"type\":\"server_event\",\"seconds\":" #seconds ",\"event\":\"" kind "\",\"worker\":1}\n"

/* Events stand on the axis of the first start, change no figure, and only the last ones are kept.
 */
static void test_events(void **state)
{
    static char many[100 * SERVER_EVENTS_MOST];
    (void)state;
    run_files f =
        read_servers(BEGIN EVENT(0.5, "came") AT("server", 2, 10, 20, 1000, "6,2,0,0")
                         EVENT(3, "lost") BEGIN_AT("2026-11-26T16:01:00Z") EVENT(0.25, "refused")
                             AT("server_end", 4, 30, 60, 5000, "6,4,6,0"));
    const server_file *s = &f.servers.file[0];
    static const double at[] = {0.5, 3, 60, 60.25, 64};
    assert_int_equal(s->event_count, sizeof at / sizeof *at);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const json_t *seconds = json_object_get(json_array_get(s->events, i), "seconds");
        assert_float_equal(json_real_value(seconds), at[i], 1e-9);
    }
    assert_float_equal(s->seconds, 6, 0);
    assert_true(s->ended);
    run_files_free(&f);

    size_t len = (size_t)sprintf(many, "%s", BEGIN);
    for (int i = 0; i < SERVER_EVENTS_MOST + 7; i++)
        len += (size_t)sprintf(many + len, "%s", i < 7 ? EVENT(1, "late") : EVENT(2, "left"));
    f = read_servers(many);
    assert_int_equal(f.servers.file[0].event_count, SERVER_EVENTS_MOST + 7);
    assert_int_equal(json_array_size(f.servers.file[0].events), SERVER_EVENTS_MOST);
    assert_float_equal(
        json_real_value(json_object_get(json_array_get(f.servers.file[0].events, 0), "seconds")), 2,
        0);
    json_t *page = NULL;
    assert_int_equal(server_json(&f.servers, &page), TG_OK);
    assert_int_equal(json_array_size(json_object_get(json_array_get(page, 0), "events")),
                     SERVER_EVENTS_MOST);
    json_decref(page);
    run_files_free(&f);
    refused(EVENT(1, "came"), "without \"server_start\" before it");
    refused(BEGIN EVENT("x", "came"), "\"seconds\" or \"event\"");
    refused(BEGIN "{\"type\":\"server_event\",\"seconds\":1,\"event\":7}\n", "\"seconds\" or");
}

/* The ratio of what is coded: of records that have it. */
static void test_ratio(void **state)
{
    (void)state;
    run_files f = read_servers(BEGIN AT("server", 2, 10, 20, 1000, "6,2,0,0"));
    assert_true(isnan(server_file_ratio(&f.servers.file[0], SERVER_UP)));
    run_files_free(&f);
    f = read_servers(
        BEGIN "{\"type\":\"server_end\",\"seconds\":4,\"workers\":2,\"step\":1,\"answers\":1,"
              "\"bytes_in\":1,\"bytes_out\":1,\"combine_s\":0,\"journal_bytes\":0,"
              "\"journal_syncs\":0,\"journal_s\":0,\"gradient_elements\":1000,"
              "\"gradient_bytes\":250,\"answer_elements\":500,\"answer_bytes\":2000,"
              "\"staleness\":[0,0,0,0," ZEROS);
    assert_float_equal(server_file_ratio(&f.servers.file[0], SERVER_UP), 16, 0);
    assert_float_equal(server_file_ratio(&f.servers.file[0], SERVER_DOWN), 1, 0);
    assert_true(isnan(f.servers.file[0].rows.v[SERVER_GRADIENTS])); /* not counted: mode sync */
    run_files_free(&f);
}

/* Newer records have the sum of the staleness, and count gradients also in mode sync. */
static void test_staleness(void **state)
{
    static const char old[] = BEGIN AT("server", 2, 10, 20, 1000, "0,0,0,8");
    static const char with_sum[] =
        BEGIN "{\"type\":\"server\",\"seconds\":2,\"workers\":2,\"step\":10,\"answers\":20,"
              "\"bytes_in\":1000,\"bytes_out\":800,\"combine_s\":0,\"journal_bytes\":0,"
              "\"journal_syncs\":0,\"journal_s\":0,\"staleness_sum\":56,\"gradients\":24,"
              "\"staleness\":[0,0,0,8," ZEROS;
    (void)state;
    run_files f = read_servers(old);
    assert_float_equal(server_file_staleness(&f.servers.file[0]), 5.5, 0);
    assert_float_equal(f.servers.file[0].rows.v[SERVER_GRADIENTS], 4, 0);
    run_files_free(&f);
    f = read_servers(with_sum);
    assert_float_equal(server_file_staleness(&f.servers.file[0]), 7, 0);
    assert_float_equal(f.servers.file[0].rows.v[SERVER_STALENESS], 7, 0);
    assert_float_equal(f.servers.file[0].rows.v[SERVER_GRADIENTS], 12, 0);
    assert_float_equal(f.servers.file[0].gradients, 24, 0);
    run_files_free(&f);
}

static const char *event_text(const server_file *s, size_t i, const char *name)
{
    return json_string_value(json_object_get(json_array_get(s->events, i), name));
}

/* When a server was started again and why it ended is among its events. */
static void test_own_events(void **state)
{
    (void)state;
    run_files f = read_servers(
        BEGIN
        "{\"type\":\"server_end\",\"seconds\":2,\"workers\":2,\"step\":1,\"answers\":1,"
        "\"bytes_in\":1,\"bytes_out\":1,\"combine_s\":0,\"journal_bytes\":0,"
        "\"journal_syncs\":0,\"journal_s\":0,\"error\":\"disk full\",\"staleness\":[0,0,0,0," ZEROS
            BEGIN_AT("2026-11-26T16:00:10Z") AT("server_end", 4, 30, 60, 5000, "6,4,6,0"));
    const server_file *s = &f.servers.file[0];
    assert_int_equal(json_array_size(s->events), 3);
    assert_int_equal(s->event_count, 3);
    assert_string_equal(event_text(s, 0, "event"), "ended");
    assert_string_equal(event_text(s, 0, "reason"), "disk full");
    assert_string_equal(event_text(s, 1, "event"), "started");
    assert_float_equal(json_real_value(json_object_get(json_array_get(s->events, 1), "seconds")),
                       10, 0);
    assert_string_equal(event_text(s, 2, "event"), "ended");
    assert_null(event_text(s, 2, "reason"));
    run_files_free(&f);
}

/* A server that is started again: its figures count from 0, and it had no workers meanwhile. */
static void test_started_again(void **state)
{
    (void)state;
    run_files f = read_servers(
        BEGIN AT("server", 2, 10, 20, 1000, "6,2,0,0") BEGIN_AT("2026-11-26T16:00:10Z")
            AT("server", 1, 12, 4, 300, "1,0,0,0") AT("server", 2, 14, 8, 600, "1,0,0,1"));
    const server_file *s = &f.servers.file[0];
    assert_int_equal(s->starts, 2);
    assert_int_equal(s->rows.count, 5);
    assert_false(s->ended);
    const double *row = s->rows.v + SERVER_COLUMNS;
    assert_float_equal(row[SERVER_SECONDS], 2, 0);
    assert_float_equal(row[SERVER_WORKERS], 0, 0);
    assert_float_equal(row[SERVER_COLUMNS + SERVER_SECONDS], 10, 0);
    assert_float_equal(row[SERVER_COLUMNS + SERVER_GRADIENTS], 0, 0);
    assert_float_equal(row[2 * SERVER_COLUMNS + SERVER_SECONDS], 11, 0);
    assert_float_equal(row[2 * SERVER_COLUMNS + SERVER_IN], 300, 0);
    assert_float_equal(row[3 * SERVER_COLUMNS + SERVER_PACE], 2, 0);
    assert_float_equal(s->seconds, 4, 0);
    assert_float_equal(s->answers, 28, 0);
    assert_float_equal(s->bytes_in, 1600, 0);
    assert_float_equal(s->gradients, 10, 0);
    assert_float_equal(s->staleness[0], 7, 0);
    assert_float_equal(s->staleness[3], 1, 0);
    json_t *list;
    assert_int_equal(server_json(&f.servers, &list), TG_OK);
    const json_t *one = json_array_get(list, 0);
    assert_true(json_is_null(json_object_get(one, "end")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(one, "totals"), "answers")),
                     28);
    assert_int_equal(json_array_size(json_array_get(
                         json_object_get(json_object_get(one, "steps"), "workers"), 0)),
                     5);
    json_decref(list);
    run_files_free(&f);
}

/* Gradients that were not applied: counted over all starts; records that do not say are older. */
static void test_unfit(void **state)
{
    (void)state;
    run_files f = read_servers(BEGIN AT("server", 2, 10, 20, 1000, "6,2,0,0") UNFIT("server", 3, 3)
                                   BEGIN_AT("2026-11-26T16:00:10Z") UNFIT("server", 1, 2)
                                       UNFIT("server_end", 2, 4));
    assert_float_equal(f.servers.file[0].unfit, 7, 0);
    run_files_free(&f);
    refused(BEGIN UNFIT("server", 1, 2) UNFIT("server", 2, 1), "\"unfit\" is less than");
    refused(BEGIN UNFIT("server", 1, null), "\"unfit\": allowed: a number");
}

static void test_refused(void **state)
{
    (void)state;
    refused(AT("server", 2, 10, 20, 1000, "6,2,0,0"), "\"server\" without \"server_start\"");
    refused(BEGIN_AT("yesterday"), ":1: \"time\": allowed");
    refused("{\"type\":\"server_start\"}\n", ":1: \"time\": allowed");
    refused(BEGIN AT("server", 2, 10, 20, -1, "6,2,0,0"), ":2: \"bytes_in\": allowed");
    refused(BEGIN AT("server", 2, 10, 20, "x", "6,2,0,0"), ":2: \"bytes_in\": allowed");
    refused(BEGIN AT("server", 2, 10, 20, 5, "6,2,0,-1"), ":2: \"staleness\": allowed");
    refused(BEGIN AT("server", 2, 10, 20, 5, "6"), ":2: \"staleness\": allowed");
    refused(BEGIN AT("server", 2, 10, 20, 5, "1,0,0,0") AT("server", 1, 10, 20, 5, "1,0,0,0"),
            ":3: \"seconds\" is less than in the record before");
    refused(BEGIN AT("server", 2, 10, 20, 5, "1,0,0,0") AT("server", 3, 10, 20, 5, "0,1,0,0"),
            ":3: \"staleness\" is less than in the record before");
}

static void test_kinds_are_not_mixed(void **state)
{
    (void)state;
    run_files f = {0};
    write_text(BEGIN START);
    assert_int_equal(run_files_add(&f, path), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "records of servers and of runs"));
    run_files_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(test_rates),      ON_FILE(test_started_again), ON_FILE(test_staleness),
        ON_FILE(test_own_events), ON_FILE(test_unfit),         ON_FILE(test_events),
        ON_FILE(test_ratio),      ON_FILE(test_refused),       ON_FILE(test_kinds_are_not_mixed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
