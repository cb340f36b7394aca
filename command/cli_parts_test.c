#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "command/advise/advise_fit.h"
#include "command/output/format.h"
#include "command/train/heartbeat.h"
#include "command/output/table.h"
#include "command/train/window.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_bytes(void **state)
{
    (void)state;
    static const struct {
        double bytes;
        const char *text;
    } cases[] = {{0, "0 B"},          {999, "999 B"},      {1000, "1.00 kB"},
                 {9990, "9.99 kB"},   {9996, "10.0 kB"},   {1724320, "1.72 MB"},
                 {999400, "999 kB"},  {999600, "1.00 MB"}, {2.5e15, "2.50 PB"},
                 {2.5e18, "2500 PB"}, {(double)NAN, "-"},  {(double)INFINITY, "-"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(format_bytes(cases[i].bytes).text, cases[i].text);
}

static void test_count(void **state)
{
    (void)state;
    assert_string_equal(format_count(0).text, "0");
    assert_string_equal(format_count(999).text, "999");
    assert_string_equal(format_count(1000).text, "1,000");
    assert_string_equal(format_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
}

static void test_seconds(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0.00 ms"},          {0.0123, "12.3 ms"},  {0.9994, "999 ms"},
                 {0.9996, "1.0 s"},       {99.94, "99.9 s"},    {99.96, "1:40"},
                 {754, "12:34"},          {3599.6, "1:00:00"},  {7540, "2:05:40"},
                 {359999, "99:59:59"},    {360000, "4.17 d"},   {24154920, "280 d"},
                 {86400 * 1e3, "2.74 y"}, {1e20, "3.17e+12 y"}, {(double)NAN, "-"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(format_seconds(cases[i].seconds).text, cases[i].text);
}

static void test_shell(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"ck/a-b_1.x", "ck/a-b_1.x"}, {"", "''"}, {"a b", "'a b'"}, {"it's $x", "'it'\\''s $x'"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *word = format_shell(cases[i][0]);
        assert_string_equal(word, cases[i][1]);
        free(word);
    }
}

static void test_ratio(void **state)
{
    (void)state;
    assert_string_equal(format_ratio(3.14159, "x").text, "3.14x");
    assert_string_equal(format_ratio(9.996, "x").text, "10.0x");
    assert_string_equal(format_ratio(812.4, "x").text, "812x");
    assert_string_equal(format_ratio(987654, "x").text, "987654x");
    assert_string_equal(format_ratio(1207746000, "").text, "1.21e+09");
    assert_string_equal(format_ratio((double)NAN, "x").text, "-");
}

/* The output of table_print, in a buffer of the caller. */
static void printed(struct table *t, char *text, size_t room)
{
    FILE *file = fmemopen(text, room, "w");
    assert_non_null(file);
    assert_int_equal(table_print(t, file), 0);
    assert_int_equal(fclose(file), 0);
}

static void test_table(void **state)
{
    (void)state;
    char text[512];
    struct table *t = table_create(3);
    assert_non_null(t);
    static const char *const cells[][3] = {{"run", "acc.", "x"}, {"r\xc3\xa9", "9", "10"}};
    for (size_t r = 0; r < 2; r++) {
        table_row(t);
        for (size_t c = 0; c < 3; c++)
            table_cell(t, cells[r][c]);
    }
    table_cell(t, "one too many");
    table_row(t);
    table_cell(t, "a");
    printed(t, text, sizeof text);
    assert_string_equal(text, "run  acc.   x\n"
                              "-------------\n"
                              "r\xc3\xa9      9  10\n"
                              "a            \n");
    /* Rows are printed only once, and later ones are as wide as those before. */
    table_row(t);
    table_cell(t, "b");
    table_cell(t, "1");
    printed(t, text, sizeof text);
    assert_string_equal(text, "b       1    \n");
    table_destroy(t);
    table_destroy(NULL);
}

/* A row that ends in a long text does not widen any column. */
static void test_table_fit(void **state)
{
    (void)state;
    static const struct {
        size_t most;
        const char *text;
    } cases[] = {
        {31, "run                accuracy  ms\n"
             "-------------------------------\n"
             "a run with a name   98.00 %   7\n"
             "other              failed: a reason\n"},
        {26, "run           accuracy  ms\n"
             "--------------------------\n"
             "a run wit...   98.00 %   7\n"
             "other         failed: a reason\n"},
        {25, "a run with a name\n"
             "  accuracy  98.00 %\n"
             "  ms              7\n"
             "\nother\n"
             "  failed: a reason\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct table *t = table_create(3);
        assert_non_null(t);
        table_fit(t, cases[i].most);
        table_row(t);
        table_cell(t, "run");
        table_cell(t, "accuracy");
        table_cell(t, "ms");
        table_row(t);
        table_cell(t, "a run with a name");
        table_cell(t, "98.00 %");
        table_cell(t, "7");
        table_row(t);
        table_cell(t, "other");
        table_rest(t, "failed: a reason");
        printed(t, text, sizeof text);
        assert_string_equal(text, cases[i].text);
        table_destroy(t);
    }
}

/* East Asian characters and emoji take two columns of a terminal, combining marks none. */
static void test_wide_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t width;
        const char *short_text; /* to 7 columns */
    } cases[] = {{"plain", 5, "plain"},
                 {"plain text", 10, "plai..."},
                 {"\u65e5\u672c\u8a9e", 6, "\u65e5\u672c\u8a9e"},
                 {"\u65e5\u672c\u8a9e\u306e", 8, "\u65e5\u672c..."},
                 {"a\u65e5\u672c\u8a9e\u306e", 9, "a\u65e5..."},
                 {"\uac00\uff21", 4, "\uac00\uff21"},
                 {"e\u0301te\u0301", 3, "e\u0301te\u0301"},
                 {"\U0001f600", 2, "\U0001f600"},
                 {"\xff\xfe", 2, "\xff\xfe"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i].text);
        assert_int_equal(format_width(text), cases[i].width);
        format_shorten(text, 7);
        assert_string_equal(text, cases[i].short_text);
    }
    char text[128];
    struct table *t = table_create(2);
    assert_non_null(t);
    static const char *const cells[][2] = {{"run", "ms"}, {"\u65e5\u672c", "7"}, {"dense", "12"}};
    for (size_t r = 0; r < 3; r++) {
        table_row(t);
        table_cell(t, cells[r][0]);
        table_cell(t, cells[r][1]);
    }
    printed(t, text, sizeof text);
    assert_string_equal(text, "run    ms\n---------\n\u65e5\u672c    7\ndense  12\n");
    table_destroy(t);
}

static void test_table_rest(void **state)
{
    (void)state;
    char text[512];
    struct table *t = table_create(3);
    assert_non_null(t);
    static const char *const cells[][3] = {{"run", "a", "b"}, {"fine", "1", "2"}};
    for (size_t r = 0; r < 2; r++) {
        table_row(t);
        for (size_t c = 0; c < 3; c++)
            table_cell(t, cells[r][c]);
    }
    table_row(t);
    table_cell(t, "bad");
    table_rest(t, "failed: because of that");
    table_cell(t, "one too many");
    table_rest(t, "one too many");
    printed(t, text, sizeof text);
    assert_string_equal(text, "run   a  b\n"
                              "----------\n"
                              "fine  1  2\n"
                              "bad   failed: because of that\n");
    table_destroy(t);
    t = table_create(3); /* the rule is as long as a heading that takes the rest */
    assert_non_null(t);
    for (size_t r = 0; r < 2; r++) {
        table_row(t);
        table_cell(t, cells[r][0]);
        table_cell(t, cells[r][1]);
        table_rest(t, r == 0 ? "remarks" : "much longer ones");
    }
    printed(t, text, sizeof text);
    assert_string_equal(text, "run   a  remarks\n"
                              "----------------\n"
                              "fine  1  much longer ones\n");
    table_destroy(t);
}

static void test_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text, *safe; /* safe: NULL if it is text itself */
    } cases[] = {{"", NULL},
                 {"plain\n", NULL},
                 {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82 \xf4\x8f\xbf\xbf \xed\x9f\xbf", NULL},
                 {"\xff", "\\xff"},
                 {"a\x80z", "a\\x80z"},
                 {"cut \xe2\x82", "cut \\xe2\\x82"},
                 {"\xc3(", "\\xc3("},
                 {"\xc0\xaf", "\\xc0\\xaf"},                         /* overlong / */
                 {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},                /* longer still */
                 {"\xf0\x80\x80\xaf", "\\xf0\\x80\\x80\\xaf"},       /* and more */
                 {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                /* a surrogate */
                 {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},       /* above U+10FFFF */
                 {"\xc3\xa9\xe9\xc3\xa9", "\xc3\xa9\\xe9\xc3\xa9"}}; /* in between */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *safe = format_utf8(cases[i].text);
        assert_non_null(safe);
        assert_string_equal(safe, cases[i].safe ? cases[i].safe : cases[i].text);
        assert_true(format_is_utf8(cases[i].text) == !cases[i].safe);
        assert_true(format_is_utf8(safe));
        free(safe);
    }
}

