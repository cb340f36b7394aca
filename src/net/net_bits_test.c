/* A job over TCP has the bits of the same job in one process, with every method and strategy. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "drawn_member.h"
#include "free_ports.h"
#include "net_ranks.h"
#include <math.h>
#include <stdlib.h>

enum { P = 3, STEPS = 4 };

typedef struct job {
    const char *method, *strategy;
    bool secure, over_tcp;
} job;

typedef struct place {
    member *member;
    tg_transport *t;
} place;

static void *be_member(void *one)
{
    const place *at = one;
    member *m = at->member;
    member_train(m, at->t, STEPS, m->job->method, m->job->strategy, "sgd:lr=0.01");
    tg_transport_destroy(at->t);
    return NULL;
}

/* Returns whether the combination exists; then the hash, which all ranks must agree on. */
static bool run(const job *j, uint64_t *hash_p)
{
    tg_transport *t[P];
    char what[256];
    member *m = calloc(P, sizeof *m);
    place at[P];
    pthread_t thread[P];
    assert_non_null(m);
    if (j->over_tcp) {
        net_job net;
        net_job_begin(&net, P, !j->secure);
        net_job_run(&net, net_rank_stays);
        net_job_check(&net);
        for (int r = 0; r < P; r++)
            t[r] = net.rank[r].t;
        net_job_end(&net); /* connections do not need the keys any more */
    } else
        assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int r = 0; r < P; r++) {
        m[r].job = j;
        at[r] = (place){&m[r], t[r]};
        assert_int_equal(pthread_create(&thread[r], NULL, be_member, &at[r]), 0);
    }
    for (int r = 0; r < P; r++)
        pthread_join(thread[r], NULL);
    snprintf(what, sizeof what, "%s, %s%s", j->method, j->strategy, j->over_tcp ? ", tcp" : "");
    const bool exists = members_agree(m, P, what);
    *hash_p = m[0].hash;
    free(m);
    return exists;
}

static int compare(const char *method, const char *strategy)
{
    static bool secure = false;
    uint64_t expected, hash;
    job j = {.method = method, .strategy = strategy};
    if (!run(&j, &expected))
        return 0;
    j.over_tcp = true;
    j.secure = secure = !secure; /* half of them with keys */
    assert_true(run(&j, &hash));
    if (hash != expected)
        fail_msg("%s, %s: other bits over TCP", method, strategy);
    return 1;
}

static void every_method(void **state)
{
    (void)state;
    size_t count;
    int done = 0;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_METHOD, &count);
    for (size_t i = 0; i < count; i++)
        done += compare(list[i]->name, "ssgd");
    assert_true(done >= 20);
}

static void every_strategy(void **state)
{
    (void)state;
    size_t count;
    int done = 0;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_STRATEGY, &count);
    for (size_t i = 0; i < count; i++)
        done += compare("dense", list[i]->name);
    assert_true(done >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method),
        cmocka_unit_test(every_strategy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
