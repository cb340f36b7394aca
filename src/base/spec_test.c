/* Spec strings: what is accepted, the values that are read from it, the normal form, durations. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "comma_locale.h"
#include "spec_topk.h"

static void assert_text(const char *text, const char *want)
{
    tg_spec *spec = parse(text);
    assert_string_equal(tg_spec_text(spec), want);
    tg_spec *again = parse(want); /* the normal form is its own normal form */
    assert_string_equal(tg_spec_text(again), want);
    tg_spec_free(spec);
    tg_spec_free(again);
}

#define DEFAULTS "values=f32,warmup=0,exact=no"

static void reads_values(void **state)
{
    (void)state;
    tg_spec *spec = parse("topk:k=9007199254740993,exact=yes,density=0.5,values=bf16,warmup=4ep,"
                          "inner=[a:b=[c:d=1],e=2],count=-9223372036854775808");
    assert_ptr_equal(tg_spec_entry(spec), &topk);
    assert_string_equal(tg_spec_name(spec), "topk");
    assert_true(tg_spec_int(spec, "k") == INT64_C(9007199254740993));
    assert_true(tg_spec_int(spec, "count") == INT64_MIN);
    assert_true(tg_spec_flag(spec, "exact"));
    assert_true(tg_spec_real(spec, "density") == 0.5);
    assert_string_equal(tg_spec_word(spec, "values"), "bf16");
    assert_string_equal(tg_spec_word(spec, "inner"), "a:b=[c:d=1],e=2");
    tg_duration d = tg_spec_duration(spec, "warmup");
    assert_true(d.count == 4 && d.epochs);
    tg_spec_free(spec);
}

static void defaults(void **state)
{
    (void)state;
    tg_spec *spec = parse("topk:exact=no");
    assert_true(tg_spec_given(spec, "exact") && tg_spec_has(spec, "exact"));
    assert_true(!tg_spec_given(spec, "density") && tg_spec_has(spec, "density"));
    assert_true(!tg_spec_given(spec, "k") && !tg_spec_has(spec, "k"));
    assert_true(!tg_spec_given(spec, "foo") && !tg_spec_has(spec, "foo"));
    assert_true(tg_spec_real(spec, "density") == 0.01);
    assert_false(tg_spec_flag(spec, "exact"));
    tg_duration d = tg_spec_duration(spec, "warmup");
    assert_true(d.count == 0 && !d.epochs);
    tg_spec_free(spec);
    tg_spec_free(NULL);
}

static void normal_form(void **state)
{
    (void)state;
    assert_text("dense", "dense");
    assert_text("topk", "topk:density=0.01," DEFAULTS);
    assert_text("topk:exact=no,density=1e-2", "topk:density=0.01," DEFAULTS);
    assert_text("topk:density=.010", "topk:density=0.01," DEFAULTS);
    assert_text("topk:density=1.", "topk:density=1," DEFAULTS);
    assert_text("topk:density=0.1", "topk:density=0.1," DEFAULTS);
    assert_text("topk:density=0.30000000000000004", "topk:density=0.30000000000000004," DEFAULTS);
    assert_text("topk:density=0.3333333", "topk:density=0.3333333," DEFAULTS);
    assert_text("topk:density=1E-005", "topk:density=1e-05," DEFAULTS);
    assert_text("topk:any=-0", "topk:density=0.01," DEFAULTS ",any=0");
    assert_text("topk:any=-1e300", "topk:density=0.01," DEFAULTS ",any=-1e+300");
    assert_text("topk:any=4194305", "topk:density=0.01," DEFAULTS ",any=4194305");
    assert_text("topk:any=5e-324", "topk:density=0.01," DEFAULTS ",any=4.94066e-324");
    assert_text("topk:k=007", "topk:density=0.01," DEFAULTS ",k=7");
    assert_text("topk:count=-00", "topk:density=0.01," DEFAULTS ",count=0");
    assert_text("topk:inner=[a:b=1]", "topk:density=0.01," DEFAULTS ",inner=[a:b=1]");
    assert_text("topk:inner=sgd,k=1", "topk:density=0.01," DEFAULTS ",k=1,inner=[sgd]");
    assert_text("topk:warmup=0.50ep", "topk:density=0.01,values=f32,warmup=0.5ep,exact=no");
    assert_text("topk:warmup=4.0ep", "topk:density=0.01,values=f32,warmup=4ep,exact=no");
    assert_text("topk:warmup=0ep", "topk:density=0.01," DEFAULTS);
    assert_text("topk:warmup=200", "topk:density=0.01,values=f32,warmup=200,exact=no");
    assert_text("topk:warmup=1000000", "topk:density=0.01,values=f32,warmup=1000000,exact=no");
    assert_text("topk:warmup=1e3", "topk:density=0.01,values=f32,warmup=1000,exact=no");
    assert_text("topk:warmup=9007199254740992",
                "topk:density=0.01,values=f32,warmup=9007199254740992,exact=no");
}