static void test_shorten(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shortened;
    } cases[] = {
        {"", ""},
        {"12345", "12345"},
        {"123456", "12..."},
        {"123456789", "12..."},
        {"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"},
        {"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9z", "\xc3\xa9\xc3\xa9..."}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", cases[i].text);
        format_shorten(text, 5);
        assert_string_equal(text, cases[i].shortened);
    }
}

static void test_median(void **state)
{
    (void)state;
    struct window *w = malloc(sizeof *w);
    assert_non_null(w);
    window_clear(w);
    assert_true(isnan(window_median(w, WINDOW_STEP)));
    for (int i = 1; i <= 4; i++)
        window_add(w, &(train_step_info){.step_ms = i * i, .tg = {.encode_ns = i * 1000000}});
    assert_true(window_median(w, WINDOW_STEP) == 6.5);
    assert_true(window_median(w, WINDOW_ENCODE) == 2.5);
    /* Only the last WINDOW_STEPS steps count. */
    for (int i = 0; i < WINDOW_STEPS; i++)
        window_add(w, &(train_step_info){.step_ms = 100});
    assert_true(window_median(w, WINDOW_STEP) == 100);
    free(w);
}

/* The fit of times on a line is that line, for short and long times; negative results become 0. */
static void test_fit(void **state)
{
    (void)state;
    static const double bytes[] = {256, 65536, 524288};
    static const struct {
        double alpha, beta;
    } line[] = {{0.02, 8e-8}, {1e-6, 8e-11}, {0.1, 0}, {0, 1e-9}};
    double seconds[3], alpha, beta;
    for (size_t k = 0; k < sizeof line / sizeof line[0]; k++) {
        for (size_t i = 0; i < 3; i++)
            seconds[i] = line[k].alpha + line[k].beta * bytes[i];
        advise_fit(bytes, seconds, 3, &alpha, &beta);
        assert_true(fabs(alpha - line[k].alpha) < 1e-9 * seconds[0]);
        assert_true(fabs(beta - line[k].beta) < 1e-9 * seconds[2] / bytes[2]);
    }
    const double falls[] = {3, 2, 1}, bends[] = {1e-9, 1, 16};
    advise_fit(bytes, falls, 3, &alpha, &beta);
    assert_true(beta == 0 && alpha > 1 && alpha < 3);
    advise_fit(bytes, bends, 3, &alpha, &beta);
    assert_true(alpha == 0 && beta > 0);
}

