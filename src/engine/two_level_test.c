/* Two levels with the one-call reducer: long vectors (several slices), the order of sums, values
 * that are not finite, and a link so slow that leaders wait longer than one timeout. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange/nodes.h"
#include "telegrad/clock.h"
#include "telegrad/reducer.h"
#include "telegrad/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { P = 5, LONG = 700001 }; /* 6 slices */

static const int three[P] = {0, 1, 0, 2, 1};

typedef struct rank {
    tg_transport *t;
    const char *method;
    size_t n;
    const int *nodes;
    int steps, bad_rank; /* the rank whose gradient is `bad` in step 0; -1: none */
    float bad;
    unsigned huge_ranks; /* one bit per rank: its first element is 3e38 in step 0 */
    int64_t timeout_ms;
    tg_status first, last; /* of step 0, of the last step */
    char error[512];       /* of the last failure */
    float *mean;
    tg_clock_thread *thread;
} rank;

static rank ranks[P];

static void gradient(const rank *r, int of, int step, float *g)
{
    const tg_rng_key key = {
        .seed = 2, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)of, .step = (uint64_t)step};
    for (size_t i = 0; i < r->n; i++)
        g[i] = (float)tg_rng_normal(&key, i);
    if (step == 0 && of == r->bad_rank)
        g[r->n / 2] = r->bad;
    if (step == 0 && r->huge_ranks >> of & 1)
        g[0] = 3e38f;
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    tg_reducer *reducer = NULL;
    const tg_reducer_config config = {
        .struct_size = sizeof config, .seed = 3, .timeout_ms = r->timeout_ms, .nodes = r->nodes};
    float *g = malloc(r->n * sizeof *g);
    r->last = tg_reducer_create(r->method, r->t, r->n, &config, &reducer);
    for (int s = 0; s < r->steps && (r->last == TG_OK || r->last == TG_E_NONFINITE); s++) {
        gradient(r, r->t->rank, s, g);
        r->last = tg_reducer_mean(reducer, g, r->mean);
        if (s == 0)
            r->first = r->last;
        if (r->last != TG_OK)
            snprintf(r->error, sizeof r->error, "%s", tg_error());
    }
    if (reducer == NULL)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_reducer_destroy(reducer);
    tg_transport_destroy(r->t);
    free(g);
    return NULL;
}

static rank defaults(const char *method, size_t n)
{
    return (rank){
        .method = method, .n = n, .nodes = three, .steps = 1, .bad_rank = -1, .timeout_ms = 20000};
}

/* On this clock; a virtual clock is not slowed by a busy machine. */
static void run_by(const tg_clock *clock, const rank *like, int size, const char *link)
{
    tg_transport *t[P];
    tg_link parsed;
    assert_int_equal(tg_transport_inproc_clock(size, clock, t), TG_OK);
    for (int i = 0; i < size; i++) {
        float *mean = ranks[i].mean;
        if (link != NULL) {
            assert_int_equal(tg_link_parse(link, &parsed), TG_OK);
            assert_int_equal(tg_transport_shaped_nodes(t[i], &parsed, like->nodes, &t[i]), TG_OK);
        }
        ranks[i] = *like;
        ranks[i].t = t[i];
        ranks[i].mean = mean;
    }
    assert_int_equal(tg_clock_enter(clock, 2 * P), TG_OK); /* until all are there */
    for (int i = 0; i < size; i++)
        assert_int_equal(tg_clock_thread_start(clock, 2 * (uint64_t)i, "rank", run_rank, &ranks[i],
                                               &ranks[i].thread),
                         TG_OK);
    tg_clock_leave(clock);
    for (int i = 0; i < size; i++)
        tg_clock_thread_join(clock, ranks[i].thread);
}

static void run(const rank *like, int size, const char *link)
{
    run_by(tg_clock_monotonic(), like, size, link);
}

static void all_ok(int size)
{
    for (int i = 0; i < size; i++) {
        if (ranks[i].last != TG_OK)
            fail_msg("%s, rank %d: %s", ranks[i].method, i, ranks[i].error);
        assert_memory_equal(ranks[i].mean, ranks[0].mean, ranks[0].n * sizeof(float));
    }
}

