#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "trainer/model/memory.h"
#include "trainer/model/model.h"

static void what_fits_is_let_through(void **state)
{
    (void)state;
    const double left = memory_available();
    assert_true(isfinite(left) && left > 1 << 20);
    assert_int_equal(memory_check("a page", 4096, 0), TG_OK);
    assert_int_equal(memory_check("a page more than is made", 1e18, 1e18 - 4096), TG_OK);
}

static void what_does_not_fit_is_named_with_both_figures(void **state)
{
    (void)state;
    assert_int_equal(memory_check("a whale needs", 1e18, 0), TG_E_NOMEM);
    assert_non_null(strstr(tg_error(), "a whale needs 1e+09 GB of memory"));
    assert_non_null(strstr(tg_error(), "GB are available"));
}

/* Each of these needs more bytes than any machine has, each time for another kind of array. */
static void networks_are_refused_before_they_are_made(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        size_t batch;
        model_input in;
    } cases[] = {
        {"gpt:embed=16384,layers=32", 64, {.context = 1024, .classes = 65}},      /* outputs */
        {"gpt:embed=8,layers=32,heads=1", 256, {.context = 65536, .classes = 9}}, /* attention */
        {"lstm:hidden=16384,embed=16384,layers=16",
         4096,
         {.context = 4096, .classes = 9}}, /* gates */
        {"mlp:hidden=16384", 1, {.height = 32768, .width = 32768, .channels = 3, .classes = 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model *m = NULL;
        assert_int_equal(model_create(cases[i].spec, &cases[i].in, cases[i].batch, 1, &m),
                         TG_E_NOMEM);
        assert_null(m);
        assert_non_null(strstr(tg_error(), "GB are available"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_let_through),
        cmocka_unit_test(what_does_not_fit_is_named_with_both_figures),
        cmocka_unit_test(networks_are_refused_before_they_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
