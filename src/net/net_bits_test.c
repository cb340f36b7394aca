/* A job over TCP has the bits of the same job in one process, with every method and strategy. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_ranks.h"
#include "two_tensors.h"
#include <math.h>
#include <stdlib.h>

enum { P = 3, STEPS = 4, ROWS = 40, COLS = 50, REST = 3001, N = ROWS * COLS + REST };

typedef struct job {
    const char *method, *strategy;
    bool secure, over_tcp;
} job;

typedef struct member {
    const job *job;
    tg_transport *t;
    uint64_t hash;
    tg_status status;
    char error[400];
    float w[N], g[N];
} member;

static void draw(void *arg, int step)
{
    member *m = arg;
    const tg_rng_key key = {.seed = 9,
                            .purpose = TG_PURPOSE_TEST,
                            .rank = (uint32_t)m->t->rank,
                            .step = (uint64_t)step};
    for (size_t i = 0; i < N; i++)
        m->g[i] = (float)(tg_rng_uniform(&key, i) - 0.5);
}

static void *be_member(void *arg)
{
    member *m = arg;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = m->job->method,
                                      .strategy = m->job->strategy,
                                      .optimizer = "sgd:lr=0.01",
                                      .steps_per_epoch = 2,
                                      .bucket_bytes = 8000};
    const two_tensors two = {ROWS, COLS, REST, STEPS, m->w, m->g, draw, m};
    m->status = two_tensors_train(&two, &config, m->t, &m->hash);
    if (m->status != TG_OK)
        snprintf(m->error, sizeof m->error, "%s", tg_error());
    tg_transport_destroy(m->t);
    return NULL;
}

/* Returns whether the combination exists; then the hash, which all ranks must agree on. */
static bool run(const job *j, uint64_t *hash_p)
{
    tg_transport *t[P];
    member *m = calloc(P, sizeof *m);
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
        m[r].t = t[r];
        assert_int_equal(pthread_create(&thread[r], NULL, be_member, &m[r]), 0);
    }
    for (int r = 0; r < P; r++)
        pthread_join(thread[r], NULL);
    const bool exists = m[0].status != TG_E_SPEC && m[0].status != TG_E_UNSUPPORTED;
    for (int r = 0; exists && r < P; r++)
        if (m[r].status != TG_OK || m[r].hash != m[0].hash)
            fail_msg("%s, %s%s, rank %d: %s", j->method, j->strategy, j->over_tcp ? ", tcp" : "", r,
                     m[r].status == TG_OK ? "other bits" : m[r].error);
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
