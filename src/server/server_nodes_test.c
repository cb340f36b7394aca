/* With nodes, their leaders alone send gradients to servers. The bits are those of nodes without
 * servers, with every method; servers may keep the parameters, too. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "drawn_member.h"
#include "served_ranks.h"
#include "telegrad/registry.h"
#include <stdlib.h>
#include <string.h>

enum { P = 4, NODES = 2, STEPS = 6 };
static const int nodes[P] = {7, 7, 2, 2}, one[P] = {0, 0, 0, 0}, uneven[P] = {0, 1, 1, 0},
                 negative[P] = {0, 0, -1, 1};

typedef struct job {
    char method[128];
    const char *strategy, *mode;
    const int *nodes;
    int servers;
} job;

static void be_member(tg_transport *t, void *arg)
{
    member *m = (member *)arg + t->rank;
    m->nodes = m->job->nodes;
    member_train(m, t, STEPS, m->job->method, m->job->strategy, "sgd:lr=0.01,momentum=0.9");
}

/* Returns whether the combination exists; then the hash, which all ranks must agree on. */
static bool run(const job *j, uint64_t *hash_p)
{
    char what[256];
    member *m = calloc(P, sizeof *m);
    served_job served = {.ranks = P,
                         .servers = j->servers,
                         .mode = j->mode,
                         .optimizer = j->mode ? "sgd:lr=0.01,momentum=0.9" : NULL,
                         .nodes = j->nodes,
                         .be_rank = be_member,
                         .arg = m};
    assert_non_null(m);
    for (int r = 0; r < P; r++)
        m[r].job = j;
    served_run(&served);
    snprintf(what, sizeof what, "%s, %s, %d servers", j->method, j->strategy, j->servers);
    const bool exists = members_agree(m, P, what);
    for (int s = 0; exists && s < j->servers; s++)
        if (served.server[s].status != TG_OK)
            fail_msg("%s, server %d: %s", what, s, served.server[s].error);
    *hash_p = m[0].hash;
    free(m);
    return exists;
}

static void spec_of(job *j, const char *method, const char *exchange)
{
    snprintf(j->method, sizeof j->method, "%s%cexchange=%s", method,
             strchr(method, ':') ? ',' : ':', exchange);
}

/* As in server_bits_test, which has no nodes. */
static int compare(const char *method, const int *of)
{
    uint64_t direct, whole, hash;
    job j = {.strategy = "ssgd", .nodes = of};
    spec_of(&j, method, "direct");
    const bool summed = run(&j, &direct);
    spec_of(&j, method, "allgather");
    if (!run(&j, &whole)) {
        if (!summed)
            return 0;
        whole = direct;
    }
    spec_of(&j, method, "star");
    for (j.servers = 1; j.servers <= NODES; j.servers++) {
        if (!run(&j, &hash))
            return 0;
        if ((j.servers == 1 && hash != whole) || (j.servers == NODES && summed && hash != direct) ||
            (summed && whole == direct && hash != whole))
            fail_msg("%s: other bits with %d servers", method, j.servers);
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
        done += compare(list[i]->name, nodes);
    assert_true(done >= 16);
    assert_int_equal(compare("dense", uneven) + compare("2bit:threshold=0.25", uneven), 2);
}

/* Servers that keep the parameters make the steps that ranks would make. With a single node its
 * gradients come one after the other, so async is sync. */
static void parameters_of_servers(void **state)
{
    static const struct {
        const char *mode;
        const int *nodes;
    } same[] = {{"sync", nodes}, {"async:staleness=0", nodes}, {"sync", uneven}, {"sync", one},
                {"async", one},  {"async:staleness=2", one}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(same); i++) {
        uint64_t expected, hash;
        job j = {.strategy = "ssgd", .nodes = same[i].nodes};
        spec_of(&j, "dense", "direct");
        assert_true(run(&j, &expected));
        j.strategy = "server";
        j.mode = same[i].mode;
        spec_of(&j, "dense", "star");
        for (j.servers = 1; j.servers <= 2; j.servers++)
            if (!run(&j, &hash) || hash != expected)
                fail_msg("%s, %d servers: other bits", j.mode, j.servers);
    }
}

/* Each node makes its own steps, and its ranks have the same parameters. */
static void nodes_one_by_one(void **state)
{
    (void)state;
    member *m = calloc(P, sizeof *m);
    const job j = {.method = "dense:exchange=star", .strategy = "server", .nodes = nodes};
    served_job served = {.ranks = P,
                         .servers = 1,
                         .mode = "async",
                         .optimizer = "sgd:lr=0.01",
                         .nodes = nodes,
                         .be_rank = be_member,
                         .arg = m};
    assert_non_null(m);
    for (int r = 0; r < P; r++)
        m[r].job = &j;
    served_run(&served);
    for (int r = 0; r < P; r++)
        if (m[r].status != TG_OK)
            fail_msg("rank %d: %s", r, m[r].error);
    assert_true(m[0].hash == m[1].hash && m[2].hash == m[3].hash);
    assert_int_equal(served.server[0].status, TG_OK);
    /* the offers of two leaders, and their gradients */
    assert_int_equal(served.server[0].stats.elements, (uint64_t)MEMBER_N * (2 + 2 * STEPS));
    free(m);
}

static void refused(void **state)
{
    static const struct {
        const char *mode;
        int64_t deadline_ms;
        const int *nodes;
        const char *says;
    } no[] = {{"sync", 100, nodes, "nodes and deadline_ms cannot be combined"},
              {"sync:combine=median", 0, nodes, "allowed: combine=mean"},
              {"sync", 0, negative, "nodes[2]=-1"}};
    tg_transport *t[P + 1];
    tg_server *s;
    (void)state;
    assert_int_equal(tg_transport_inproc(P + 1, t), TG_OK);
    for (size_t i = 0; i < TG_COUNT(no); i++) {
        const tg_server_config config = {.struct_size = sizeof config,
                                         .mode = no[i].mode,
                                         .optimizer = "sgd:lr=0.1",
                                         .deadline_ms = no[i].deadline_ms,
                                         .nodes = no[i].nodes};
        assert_int_not_equal(tg_server_create(t[P], 1, &config, &s), TG_OK);
        if (strstr(tg_error(), no[i].says) == NULL)
            fail_msg("%s", tg_error());
    }
    for (int r = 0; r <= P; r++)
        tg_transport_destroy(t[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method),
        cmocka_unit_test(parameters_of_servers),
        cmocka_unit_test(nodes_one_by_one),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
