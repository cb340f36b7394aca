/* Resuming with another number of ranks, for every method and every strategy that there is: the
 * global weights are those that were saved, the means of what single ranks had stay, and training
 * goes on alike everywhere. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"
#include "takeover_compare.h"
#include "tsan_skips.h"

/* Settings that have an effect within a few steps; others are found by name. */
static const char *const settings[] = {"2bit:threshold=auto",
                                       "strom:threshold=auto,target=0.05",
                                       "topk:density=0.1",
                                       "randomk:density=0.1",
                                       "cltk:density=0.1,beta=0.5",
                                       "dgc:density=0.05,warmup=2",
                                       "csc:chunk=32,density=0.2,warmup=2",
                                       "fetchsgd:ratio=2,density=0.05",
                                       "atomo:rank=2",
                                       "powersgd:rank=2",
                                       "blocktopk:keep=7",
                                       "dct:keep=3",
                                       "int8:feedback=residual",
                                       "od:warmup=2",
                                       "cd:k=3,warmup=2",
                                       "pipe:width=3",
                                       "dga:delay=3",
                                       "local:every=4",
                                       "fedavg:every=4,clients=0.67",
                                       "diloco:every=4",
                                       "streaming:every=4,fragments=2,overlap=2,alpha=0.5",
                                       "eager:every=4",
                                       "gossip:overlap=2,mean=5",
                                       "sparseloco:every=4"};

static const char *setting_of(const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strncmp(settings[i], name, len) == 0 && settings[i][len] == ':')
            return settings[i];
    return name;
}

/* All changes of the number of ranks. Returns whether the two go together at all. */
static bool check_pair(const char *method, const char *strategy, const char *dir)
{
    job j = job_of(method, strategy);
    int before = 0;
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        if (changes[c][0] != before) {
            before = changes[c][0];
            clear(dir);
            j.f.world = before;
            j.f.save_dir = dir;
            run(&j, saved);
            if (saved[0].status == TG_E_UNSUPPORTED || saved[0].status == TG_E_SPEC)
                return false;
            run_well(&j, saved);
        }
        check_loaded(j, before, changes[c][1], dir, false);
    }
    return true;
}

static const char *name_of(const char *spec, char name[64])
{
    snprintf(name, 64, "%.*s", (int)strcspn(spec, ":"), spec);
    return name;
}

static void test_every_method(void **state)
{
    char *const dir = *state;
    static const char *const strategies[] = {"ssgd", "cd:k=3,warmup=2", "pipe:width=3"};
    size_t count;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_METHOD, &count);
    assert_true(count >= 20);
    for (size_t i = 0; i < count; i++) {
        int went = 0;
        for (size_t s = 0; s < TG_COUNT(strategies) && !(UNDER_TSAN && went > 0); s++)
            went += check_pair(setting_of(list[i]->name),
                               strategies[(i + s) % TG_COUNT(strategies)], dir);
        if (went == 0)
            fail_msg("%s goes with none", list[i]->name);
    }
}

static void test_every_strategy(void **state)
{
    char *const dir = *state;
    char name[64];
    size_t count;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_STRATEGY, &count);
    assert_true(count >= 13);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i]->name, "server") == 0) /* it has no checkpoints */
            continue;
        const char *strategy = setting_of(list[i]->name);
        const char *methods[] = {
            setting_of(name_of(tg_registry_strategy_method(list[i]->name), name)), "dense",
            "topk:density=0.1", "efsign"};
        int went = 0;
        for (size_t m = 0; m < TG_COUNT(methods) && !(UNDER_TSAN && went > 0); m++)
            went += check_pair(methods[(i + m) % TG_COUNT(methods)], strategy, dir);
        if (went == 0)
            fail_msg("%s goes with none", strategy);
    }
    assert_true(check_pair("topk:density=0.1", "cd:k=3,warmup=2,average=gradients", dir));
    assert_true(check_pair("efsign", "cd:k=3,warmup=2,average=gradients", dir));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_method),
        cmocka_unit_test(test_every_strategy),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
