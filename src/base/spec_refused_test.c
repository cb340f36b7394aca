/* Spec strings: what is refused, and with which words. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "spec_topk.h"

static void unknown_names(void **state)
{
    (void)state;
    assert_refused("foo", "unknown method \"foo\": allowed: dense, topk");
    assert_refused("", "unknown method \"\": allowed: dense, topk");
    assert_refused(":k=1", "unknown method \"\": allowed: dense, topk");
    assert_refused("Topk", "unknown method \"Topk\": did you mean \"topk\"? allowed: dense, topk");
    assert_refused("topk=1",
                   "unknown method \"topk=1\": did you mean \"topk\"? allowed: dense, topk");
    assert_refused("k=1", "unknown method \"k=1\": a name and a colon come before its keys; "
                          "allowed: dense, topk");
    assert_refused("topk,density=0.1",
                   "unknown method \"topk,density=0.1\": a colon ends the name: "
                   "write topk:density=0.1");
    assert_refused("topk=density=0.1",
                   "unknown method \"topk=density=0.1\": a colon ends the name: "
                   "write topk:density=0.1");
    assert_refused("topk:foo=1",
                   "unknown key \"foo\" of method \"topk\": allowed: density, values, warmup, "
                   "exact, k, inner, any, count, low, period");
    assert_refused("topk:densty=1",
                   "unknown key \"densty\" of method \"topk\": did you mean \"density\"? "
                   "allowed: density, values, warmup, exact, k, inner, any, count, low, period");
    assert_value_refused("topk:values=bf61",
                         "values=bf61: did you mean \"bf16\"? allowed: f32, f16, "
                         "bf16");
    assert_refused("dense:foo=1", "unknown key \"foo\" of method \"dense\": allowed: none, it has "
                                  "no keys");
}

static void out_of_range(void **state)
{
    (void)state;
    assert_value_refused("topk:density=2", "density=2: allowed: 0 < density <= 1");
    assert_value_refused("topk:density=0", "density=0: allowed: 0 < density <= 1");
    assert_value_refused("topk:density=-0.0", "density=-0.0: allowed: 0 < density <= 1");
    assert_value_refused("topk:k=0", "k=0: allowed: k >= 1");
    assert_value_refused("topk:low=4294967296", "low=4294967296: allowed: low <= 4294967295");
    assert_value_refused("topk:period=101",
                         "period=101: allowed: whole steps (200) or epochs (4ep, "
                         "0.5ep), 1 <= period <= 100");
    assert_value_refused("topk:period=0ep",
                         "period=0ep: allowed: whole steps (200) or epochs (4ep, "
                         "0.5ep), 1 <= period <= 100");
    assert_value_refused("topk:values=f64", "values=f64: allowed: f32, f16, bf16");
    assert_value_refused("topk:values=f", "values=f: allowed: f32, f16, bf16");
    assert_value_refused("topk:values=f32|f16", "values=f32|f16: allowed: f32, f16, bf16");
    assert_value_refused("topk:exact=1", "exact=1: allowed: yes, no");
}

static void bad_numbers(void **state)
{
    (void)state;
    static const char *const reals[] = {"nan",    "NaN", "inf",  "-inf", "0x1", "1e999",
                                        "-1e999", "1e",  "e5",   ".",    "-",   "++1",
                                        "1.5.2",  "1_0", "0.5f", "--1",  "1e+", "1e-"};
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
    assert_value_refused("topk:any=+1",
                         "any=+1: a number has no plus sign; allowed: any finite number");
    assert_value_refused("topk:any=1e-999", "any=1e-999: too close to 0 for a number of 64 bits; "
                                            "allowed: any finite number");
    for (size_t i = 0; i < TG_COUNT(reals); i++) {
        snprintf(text, sizeof text, "topk:any=%s", reals[i]);
        snprintf(want, sizeof want,
                 "any=%s: not a finite decimal number; allowed: any finite number", reals[i]);
        assert_value_refused(text, want);
    }
    for (size_t i = 0; i < TG_COUNT(ints); i++) {
        snprintf(text, sizeof text, "topk:count=%s", ints[i]);
        snprintf(want, sizeof want,
                 "count=%s: not a whole number of 64 bits; allowed: any whole number", ints[i]);
        assert_value_refused(text, want);
    }
    assert_value_refused("topk:density=abc",
                         "density=abc: not a finite decimal number; allowed: 0 < density <= 1");
}

/* A decimal comma: the comma ends the value, and the digits after it are no key. */
static void decimal_commas(void **state)
{
    (void)state;
    static const struct {
        const char *text, *value, *point;
    } bad[] = {{"topk:density=0,1", "density=0,1", "density=0.1"},
               {"topk:density=0,05,values=f16", "density=0,05", "density=0.05"},
               {"topk:any=-1,5e-3", "any=-1,5e-3", "any=-1.5e-3"},
               {"topk:warmup=0,5ep", "warmup=0,5ep", "warmup=0.5ep"}};
    char want[256];
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        snprintf(want, sizeof want, "%s: a comma ends a value: write the decimal point: %s",
                 bad[i].value, bad[i].point);
        assert_value_refused(bad[i].text, want);
    }
    /* here it cannot be one */
    assert_refused("topk:k=3,5", "unknown key \"5\" of method \"topk\": allowed: density, values, "
                                 "warmup, exact, k, inner, any, count, low, period");
    assert_refused("topk:5", "unknown key \"5\" of method \"topk\": allowed: density, values, "
                             "warmup, exact, k, inner, any, count, low, period");
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
        assert_value_refused(text, want);
    }
}

