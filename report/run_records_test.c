/* Reading of records, and what is drawn over what. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "report/report_fixture.h"
#include "report/run_json.h"
#include "report/run_x.h"
#include <math.h>
#include <zlib.h>

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
    assert_true(isnan(row[STEP_COLUMNS + STEP_RATIO])); /* went dense */
    assert_true(isnan(row[STEP_COLUMNS + STEP_LOSS]));
    assert_float_equal(row[2 * STEP_COLUMNS + STEP_RATIO], 2, 0); /* of a part */
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
    refused("", " holds no run: it has no records");
    refused("\n\n", " holds no run: it has no records");
    refused("{\"type\":\"sta", " holds no run: its only line is cut off");
    refused(START "{\"type\":\"step\",\"step\":1,\"loss\":\"x\"}\n",
            ":2: \"loss\" is not a number");
    refused(START "{\"type\":\"epoch\",\"step\":1,\"test_loss\":true}\n",
            ":2: \"test_loss\" is not a number");
    refused(START "{\"type\":\"epoch\",\"step\":1,\"train_loss\":-1e308}\n",
            ":2: \"train_loss\" is -1e+308: allowed: -1e+300 to 1e+300");
    refused("hello\n", ":1: ");
    refused("[1]\n", ":1: no JSON object");
    refused("{\"a\":1}\n", ":1: no \"type\"");
    refused("{\"type\":\"bench_train\"}\n", "type \"bench_train\"");
    refused("{\"type\":\"step\",\"step\":1}\n", "without \"start\"");
    refused(START "{\"type\":\"step\"}\n", ":2: no step");
    refused(START "{\"type\":\"step\",\"step\":-1}\n",
            ":2: step -1: allowed: 0, that of the record before, to 9e15");
    refused(START "{\"type\":\"step\",\"step\":5}\n{\"type\":\"step\",\"step\":4}\n",
            ":3: step 4: allowed: 5, that of the record before, to 9e15");
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

/* A resumed run goes on where its checkpoint was. */
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

/* So it does if its records are in a file of their own; time and bytes of the part before are those
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
    write_text(""); /* which is removed in the end */
}

/* Epochs say how many bytes there were, steps how they came. */
static void test_marks(void **state)
{
    (void)state;
    run_files f =
        read_runs(START "{\"type\":\"step\",\"step\":10,\"bytes_sent\":1,\"seconds\":1}\n"
                        "{\"type\":\"step\",\"step\":20,\"bytes_sent\":3,\"seconds\":2}\n"
                        "{\"type\":\"epoch\",\"step\":20,\"bytes_sent\":400,\"seconds\":2}\n"
                        "{\"type\":\"step\",\"step\":30,\"bytes_sent\":5,\"seconds\":3}\n");
    static const long bytes[] = {0, 100, 400, 900}; /* of 40 that steps say it were 400 */
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

/* With epochs whose steps have no records of their own, without epochs, and with all steps. */
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
    /* The mean is that of all values, mostly 0, not of the extremes that are drawn; 1000 is one of
     * the 2001 around it. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