/* The mean, summed as in two levels. */
static void want(const rank *r, float *mean, float *one, float *sum)
{
    memset(mean, 0, r->n * sizeof *mean);
    for (int node = 0; node < 3; node++) {
        bool any = false;
        for (int of = 0; of < P; of++) {
            if (three[of] != node)
                continue;
            gradient(r, of, r->steps - 1, one);
            for (size_t i = 0; i < r->n; i++)
                sum[i] = any ? sum[i] + one[i] : one[i];
            any = true;
        }
        for (size_t i = 0; i < r->n; i++) {
            volatile float product = sum[i] * (3.0f / 5.0f); /* no fused multiply-add */
            mean[i] += product;
        }
    }
    for (size_t i = 0; i < r->n; i++)
        mean[i] *= 1.0f / 3.0f;
}

static void test_long_vectors(void **state)
{
    (void)state;
    float *mean = malloc(LONG * sizeof *mean), *one = malloc(LONG * sizeof *one),
          *sum = malloc(LONG * sizeof *sum);
    static const size_t lengths[] = {1, 17, LONG};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        rank like = defaults("dense", lengths[k]);
        like.steps = 2; /* so that buffers are reused */
        run(&like, P, NULL);
        all_ok(P);
        want(&like, mean, one, sum);
        assert_memory_equal(ranks[0].mean, mean, lengths[k] * sizeof *mean);
    }
    free(mean);
    free(one);
    free(sum);
}

/* All ranks are informed, and the next step is as if nothing had happened. */
static void test_not_finite(void **state)
{
    (void)state;
    for (int bad = 0; bad < P; bad++) {
        rank like = defaults("topk:density=0.01", 3000);
        like.steps = 2;
        like.bad_rank = bad;
        like.bad = bad % 2 == 0 ? NAN : INFINITY;
        run(&like, P, NULL);
        all_ok(P);
        for (int i = 0; i < P; i++)
            assert_int_equal(ranks[i].first, TG_E_NONFINITE);
    }
}

/* Finite gradients whose sum over a node is not finite: all ranks are informed, and the next step
 * is as if the gradient of one of that node's ranks had not been finite. */
static void test_sum_overflows(void **state)
{
    (void)state;
    static const char *const some[] = {"topk:density=0.01",
                                       "dense:exchange=ring",
                                       "terngrad",
                                       "1bit:twoway=yes",
                                       "dgc:density=0.01,warmup=0,exchange=gtopk",
                                       "randomk:density=0.1",
                                       "cltk:density=0.1",
                                       "csc:warmup=0",
                                       "fetchsgd:ratio=2,density=0.05",
                                       "efsign"};
    static const int one[P] = {0};
    float *mean = malloc(3000 * sizeof *mean);
    for (size_t m = 0; m < sizeof some / sizeof *some; m++)
        for (int node = 0; node < 3; node++) {
            rank like = defaults(some[m], 3000);
            like.steps = 2;
            like.nodes = node == 2 ? one : three;
            like.bad_rank = node % 2;
            like.bad = NAN;
            run(&like, P, NULL);
            all_ok(P);
            memcpy(mean, ranks[0].mean, 3000 * sizeof *mean);
            like.bad_rank = -1;
            like.huge_ranks = node == 0 ? 1u << 0 | 1u << 2 : node == 1 ? 1u << 1 | 1u << 4 : 31;
            run(&like, P, NULL);
            all_ok(P);
            assert_memory_equal(ranks[0].mean, mean, 3000 * sizeof *mean);
            for (int i = 0; i < P; i++) {
                assert_int_equal(ranks[i].first, TG_E_NONFINITE);
                assert_non_null(strstr(ranks[i].error, i == node % 2 ? "ranks of this rank's node"
                                                                     : "on another rank"));
            }
        }
    free(mean);
    static const int two[] = {0, 0, 0, 1, 1}; /* dropped anyway */
    rank like = defaults("topk:density=0.01", 3000);
    like.nodes = two;
    like.steps = 2;
    like.bad_rank = 1;
    like.bad = NAN;
    like.huge_ranks = 15;
    run(&like, P, NULL);
    all_ok(P);
}

/* An error that only leaders would meet is reported by all ranks. */
static void test_specs(void **state)
{
    (void)state;
    static const char *const bad[] = {"1bit:twoway=yes,exchange=allgather",
                                      "topk:feedback=none,exchange=reducescatter", "dgc:warmup=1ep",
                                      "blocktopk"};
    for (size_t m = 0; m < sizeof bad / sizeof *bad; m++) {
        rank like = defaults(bad[m], 100);
        run(&like, P, NULL);
        for (int i = 0; i < P; i++) {
            assert_int_equal(ranks[i].last, TG_E_SPEC);
            assert_string_equal(ranks[i].error, ranks[0].error);
        }
    }
}

