#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/same_math.h"
#include "telegrad/random.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { N = 100000 };
static const tg_rng_key key = {.seed = 7, .purpose = TG_PURPOSE_TEST};

static void near(double got, double want, double scale)
{
    if (!(fabs(got - want) <= 4 * DBL_EPSILON * scale))
        fail_msg("%a is not %a", got, want);
}

static void are_those_of_the_c_library_nearly(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < N; i++) {
        const double u = 1 - tg_rng_uniform(&key, i), w = ldexp(u, -(int)(i % 1000));
        near(tg__log(u), log(u), fabs(log(u)));
        near(tg__log(w), log(w), fabs(log(w)));
        near(tg__exp(-u), exp(-u), exp(-u));
        near(tg__exp(600 * u - 300), exp(600 * u - 300), exp(600 * u - 300));
        near(tg__cos_turns(u), cos(6.283185307179586477 * u), 1);
    }
}

static void are_exact_where_they_can_be(void **state)
{
    (void)state;
    assert_true(tg__log(1) == 0 && tg__exp(0) == 1);
    assert_true(tg__cos_turns(0) == 1 && tg__cos_turns(1) == 1 && tg__cos_turns(0.5) == -1);
    assert_true(tg__cos_turns(0.25) == 0 && tg__cos_turns(0.75) == 0);
    near(tg__log(0x1p-1074), -1074 * log(2), 745);
    near(tg__log(DBL_MAX), 1024 * log(2), 710);
}

static uint64_t mixed(uint64_t hash, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (hash ^ bits) * UINT64_C(0x100000001b3);
}

/* Whatever compiler, C library and CPU. */
static void have_the_same_bits_everywhere(void **state)
{
    (void)state;
    uint64_t log_hash = 1, exp_hash = 1, cos_hash = 1, normal_hash = 1;
    for (uint64_t i = 0; i < N; i++) {
        const double u = 1 - tg_rng_uniform(&key, i);
        log_hash = mixed(log_hash, tg__log(u));
        exp_hash = mixed(exp_hash, tg__exp(600 * u - 300));
        cos_hash = mixed(cos_hash, tg__cos_turns(u));
        normal_hash = mixed(normal_hash, tg_rng_normal(&key, i));
    }
    assert_int_equal(log_hash, UINT64_C(0x3929775b3e6208cc));
    assert_int_equal(exp_hash, UINT64_C(0xedd7bae2d221359f));
    assert_int_equal(cos_hash, UINT64_C(0xe3c3b58627272b9e));
    assert_int_equal(normal_hash, UINT64_C(0x03730f242ec7a01a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(are_those_of_the_c_library_nearly),
                                       cmocka_unit_test(are_exact_where_they_can_be),
                                       cmocka_unit_test(have_the_same_bits_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
