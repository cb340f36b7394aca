/* Rules: which tensors they match, sessions that mix methods, limits, refusals, the plan. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session/rules.h"
#include "comma_locale.h"
#include "session_fixture.h"
#include "telegrad/server.h"
#include "telegrad/spec.h"
#include <unistd.h>

static fixture_result result[8];

static void first_match_wins(void **state)
{
    (void)state;
    static const char *const text[] = {"*.bias=f32", "conv*=topk:density=0.1", "fc.?eight=dense",
                                       "[a-m]*=topk:density=0.1"};
    static const struct {
        const char *name, *method;
        size_t rule, same;
    } cases[] = {{"conv.bias", "dense:exchange=direct", 0, 0},
                 {"conv.weight", NULL, 1, 1},
                 {"fc.weight", "dense:exchange=direct", 2, 0},
                 {"layer", NULL, 3, 1},
                 {"norm", NULL, 4, 4}};
    tg__rules r;
    assert_int_equal(tg__rules_init(&r, text, 4, "2bit"), TG_OK);
    for (size_t i = 0; i < 5; i++) {
        size_t found = tg__rules_find(&r, cases[i].name);
        assert_int_equal(found, cases[i].rule);
        assert_int_equal(r.rule[found].same, cases[i].same);
        if (cases[i].method != NULL)
            assert_string_equal(tg_spec_text(r.rule[found].spec), cases[i].method);
    }
    tg__rules_free(&r);
}

/* "\xc3\xa9" is one letter in a UTF-8 locale. All ranks must agree, so it is two bytes in any. */
static void bytes_in_any_locale(void **state)
{
    (void)state;
    static const char *const text[] = {"w?=f32", "w[!a]?=fp16", "[[:alpha:]]x=2bit"};
    static const char *const name[] = {"w\xc3\xa9", "wa"};
    tg__rules r;
    assert_int_equal(tg__rules_init(&r, text, 3, "topk"), TG_OK);
    for (int commas = 0; commas < 2; commas++) {
        if (commas && !comma_locale_enter())
            skip();
        assert_int_equal(tg__rules_find(&r, name[0]), 1);
        assert_int_equal(tg__rules_find(&r, name[1]), 0);
        assert_int_equal(tg__rules_find(&r, "ax"), 2);
        assert_int_equal(tg__rules_find(&r, "\xc3\xa9x"), 3);
        assert_int_equal(tg__rules_all_used(&r, name, 1), TG_E_SPEC);
        assert_string_equal(tg_error(),
                            "the rule for \"w?\" matches no tensor: there are w\xc3\xa9");
    }
    comma_locale_leave();
    tg__rules_free(&r);
}

static void run(const fixture_job *job)
{
    fixture_run(job, result);
    for (int r = 0; r < job->world; r++) {
        if (result[r].status != TG_OK)
            fail_msg("%s, %s, rank %d: %s", job->method, job->strategy, r, result[r].error);
        assert_memory_equal(result[r].w, result[0].w, sizeof result[0].w);
    }
}

/* A mixture: all ranks have the same bits, with every strategy, repeated and inline, and resumed in
 * the middle. */
