/* Thinning, escaping, reading of traces, and waiting by epochs. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "report/escape.h"
#include "report/epoch_waits.h"
#include "report/report.h"
#include "report/report_fixture.h"
#include "report/thin.h"
#include "report/timeline.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- thin ------------------------------------------------------------------------------------ */

static void test_thin_keeps_short_curves(void **state)
{
    (void)state;
    const double v[] = {1, (double)NAN, 2, (double)INFINITY, 3, 4};
    size_t kept[8];
    assert_int_equal(thin(v, 1, 6, 8, kept), 4);
    const size_t all[] = {0, 2, 4, 5};
    assert_memory_equal(kept, all, sizeof all);
    assert_int_equal(thin(v, 2, 3, 8, kept), 3); /* 1, 2, 3 */
    assert_int_equal(thin(v, 1, 0, 8, kept), 0);
}

static void test_thin_keeps_extremes(void **state)
{
    (void)state;
    enum { N = 100000, MOST = 100 };
    double *v = malloc(N * sizeof *v);
    size_t kept[MOST];
    assert_non_null(v);
    for (int i = 0; i < N; i++)
        v[i] = i % 7 == 3 ? (double)NAN : sin(i * 0.001);
    v[77777] = 50;
    v[31234] = -50;
    const size_t count = thin(v, 1, N, MOST, kept);
    bool high = false, low = false;
    assert_in_range(count, MOST / 2, MOST);
    for (size_t i = 0; i < count; i++) {
        assert_true(isfinite(v[kept[i]]));
        assert_true(i == 0 || kept[i] > kept[i - 1]);
        high = high || kept[i] == 77777;
        low = low || kept[i] == 31234;
    }
    assert_true(high && low);
    assert_int_equal(kept[0], 0);
    assert_int_equal(kept[count - 1], N - 1);
    free(v);
}

/* For any number of points and any limit, the result is ascending and within the limit. */
static void test_thin_any_length(void **state)
{
    (void)state;
    double v[64];
    size_t kept[64];
    for (int i = 0; i < 64; i++)
        v[i] = (i * 37) % 11;
    for (size_t n = 1; n < 64; n++)
        for (size_t most = 4; most <= n; most++) {
            const size_t count = thin(v, 1, n, most, kept);
            assert_in_range(count, 2 < n ? 2 : n, most);
            for (size_t i = 1; i < count; i++)
                assert_true(kept[i] > kept[i - 1]);
        }
}

static void test_thin_evenly(void **state)
{
    (void)state;
    const double v[] = {(double)NAN, 1, 2, (double)INFINITY, 3, 4, 5, (double)NAN};
    const size_t three[] = {1, 4, 6}, all[] = {1, 2, 4, 5, 6};
    size_t kept[8];
    assert_int_equal(finite_count(v, 1, 8), 5);
    assert_int_equal(thin_evenly(v, 1, 8, 3, kept), 3);
    assert_memory_equal(kept, three, sizeof three);
    assert_int_equal(thin_evenly(v, 1, 8, 8, kept), 5);
    assert_memory_equal(kept, all, sizeof all);
    assert_int_equal(thin_evenly(v, 1, 1, 8, kept), 0);
    assert_float_equal(mean_around(v, 1, 8, 4, 1), 3, 0);
    assert_float_equal(mean_around(v, 1, 8, 6, 2), 4, 0);
    assert_float_equal(mean_around(v, 1, 8, 1, 9), 3, 0);
}

/* ---- escaping -------------------------------------------------------------------------------- */

static char *printed(void (*print)(FILE *out, const void *what), const void *what)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    print(out, what);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void print_xml(FILE *out, const void *text)
{
    escape_xml(out, text);
}

static void print_json(FILE *out, const void *value)
{
    assert_int_equal(escape_json(out, value), 0);
}

static void test_escape(void **state)
{
    (void)state;
    char *text = printed(print_xml, "<a href='x'>&\"\x01\xc3\xa4</a>");
    assert_string_equal(text,
                        "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\xef\xbf\xbd\xc3\xa4&lt;/a&gt;");
    free(text);
    json_t *value = json_pack("{s:s}", "</script>", "<!-- & \xe2\x80\xa8");
    text = printed(print_json, value);
    assert_string_equal(text, "{\"\\u003c/script\\u003e\":\"\\u003c!-- \\u0026 \\u2028\"}");
    json_t *again = json_loads(text, 0, NULL);
    assert_true(json_equal(value, again));
    json_decref(value);
    json_decref(again);
    free(text);
}

/* ---- traces ---------------------------------------------------------------------------------- */

#define SPAN(rank, cat, name, begin, length, step, bucket)                                      \
    "{\"ph\":\"X\",\"pid\":" #rank ",\"tid\":0,\"cat\":\"" cat "\",\"name\":\"" name            \
    "\",\"ts\":" #begin ",\"dur\":" #length ",\"args\":{\"step\":" #step ",\"bucket\":" #bucket \
    "}}"

