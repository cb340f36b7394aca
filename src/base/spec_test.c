/* Spec strings: what is accepted, what is refused and with which words, the normal form. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "base/spec_value.h"
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tg_key topk_keys[] = {
    {.name = "density", .type = TG_KEY_REAL, .def = "0.01", .max = 1, .min_open = true},
    {.name = "values", .type = TG_KEY_CHOICE, .def = "f32", .choices = "f32|f16|bf16"},
    {.name = "warmup", .type = TG_KEY_DURATION, .def = "0", .max = INFINITY},
    {.name = "exact", .type = TG_KEY_FLAG, .def = "no"},
    {.name = "k", .type = TG_KEY_INT, .min = 1, .max = INFINITY},
    {.name = "inner", .type = TG_KEY_SPEC},
    {.name = "any", .type = TG_KEY_REAL, .min = -INFINITY, .max = INFINITY},
    {.name = "count", .type = TG_KEY_INT, .min = -INFINITY, .max = INFINITY},
    {.name = "low", .type = TG_KEY_INT, .min = -INFINITY, .max = 4294967295},
    {.name = "period", .type = TG_KEY_DURATION, .min = 1, .max = 100},
    {0}};
static const tg_entry topk = {.name = "topk", .keys = topk_keys};
static const tg_entry dense = {.name = "dense"};
static const tg_entry *const entries[] = {&dense, &topk};

static tg_spec *parse(const char *text)
{
    tg_spec *spec = NULL;
    if (tg_spec_parse("method", entries, 2, text, &spec) != TG_OK)
        fail_msg("%s", tg_error());
    return spec;
}

static void assert_text(const char *text, const char *want)
{
    tg_spec *spec = parse(text);
    assert_string_equal(tg_spec_text(spec), want);
    tg_spec *again = parse(want); /* the normal form is its own normal form */
    assert_string_equal(tg_spec_text(again), want);
    tg_spec_free(spec);
    tg_spec_free(again);
}

static void assert_refused(const char *text, const char *want)
{
    tg_spec *spec = NULL;
    assert_int_equal(tg_spec_parse("method", entries, 2, text, &spec), TG_E_SPEC);
    assert_null(spec);
    assert_string_equal(tg_error(), want);
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

/* A number, or a word that stands in its place. */
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
        snprintf(want, sizeof want, "threshold=%s: %sallowed: 0 < threshold <= 4; or auto, never",
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
    assert_string_equal(tg_error(), "chunk=10: allowed: 1 <= chunk <= 9; or auto");
    assert_int_equal(tg_spec_parse("codec", list, 1, "csc:chunk=2.5", &spec), TG_E_SPEC);
    assert_string_equal(tg_error(), "chunk=2.5: not a whole number of 64 bits; allowed: "
                                    "1 <= chunk <= 9; or auto");
}

static void unknown_names(void **state)
{
    (void)state;
    assert_refused("foo", "unknown method \"foo\": allowed: dense, topk");
    assert_refused("", "unknown method \"\": allowed: dense, topk");
    assert_refused(":k=1", "unknown method \"\": allowed: dense, topk");
    assert_refused("Topk", "unknown method \"Topk\": did you mean \"topk\"? allowed: dense, topk");
    assert_refused("topk=1",
                   "unknown method \"topk=1\": did you mean \"topk\"? allowed: dense, topk");
    assert_refused("topk:foo=1",
                   "unknown key \"foo\" of method \"topk\": allowed: density, values, warmup, "
                   "exact, k, inner, any, count, low, period");
    assert_refused("topk:densty=1",
                   "unknown key \"densty\" of method \"topk\": did you mean \"density\"? "
                   "allowed: density, values, warmup, exact, k, inner, any, count, low, period");
    assert_refused("topk:values=bf61", "values=bf61: did you mean \"bf16\"? allowed: f32, f16, "
                                       "bf16");
    assert_refused("dense:foo=1", "unknown key \"foo\" of method \"dense\": allowed: none, it has "
                                  "no keys");
}

static void out_of_range(void **state)
{
    (void)state;
    assert_refused("topk:density=2", "density=2: allowed: 0 < density <= 1");
    assert_refused("topk:density=0", "density=0: allowed: 0 < density <= 1");
    assert_refused("topk:density=-0.0", "density=-0.0: allowed: 0 < density <= 1");
    assert_refused("topk:k=0", "k=0: allowed: k >= 1");
    assert_refused("topk:low=4294967296", "low=4294967296: allowed: low <= 4294967295");
    assert_refused("topk:period=101", "period=101: allowed: whole steps (200) or epochs (4ep, "
                                      "0.5ep), 1 <= period <= 100");
    assert_refused("topk:period=0ep", "period=0ep: allowed: whole steps (200) or epochs (4ep, "
                                      "0.5ep), 1 <= period <= 100");
    assert_refused("topk:values=f64", "values=f64: allowed: f32, f16, bf16");
    assert_refused("topk:values=f", "values=f: allowed: f32, f16, bf16");
    assert_refused("topk:values=f32|f16", "values=f32|f16: allowed: f32, f16, bf16");
    assert_refused("topk:exact=1", "exact=1: allowed: yes, no");
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
    assert_refused("topk:density=101%", "density=101%: allowed: 0 < density <= 1");
    assert_refused("topk:k=1%", "k=1%: not a whole number of 64 bits; allowed: k >= 1");
}

static void bad_numbers(void **state)
{
    (void)state;
    static const char *const reals[] = {"nan",    "NaN", "inf",  "-inf", "0x1", "1e999",
                                        "-1e999", "1e",  "e5",   ".",    "-",   "+1",
                                        "1.5.2",  "1_0", "0.5f", "--1",  "1e+", "1e-999"};
    static const char *const ints[] = {"1.5",
                                       "1e3",
                                       "0x10",
                                       "-",
                                       "+1",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "99999999999999999999999",
                                       "1k"};
    char text[64], want[128];
    for (size_t i = 0; i < TG_COUNT(reals); i++) {
        snprintf(text, sizeof text, "topk:any=%s", reals[i]);
        snprintf(want, sizeof want,
                 "any=%s: not a finite decimal number; allowed: any finite number", reals[i]);
        assert_refused(text, want);
    }
    for (size_t i = 0; i < TG_COUNT(ints); i++) {
        snprintf(text, sizeof text, "topk:count=%s", ints[i]);
        snprintf(want, sizeof want,
                 "count=%s: not a whole number of 64 bits; allowed: any whole number", ints[i]);
        assert_refused(text, want);
    }
    assert_refused("topk:density=abc",
                   "density=abc: not a finite decimal number; allowed: 0 < density <= 1");
}

static void bad_durations(void **state)
{
    (void)state;
    static const char *const bad[] = {"1.5",
                                      "-1",
                                      "-1ep",
                                      "ep",
                                      "4e",
                                      "4p",
                                      "4eps",
                                      "inf",
                                      "0x4",
                                      "4EP",
                                      "nanep",
                                      "1e999ep",
                                      "9007199254740994"};
    char text[64], want[160];
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        snprintf(text, sizeof text, "topk:warmup=%s", bad[i]);
        snprintf(want, sizeof want,
                 "warmup=%s: not a duration; allowed: whole steps (200) or epochs (4ep, 0.5ep), "
                 "warmup >= 0",
                 bad[i]);
        assert_refused(text, want);
    }
}

