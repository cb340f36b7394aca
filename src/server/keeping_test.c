/* Checkpoints of jobs with servers: a run that resumes has the bits of one that was not stopped,
 * also with other servers, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "keeping_ranks.h"
#include "tsan_skips.h"

/* ---- the same bits --------------------------------------------------------------------------- */

static void clear(const char *dir)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'/*", dir);
    assert_int_equal(system(command), 0);
}

static void has_bits(const job *j, uint64_t hash, const char *when)
{
    if (hash_of(j) != hash)
        fail_msg("%s, %s, %s, %s: other bits %s", j->method, j->strategy, j->optimizer, j->mode,
                 when);
}

/* A run, one that saves, and one that resumes with so many servers; and one that resumes from what
 * another saved at once, without a step. */
static void resumes(const char *dir, job j, int servers)
{
    clear(dir);
    const uint64_t hash = hash_of(&j);
    const uint64_t skipped = members[0].skipped;
    j.save_dir = dir;
    has_bits(&j, hash, "when it saves");
    j.save_dir = NULL;
    j.load_dir = dir;
    j.servers = servers;
    has_bits(&j, hash, "after resuming");
    assert_int_equal(members[0].skipped, skipped);
    assert_string_equal(members[0].anew, "");
    j.again = true;
    run(&j);
    j.again = false;
    j.in_memory = true;
    has_bits(&j, hash, "after saving twice");
}

static job job_of(const char *method, const char *strategy, const char *optimizer, const char *mode)
{
    return (job){.method = method,
                 .strategy = strategy,
                 .optimizer = optimizer,
                 .mode = mode,
                 .ranks = 3,
                 .servers = 2};
}

#define SGD "sgd:lr=0.01,momentum=0.9"

/* Residuals of servers; also if the step before the save was dropped, so that they must go back to
 * those from before it, and if the rate changes. */
static void residuals_are_kept(void **state)
{
    static const char *const methods[] = {"topk:density=0.05,exchange=twoway",
                                          "topk:density=0.05,rescale=yes,exchange=twoway",
                                          "dgc:density=0.05,warmup=0,exchange=twoway",
                                          "2bit:threshold=auto,exchange=twoway",
                                          "strom:threshold=auto,target=0.05,exchange=twoway",
                                          "1bit:rescale=yes,exchange=twoway",
                                          "adacomp:exchange=twoway",
                                          "qsgd:exchange=twoway"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (int nan = 0; nan <= SAVE; nan += nan == 0 ? SAVE - 1 : 1) {
            if (tsan_skips(i, nan == 0 ? 0 : (size_t)nan - SAVE + 2, 3))
                continue;
            job j = job_of(methods[i], "ssgd", SGD, "sum");
            j.nan_step = nan;
            j.rates = (int)i % 3;
            j.overlap = nan == 0 ? TG_OVERLAP_BACKWARD : TG_OVERLAP_FULL;
            resumes(*state, j, 2);
            j.in_memory = true;
            resumes(*state, j, 2);
        }
}

/* ... with strategies that have exchanges in flight, or dense ones; and with nodes. */
static void strategies_and_nodes(void **state)
{
    static const int nodes[] = {5, 5, 1, 1};
    static const char *const strategies[] = {"cd:k=2,warmup=1", "od:warmup=1", "local:every=3"};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        job j = job_of("topk:density=0.05,exchange=twoway", strategies[i], "sgd:lr=0.01", "sum");
        resumes(*state, j, 2);
        j.nodes = nodes;
        j.ranks = 4;
        resumes(*state, j, 2);
    }
}

/* The last results of combine=clipped, also of the rounds of a method. */
static void centers_are_kept(void **state)
{
    static const char *const methods[] = {"dense:exchange=star", "topk:density=0.05,exchange=star",
                                          "topk:density=0.05,exchange=twoway",
                                          "powersgd:rank=2,exchange=star"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (int nan = 0; nan < SAVE; nan += SAVE - 1) {
            job j = job_of(methods[i], "ssgd", SGD, "sum:combine=clipped");
            j.nan_step = nan;
            j.slices = i == 0;
            resumes(*state, j, 2);
        }
}

/* The optimizer's memory, and its numbers of updates. */
static void optimizers_are_kept(void **state)
{
    static const char *const optimizers[] = {"sgd:lr=0.01", SGD,
                                             "sgd:lr=0.01,momentum=0.9,nesterov=yes",
                                             "adam:lr=0.01", "adamw:lr=0.01,weight_decay=0.1"};
    static const char *const methods[] = {"dense:exchange=star", "topk:density=0.05,exchange=star"};
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++)
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
            for (int full = 0; full < 2; full++) {
                if (tsan_skips(o, 2 * i + (size_t)full, 4))
                    continue;
                job j = job_of(methods[i], "server", optimizers[o],
                               full ? "async:staleness=0" : "sync");
                j.overlap = full ? TG_OVERLAP_FULL : TG_OVERLAP_BACKWARD;
                j.nan_step = full ? SAVE - 1 : 0;
                j.rates = full;
                j.slices = i == 0;
                resumes(*state, j, 2);
            }
    job j =
        job_of("topk:density=0.05,exchange=star", "server", "adam:lr=0.01", "sync:combine=clipped");
    resumes(*state, j, 2);
    j.method = "topk:density=0.05,values=f32,exchange=star";
    j.mode = "sync"; /* one bucket is dropped, and others of its step are under way */
    j.overlap = TG_OVERLAP_FULL;
    j.huge_step = SAVE - 1;
    j.servers = 1;
    resumes(*state, j, 1);
    assert_true(members[0].skipped > 0);
}