static void mixtures(void **state)
{
    (void)state;
    static const char *const rules[][2] = {{"*.bias=f32", "conv*=2bit:threshold=0.25"},
                                           {"*.bias=dgc:density=0.5,warmup=3", "fc*=fp16"},
                                           {"fc.bias=dense:exchange=ring", "*.weight=atomo:rank=2"},
                                           {"conv.bias=randomk:density=0.3", "fc*=dgc:warmup=0"}};
    static const char *const strategies[] = {"ssgd", "cd:k=3,warmup=2,local=preview"};
    char dir[] = "/tmp/telegrad-rules-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < 8; i++) {
        fixture_job job = fixture_defaults();
        job.method = "dgc:density=0.1,warmup=4";
        job.strategy = strategies[i % 2];
        job.optimizer = "sgd:lr=0.125,momentum=0.5,weight_decay=0.01";
        job.rules = rules[i / 2];
        job.nrules = 2;
        job.world = 3;
        job.nan_rank = 1;
        job.nan_step = 5;
        run(&job);
        uint64_t hash = result[0].hash;
        job.driver = TG_DRIVER_INLINE;
        job.adjacent = true;
        run(&job);
        assert_true(result[0].hash == hash);
        job.save_dir = dir;
        job.save_at = 7;
        run(&job);
        assert_true(result[0].hash == hash);
        job.save_dir = NULL;
        job.load_dir = dir;
        run(&job);
        assert_true(result[0].hash == hash);
        job.rules = rules[(i / 2 + 1) % 4];
        fixture_run(&job, result);
        assert_int_equal(result[0].status, TG_E_MISMATCH);
        assert_non_null(strstr(result[0].error, "rule"));
        snprintf(command, sizeof command, "rm -r %s/*", dir);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* A rule that gives all or some tensors the session's own method changes no bit; for methods that
 * work element by element, neither do other buckets. */
static void no_rule(void **state)
{
    (void)state;
    static const struct {
        const char *method, *rules[3]; /* the last one makes other buckets */
    } cases[] = {
        {"topk:density=0.1", {"*=topk:density=0.1", "*.bias=topk:density=0.1"}},
        {"dense", {"*=f32", "*.bias=f32", "*.bias=dense:exchange=allgather"}},
        {"fp16", {"*=fp16", "*.bias=fp16", "*.bias=fp16:exchange=direct"}},
        {"2bit:threshold=0.25",
         {"*=2bit:threshold=0.25", "f*=2bit:threshold=0.25",
          "*.bias=2bit:threshold=0.25,exchange=direct"}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fixture_job job = fixture_defaults();
        job.method = cases[c].method;
        job.optimizer = "sgd:lr=0.25,momentum=0.5,weight_decay=0.01";
        job.world = 3;
        run(&job);
        uint64_t hash = result[0].hash;
        job.nrules = 1;
        for (size_t i = 0; i < 3 && cases[c].rules[i] != NULL; i++) {
            job.rules = &cases[c].rules[i];
            run(&job);
            assert_true(result[0].hash == hash);
        }
        job.method = "bf16"; /* matches no tensor */
        job.rules = &cases[c].rules[0];
        run(&job);
        assert_true(result[0].hash == hash);
    }
}

/* The momentum is the method's for some tensors and the optimizer's for others. If both are
 * momentum SGD (density 1, no masking), the result is momentum SGD for all. The same holds for
 * weight decay. */
static void momentum_is_per_tensor(void **state)
{
    (void)state;
    static const char *const dgc = "dgc:density=1,warmup=0,values=f32,masking=no",
                             *const dense_biases[] = {"*.bias=f32"},
                             *const dgc_biases[] = {
                                 "*.bias=dgc:density=1,warmup=0,values=f32,masking=no"};
    fixture_job job = fixture_defaults();
    job.optimizer = "sgd:lr=0.25,momentum=0.5,weight_decay=0.0625";
    run(&job);
    uint64_t hash = result[0].hash;
    job.nrules = 1;
    job.rules = dgc_biases;
    run(&job);
    assert_true(result[0].hash == hash);
    job.method = dgc;
    job.rules = dense_biases;
    run(&job);
    assert_true(result[0].hash == hash);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *method, *rules[2], *optimizer;
        tg_status status;
        const char *say[3];
    } cases[] = {
        {"dense", {"*.bias"}, NULL, TG_E_SPEC, {"*.bias", "PATTERN=METHOD"}},
        {"dense", {"=f32"}, NULL, TG_E_SPEC, {"PATTERN=METHOD"}},
        {"dense", {"*="}, NULL, TG_E_SPEC, {"PATTERN=METHOD"}},
        {"dense", {"*=gzip"}, NULL, TG_E_SPEC, {"*=gzip", "topk"}},
        {"dense", {"*=topk:density=2"}, NULL, TG_E_SPEC, {"density=2"}},
        {"dense",
         {"*.scale=fp16"},
         NULL,
         TG_E_SPEC,
         {"*.scale", "no tensor", "conv.weight, conv.bias"}},
        {"dense", {"fc*=fp16", "fc.bias=2bit"}, NULL, TG_E_SPEC, {"fc.bias", "before it"}},
        {"dense", {"*.bias=fp16:exchange=none"}, NULL, TG_E_SPEC, {"exchange=none", "*.bias"}},
        {"fp16:exchange=none", {"*.bias=f32"}, NULL, TG_E_SPEC, {"exchange=none"}},
        {"dense",
         {"*.bias=dgc:momentum=0.5"},
         "sgd:lr=1,momentum=0.9",
         TG_E_SPEC,
         {"momentum=0.5"}},
        {"dense", {"*.bias=atomo:exchange=direct"}, NULL, TG_E_SPEC, {"allgather"}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fixture_job job = fixture_defaults();
        job.method = cases[c].method;
        job.rules = cases[c].rules;
        job.nrules = cases[c].rules[1] == NULL ? 1 : 2;
        if (cases[c].optimizer != NULL)
            job.optimizer = cases[c].optimizer;
        fixture_run(&job, result);
        if (result[0].status != cases[c].status)
            fail_msg("case %zu: status %d: %s", c, result[0].status, result[0].error);
        for (size_t i = 0; i < 3 && cases[c].say[i] != NULL; i++)
            if (strstr(result[0].error, cases[c].say[i]) == NULL)
                fail_msg("case %zu says \"%s\" without \"%s\"", c, result[0].error,
                         cases[c].say[i]);
    }
}

/* A configuration that counts rules and has none. */
static void rules_missing(void **state)
{
    (void)state;
    tg__rules r = {0};
    const char *const empty[] = {"*=f32", ""};
    assert_int_equal(tg__rules_init(&r, empty, 2, "dense"), TG_E_SPEC);
    tg__rules_free(&r);
    assert_int_equal(tg__rules_init(&r, NULL, 0, "nosuch"), TG_E_SPEC);
    tg__rules_free(&r);
}

static void ranks_must_agree(void **state)
{
    (void)state;
    static const char *const rules[] = {"*.bias=f32"}, *const odd[] = {"*.bias=fp16"};
    fixture_job job = fixture_defaults();
    job.method = "2bit";
    job.world = 3;
    job.rules = rules;
    job.odd_rules = odd;
    job.odd_rank = 2;
    job.nrules = 1;
    fixture_run(&job, result);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(result[r].status, TG_E_MISMATCH);
        assert_non_null(strstr(result[r].error, "rule=*.bias=fp16"));
        assert_non_null(strstr(result[r].error, "rank 2"));
    }
}

/* ---- the plan -------------------------------------------------------------------------------- */

typedef struct listing {
    size_t count;
    double bytes[FIXTURE_TENSORS];
    char text[1000];
} listing;

static tg_status each(void *arg, const tg_plan_tensor *t)
{
    listing *l = arg;
    assert_int_equal(t->struct_size, sizeof *t);
    size_t at = strlen(l->text);
    snprintf(l->text + at, sizeof l->text - at, "%s %zux%zu %zu %s %u %s\n", t->name, t->shape[0],
             t->ndim > 1 ? t->shape[1] : 1, t->n, t->rule == NULL ? "-" : t->rule, t->bucket,
             t->method);
    l->bytes[l->count++] = t->bytes;
    return TG_OK;
}

static tg_status stop_at_once(void *arg, const tg_plan_tensor *t)
{
    (void)t;
    ++*(int *)arg;
    return TG_E_IO;
}

static void the_plan(void **state)
{
    (void)state;
    static const char *const rules[] = {"*.bias=f32", "conv*=fp16"};
    static const size_t offset[] = {0, 512, 544, 896};
    static float w[FIXTURE_N], g[1024];
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "topk:density=0.1,index=raw,warmup=100",
                                      .rules = rules,
                                      .nrules = 2};
    tg_transport *t;
    tg_session *s;
    uint32_t id[FIXTURE_TENSORS];
    listing l = {0};
    int calls = 0;
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    assert_int_equal(fixture_add_tensors(s, w, g, offset, id), TG_OK);
    assert_int_equal(tg_session_plan(s, each, &l), TG_E_STATE);
    assert_int_equal(tg_session_begin(s), TG_OK);
    assert_int_equal(tg_session_plan(s, NULL, &l), TG_E_ARG);
    assert_int_equal(tg_session_plan(s, stop_at_once, &calls), TG_E_IO);
    assert_int_equal(calls, 1);
    assert_int_equal(tg_session_plan(s, each, &l), TG_OK);
    assert_string_equal(
        l.text, "conv.weight 20x25 500 conv* 0 fp16:feedback=none,rescale=no,exchange=allgather\n"
                "conv.bias 20x1 20 *.bias 1 dense:exchange=direct\n"
                "fc.weight 9x37 333 - 2 topk:density=0.1,warmup=100,scope=bucket,values=fp16,"
                "index=raw,select=exact,lookahead=auto,feedback=residual,rescale=no,"
                "exchange=allgather\n"
                "fc.bias 7x1 7 *.bias 1 dense:exchange=direct\n");
    assert_true(l.bytes[0] == 48 + 12 + 1000);
    assert_true(fabs(l.bytes[1] + l.bytes[3] - (48 + 12 + 4 * 27)) < 1e-9);
    assert_true(l.bytes[1] > l.bytes[3]);
    assert_true(l.bytes[2] == 48 + 12 + 4 + 33 * 6);
    tg_session_destroy(s);
    tg_transport_destroy(t);
}