static void bad_syntax(void **state)
{
    (void)state;
    assert_refused("topk:k=1,k=1", "key \"k\" of method \"topk\" is given twice: allowed: once");
    assert_refused("topk:k", "key \"k\" of method \"topk\" has no value: allowed: k=VALUE");
    assert_refused("topk:k=", "key \"k\" of method \"topk\" has no value: allowed: k=VALUE");
    static const char *const no_key[] = {"topk:", "topk:k=1,", "topk:,k=1", "topk:=1"};
    for (size_t i = 0; i < TG_COUNT(no_key); i++)
        assert_refused(no_key[i],
                       "method \"topk\": a key is missing: allowed: key=value,key=value");
    assert_refused("topk:k=1, any=1",
                   "method \"topk:k=1, any=1\": blank or control character at position 10: "
                   "allowed: name:key=value,key=value without blanks");
    tg_spec *spec = NULL;
    assert_int_equal(tg_spec_parse("method", entries, 2, " topk", &spec), TG_E_SPEC);
    assert_int_equal(tg_spec_parse("method", entries, 2, "topk\n", &spec), TG_E_SPEC);
    assert_int_equal(tg_spec_parse("method", entries, 2, "topk:k=\t1", &spec), TG_E_SPEC);
    assert_int_equal(tg_spec_parse("method", entries, 2, NULL, &spec), TG_E_ARG);
    assert_int_equal(tg_spec_parse("method", NULL, 0, "topk", &spec), TG_E_SPEC);
    assert_null(spec);
}

static void brackets(void **state)
{
    (void)state;
    assert_refused("topk:inner=[a", "method \"topk:inner=[a\": 1 \"[\" without \"]\"");
    assert_refused("topk:inner=[[a]", "method \"topk:inner=[[a]\": 1 \"[\" without \"]\"");
    assert_refused("topk:inner=a]",
                   "method \"topk:inner=a]\": \"]\" at position 13 closes nothing");
    assert_refused("topk:inner=]a[",
                   "method \"topk:inner=]a[\": \"]\" at position 12 closes nothing");
    static const char *const bad[] = {"[]", "[a]b", "b[a]", "[a][b]", "a:b"};
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        char text[64], want[128];
        snprintf(text, sizeof text, "topk:inner=%s", bad[i]);
        snprintf(want, sizeof want,
                 "inner=%s: allowed: a spec string in brackets, inner=[name:key=...]", bad[i]);
        assert_refused(text, want);
    }
    /* A comma and an equals sign inside belong to the nested spec; what follows does not. */
    tg_spec *spec = parse("topk:inner=[x:k=3,any=1],k=2");
    assert_true(tg_spec_int(spec, "k") == 2);
    assert_false(tg_spec_has(spec, "any"));
    assert_string_equal(tg_spec_word(spec, "inner"), "x:k=3,any=1");
    tg_spec_free(spec);
    assert_refused("topk:k=[1]", "k=[1]: not a whole number of 64 bits; allowed: k >= 1");
}