/* What workers have of the parameters, where servers code what they send of them. */
static void coded_parameters(void **state)
{
    static const char *const methods[] = {
        "topk:density=0.05,exchange=twoway", "dgc:density=0.05,warmup=2,exchange=twoway",
        "2bit:threshold=auto,exchange=twoway", "int8:exchange=twoway"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (int nan = 0; nan <= SAVE; nan += nan == 0 ? SAVE - 1 : 1) {
            if (tsan_skips(i, nan == 0 ? 0 : (size_t)nan - SAVE + 2, 3))
                continue;
            job j = job_of(methods[i], "server", SGD, "sync");
            j.nan_step = nan;
            j.rates = (int)i % 3;
            j.overlap = nan == 0 ? TG_OVERLAP_BACKWARD : TG_OVERLAP_FULL;
            resumes(*state, j, 2);
        }
}

/* Servers take their elements of what others had: where bits do not depend on how vectors are cut,
 * they are those of the run that was not stopped. */
static void other_servers(void **state)
{
    static const struct {
        const char *method, *strategy, *optimizer, *mode;
    } all[] = {{"2bit:threshold=0.25,exchange=twoway", "ssgd", SGD, "sum"},
               {"fp16:feedback=residual,exchange=twoway", "ssgd", SGD, "sum"},
               {"dense:exchange=star", "ssgd", SGD, "sum:combine=clipped,tau=1e6"},
               {"2bit:threshold=0.25,exchange=star", "server", "adam:lr=0.01", "sync"},
               {"dense:exchange=star", "server", "adamw:lr=0.01", "sync"},
               {"fp16:feedback=residual,exchange=twoway", "server", SGD, "sync"}};
    static const int change[][2] = {{1, 2}, {2, 1}, {2, 3}, {3, 2}, {2, 5}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t c = 0; c < sizeof change / sizeof *change; c++) {
            if (tsan_skips(i, c, sizeof change / sizeof *change))
                continue;
            job j = job_of(all[i].method, all[i].strategy, all[i].optimizer, all[i].mode);
            j.servers = change[c][0];
            j.nan_step = SAVE - 1;
            j.slices = c % 2 == 0;
            resumes(*state, j, change[c][1]);
        }
}

/* Other ranks go on with what the servers had: if all have the same gradient, the bits are those of
 * any number of ranks. */
static void other_ranks(void **state)
{
    static const char *const pairs[][2] = {{"topk:density=0.05,exchange=twoway", "ssgd"},
                                           {"dense:exchange=star", "server"}};
    for (size_t i = 0; i < 2; i++) {
        job j = job_of(pairs[i][0], pairs[i][1], SGD, i == 0 ? "sum" : "sync");
        clear(*state);
        j.save_dir = *state;
        (void)hash_of(&j);
        j.save_dir = NULL;
        j.load_dir = *state;
        j.ranks = 2;
        (void)hash_of(&j);
        j.ranks = 4;
        j.servers = 1;
        (void)hash_of(&j);
        assert_string_equal(members[0].anew, "");
    }
}

/* ---- steps one by one ------------------------------------------------------------------------ */

static void check_tokens(const job *j, int steps)
{
    for (int r = 0; r < j->ranks; r++) {
        if (members[r].status != TG_OK)
            fail_msg("%s, rank %d: %s", j->mode, r, members[r].error);
        for (int e = 0; e < j->ranks * STEPS; e++)
            if (members[r].w[e] != (e % STEPS < steps ? -1 : 0))
                fail_msg("%s, rank %d: token %d: %g", j->mode, r, e, (double)members[r].w[e]);
    }
}

/* Where servers apply each gradient as it comes, a checkpoint is that of the moment in which all
 * ranks have made the same number of steps: it has each token once, and so has the resumed run. */
static void tokens_are_kept(void **state)
{
    static const struct {
        const char *mode, *method;
    } all[] = {{"async", "dense:exchange=star"},
               {"async:staleness=1", "topk:density=1,values=f32,exchange=star"},
               {"async:staleness=1", "topk:density=1,values=f32,exchange=twoway"},
               {"async:staleness=3,compensate=0.1", "dense:exchange=star"},
               {"async:compensate=0.1", "topk:density=1,values=f32,exchange=twoway"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int servers = 1; servers <= 2; servers++) {
            job j = job_of(all[i].method, "server", "sgd:lr=1", all[i].mode);
            clear(*state);
            j.spends = true;
            j.servers = servers;
            j.save_dir = *state;
            run(&j);
            check_tokens(&j, SAVE);
            j.load_dir = *state;
            j.save_dir = NULL;
            j.servers = 3 - servers;
            run(&j);
            check_tokens(&j, STEPS);
        }
}

/* A rank alone. */
static void one_rank_in_async(void **state)
{
    static const char *const modes[] = {"async", "async:staleness=2,compensate=0.5"};
    for (int i = 0; i < 2; i++) {
        job j = job_of(i == 0 ? "dense:exchange=star" : "topk:density=0.05,exchange=star", "server",
                       i == 0 ? "adam:lr=0.01" : SGD, modes[i]);
        j.ranks = 1;
        resumes(*state, j, 2);
    }
}

/* When a job is saved, all get the parameters of that moment, also where answers are coded: then
 * the run that resumes goes on like the one that saves. */
static void coded_in_async(void **state)
{
    static const char *const methods[] = {
        "topk:density=0.05,exchange=twoway", "dgc:density=0.05,warmup=2,exchange=twoway",
        "2bit:threshold=auto,exchange=twoway", "int8:exchange=twoway"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        job j = job_of(methods[i], "server", SGD, i == 0 ? "async:compensate=0.5" : "async");
        j.ranks = 1;
        clear(*state);
        j.save_dir = *state;
        const uint64_t hash = hash_of(&j);
        j.save_dir = NULL;
        j.load_dir = *state;
        has_bits(&j, hash, "after resuming");
    }
}

/* What workers had of the parameters, where all had the same, does not matter where each has
 * something of its own. */
static void modes_follow(void **state)
{
    for (int i = 0; i < 2; i++) {
        job j = job_of("topk:density=1,values=f32,exchange=twoway", "server", "sgd:lr=1",
                       i == 0 ? "sync" : "async");
        j.ranks = 1;
        j.spends = true;
        clear(*state);
        j.save_dir = *state;
        run(&j);
        check_tokens(&j, SAVE);
        j.load_dir = *state;
        j.save_dir = NULL;
        j.mode = i == 0 ? "async" : "sync";
        run(&j);
        check_tokens(&j, STEPS);
    }
}

/* ---- refused --------------------------------------------------------------------------------- */

static void refused(const job *j, tg_status status, const char *part)
{
    run(j);
    for (int r = 0; r < j->ranks; r++)
        if (members[r].status != status || strstr(members[r].error, part) == NULL)
            fail_msg("%s, rank %d: %s: %s; expected %s: %s", j->mode, r,
                     tg_status_name(members[r].status), members[r].error, tg_status_name(status),
                     part);
}

static void what_is_refused(void **state)
{
    job j = job_of("dense:exchange=star", "server", SGD, "sync");
    clear(*state);
    j.save_dir = *state;
    j.deadline_ms = 10000;
    refused(&j, TG_E_UNSUPPORTED, "servers with a deadline cannot be saved");
    j.deadline_ms = 0;
    (void)hash_of(&j);
    j.save_dir = NULL;
    j.load_dir = *state;
    j.servers_optimizer = "sgd:lr=0.01,momentum=0.5";
    refused(&j, TG_E_MISMATCH, "momentum=0.9");
    j.servers_optimizer = "sgd:lr=1,momentum=0.9"; /* the rate is the ranks' */
    (void)hash_of(&j);
    j.deadline_ms = 10000;
    refused(&j, TG_E_UNSUPPORTED, "servers with a deadline cannot be saved");
}

static int make_dir(void **state)
{
    static char dir[] = "/tmp/keeping_test_XXXXXX";
    *state = mkdtemp(dir);
    return *state == NULL;
}

static int remove_dir(void **state)
{
    clear(*state);
    for (int r = 0; r < MOST; r++)
        free(image[r].bytes);
    return rmdir(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residuals_are_kept), cmocka_unit_test(strategies_and_nodes),
        cmocka_unit_test(centers_are_kept),   cmocka_unit_test(optimizers_are_kept),
        cmocka_unit_test(coded_parameters),   cmocka_unit_test(other_servers),
        cmocka_unit_test(other_ranks),        cmocka_unit_test(tokens_are_kept),
        cmocka_unit_test(one_rank_in_async),  cmocka_unit_test(coded_in_async),
        cmocka_unit_test(modes_follow),       cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
