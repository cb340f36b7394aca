/* The choice of exchange=auto, by method, for given networks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "method/auto_exchange.h"
#include "base/mem.h"
#include "method/rehearsal.h"
#include "telegrad/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

static tg__method_setup setup_of(int size)
{
    static const char *const names[] = {"w", "b"};
    static const size_t len[] = {ROWS * COLS, BIAS}, rows[] = {ROWS, BIAS}, cols[] = {COLS, 1};
    static const size_t dims[] = {2, 1};
    return (tg__method_setup){.size = size,
                              .seed = 1,
                              .steps_per_epoch = 5,
                              .bucket = 3,
                              .tensor = names,
                              .len = len,
                              .rows = rows,
                              .cols = cols,
                              .dims = dims,
                              .count = 2,
                              .lanes = 1,
                              .momentum = (double)NAN,
                              .nesterov = -1};
}

/* The name of the choice for `text`. */
static const char *choose_for(const char *text, const tg__method_setup *setup,
                              const tg__network *net)
{
    const tg__exchange_ops *choice = NULL;
    logged[0] = '\0';
    if (tg__auto_exchange(text, setup, 0.1, net, &choice) != TG_OK)
        fail_msg("%s, %d ranks: %s", text, setup->size, tg_error());
    return choice->entry.name;
}

static const char *choose(const char *text, int size, const tg__network *net)
{
    const tg__method_setup setup = setup_of(size);
    return choose_for(text, &setup, net);
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
        /* the density after the warm-up counts */
        {"dgc:density=0.01,warmup=4ep,exchange=auto", 4, &far, "allgather"},
        {"dgc:density=0.1,warmup=4ep,exchange=auto", 64, &slow, "reducescatter"},
        /* what owners drop would be lost */
        {"topk:density=0.1,feedback=none,exchange=auto", 16, &slow, "allgather"},
        {"fp16:exchange=auto", 8, &slow, "reducescatter"},
        {"2bit:exchange=auto", 4, &slow, "allgather"},
        {"2bit:exchange=auto", 64, &slow, "direct"},
        {"signsgd:exchange=auto", 2, &slow, "allgather"},
        {"1bit:twoway=yes,exchange=auto", 2, &far, "direct"},
        /* both rounds count: two delays instead of four */
        {"powersgd:rank=1,exchange=auto", 4, &far, "allgather"},
        {"powersgd:rank=8,exchange=auto", 16, &slow, "halving"},
        {"randomk:density=0.1,exchange=auto", 4, &far, "allgather"},
        {"randomk:density=0.5,exchange=auto", 16, &slow, "direct"},
        {"atomo:rank=2,exchange=auto", 4, &far, "allgather"},
    };
    (void)state;
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        const char *choice = choose(cases[i].text, cases[i].size, cases[i].net);
        if (strcmp(choice, cases[i].choice) != 0)
            fail_msg("%s, %d ranks: %s in the place of %s: %s", cases[i].text, cases[i].size,
                     choice, cases[i].choice, logged);
    }
}

/* Every method gets a choice, and can be created with it. */
static void every_method(void **state)
{
    (void)state;
    size_t count;
    const tg_entry *const *all = tg__method_entries(&count);
    for (size_t i = 0; i < count; i++)
        for (int size = 2; size <= 32; size *= 4) {
            char text[64];
            tg__method *m = NULL;
            tg__method_setup setup = setup_of(size);
            snprintf(text, sizeof text, "%s:exchange=auto", all[i]->name);
            setup.rank = 1;
            setup.exchange = choose(text, size, size == 8 ? &slow : &far);
            assert_int_equal(tg__state_create(&setup.state), TG_OK);
            assert_int_equal(tg__method_create(text, &setup, &m), TG_OK);
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
    for (size_t i = 0; i < TG_COUNT(parts); i++)
        if (strstr(logged, parts[i]) == NULL)
            fail_msg("\"%s\" is not in \"%s\"", parts[i], logged);
    assert_null(strstr(logged, "gtopk"));
}

/* A method that cannot be created with the usual exchange is an error, as without auto. */
static void errors(void **state)
{
    (void)state;
    const tg__exchange_ops *choice = NULL;
    const tg__method_setup setup = setup_of(4);
    assert_int_equal(tg__auto_exchange("topk:feedback=none,rescale=yes,exchange=auto", &setup, 0.1,
                                       &far, &choice),
                     TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "rescale=yes"));
    assert_int_equal(tg__auto_exchange("topk:exchange=nosuch", &setup, 0.1, &far, &choice),
                     TG_E_SPEC);
    assert_null(choice);
}

