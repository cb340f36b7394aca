/* A job with servers has the bits of one whose ranks sum among themselves, with every method and
 * strategy. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "drawn_member.h"
#include "served_ranks.h"
#include "telegrad/registry.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { P = 3, STEPS = 6 };

typedef struct job {
    char method[128];
    const char *strategy;
    int servers;
} job;

static void be_member(tg_transport *t, void *arg)
{
    member *m = (member *)arg + t->rank;
    member_train(m, t, STEPS, m->job->method, m->job->strategy, "sgd:lr=0.01");
}

/* Returns whether the combination exists; then the hash, which all ranks must agree on. */
static bool run(const job *j, uint64_t *hash_p)
{
    char what[256];
    member *m = calloc(P, sizeof *m);
    served_job served = {.ranks = P, .servers = j->servers, .be_rank = be_member, .arg = m};
    assert_non_null(m);
    for (int r = 0; r < P; r++)
        m[r].job = j;
    served_run(&served);
    snprintf(what, sizeof what, "%s, %s, %d servers", j->method, j->strategy, j->servers);
    const bool exists = members_agree(m, P, what);
    for (int s = 0; exists && s < j->servers; s++)
        if (served.server[s].status != TG_OK)
            fail_msg("%s, %s, server %d: %s", j->method, j->strategy, s, served.server[s].error);
    *hash_p = m[0].hash;
    free(m);
    return exists;
}

static void spec_of(job *j, const char *method, const char *exchange)
{
    snprintf(j->method, sizeof j->method, "%s%cexchange=%s", method,
             strchr(method, ':') ? ',' : ':', exchange);
}

/* Sums of frames that are cut alike are alike: one server's are those of whole frames, P servers'
 * those of direct. Where the cut makes no difference to a codec, neither does the number of
 * servers. */
static int compare(const char *method, const char *strategy, int most)
{
    uint64_t direct, whole, hash;
    job j = {.strategy = strategy};
    spec_of(&j, method, "direct");
    const bool summed = run(&j, &direct);
    spec_of(&j, method, "allgather");
    if (!run(&j, &whole)) {
        if (!summed)
            return 0;
        whole = direct;
    }
    spec_of(&j, method, "star");
    for (j.servers = 1; j.servers <= most; j.servers++) {
        if (!run(&j, &hash))
            return 0;
        if ((j.servers == 1 && hash != whole) || (j.servers == P && summed && hash != direct) ||
            (summed && whole == direct && hash != whole))
            fail_msg("%s, %s: other bits with %d servers", method, strategy, j.servers);
    }
    return 1;
}

static void every_method(void **state)
{
    (void)state;
    size_t count;
    int done = 0;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_METHOD, &count);
    for (size_t i = 0; i < count; i++)
        done += compare(list[i]->name, "ssgd", 3);
    assert_true(done >= 16);
}

static void every_strategy(void **state)
{
    (void)state;
    size_t count;
    int done = 0;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_STRATEGY, &count);
    for (size_t i = 0; i < count; i++)
        done +=
            compare("dense", list[i]->name, 2) + compare("2bit:threshold=0.25", list[i]->name, 1);
    assert_true(done >= 16);
}

/* S-SGD, OD-SGD, BIT-SGD and CD-SGD (arXiv:2106.10796) over servers, with warm-ups and dense steps
 * within the run. */
static void compared_by_cdsgd(void **state)
{
    static const char *const all[][2] = {
        {"dense", "ssgd"},
        {"dense", "od:warmup=1"},
        {"2bit:threshold=0.25", "ssgd"},
        {"2bit:threshold=0.25", "od:warmup=1"},
        {"2bit:threshold=0.25", "cd:k=0,warmup=1"},
        {"2bit:threshold=0.25", "cd:k=3,warmup=1"},
        {"2bit:threshold=0.25", "cd:k=3,warmup=1,average=updates"},
        {"2bit:threshold=0.25", "cd:k=2,warmup=2,local=dcasgd"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(compare(all[i][0], all[i][1], P), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method),
        cmocka_unit_test(every_strategy),
        cmocka_unit_test(compared_by_cdsgd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
