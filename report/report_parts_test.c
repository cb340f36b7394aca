/* Reading records and traces, thinning, escaping, and the axes of the charts. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "report/escape.h"
#include "report/epoch_waits.h"
#include "report/report.h"
#include "report/run_json.h"
#include "report/run_x.h"
#include "report/thin.h"
#include "report/timeline.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define START "{\"type\":\"start\",\"params\":250,\"batch\":4,\"method\":\"m\",\"seed\":1}\n"

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/telegrad_report_XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static run_files read_runs(const char *text)
{
    run_files f = {0};
    write_text(text);
    if (run_files_add(&f, path) != TG_OK)
        fail_msg("%s", tg_error());
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

/* ---- records --------------------------------------------------------------------------------- */

static void test_records(void **state)
{
    (void)state;
    run_files f = read_runs(
        START "{\"type\":\"step\",\"step\":10,\"loss\":2.5,\"coded\":true,\"coded_bytes\":100,"
              "\"bytes_sent\":7,\"seconds\":1}\n"
              "{\"type\":\"step\",\"step\":20,\"loss\":null,\"coded\":false,\"coded_bytes\":100}\n"
              "{\"type\":\"step\",\"step\":20,\"coded\":true,\"coded_bytes\":100,"
              "\"methods\":[{\"n\":40},{\"n\":10}]}\n"
              "{\"type\":\"epoch\",\"step\":20,\"test_accuracy\":0.5,\"bytes_sent\":300}\n"
              "{\"type\":\"end\",\"steps\":20,\"seconds\":3}\n"
              "{\"type\":\"table\",\"rows\":[{\"run\":\"b\",\"failed\":\"why\"}]}");
    assert_int_equal(f.count, 1);
    const run_file_run *run = &f.runs[0];
    assert_int_equal(run->steps.count, 3);
    assert_int_equal(run->epochs.count, 1);
    const double *row = run->steps.v;
    assert_float_equal(row[STEP_RATIO], 10, 0);
    assert_float_equal(row[STEP_LOSS], 2.5, 0);
    assert_true(isnan(row[STEP_COLUMNS + STEP_RATIO])); /* sent dense */
    assert_true(isnan(row[STEP_COLUMNS + STEP_LOSS]));
    assert_float_equal(row[2 * STEP_COLUMNS + STEP_RATIO], 2, 0); /* the ratio of a part */
    assert_non_null(run->end);
    assert_int_equal(json_array_size(f.notes), 1);
    assert_non_null(strstr(json_string_value(json_array_get(f.notes, 0)), "\"b\" failed: why"));
    run_files_free(&f);
}

static void test_cut_line(void **state)
{
    (void)state;
    run_files f = read_runs(START "{\"type\":\"step\",\"step\":1,\"loss\":1}\n{\"type\":\"st");
    assert_int_equal(f.runs[0].steps.count, 1);
    assert_null(f.runs[0].end);
    assert_int_equal(json_array_size(f.notes), 1);
    assert_non_null(strstr(json_string_value(json_array_get(f.notes, 0)), "last line (3) is cut"));
    run_files_free(&f);
    refused(START "{\"type\":\"st\n" START, ":2: ");
}

static void test_refused(void **state)
{
    (void)state;
    refused("", ": no run: it has no records");
    refused("\n\n", ": no run: it has no records");
    refused("{\"type\":\"sta", ": no run: its only line is cut");
    refused(START "{\"type\":\"step\",\"step\":1,\"loss\":\"x\"}\n", ":2: \"loss\" is no number");
    refused(START "{\"type\":\"epoch\",\"step\":1,\"test_loss\":true}\n",
            ":2: \"test_loss\" is no number");
    refused("hello\n", ":1: ");
    refused("[1]\n", ":1: no JSON object");
    refused("{\"a\":1}\n", ":1: no \"type\"");
    refused("{\"type\":\"bench_train\"}\n", "type \"bench_train\"");
    refused("{\"type\":\"step\",\"step\":1}\n", "without \"start\"");
    refused(START "{\"type\":\"step\"}\n", ":2: no step");
    refused(START "{\"type\":\"step\",\"step\":-1}\n", ":2: no step");
    refused(START "{\"type\":\"step\",\"step\":5}\n{\"type\":\"step\",\"step\":4}\n",
            ":3: no step");
    run_files f = {0};
    assert_int_equal(run_files_add(&f, "/nowhere/at/all"), TG_E_IO);
    assert_int_equal(run_files_add(&f, "/tmp"), TG_E_IO);
}

static void test_packed(void **state)
{
    (void)state;
    static const char text[] = START "{\"type\":\"step\",\"step\":1}\n";
    run_files f = {0};
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(gzclose(file), Z_OK);
    assert_int_equal(run_files_add(&f, path), TG_OK);
    assert_int_equal(f.runs[0].steps.count, 1);
    run_files_free(&f);
    assert_int_equal(truncate(path, 40), 0);
    assert_int_equal(run_files_add(&f, path), TG_E_CORRUPT);
    run_files_free(&f);
}

#define NAMED(name, rest) "{\"run\":\"" name "\"," rest "}\n"