/* Programs foresee what they do, as a step shows for methods that depend only on matrices and
 * chunks. */
static void as_foreseen(void **state)
{
    static const char *const texts[] = {
        "powersgd:rank=2,exchange=ring",
        "powersgd:rank=40,exchange=direct",
        "csc:density=0.2",
        "csc:chunk=500,density=0.3",
        "csc:chunk=97,density=0.01,exchange=allgather",
        "csc:chunk=64,density=1,exchange=ring",
        "csc:chunk=1000000,exchange=halving",
        "fetchsgd",
        "fetchsgd:rows=3,ratio=1.5,exchange=ring",
        "fetchsgd:ratio=1,exchange=allgather",
    };
    float *g;
    (void)state;
    assert_int_equal(tg__rehearsal_gradient(1, N, &g), TG_OK);
    for (size_t i = 0; i < TG_COUNT(texts); i++) {
        tg__method_setup setup = setup_of(1);
        tg__rehearsal seen, foreseen = {0};
        tg__method *m;
        assert_int_equal(tg__state_create(&setup.state), TG_OK);
        assert_int_equal(tg__method_create(texts[i], &setup, &m), TG_OK);
        for (uint64_t step = 0; step < 4; step++) { /* csc: until it is the last chunk's turn */
            const tg__task task = {.step = TG__LATE + step, .g = g, .coded = true, .eta = 0.1};
            assert_int_equal(tg__rehearse(m, task, &seen), TG_OK);
            setup.exchange = tg__method_exchange(m)->entry.name;
            foreseen = (tg__rehearsal){0};
            m->def->program->foresee(m->spec, &setup, &foreseen);
            assert_int_equal(seen.rounds, foreseen.rounds);
            for (size_t k = 0; k < seen.rounds; k++) {
                const size_t last = strstr(texts[i], "csc") != NULL && k + 1 == seen.rounds;
                const double less = (double)foreseen.round[k].n - (double)seen.round[k].n;
                assert_ptr_equal(seen.round[k].x, foreseen.round[k].x);
                /* the last chunk is shorter */
                assert_true(less == 0 || (last && less > 0 && less < 500));
                assert_true(foreseen.round[k].frame - seen.round[k].frame == 4 * less);
            }
        }
        tg__method_destroy(m);
        tg__state_destroy(setup.state);
    }
    free(g);
}

static double coded(void)
{
    const char *at = strstr(logged, "elements, ");
    assert_non_null(at);
    return strtod(at + strlen("elements, "), NULL);
}

/* The largest buckets, of one tensor or many: about as many bytes per element as a bucket that is
 * rehearsed whole, in the same time and memory. */
static void large_buckets(void **state)
{
    enum { MANY = 1000, SIDE = 512 };
    static const char *const texts[] = {"topk:density=0.01,scope=tensor,exchange=auto",
                                        "qsgd:exchange=auto", "randomk:density=0.1,exchange=auto"};
    static const char *name[MANY];
    static char names[MANY][8];
    static size_t len[MANY], rows[MANY], cols[MANY];
    static const tg__network wire = {1e-4, 8 / 1e8};
    tg__method_setup setup = setup_of(8);
    (void)state;
    setup.tensor = name;
    setup.len = len;
    setup.rows = rows;
    setup.cols = cols;
    setup.dims = NULL;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "w%zu", i);
        name[i] = names[i];
    }
    for (size_t i = 0; i < TG_COUNT(texts); i++) {
        const size_t most = TG_MAX_ELEMENTS;
        len[0] = rows[0] = 3 << 16;
        cols[0] = setup.count = 1;
        const char *small = choose_for(texts[i], &setup, &wire);
        const double want = coded() / (double)len[0];
        len[0] = rows[0] = most;
        assert_string_equal(choose_for(texts[i], &setup, &wire), small);
        assert_true(fabs(coded() / (double)most - want) < 0.02 * want);
        if (i > 0)
            continue;
        rows[0] = 3;
        cols[0] = most / 3;
        len[0] = 3 * cols[0];
        assert_string_equal(choose_for(texts[i], &setup, &wire), small);
        assert_true(fabs(coded() / (double)most - want) < 0.02 * want);
        setup.count = MANY;
        for (size_t k = 0; k < MANY; k++) {
            rows[k] = cols[k] = SIDE;
            len[k] = SIDE * SIDE;
        }
        assert_string_equal(choose_for(texts[i], &setup, &wire), small);
        assert_true(fabs(coded() / ((double)MANY * SIDE * SIDE) - want) < 0.02 * want);
    }
}