/* A number, or a word in its place. */
static void numbers_or_words(void **state)
{
    (void)state;
    static const tg_key keys[] = {{.name = "threshold",
                                   .type = TG_KEY_REAL,
                                   .def = "0.5",
                                   .max = 4,
                                   .min_open = true,
                                   .choices = "auto|never"},
                                  {.name = NULL}};
    static const tg_entry entry = {.name = "2bit", .summary = "", .source = "", .keys = keys};
    static const tg_entry *const list[] = {&entry};
    static const struct {
        const char *text, *normal, *word;
        double number;
    } cases[] = {{"2bit", "2bit:threshold=0.5", "", 0.5},
                 {"2bit:threshold=4", "2bit:threshold=4", "", 4},
                 {"2bit:threshold=auto", "2bit:threshold=auto", "auto", 0},
                 {"2bit:threshold=never", "2bit:threshold=never", "never", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_spec *spec = NULL;
        assert_int_equal(tg_spec_parse("codec", list, 1, cases[i].text, &spec), TG_OK);
        assert_string_equal(tg_spec_text(spec), cases[i].normal);
        assert_string_equal(tg_spec_word(spec, "threshold"), cases[i].word);
        assert_true(tg_spec_real(spec, "threshold") == cases[i].number);
        tg_spec_free(spec);
    }
    static const char *const bad[][2] = {
        {"aut", "not a finite decimal number; did you mean \"auto\"? "},
        {"0", ""},
        {"au", "not a finite decimal number; "}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tg_spec *spec = NULL;
        char text[64], want[128];
        snprintf(text, sizeof text, "2bit:threshold=%s", bad[i][0]);
        snprintf(want, sizeof want,
                 "codec \"2bit\": threshold=%s: %sallowed: 0 < threshold <= 4; or auto, never",
                 bad[i][0], bad[i][1]);
        assert_int_equal(tg_spec_parse("codec", list, 1, text, &spec), TG_E_SPEC);
        assert_string_equal(tg_error(), want);
    }
}

static void whole_numbers_or_words(void **state)
{
    (void)state;
    static const tg_key keys[] = {
        {.name = "chunk", .type = TG_KEY_INT, .def = "auto", .min = 1, .max = 9, .choices = "auto"},
        {.name = NULL}};
    static const tg_entry entry = {.name = "csc", .summary = "", .source = "", .keys = keys};
    static const tg_entry *const list[] = {&entry};
    static const struct {
        const char *text, *normal, *word;
        int64_t number;
    } cases[] = {{"csc", "csc:chunk=auto", "auto", 0},
                 {"csc:chunk=auto", "csc:chunk=auto", "auto", 0},
                 {"csc:chunk=7", "csc:chunk=7", "", 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_spec *spec = NULL;
        assert_int_equal(tg_spec_parse("codec", list, 1, cases[i].text, &spec), TG_OK);
        assert_string_equal(tg_spec_text(spec), cases[i].normal);
        assert_string_equal(tg_spec_word(spec, "chunk"), cases[i].word);
        assert_true(tg_spec_int(spec, "chunk") == cases[i].number);
        tg_spec_free(spec);
    }
    tg_spec *spec = NULL;
    assert_int_equal(tg_spec_parse("codec", list, 1, "csc:chunk=10", &spec), TG_E_SPEC);
    assert_string_equal(tg_error(), "codec \"csc\": chunk=10: allowed: 1 <= chunk <= 9; or auto");
    assert_int_equal(tg_spec_parse("codec", list, 1, "csc:chunk=2.5", &spec), TG_E_SPEC);
    assert_string_equal(tg_error(),
                        "codec \"csc\": chunk=2.5: not a whole number of 64 bits; allowed: "
                        "1 <= chunk <= 9; or auto");
}

/* Each is the same number as its decimal form, to the last bit, and is written as that. */
static void percentages(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"1%", "0.01"},       {"0.1%", "0.001"}, {"0.7%", "0.007"},  {"100%", "1"},
        {"12.5%", "0.125"},   {"29%", "0.29"},   {"1e-1%", "0.001"}, {".5%", "0.005"},
        {"0.0003%", "3e-06"}, {"5e1%", "0.5"}};
    for (size_t i = 0; i < TG_COUNT(same); i++) {
        char text[64], decimal[64];
        snprintf(text, sizeof text, "topk:density=%s", same[i][0]);
        snprintf(decimal, sizeof decimal, "topk:density=%s", same[i][1]);
        tg_spec *a = parse(text), *b = parse(decimal);
        assert_true(tg_spec_real(a, "density") == tg_spec_real(b, "density"));
        assert_string_equal(tg_spec_text(a), tg_spec_text(b));
        tg_spec_free(a);
        tg_spec_free(b);
    }
    static const char *const bad[] = {"%", "1%%", "1e%", "e5%", "1 %", "+1%", "1e+ 5%", "1e99999%"};
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        char text[64];
        tg_spec *spec = NULL;
        snprintf(text, sizeof text, "topk:density=%s", bad[i]);
        assert_int_equal(tg_spec_parse("method", entries, 2, text, &spec), TG_E_SPEC);
    }
    assert_value_refused("topk:density=101%", "density=101%: allowed: 0 < density <= 1");
    assert_value_refused("topk:k=1%", "k=1%: not a whole number of 64 bits; allowed: k >= 1");
}