static void test_several_runs(void **state)
{
    (void)state;
    run_files f =
        read_runs(NAMED("a", "\"type\":\"start\"") NAMED("a", "\"type\":\"step\",\"step\":1")
                      NAMED("b", "\"type\":\"start\"") NAMED("b", "\"type\":\"step\",\"step\":1")
                          NAMED("a", "\"type\":\"step\",\"step\":2"));
    assert_int_equal(f.count, 2);
    assert_string_equal(f.runs[0].name, "a");
    assert_int_equal(f.runs[0].steps.count, 2);
    assert_int_equal(f.runs[1].steps.count, 1);
    run_files_free(&f);
}

/* A resumed run continues at its checkpoint. */
static void test_resumed(void **state)
{
    (void)state;
    run_files f = read_runs(
        "{\"type\":\"start\",\"method\":\"m\",\"first_step\":0}\n"
        "{\"type\":\"step\",\"step\":10,\"seconds\":1}\n{\"type\":\"step\",\"step\":20,\"seconds\":"
        "2}\n"
        "{\"type\":\"epoch\",\"step\":10,\"bytes_sent\":500}\n{\"type\":\"end\",\"steps\":20}\n"
        "{\"type\":\"start\",\"method\":\"m\",\"first_step\":10}\n"
        "{\"type\":\"step\",\"step\":20,\"seconds\":1.5}\n"
        "{\"type\":\"epoch\",\"step\":20,\"bytes_sent\":700}\n"
        "{\"type\":\"end\",\"steps\":20,\"seconds\":1.5,\"bytes_sent\":700}\n");
    run_mark *marks;
    size_t count;
    assert_int_equal(f.count, 1);
    assert_int_equal(run_marks(&f.runs[0], &marks, &count), TG_OK);
    assert_int_equal(count, 3);
    assert_float_equal(marks[1].seconds, 1, 0);
    assert_float_equal(marks[2].seconds, 2.5, 0);
    assert_float_equal(marks[2].bytes, 1200, 0);
    free(marks);
    run_files_free(&f);
}

#define PART(seed, first) \
    "{\"type\":\"start\",\"seed\":" #seed ",\"first_step\":" #first ",\"batch\":4}\n"

static void add_part(run_files *f, const char *name, const char *text)
{
    write_text(text);
    const int left = rename(path, name);
    assert_int_equal(left, 0);
    if (run_files_add(f, name) != TG_OK)
        fail_msg("%s", tg_error());
}

/* The same if its records are in a file of their own. Time and bytes of the earlier part are those
 * of its end. */
static void test_resumed_in_another_file(void **state)
{
    (void)state;
    char name[3][80];
    run_files f = {0};
    run_mark *marks;
    size_t count;
    for (int i = 0; i < 3; i++)
        snprintf(name[i], sizeof name[i], "%s.%d", path, i);
    add_part(&f, name[0],
             PART(1, 0) "{\"type\":\"step\",\"step\":10,\"seconds\":1}\n"
                        "{\"type\":\"end\",\"steps\":12,\"seconds\":2,\"bytes_sent\":600}\n");
    add_part(&f, name[1], PART(2, 12) "{\"type\":\"end\",\"steps\":20}\n"); /* another seed */
    add_part(&f, name[2],
             PART(1, 12) "{\"type\":\"step\",\"step\":20,\"seconds\":1.5}\n"
                         "{\"type\":\"end\",\"steps\":20,\"seconds\":1.5,\"bytes_sent\":700}\n");
    assert_int_equal(f.count, 2);
    assert_int_equal(json_array_size(f.notes), 1);
    assert_int_equal(run_marks(&f.runs[0], &marks, &count), TG_OK);
    assert_int_equal(count, 3);
    assert_float_equal(marks[1].seconds, 1, 0);
    assert_float_equal(marks[2].step, 20, 0);
    assert_float_equal(marks[2].seconds, 3.5, 0);
    assert_float_equal(marks[2].bytes, 1300, 0);
    free(marks);
    run_files_free(&f);
    for (int i = 0; i < 3; i++)
        assert_int_equal(unlink(name[i]), 0);
    write_text(""); /* the file that tear-down removes */
}

/* Epoch records give the number of bytes, step records how they are distributed. */
static void test_marks(void **state)
{
    (void)state;
    run_files f =
        read_runs(START "{\"type\":\"step\",\"step\":10,\"bytes_sent\":1,\"seconds\":1}\n"
                        "{\"type\":\"step\",\"step\":20,\"bytes_sent\":3,\"seconds\":2}\n"
                        "{\"type\":\"epoch\",\"step\":20,\"bytes_sent\":400,\"seconds\":2}\n"
                        "{\"type\":\"step\",\"step\":30,\"bytes_sent\":5,\"seconds\":3}\n");
    static const long bytes[] = {0, 100, 400, 900}; /* steps recorded 40 where 400 were sent */
    run_mark *marks;
    size_t count;
    assert_int_equal(run_marks(&f.runs[0], &marks, &count), TG_OK);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal((long)marks[i].step, 10 * (long)i);
        assert_int_equal((long)marks[i].seconds, (long)i);
        assert_int_equal(lround(marks[i].bytes), bytes[i]);
    }
    free(marks);
    run_files_free(&f);
}