/* Hostile lengths and depths: an error, and what is allowed still shows. */
static void long_texts(void **state)
{
    (void)state;
    char text[20000];
    tg_spec *spec = NULL;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(tg_spec_parse("method", entries, 2, text, &spec), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "allowed: dense, topk"));
    memcpy(text, "topk:density=", 13);
    memset(text + 13, '0', 400);
    assert_int_equal(tg_spec_parse("method", entries, 2, text, &spec), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "allowed: 0 < density <= 1"));
    memcpy(text, "topk:warmup=", 12);
    memset(text + 12, '1', sizeof text - 13);
    assert_int_equal(tg_spec_parse("method", entries, 2, text, &spec), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "warmup >= 0"));
    memcpy(text, "topk:inner=", 11);
    size_t half = (sizeof text - 12) / 2;
    memset(text + 11, '[', half);
    memset(text + 11 + half, ']', sizeof text - 12 - half);
    text[11] = 'x';
    assert_int_equal(tg_spec_parse("method", entries, 2, text, &spec), TG_E_SPEC);
    text[11] = '[';
    text[sizeof text - 2] = 'x';
    assert_int_equal(tg_spec_parse("method", entries, 2, text, &spec), TG_E_SPEC);
    assert_null(spec);
    /* In pairs it is left to whoever uses the nested text. */
    text[sizeof text - 2] = ']';
    assert_int_equal(tg_spec_parse("method", entries, 2, text, &spec), TG_OK);
    assert_int_equal(strlen(tg_spec_word(spec, "inner")), sizeof text - 14);
    tg_spec_free(spec);
}

static void many_names(void **state)
{
    (void)state;
    static tg_entry many[200];
    static char names[200][16];
    const tg_entry *list[200];
    for (size_t i = 0; i < 200; i++) {
        snprintf(names[i], sizeof names[i], "method%zu", i);
        many[i].name = names[i];
        list[i] = &many[i];
    }
    tg_spec *spec = NULL;
    assert_int_equal(tg_spec_parse("method", list, 200, "foo", &spec), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "allowed: method0, method1, "));
    assert_string_equal(tg_error() + strlen(tg_error()) - 5, ", ...");
}

static void bad_default(void **state)
{
    (void)state;
    const tg_key keys[] = {{.name = "k", .type = TG_KEY_INT, .def = "0", .min = 1, .max = 9}, {0}};
    const tg_entry entry = {.name = "bad", .keys = keys}, *const list[] = {&entry};
    tg_spec *spec = NULL;
    assert_int_equal(tg_spec_parse("codec", list, 1, "bad", &spec), TG_E_SPEC);
    assert_string_equal(tg_error(), "default of codec \"bad\": k=0: allowed: 1 <= k <= 9");
    assert_int_equal(tg_spec_parse("codec", list, 1, "bad:k=3", &spec), TG_OK);
    tg_spec_free(spec);
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

/* A default is no more than its share of the run; what is given is as it is. */
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
    settled("a", UINT64_MAX, UINT64_MAX, "a:warmup=1000000000"); /* no more than is allowed */
    settled("a:after=3", 40, 468, "a:after=3,warmup=8,start=20");
    settled("a:warmup=4ep", 40, 0, "a:warmup=4ep,start=20");
    settled("a:start=9,warmup=0", 40, 468, "a:start=9,warmup=0");
}

/* Decimal commas of the program's locale do not leak in. Silently the C locale where no such locale
 * is installed. */
static void locale_does_not_matter(void **state)
{
    (void)state;
    static const char *const comma[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"};
    for (size_t i = 0; i < TG_COUNT(comma) && !setlocale(LC_ALL, comma[i]); i++)
        continue;
    assert_text("topk:density=0.25", "topk:density=0.25," DEFAULTS);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values),     cmocka_unit_test(defaults),
        cmocka_unit_test(normal_form),      cmocka_unit_test(unknown_names),
        cmocka_unit_test(numbers_or_words), cmocka_unit_test(whole_numbers_or_words),
        cmocka_unit_test(out_of_range),     cmocka_unit_test(percentages),
        cmocka_unit_test(bad_numbers),      cmocka_unit_test(bad_durations),
        cmocka_unit_test(bad_syntax),       cmocka_unit_test(brackets),
        cmocka_unit_test(long_texts),       cmocka_unit_test(many_names),
        cmocka_unit_test(bad_default),      cmocka_unit_test(durations_of_runs),
        cmocka_unit_test(duration_steps),   cmocka_unit_test(locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
