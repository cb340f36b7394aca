/* What exchange=auto becomes, by method, over networks that are given. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "method/auto_exchange.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 64, COLS = 96, BIAS = 64, N = ROWS * COLS + BIAS };

static const tg__network slow = {0.0001, 8 / 2e6}, far = {0.05, 8 / 1e9};

static char logged[600];

static void keep_log(void *arg, tg_log_level level, const char *text)
{
    (void)arg;
    (void)level;
    snprintf(logged, sizeof logged, "%s", text);
}

static tg_status make(void *arg, tg__method_setup setup, tg__method **m_p)
{
    static const char *const names[] = {"w", "b"};
    static const size_t len[] = {ROWS * COLS, BIAS}, rows[] = {ROWS, BIAS}, cols[] = {COLS, 1};
    static const size_t dims[] = {2, 1};
    setup.seed = 1;
    setup.steps_per_epoch = 5;
    setup.tensor = names;
    setup.len = len;
    setup.rows = rows;
    setup.cols = cols;
    setup.dims = dims;
    setup.count = 2;
    setup.momentum = (double)NAN;
    setup.nesterov = -1;
    return tg__method_create(arg, &setup, m_p);
}

/* The name of the choice for `text`. */
static const char *choose(const char *text, int size, const tg__network *net)
{
    static char copy[256];
    tg_spec *spec;
    const tg__method_def *def;
    const tg__exchange_ops *choice = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    assert_int_equal(tg__method_parse(text, &spec, &def), TG_OK);
    assert_true(tg__method_is_auto(spec));
    const tg__auto_request q = {.spec = spec,
                                .bucket = 3,
                                .size = size,
                                .n = N,
                                .seed = 1,
                                .eta = 0.1,
                                .make = make,
                                .arg = copy};
    logged[0] = '\0';
    if (tg__auto_exchange(&q, net, &choice) != TG_OK)
        fail_msg("%s, %d ranks: %s", text, size, tg_error());
    tg_spec_free(spec);
    return choice->entry.name;
}

static void by_method(void **state)
{
    static const struct {
        const char *text;
        int size;
        const tg__network *net;
        const char *choice;
    } cases[] = {
        {"dense:exchange=auto", 4, &far, "allgather"},
        {"dense:exchange=auto", 4, &slow, "direct"},
        {"topk:density=0.1,exchange=auto", 2, &slow, "allgather"},
        {"topk:density=0.1,exchange=auto", 4, &far, "allgather"},
        {"topk:density=0.1,exchange=auto", 16, &slow, "reducescatter"},
        /* the density after the warm-up */
        {"dgc:density=0.01,warmup=4ep,exchange=auto", 4, &far, "allgather"},
        {"dgc:density=0.1,warmup=4ep,exchange=auto", 64, &slow, "reducescatter"},
        /* nothing would remember what owners drop */
        {"topk:density=0.1,feedback=none,exchange=auto", 16, &slow, "allgather"},
        {"fp16:exchange=auto", 8, &slow, "reducescatter"},
        {"2bit:exchange=auto", 4, &slow, "allgather"},
        {"2bit:exchange=auto", 64, &slow, "direct"},
        {"signsgd:exchange=auto", 2, &slow, "allgather"},
        {"1bit:twoway=yes,exchange=auto", 2, &far, "direct"},
        /* both rounds count: two delays in the place of four */
        {"powersgd:rank=1,exchange=auto", 4, &far, "allgather"},
        {"powersgd:rank=8,exchange=auto", 16, &slow, "direct"},
        {"randomk:density=0.1,exchange=auto", 4, &far, "allgather"},
        {"randomk:density=0.5,exchange=auto", 16, &slow, "direct"},
        {"atomo:rank=2,exchange=auto", 4, &far, "allgather"},
    };
    (void)state;
    for (size_t i = 0; i < TG__COUNT(cases); i++) {
        const char *choice = choose(cases[i].text, cases[i].size, cases[i].net);
        if (strcmp(choice, cases[i].choice) != 0)
            fail_msg("%s, %d ranks: %s in the place of %s: %s", cases[i].text, cases[i].size,
                     choice, cases[i].choice, logged);
    }
}