/* Bytes that do not grow with the elements: those of all factors and of all chunks. */
static void large_and_foreseen(void **state)
{
    static const char *const name[] = {"w"};
    static const size_t rows[] = {1 << 14}, cols[] = {1 << 15}, len[] = {(size_t)1 << 29};
    tg__method_setup setup = setup_of(8);
    (void)state;
    setup.tensor = name;
    setup.len = len;
    setup.rows = rows;
    setup.cols = cols;
    setup.dims = NULL;
    setup.count = 1;
    choose_for("powersgd:rank=4,exchange=auto", &setup, &slow);
    assert_true(coded() == 2 * TG__FRAME_HEAD + 16.0 * ((1 << 14) + (1 << 15)));
    choose_for("csc:chunk=1000000,density=0.01,exchange=auto", &setup, &slow);
    assert_true(coded() == 2 * TG__FRAME_HEAD + 4.0 * (537 + 5e6));
}

/* A sample has the first tensors, and the part of the next one that fits. */
static void samples(void **state)
{
    static const char *const name[] = {"a", "b", "c"};
    static const size_t rows[] = {10, 5, 7}, cols[] = {1, 20, 1}, len[] = {10, 100, 7};
    static const struct {
        size_t most, count, n, rows, cols;
    } cases[] = {{117, 3, 117, 7, 1},  {1000, 3, 117, 7, 1}, {116, 3, 116, 6, 1},
                 {110, 2, 110, 5, 20}, {109, 2, 90, 4, 20},  {25, 2, 25, 1, 15},
                 {10, 1, 10, 10, 1},   {1, 1, 1, 1, 1}};
    tg__method_setup whole = setup_of(2);
    (void)state;
    whole.tensor = name;
    whole.rows = rows;
    whole.cols = cols;
    whole.len = len;
    whole.count = 3;
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg__sample s;
        assert_int_equal(tg__sample_create(&whole, cases[i].most, &s), TG_OK);
        const size_t last = s.setup.count - 1;
        assert_int_equal(s.setup.count, cases[i].count);
        assert_int_equal(s.n, cases[i].n);
        assert_int_equal(s.setup.rows[last], cases[i].rows);
        assert_int_equal(s.setup.cols[last], cases[i].cols);
        assert_int_equal(s.setup.len[last], cases[i].rows * cases[i].cols);
        assert_true(s.scale == 117.0 / (double)cases[i].n);
        tg__sample_free(&s);
    }
}

/* A spec without an exchange has a default one with a name, and naming it in the normal form means
 * the same. */
static void the_default_has_a_name(void **state)
{
    static const char *const cases[][2] = {
        {"dense", "dense:exchange=direct"},
        {"fp16", "fp16:feedback=none,rescale=no,exchange=allgather"},
        {"1bit:twoway=yes",
         "1bit:threshold=zero,weights=yes,twoway=yes,rescale=no,exchange=direct"},
        {"1bit", "1bit:threshold=zero,weights=yes,twoway=no,rescale=no,exchange=allgather"},
        {"dense:exchange=auto", "dense:exchange=auto"},
    };
    (void)state;
    for (size_t i = 0; i < TG_COUNT(cases); i++)
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
        cmocka_unit_test(as_foreseen),  cmocka_unit_test(large_buckets),
        cmocka_unit_test(samples),      cmocka_unit_test(large_and_foreseen),
    };
    tg_log_set(keep_log, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