/* Epochs whose steps have no records, runs without epochs, and runs with records of all steps. */
static void test_marks_untold(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        long bytes[5];
    } cases[] = {
        {START "{\"type\":\"step\",\"step\":5,\"bytes_sent\":3}\n"
               "{\"type\":\"epoch\",\"step\":10,\"train_loss\":1}\n"
               "{\"type\":\"step\",\"step\":15,\"bytes_sent\":3}\n"
               "{\"type\":\"epoch\",\"step\":20,\"bytes_sent\":400}\n",
         {0, 100, 200, 300, 400}},
        {START "{\"type\":\"step\",\"step\":1,\"bytes_sent\":0}\n"
               "{\"type\":\"epoch\",\"step\":2,\"bytes_sent\":400}\n"
               "{\"type\":\"end\",\"steps\":3}\n",
         {0, 200, 400, 600, -1}},
        {START "{\"type\":\"step\",\"step\":1,\"bytes_sent\":7}\n"
               "{\"type\":\"step\",\"step\":2,\"bytes_sent\":5}\n",
         {0, 7, 12, -1, -1}},
        {START "{\"type\":\"step\",\"step\":10,\"bytes_sent\":7}\n", {0, -1, -1, -1, -1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        run_files f = read_runs(cases[c].text);
        run_mark *marks;
        size_t count;
        assert_int_equal(run_marks(&f.runs[0], &marks, &count), TG_OK);
        for (size_t i = 0; i < count; i++)
            if (cases[c].bytes[i] < 0)
                assert_true(isnan(marks[i].bytes));
            else
                assert_int_equal(lround(marks[i].bytes), cases[c].bytes[i]);
        free(marks);
        run_files_free(&f);
    }
}

static double number_at(const json_t *run, const char *curve, size_t list, size_t i)
{
    const json_t *both = json_object_get(json_object_get(run, "steps"), curve);
    return json_number_value(json_array_get(json_array_get(both, list), i));
}

static void test_long_run_is_thinned(void **state)
{
    (void)state;
    enum { N = 20000 };
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(START, file);
    for (int i = 1; i <= N; i++)
        fprintf(file, "{\"type\":\"step\",\"step\":%d,\"loss\":%g,\"bytes_sent\":8}\n", i,
                i == 12345 ? 1000.0 : i % 10 == 0);
    assert_int_equal(fclose(file), 0);
    run_files f = {0};
    json_t *list;
    assert_int_equal(run_files_add(&f, path), TG_OK);
    assert_int_equal(run_json(&f, &list), TG_OK);
    const json_t *run = json_array_get(list, 0);
    assert_int_equal(json_integer_value(json_object_get(run, "records")), N);
    const json_t *loss = json_object_get(json_object_get(run, "steps"), "loss");
    const json_t *steps = json_array_get(loss, 0);
    assert_in_range(json_array_size(steps), 1000, 2000);
    assert_int_equal(json_array_size(json_array_get(loss, 1)), json_array_size(steps));
    bool peak = false;
    for (size_t i = 0; i < json_array_size(steps); i++)
        peak = peak || json_integer_value(json_array_get(steps, i)) == 12345;
    assert_true(peak);
    /* The mean is that of all values, mostly 0, not of the extremes that are drawn; one of the 2001
     * values around it is 1000. */
    for (size_t i = 0; i < 2000; i++) {
        const double step = number_at(run, "loss_mean", 0, i);
        const bool far = step <= 12345 - 1001 || step >= 12345 + 1001;
        assert_true(fabs(number_at(run, "loss_mean", 1, i) - (far ? 0.1 : 0.6)) < 0.02);
    }
    const json_t *marks = json_array_get(json_object_get(run, "marks"), 0);
    assert_int_equal(json_array_size(marks), 2000);
    assert_int_equal(json_integer_value(json_array_get(marks, 1999)), N);
    json_decref(list);
    run_files_free(&f);
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
                 {"{\"traceEvents\":[{", ":1: no JSON"},
                 {START, "records, no trace"},
                 {START "{\"type\":\"end\"}\n", "records, no trace"},
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
#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, make_path, remove_path)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epoch_waits),
        cmocka_unit_test(test_thin_keeps_short_curves),
        cmocka_unit_test(test_thin_keeps_extremes),
        cmocka_unit_test(test_thin_any_length),
        cmocka_unit_test(test_thin_evenly),
        cmocka_unit_test(test_escape),
        ON_FILE(test_records),
        ON_FILE(test_cut_line),
        ON_FILE(test_refused),
        ON_FILE(test_packed),
        ON_FILE(test_several_runs),
        ON_FILE(test_resumed),
        ON_FILE(test_resumed_in_another_file),
        ON_FILE(test_marks),
        ON_FILE(test_marks_untold),
        ON_FILE(test_long_run_is_thinned),
        ON_FILE(test_timeline),
        ON_FILE(test_traces_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
