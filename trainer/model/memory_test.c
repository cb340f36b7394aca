#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "trainer/model/memory.h"
#include "trainer/model/model.h"

static void what_fits_is_let_through(void **state)
{
    (void)state;
    const double left = memory_available();
    assert_true(isfinite(left) && left > 1 << 20);
    assert_int_equal(memory_check(4096, 1, left), TG_OK);
    assert_int_equal(memory_check(4096, 8, 8 * 4096), TG_OK);
}

static void what_does_not_fit_is_named_with_all_figures(void **state)
{
    (void)state;
    assert_int_equal(memory_check(2e9, 1, 1e9), TG_E_NOMEM);
    assert_string_equal(tg_error(), "the network needs 2 GB of memory, and 1 GB are available");
    assert_int_equal(memory_check(2e9, 64, 24e9), TG_E_NOMEM);
    assert_string_equal(tg_error(), "the network needs 2 GB of memory on each of the 64 workers "
                                    "of this process, 128 GB in all, and 24 GB are available");
}

/* Whether `networks` networks fit into so many bytes. */
static bool fits(const char *spec, const model_input *in, size_t batch, size_t networks,
                 double bytes)
{
    model *m = NULL;
    const model_room room = {.bytes = bytes, .networks = networks};
    const tg_status status = model_create_within(spec, in, batch, 1, &room, &m);
    assert_int_equal(status == TG_OK, m != NULL);
    assert_true(status == TG_OK || status == TG_E_NOMEM);
    model_destroy(m);
    return status == TG_OK;
}

/* What the network says that it needs when nothing is available. */
static double need(const char *spec, const model_input *in, size_t batch)
{
    double gigabytes = 0;
    assert_false(fits(spec, in, batch, 1, 0));
    assert_int_equal(sscanf(tg_error(), "the network needs %lf GB", &gigabytes), 1);
    return gigabytes * 1e9;
}

static const model_input picture = {.height = 32, .width = 32, .channels = 3, .classes = 10};

static void networks_of_a_process_share_what_is_available(void **state)
{
    (void)state;
    const double one = need("lenet5", &picture, 64);
    assert_true(fits("lenet5", &picture, 64, 1, 1.01 * one));
    assert_false(fits("lenet5", &picture, 64, 1, 0.99 * one));
    assert_true(fits("lenet5", &picture, 64, 3, 3.03 * one));
    assert_false(fits("lenet5", &picture, 64, 3, 2.97 * one));
    assert_non_null(strstr(tg_error(), "on each of the 3 workers of this process"));
}

/* The address space of this process. */
static double mapped(void)
{
    double pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lf", &pages), 1);
    fclose(file);
    return pages * (double)sysconf(_SC_PAGESIZE);
}

/* Memory that is allocated but not touched does not shrink what is available. So layers allocate
 * theirs after the check, and all of it counts. */
static void layers_allocate_after_the_check(void **state)
{
    (void)state;
    const model_input text = {.context = 1024, .classes = 9};
    const double before = mapped();
    const double attention = 4.0 * 64 * 8 * 1024 * 1024 * sizeof(float);
    assert_true(need("gpt:embed=8,layers=4,heads=8", &text, 64) > attention);
    assert_true(need("vgg11", &picture, 50000) > 40e9);
    (void)need("resnet18", &picture, 20000);
    assert_true(mapped() - before < 1e9);
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
        cmocka_unit_test(what_does_not_fit_is_named_with_all_figures),
        cmocka_unit_test(networks_of_a_process_share_what_is_available),
        cmocka_unit_test(layers_allocate_after_the_check),
        cmocka_unit_test(networks_are_refused_before_they_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