/* All methods that there are have a choice, and with it they can be made. */
static void every_method(void **state)
{
    (void)state;
    size_t count;
    const tg__method_def *const *all = tg__methods(&count);
    for (size_t i = 0; i < count; i++)
        for (int size = 2; size <= 32; size *= 4) {
            char text[64];
            tg__method *m = NULL;
            tg__method_setup setup = {.rank = 1, .size = size, .lanes = 1};
            snprintf(text, sizeof text, "%s:exchange=auto", all[i]->entry.name);
            setup.exchange = choose(text, size, size == 8 ? &slow : &far);
            assert_int_equal(tg__state_create(&setup.state), TG_OK);
            assert_int_equal(make(text, setup, &m), TG_OK);
            assert_string_equal(tg__method_exchange(m)->entry.name, setup.exchange);
            assert_null(strstr(tg_spec_text(m->spec), "exchange=auto"));
            tg__method_destroy(m);
            tg__state_destroy(setup.state);
        }
}

static void it_is_logged(void **state)
{
    (void)state;
    choose("topk:density=0.1,exchange=auto", 16, &slow);
    static const char *const parts[] = {"bucket 3: exchange=auto: reducescatter",
                                        "allgather ",
                                        "direct ",
                                        "0.10 ms",
                                        "2.0 Mbit/s",
                                        "16 ranks",
                                        "6208 elements"};
    for (size_t i = 0; i < TG__COUNT(parts); i++)
        if (strstr(logged, parts[i]) == NULL)
            fail_msg("\"%s\" is not in \"%s\"", parts[i], logged);
    assert_null(strstr(logged, "gtopk"));
}

/* What cannot be made with the usual exchange is an error, as it is without auto. */
static void errors(void **state)
{
    (void)state;
    tg_spec *spec;
    const tg__method_def *def;
    const tg__exchange_ops *choice = NULL;
    char text[] = "topk:feedback=none,rescale=yes,exchange=auto";
    assert_int_equal(tg__method_parse(text, &spec, &def), TG_OK);
    const tg__auto_request q = {.spec = spec, .size = 4, .n = N, .make = make, .arg = text};
    assert_int_equal(tg__auto_exchange(&q, &far, &choice), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "rescale=yes"));
    assert_null(choice);
    tg_spec_free(spec);
}

/* A spec that names no exchange has one by name, and its normal form is a spec with that meaning.
 */
static void the_default_has_a_name(void **state)
{
    static const char *const cases[][2] = {
        {"dense", "dense:exchange=direct"},
        {"fp16", "fp16:feedback=none,rescale=no,exchange=allgather"},
        {"1bit:twoway=yes", "1bit:threshold=zero,twoway=yes,rescale=no,exchange=direct"},
        {"1bit", "1bit:threshold=zero,twoway=no,rescale=no,exchange=allgather"},
        {"dense:exchange=auto", "dense:exchange=auto"},
    };
    (void)state;
    for (size_t i = 0; i < TG__COUNT(cases); i++)
        for (size_t k = 0; k < 2; k++) {
            tg_spec *spec;
            const tg__method_def *def;
            assert_int_equal(tg__method_parse(cases[i][k], &spec, &def), TG_OK);
            assert_string_equal(tg_spec_text(spec), cases[i][1]);
            tg_spec_free(spec);
        }
}

static void numbers(void **state)
{
    (void)state;
    size_t count;
    const tg__exchange_ops *const *all = tg__exchanges(&count);
    for (size_t i = 0; i < count; i++) {
        const uint8_t number = tg__exchange_number(all[i]);
        assert_ptr_equal(tg__exchange_numbered(number), all[i]->automatic ? all[i] : NULL);
    }
    assert_int_equal(tg__exchange_number(NULL), TG__NO_CHOICE);
    assert_null(tg__exchange_numbered(TG__NO_CHOICE));
    assert_null(tg__exchange_numbered((uint8_t)count));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_method),    cmocka_unit_test(every_method),
        cmocka_unit_test(it_is_logged), cmocka_unit_test(errors),
        cmocka_unit_test(numbers),      cmocka_unit_test(the_default_has_a_name),
    };
    tg_log_set(keep_log, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