static void test_heartbeat(void **state)
{
    (void)state;
    const int64_t second = 1000000000;
    struct heartbeat h = {.told_ns = 5 * second};
    assert_false(heartbeat_due(&h, 34 * second, true)); /* a short epoch */
    assert_false(heartbeat_due(&h, 64 * second, false));
    assert_true(heartbeat_due(&h, 65 * second, false)); /* after a minute */
    assert_false(heartbeat_due(&h, 66 * second, false));
    assert_false(heartbeat_due(&h, 94 * second, true));
    assert_true(heartbeat_due(&h, 95 * second, true)); /* an epoch after half a minute */
    assert_false(heartbeat_due(&h, 154 * second, false));
    char line[160];
    heartbeat_line(line, sizeof line, 0, 40, 400, 20, 0.5, 1e6);
    assert_string_equal(line,
                        "step 40 of 400 (10 %): 2.0 steps/s, loss 0.5000, sent 1.00 MB, 3:00 left");
    heartbeat_line(line, sizeof line, 30, 40, 400, 20, 0.5, 1e6); /* a resumed run */
    assert_non_null(strstr(line, ": 0.5 steps/s"));
    heartbeat_line(line, 12, 0, 40, 400, 20, 0.5, 1e6);
    assert_string_equal(line, "step 40 of ");
    heartbeat_line(line, sizeof line, 0, 0, 0, 0, 0.5, 0); /* nothing is known: no time, no NaN */
    assert_null(strstr(line, "left"));
    assert_null(strstr(line, "nan"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),     cmocka_unit_test(test_count),
        cmocka_unit_test(test_seconds),   cmocka_unit_test(test_ratio),
        cmocka_unit_test(test_shell),     cmocka_unit_test(test_table_rest),
        cmocka_unit_test(test_utf8),      cmocka_unit_test(test_shorten),
        cmocka_unit_test(test_table),     cmocka_unit_test(test_table_fit),
        cmocka_unit_test(test_wide_text), cmocka_unit_test(test_median),
        cmocka_unit_test(test_fit),       cmocka_unit_test(test_heartbeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
