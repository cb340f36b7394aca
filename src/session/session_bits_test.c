/* The bits of every method, with one level and two, and of every strategy: the parameters' hash
 * after some steps must equal that of the list in tests/golden/golden_params_hashes.h. It is the
 * same at every instruction set level and on every machine. A change that is meant to change bits
 * must regenerate the list (session_bits_test --write FILE) and say so. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "session_fixture.h"

#include <inttypes.h>

typedef struct golden {
    const char *name;
    uint64_t hash;
} golden;

static const golden list[] = {
#include <golden/golden_params_hashes.h> /* tests/golden */
};

enum { RANKS = 4, STEPS = 14, CASES_MOST = 256 };

typedef struct run {
    char name[96], method[96], strategy[64];
    bool nodes;
} run;

static run runs[CASES_MOST];
static size_t nruns;

static bool has_key(const tg_entry *entry, const char *key)
{
    for (const tg_key *k = entry->keys; k != NULL && k->name != NULL; k++)
        if (strcmp(k->name, key) == 0)
            return true;
    return false;
}

/* Warm-ups that end within the run, rounds of a few steps (with no delay that must fit in), and a
 * density that keeps some elements of small tensors; half of the clients. */
static void spec_of(const tg_entry *entry, char *text, size_t cap)
{
    static const char *const keys[][2] = {
        {"warmup", "3"}, {"density", "0.125"}, {"every", "4"}, {"clients", "0.5"}};
    size_t used = (size_t)snprintf(text, cap, "%s", entry->name);
    for (size_t i = 0; i < TG_COUNT(keys); i++)
        if (has_key(entry, keys[i][0]) && !has_key(entry, "delay"))
            used += (size_t)snprintf(text + used, cap - used, "%c%s=%s",
                                     strchr(text, ':') ? ',' : ':', keys[i][0], keys[i][1]);
    assert_true(used < cap);
}

static void add(const char *method, const char *strategy, bool nodes)
{
    assert_true(nruns < CASES_MOST);
    run *r = &runs[nruns++];
    r->nodes = nodes;
    snprintf(r->method, sizeof r->method, "%s", method);
    snprintf(r->strategy, sizeof r->strategy, "%s", strategy);
    const size_t name =
        (size_t)(strchr(method, ':') ? strchr(method, ':') - method : (long)strlen(method));
    const size_t plan =
        (size_t)(strchr(strategy, ':') ? strchr(strategy, ':') - strategy : (long)strlen(strategy));
    snprintf(r->name, sizeof r->name, "%.*s %.*s%s", (int)plan, strategy, (int)name, method,
             nodes ? " nodes" : "");
}

static void add_all(void)
{
    size_t nmethods, nstrategies;
    char spec[96];
    const tg_entry *const *methods = tg_registry_entries(TG_KIND_METHOD, &nmethods);
    const tg_entry *const *strategies = tg_registry_entries(TG_KIND_STRATEGY, &nstrategies);
    nruns = 0;
    for (size_t i = 0; i < nmethods; i++) {
        spec_of(methods[i], spec, sizeof spec);
        add(spec, "ssgd", false);
        add(spec, "ssgd", true);
    }
    for (size_t i = 0; i < nstrategies; i++) {
        if (strcmp(strategies[i]->name, "ssgd") == 0 ||
            strcmp(strategies[i]->name, "server") == 0) /* see server_modes_test.c */
            continue;
        spec_of(strategies[i], spec, sizeof spec);
        add("dense", spec, false);
        add("2bit:threshold=0.25", spec, false);
        add("dgc:warmup=3,density=0.125", spec, false);
        const char *own = tg_registry_strategy_method(spec);
        if (strcmp(own, "dense") != 0 && strcmp(own, "2bit") != 0)
            add(own, spec, false);
    }
}

static const int two_nodes[RANKS] = {0, 0, 1, 1};

/* The optimizer is the first of these that the combination accepts. 0: none is accepted. */
static uint64_t hash_of(const run *r)
{
    static const char *const optimizers[] = {"sgd:lr=0.125,momentum=0.75", "sgd:lr=0.125"};
    static fixture_result result[RANKS];
    for (size_t i = 0; i < 2; i++) {
        fixture_job job = fixture_defaults();
        job.uniform = true;
        job.world = RANKS;
        job.steps = STEPS;
        job.bucket_bytes = 2048; /* several */
        job.method = r->method;
        job.strategy = r->strategy;
        job.optimizer = optimizers[i];
        job.nodes = r->nodes ? two_nodes : NULL;
        fixture_run(&job, result);
        for (int rank = 0; result[0].status == TG_OK && rank < RANKS; rank++)
            assert_int_equal(result[rank].status, TG_OK);
        if (result[0].status == TG_OK)
            return result[0].hash;
        if (result[0].status != TG_E_SPEC && result[0].status != TG_E_UNSUPPORTED)
            fail_msg("%s: %s", r->name, result[0].error);
    }
    return 0;
}

static void test_bits(void **state)
{
    (void)state;
    size_t wrong = 0;
    add_all();
    for (size_t i = 0; i < nruns; i++) {
        const uint64_t hash = hash_of(&runs[i]);
        size_t k = 0;
        while (k < TG_COUNT(list) && strcmp(list[k].name, runs[i].name) != 0)
            k++;
        if (k == TG_COUNT(list))
            print_error("%s: is not in the list\n", runs[i].name);
        else if (list[k].hash != hash)
            print_error("%s: %016" PRIx64 ", was %016" PRIx64 "\n", runs[i].name, hash,
                        list[k].hash);
        wrong += k == TG_COUNT(list) || list[k].hash != hash;
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(nruns, TG_COUNT(list));
}

static int write_list(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return 1;
    add_all();
    fputs("/* Written by session_bits_test --write; 0: the pair is refused. */\n", file);
    for (size_t i = 0; i < nruns; i++)
        fprintf(file, "{\"%s\", UINT64_C(0x%016" PRIx64 ")},\n", runs[i].name, hash_of(&runs[i]));
    return fclose(file) != 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits)};
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_list(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
