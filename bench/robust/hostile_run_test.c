/* One hostile rank of five spoils the mean; the rules bear it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "bench/robust/hostile_run.h"
#include <string.h>

static hostile_result run(const char *attack, const char *mode)
{
    const hostile_job job = {.workers = 5,
                             .hostile = 1,
                             .steps = 60,
                             .seed = 1,
                             .batch = 32,
                             .attack = attack,
                             .data = "glyphs:train=2048,test=256",
                             .model = "mlp:hidden=64",
                             .method = "fp16:exchange=star",
                             .optimizer = "sgd:lr=0.02,momentum=0.9",
                             .mode = mode,
                             .z = 1.5};
    hostile_result result;
    if (hostile_run(&job, &result) != TG_OK)
        fail_msg("%s, %s: %s", attack, mode, tg_error());
    return result;
}

static void rules_bear_what_the_mean_does_not(void **state)
{
    static const char *const modes[] = {"sum:combine=median", "sum:combine=trimmed,f=1",
                                        "sum:combine=krum,f=1", "sum:combine=clipped"};
    static const char *const attacks[] = {"scale", "nan"};
    (void)state;
    assert_true(run("none", "sum").accuracy > 0.5);
    assert_true(run("scale", "sum").accuracy < 0.3);
    assert_int_equal(run("nan", "sum").skipped, 60);
    for (size_t k = 0; k < sizeof modes / sizeof modes[0]; k++)
        for (size_t a = 0; a < sizeof attacks / sizeof attacks[0]; a++) {
            const hostile_result result = run(attacks[a], modes[k]);
            if (result.accuracy < 0.5 || result.skipped > 0)
                fail_msg("%s, %s: accuracy %g, %d steps dropped", attacks[a], modes[k],
                         result.accuracy, (int)result.skipped);
        }
}

/* A bias within the others' spread: here the mean loses less than the median, and Krum nothing. */
static void a_little_is_enough(void **state)
{
    (void)state;
    const double median = run("little", "sum:combine=median").accuracy;
    assert_true(median < run("none", "sum:combine=median").accuracy - 0.2);
    assert_true(run("little", "sum:combine=krum,f=1").accuracy > median);
}

static void failures_end_the_run(void **state)
{
    const hostile_job job = {.workers = 5,
                             .steps = 60,
                             .batch = 8,
                             .attack = "little",
                             .data = "glyphs:train=512,test=256",
                             .model = "mlp:hidden=32",
                             .method = "topk:exchange=star",
                             .optimizer = "sgd:lr=0.05",
                             .mode = "sum:combine=median"};
    hostile_result result;
    (void)state;
    assert_int_equal(hostile_run(&job, &result), TG_E_UNSUPPORTED);
    assert_non_null(strstr(tg_error(), "frames of codec topk"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_bear_what_the_mean_does_not),
        cmocka_unit_test(a_little_is_enough),
        cmocka_unit_test(failures_end_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