static tg_status add_up(void *arg, const tg_plan_tensor *t)
{
    *(double *)arg += t->bytes;
    return TG_OK;
}

/* What the method would send, by way of no server or of one that does not run. */
static double planned_bytes(const char *method, bool served)
{
    static const size_t offset[] = {0, 512, 544, 896};
    static float w[FIXTURE_N], g[1024];
    const tg_session_config config = {.struct_size = sizeof config, .method = method};
    tg_transport *t[2] = {NULL};
    tg_session *s;
    uint32_t id[FIXTURE_TENSORS];
    double bytes = 0;
    assert_int_equal(tg_transport_inproc(served ? 2 : 1, t), TG_OK);
    if (served)
        assert_int_equal(tg_transport_worker(t[0], 1, &t[0]), TG_OK);
    assert_int_equal(tg_session_create(&config, t[0], &s), TG_OK);
    assert_int_equal(fixture_add_tensors(s, w, g, offset, id), TG_OK);
    assert_int_equal(tg_session_begin(s), TG_OK);
    assert_int_equal(tg_session_plan(s, add_up, &bytes), TG_OK);
    tg_session_destroy(s);
    tg_transport_destroy(t[0]);
    tg_transport_destroy(t[1]);
    return bytes;
}

static void the_plan_with_servers(void **state)
{
    (void)state;
    const double dense = planned_bytes("dense:exchange=allgather", false);
    const double few = planned_bytes("topk:density=0.1", false);
    assert_true(few > 0 && few < dense / 4);
    assert_true(planned_bytes("dense:exchange=star", true) == dense);
    assert_true(planned_bytes("topk:density=0.1,exchange=star", true) == few);
    assert_true(planned_bytes("topk:density=0.1,exchange=twoway", true) == few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_match_wins),
        cmocka_unit_test(bytes_in_any_locale),
        cmocka_unit_test(mixtures),
        cmocka_unit_test(no_rule),
        cmocka_unit_test(momentum_is_per_tensor),
        cmocka_unit_test(refusals),
        cmocka_unit_test(rules_missing),
        cmocka_unit_test(ranks_must_agree),
        cmocka_unit_test(the_plan),
        cmocka_unit_test(the_plan_with_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