/* Two delays between nodes, or all slices of a vector, take longer than the timeout, but each by
 * itself does not: ranks that only wait for their leader have more patience. */
static void test_patience(void **state)
{
    (void)state;
    static const int two[] = {0, 0, 1, 1};
    tg_clock *clock;
    assert_int_equal(tg_clock_virtual_create(INT64_C(1000000000), &clock), TG_OK);
    rank like = defaults("dense", 100);
    like.nodes = two;
    like.timeout_ms = 1400;
    run_by(clock, &like, 4, "900ms");
    all_ok(4);
    like = defaults("dense", LONG); /* 2.2 s, slice by slice */
    like.nodes = two;
    like.timeout_ms = 600;
    run_by(clock, &like, 4, "10mbit");
    all_ok(4);
    tg_clock_virtual_destroy(clock);
}

static double logged_mbit;

static void keep_rate(void *arg, tg_log_level level, const char *text)
{
    const char *at = strstr(text, " Mbit/s");
    (void)arg;
    (void)level;
    while (at != NULL && at > text && at[-1] != ' ')
        at--;
    logged_mbit = at == NULL ? 0 : strtod(at, NULL);
}

/* exchange=auto measures the link between the nodes. */
static void test_auto(void **state)
{
    (void)state;
    static const int two[] = {0, 0, 1, 1}; /* no rank has only far ranks as peers */
    rank like = defaults("topk:density=0.1,exchange=auto", 3000);
    like.nodes = two;
    tg_clock *clock;
    assert_int_equal(tg_clock_virtual_create(INT64_C(1000000000), &clock), TG_OK);
    tg_log_set(keep_rate, NULL);
    run_by(clock, &like, 4, "1mbit,5ms");
    tg_log_set(NULL, NULL);
    tg_clock_virtual_destroy(clock);
    all_ok(4);
    assert_true(logged_mbit > 0.6 && logged_mbit < 1.3);
}

static void test_nodes(void **state)
{
    (void)state;
    static const int of[] = {4, 9, 4, 4, 0, 0};
    static const int own[] = {3, 1, 2};
    static const int bad[] = {0, -5};
    tg__nodes *n = NULL;
    char *text = NULL;
    size_t len;
    assert_int_equal(tg__nodes_create("f", of, 2, 6, &n), TG_OK);
    assert_int_equal(n->count, 3);
    assert_int_equal(n->node, 0);
    assert_int_equal(n->index, 1);
    assert_int_equal(n->members, 3);
    assert_int_equal(n->member[2], 3);
    assert_int_equal(n->leader[1], 1);
    assert_int_equal(n->leader[2], 4);
    assert_true(n->near[0] && !n->near[1] && !n->near[5]);
    assert_false(n->equal);
    FILE *f = open_memstream(&text, &len);
    tg__nodes_print(n, false, f);
    tg__nodes_print(NULL, false, f);
    tg__nodes_print(n, true, f);
    fclose(f);
    assert_string_equal(text, "nodes=0x1 1x1 0x2 2x2\n"
                              "nodes=rank 0 on node 0, rank 1 on node 1, ranks 2-3 on node 0, "
                              "ranks 4-5 on node 2\n");
    free(text);
    tg__nodes_destroy(n);
    assert_int_equal(tg__nodes_create("f", own, 0, 3, &n), TG_OK); /* one level */
    assert_null(n);
    assert_int_equal(tg__nodes_create("f", NULL, 0, 3, &n), TG_OK);
    assert_null(n);
    assert_int_equal(tg__nodes_create("f", bad, 0, 2, &n), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "f: config->nodes[1]=-5: allowed: 0 and up"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_vectors),  cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_sum_overflows), cmocka_unit_test(test_patience),
        cmocka_unit_test(test_specs),         cmocka_unit_test(test_auto),
        cmocka_unit_test(test_nodes),
    };
    for (int i = 0; i < P; i++)
        ranks[i].mean = malloc(LONG * sizeof(float));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < P; i++)
        free(ranks[i].mean);
    return failed;
}