/* Two ranks; the first is rank 3. */
static void write_trace(void)
{
    static const struct {
        int rank;
        const char *cat, *name;
        int begin, length, step, bucket;
    } spans[] = {
        {3, "compute", "forward", 1000, 400, 7, 0},   {4, "compute", "forward", 1100, 400, 7, 0},
        {3, "exchange", "exchange", 1450, 300, 7, 1}, {3, "exchange", "exchange", 1500, 300, 7, 0},
        {3, "wait", "wait", 1600, 200, 7, 0},         {3, "unheard of", "x", 1600, 200, 7, 0},
        {3, "wait", "wait", 2010, 50, 8, 0},          {3, "compute", "forward", 2000, 400, 8, 0},
        {4, "compute", "forward", 2100, 400, 8, 0}};
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("{\"traceEvents\":[{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\"}", file);
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        fprintf(file,
                ",{\"ph\":\"X\",\"pid\":%d,\"cat\":\"%s\",\"name\":\"%s\",\"ts\":%d,\"dur\":%d,"
                "\"args\":{\"step\":%d,\"bucket\":%d}}",
                spans[i].rank, spans[i].cat, spans[i].name, spans[i].begin, spans[i].length,
                spans[i].step, spans[i].bucket);
    fputs("]}", file);
    assert_int_equal(fclose(file), 0);
}

static void test_timeline(void **state)
{
    (void)state;
    report_timeline_job job = {
        .path = {path}, .count = 1, .steps_given = true, .first = 7, .last = 7};
    timeline_panel p;
    write_trace();
    if (timeline_panel_make(&job, 0, &p) != TG_OK)
        fail_msg("%s", tg_error());
    assert_int_equal(p.ranks, 2);
    assert_int_equal(p.trace.first_rank, 3);
    assert_float_equal(p.begin, 1000, 0);
    assert_float_equal(p.length, 1100, 0); /* until rank 1 begins step 8 */
    assert_int_equal(p.lanes[0], 2);
    assert_int_equal(p.lanes[1], 1);
    assert_float_equal(p.step, 1000, 0);   /* measured by each rank itself */
    assert_float_equal(p.wait, 100, 1e-9); /* 200 on one of two ranks; without step 8 */
    assert_int_equal(p.count, 7);          /* includes spans that begin in step 7 and end later */
    timeline_panel_free(&p);
    job.last = 9;
    assert_int_equal(timeline_panel_make(&job, 0, &p), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "has steps 7 to 8"));
}

static void test_traces_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {{"", ":"},
                 {"[]", "no \"traceEvents\""},
                 {"{\"traceEvents\":3}", "no \"traceEvents\""},
                 {"{\"traceEvents\":[]}", "no spans"},
                 {"{\"traceEvents\":[{", ":1: not JSON"},
                 {START, "holds records"},
                 {START "{\"type\":\"end\"}\n", "holds records"},
                 {"{\"traceEvents\":[" SPAN(-1, "wait", "w", 1, 1, 1, 0) "]}", "event 0"},
                 {"{\"traceEvents\":[" SPAN(1, "wait", "w", 1, -1, 1, 0) "]}", "event 0"},
                 {"{\"traceEvents\":[" SPAN(1, "wait", "w", 1e300, 1, 1, 0) "]}", "event 0"},
                 {"{\"traceEvents\":[" SPAN(1, "wait", "w", 1, 1, 1, 0) "]}", "no rank computes"}};
    const report_timeline_job job = {.path = {path}, .count = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        timeline_panel p;
        write_text(cases[i].text);
        assert_int_equal(timeline_panel_make(&job, 0, &p), TG_E_CORRUPT);
        if (!strstr(tg_error(), cases[i].words) || !strstr(tg_error(), path))
            fail_msg("case %zu: %s", i, tg_error());
    }
}

/* Five epochs in two groups. An epoch with another number of ranks, and those after the step of a
 * resume, are removed. */
static void test_epoch_waits(void **state)
{
    (void)state;
    json_t *list = NULL;
    epoch_waits_add(&list, NULL);
    assert_null(list);
    for (int i = 0; i < 8; i++) {
        json_t *record = i == 0
                             ? json_pack("{s:i, s:[f], s:[f]}", "step", 1, "waited_for_s", 9.0,
                                         "waited_by_s", 9.0)
                             : json_pack("{s:i, s:[f, f], s:[f, f]}", "step", 10 * i,
                                         "waited_for_s", 0.0, (double)i, "waited_by_s", 1.0, 0.5);
        epoch_waits_add(&list, record);
        json_decref(record);
    }
    epoch_waits_drop_after(list, 50);
    assert_int_equal(json_array_size(list), 6);
    json_t *all = epoch_waits_json(list, 60), *two = epoch_waits_json(list, 2);
    assert_int_equal(json_array_size(all), 5);
    assert_int_equal(json_array_size(two), 2);
    const json_t *first = json_array_get(two, 0), *second = json_array_get(two, 1);
    assert_int_equal(json_integer_value(json_object_get(first, "epochs")), 2);
    assert_int_equal(json_integer_value(json_object_get(second, "epochs")), 3);
    assert_true(json_real_value(json_array_get(json_object_get(first, "for"), 1)) == 3);
    assert_true(json_real_value(json_array_get(json_object_get(second, "for"), 1)) == 12);
    assert_true(json_real_value(json_array_get(json_object_get(second, "by"), 1)) == 1.5);
    json_decref(all);
    json_decref(two);
    epoch_waits_drop_after(list, 10);
    all = epoch_waits_json(list, 60);
    assert_true(json_is_null(all));
    json_decref(all);
    json_decref(list);
    all = epoch_waits_json(NULL, 60);
    assert_true(json_is_null(all));
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epoch_waits),
        cmocka_unit_test(test_thin_keeps_short_curves),
        cmocka_unit_test(test_thin_keeps_extremes),
        cmocka_unit_test(test_thin_any_length),
        cmocka_unit_test(test_thin_evenly),
        cmocka_unit_test(test_escape),
        ON_FILE(test_timeline),
        ON_FILE(test_traces_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