static void duration_steps(void **state)
{
    (void)state;
    uint64_t steps = 77;
    assert_int_equal(tg_duration_steps((tg_duration){.count = 200}, 0, "warmup", &steps), TG_OK);
    assert_int_equal(steps, 200);
    tg_duration half = {.count = 0.5, .epochs = true};
    assert_int_equal(tg_duration_steps(half, 99, "warmup", &steps), TG_OK);
    assert_int_equal(steps, 50);
    assert_int_equal(tg_duration_steps(half, 0, "warmup", &steps), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "warmup=0.5ep"));
    tg_duration huge = {.count = 1e300, .epochs = true}, nan = {.count = NAN};
    assert_int_equal(tg_duration_steps(huge, 5, "warmup", &steps), TG_E_SPEC);
    assert_int_equal(tg_duration_steps(nan, 5, "warmup", &steps), TG_E_SPEC);
    assert_int_equal(steps, 50);
}

static void settled(const char *text, uint64_t total, uint64_t per_epoch, const char *expected)
{
    static const tg_key keys[] = {
        {.name = "warmup",
         .type = TG_KEY_DURATION,
         .def = "4ep",
         .max = 1e9,
         .share = 0.2,
         .help = ""},
        {.name = "start",
         .type = TG_KEY_DURATION,
         .def = "100",
         .max = 1e9,
         .share = 0.5,
         .help = ""},
        {.name = "after", .type = TG_KEY_DURATION, .def = "7", .max = 1e9, .help = ""},
        {.name = NULL}};
    static const tg_entry run = {"a", "", "", keys}, *runs[] = {&run};
    tg_spec *spec;
    char *got;
    assert_int_equal(tg_spec_parse("thing", runs, 1, text, &spec), TG_OK);
    assert_int_equal(tg__spec_settle(spec, text, total, per_epoch, &got), TG_OK);
    assert_string_equal(got, expected);
    assert_int_equal(tg__spec_is_open(spec),
                     !tg_spec_given(spec, "warmup") || !tg_spec_given(spec, "start"));
    free(got);
    tg_spec_free(spec);
}

/* A default is at most its share of the run; a given value is unchanged. */
static void durations_of_runs(void **state)
{
    (void)state;
    settled("a", 468, 468, "a:warmup=93");
    settled("a", 40, 468, "a:warmup=8,start=20");
    settled("a", 4, 468, "a:warmup=0,start=2");
    settled("a", 100000, 468, "a");
    settled("a", 100000, 0, "a:warmup=1000");
    settled("a", 468, 0, "a:warmup=93");
    settled("a", 0, 468, "a");
    settled("a", 0, 0, "a:warmup=1000");
    settled("a", UINT64_MAX, UINT64_MAX, "a:warmup=1000000000"); /* the largest value allowed */
    settled("a:after=3", 40, 468, "a:after=3,warmup=8,start=20");
    settled("a:warmup=4ep", 40, 0, "a:warmup=4ep,start=20");
    settled("a:start=9,warmup=0", 40, 468, "a:start=9,warmup=0");
}

/* A decimal comma of the program's locale has no effect. registry_test does the same for all
 * entries. */
static void locale_does_not_matter(void **state)
{
    (void)state;
    if (!comma_locale_enter())
        skip();
    assert_text("topk:density=0.25", "topk:density=0.25," DEFAULTS);
    assert_text("topk:density=12.5%", "topk:density=0.125," DEFAULTS);
    assert_text("topk:any=0.30000000000000004",
                "topk:density=0.01," DEFAULTS ",any=0.30000000000000004");
    assert_value_refused("topk:any=0.1e-999", "any=0.1e-999: too close to 0 for a number of 64 "
                                              "bits; allowed: any finite number");
    assert_int_equal(
        tg_duration_steps((tg_duration){.count = 0.5, .epochs = true}, 0, "warmup", &(uint64_t){0}),
        TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "warmup=0.5ep"));
    comma_locale_leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values),
        cmocka_unit_test(defaults),
        cmocka_unit_test(normal_form),
        cmocka_unit_test(numbers_or_words),
        cmocka_unit_test(whole_numbers_or_words),
        cmocka_unit_test(percentages),
        cmocka_unit_test(durations_of_runs),
        cmocka_unit_test(duration_steps),
        cmocka_unit_test(locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