static void bad_syntax(void **state)
{
    (void)state;
    assert_refused("topk:k=1,k=1", "key \"k\" of method \"topk\" is given twice");
    assert_refused("topk:k", "key \"k\" of method \"topk\" has no value: allowed: k=VALUE");
    assert_refused("topk:k=", "key \"k\" of method \"topk\" has no value: allowed: k=VALUE");
    static const char *const no_key[] = {"topk:", "topk:k=1,", "topk:,k=1", "topk:=1"};
    for (size_t i = 0; i < TG_COUNT(no_key); i++)
        assert_refused(no_key[i], "method \"topk\": a key is missing after the colon or a comma: "
                                  "allowed: key=value,key=value");
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
                   "method \"topk:inner=a]\": the \"]\" at position 13 has no \"[\" before it");
    assert_refused("topk:inner=]a[",
                   "method \"topk:inner=]a[\": the \"]\" at position 12 has no \"[\" before it");
    static const char *const bad[] = {"[]", "[a]b", "b[a]", "[a][b]", "a:b"};
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        char text[64], want[128];
        snprintf(text, sizeof text, "topk:inner=%s", bad[i]);
        snprintf(want, sizeof want,
                 "inner=%s: allowed: a spec string in brackets, inner=[name:key=...]", bad[i]);
        assert_value_refused(text, want);
    }
    /* A comma and an equals sign inside belong to the nested spec; what follows does not. */
    tg_spec *spec = parse("topk:inner=[x:k=3,any=1],k=2");
    assert_true(tg_spec_int(spec, "k") == 2);
    assert_false(tg_spec_has(spec, "any"));
    assert_string_equal(tg_spec_word(spec, "inner"), "x:k=3,any=1");
    tg_spec_free(spec);
    assert_value_refused("topk:k=[1]", "k=[1]: not a whole number of 64 bits; allowed: k >= 1");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names), cmocka_unit_test(out_of_range),
        cmocka_unit_test(bad_numbers),   cmocka_unit_test(decimal_commas),
        cmocka_unit_test(bad_durations), cmocka_unit_test(bad_syntax),
        cmocka_unit_test(brackets),      cmocka_unit_test(long_texts),
        cmocka_unit_test(many_names),    cmocka_unit_test(bad_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
