/* The exchange that the prediction chooses, for given networks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange/predict.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { MOST = 5 };

static const tg__network lan = {0.0001, 8 / 1e9}, slow = {0.0001, 8 / 20e6},
                         far = {0.05, 8 / 100e6};

static const char *const dense[MOST] = {"direct", "ring", "halving", "allgather", NULL};
static const char *const sparse[MOST] = {"allgather", "reducescatter", "direct", NULL};

/* The first is the default one. */
static const char *choose(const char *const *names, int size, size_t n, double frame,
                          const tg__network *net)
{
    double seconds[MOST];
    size_t count = 0;
    for (; names[count] != NULL; count++)
        seconds[count] = tg__exchange_seconds(tg__exchange_find(names[count]), size, n, frame, net);
    return names[tg__exchange_pick(seconds, count, 0)];
}

static double f32(size_t n)
{
    return TG__FRAME_HEAD + 4.0 * (double)n;
}

static void the_fastest_is_taken(void **state)
{
    static const struct {
        const char *const *names;
        int size;
        size_t n;
        double frame; /* 0: f32 */
        const tg__network *net;
        const char *choice;
    } cases[] = {
        /* small models on long links take one delay, larger ones the fewest bytes */
        {dense, 4, 10000, 0, &far, "allgather"},
        {dense, 4, 10000000, 0, &far, "direct"},
        {dense, 4, 10000, 0, &slow, "direct"},
        {dense, 64, 1000000, 0, &lan, "direct"},
        /* two ranks: as many bytes in half the delays, if delays matter */
        {dense, 2, 1000, 0, &far, "allgather"},
        {dense, 2, 10000000, 0, &slow, "direct"},
        /* a sparse vector: to all if there are two ranks or delays matter, to owners if there are
         * many */
        {sparse, 2, 1000000, 13000, &lan, "allgather"},
        {sparse, 2, 1000000, 13000, &slow, "allgather"},
        {sparse, 2, 1000000, 13000, &far, "allgather"},
        {sparse, 4, 1000000, 13000, &far, "allgather"},
        {sparse, 4, 1000000, 13000, &slow, "reducescatter"},
        {sparse, 64, 1000000, 13000, &lan, "reducescatter"},
        {sparse, 64, 1000000, 13000, &slow, "reducescatter"},
        {sparse, 64, 10000000, 130000, &far, "reducescatter"},
    };
    (void)state;
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        const double frame = cases[i].frame > 0 ? cases[i].frame : f32(cases[i].n);
        const char *choice = choose(cases[i].names, cases[i].size, cases[i].n, frame, cases[i].net);
        if (strcmp(choice, cases[i].choice) != 0)
            fail_msg("case %zu: %s in the place of %s", i, choice, cases[i].choice);
    }
}

static void time_is_delays_and_bytes(void **state)
{
    (void)state;
    const tg__exchange_ops *x = tg__exchange_find("allgather");
    const double want = 0.05 + 3 * (1000.0 + TG__ENVELOPE_BYTES) * 8 / 100e6;
    assert_true(fabs(tg__exchange_seconds(x, 4, 5000, 1000, &far) - want) < 1e-12);
    assert_true(tg__exchange_seconds(x, 1, 5000, 1000, &far) == 0);
}

/* A difference of less than a tenth changes nothing. */
static void the_usual_one_stays(void **state)
{
    (void)state;
    static const double near[] = {1.09, 1.0, 1.3}, apart[] = {1.2, 1.0, 0.9, 0.9}, zero[] = {0, 0};
    assert_int_equal(tg__exchange_pick(near, 3, 0), 0);
    assert_int_equal(tg__exchange_pick(near, 3, 2), 1);
    assert_int_equal(tg__exchange_pick(apart, 4, 0), 2);
    assert_int_equal(tg__exchange_pick(apart, 4, 3), 3);
    assert_int_equal(tg__exchange_pick(near, 1, 0), 0);
    assert_int_equal(tg__exchange_pick(zero, 2, 1), 1);
}

/* Exchanges that exist for comparison, exchange nothing, or need servers are never chosen. */
static void some_are_never_chosen(void **state)
{
    (void)state;
    size_t count;
    const tg__exchange_ops *const *all = tg__exchanges(&count);
    for (size_t i = 0; i < count; i++) {
        const char *name = all[i]->entry.name;
        const bool apart = strcmp(name, "gtopk") == 0 || strcmp(name, "none") == 0;
        assert_true(all[i]->automatic == (!apart && !all[i]->served));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_is_taken),
        cmocka_unit_test(time_is_delays_and_bytes),
        cmocka_unit_test(the_usual_one_stays),
        cmocka_unit_test(some_are_never_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
