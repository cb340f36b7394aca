/* Finite gradients so large that a sum, a scale or the memory overflows f32: with every method,
 * every exchange that it offers, one level and two. The outcome of such a step is the same on all
 * ranks; no rank is blamed; the next step follows, finite and with the same bits everywhere. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "method/method.h"
#include "telegrad/reducer.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 48, COLS = 40, BIAS = 37, N = ROWS * COLS + BIAS, P_MOST = 4, SPECS_MOST = 256 };

/* The kind of a step's gradients. */
typedef enum kind {
    SMALL,
    ALL_HUGE,   /* on all ranks, magnitude 3.3e38 in every element */
    ONE_HUGE,   /* on one rank */
    ONE_COLUMN, /* on all ranks, in a single element */
    ANY_SIZE    /* from 1e30 to 3.4e38, of either sign, on all ranks */
} kind;

static const kind plan[] = {SMALL,    SMALL,      ALL_HUGE,   SMALL,    SMALL,    ONE_HUGE,
                            ONE_HUGE, ONE_HUGE,   SMALL,      SMALL,    ANY_SIZE, SMALL,
                            ANY_SIZE, ANY_SIZE,   SMALL,      ALL_HUGE, ALL_HUGE, ALL_HUGE,
                            SMALL,    ONE_COLUMN, ONE_COLUMN, SMALL,    SMALL};
enum { STEPS = sizeof plan / sizeof *plan };

typedef struct rank {
    tg_transport *t;
    const char *method;
    const int *nodes;
    bool alternates; /* signs of huge gradients alternate from step to step */
    tg_status made, step[STEPS];
    char error[STEPS][320];
    float (*mean)[N]; /* (STEPS) */
} rank;

static rank ranks[P_MOST];

static void gradient(const rank *r, int t, float *g)
{
    const tg_rng_key key = {
        .seed = 21, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r->t->rank, .step = (uint64_t)t};
    const float sign = r->alternates && t % 2 == 1 ? -1 : 1;
    for (size_t i = 0; i < N; i++) {
        const double u = tg_rng_uniform(&key, N + i);
        g[i] = (float)tg_rng_normal(&key, i);
        if (plan[t] == ALL_HUGE || (plan[t] == ONE_HUGE && r->t->rank == 1))
            g[i] = sign * (i % 3 == 0 ? -3.3e38f : 3.3e38f);
        else if (plan[t] == ONE_COLUMN && i == 77)
            g[i] = sign * 3.4e38f;
        else if (plan[t] == ANY_SIZE)
            g[i] = (float)(copysign(1, u - 0.5) * pow(10, 30 + 17.04 * fabs(u - 0.5)));
    }
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    static const tg_segment segments[] = {
        {.begin = 0, .n = (size_t)ROWS * COLS, .rows = ROWS, .cols = COLS, .dims = 2},
        {.begin = (size_t)ROWS * COLS, .n = BIAS, .rows = BIAS, .cols = 1, .dims = 1}};
    const tg_reducer_config config = {.struct_size = sizeof config,
                                      .seed = 3,
                                      .timeout_ms = 20000,
                                      .steps_per_epoch = 1,
                                      .segments = segments,
                                      .nsegments = 2,
                                      .nodes = r->nodes};
    tg_reducer *reducer = NULL;
    float g[N];
    r->made = tg_reducer_create(r->method, r->t, N, &config, &reducer);
    for (int t = 0; t < STEPS && r->made == TG_OK; t++) {
        gradient(r, t, g);
        for (size_t i = 0; i < N; i++)
            r->mean[t][i] = 7;
        r->step[t] = tg_reducer_mean(reducer, g, r->mean[t]);
        snprintf(r->error[t], sizeof r->error[t], "%s", r->step[t] == TG_OK ? "" : tg_error());
    }
    tg_reducer_destroy(reducer);
    tg_transport_destroy(r->t);
    return NULL;
}

static void run(const char *method, int size, const int *nodes, bool alternates)
{
    tg_transport *t[P_MOST];
    pthread_t thread[P_MOST];
    assert_int_equal(tg_transport_inproc(size, t), TG_OK);
    for (int i = 0; i < size; i++) {
        float(*mean)[N] = ranks[i].mean;
        ranks[i] = (rank){.t = t[i], .method = method, .nodes = nodes, .alternates = alternates};
        ranks[i].mean = mean;
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < size; i++)
        pthread_join(thread[i], NULL);
}

/* What an earlier step left in the memory may be too large for a later one, but not after a dropped
 * step. */
static bool must_pass(const rank *r, int t)
{
    return plan[t] == SMALL && (t < 2 || r->step[t - 1] != TG_OK);
}

static void check_step(const char *method, int size, int t)
{
    static const float untouched = 7;
    for (int i = 0; i < size; i++) {
        const rank *r = &ranks[i];
        if (r->step[t] != ranks[0].step[t] || (r->step[t] != TG_OK && r->step[t] != TG_E_NONFINITE))
            fail_msg("%s: step %d: rank %d: %d \"%s\", rank 0: %d \"%s\"", method, t, i, r->step[t],
                     r->error[t], ranks[0].step[t], ranks[0].error[t]);
        if (must_pass(r, t) && r->step[t] != TG_OK)
            fail_msg("%s: step %d of ordinary size: rank %d: %s", method, t, i, r->error[t]);
        for (size_t k = 0; k < N; k++)
            if (r->step[t] == TG_OK ? !isfinite(r->mean[t][k]) : r->mean[t][k] != untouched)
                fail_msg("%s: step %d: rank %d: element %zu: %g \"%s\"", method, t, i, k,
                         (double)r->mean[t][k], r->error[t]);
        if (strstr(method, "exchange=none") == NULL &&
            memcmp(r->mean[t], ranks[0].mean[t], sizeof *r->mean) != 0)
            fail_msg("%s: step %d: ranks 0 and %d have other means", method, t, i);
    }
}

/* With exchange=none ranks do not interact: rank 0 is checked. */
static void drive(const char *method, int size, const int *nodes, bool alternates)
{
    run(method, size, nodes, alternates);
    if (ranks[0].made == TG_E_SPEC || ranks[0].made == TG_E_UNSUPPORTED)
        return; /* a combination that the method refuses */
    for (int i = 0; i < size; i++)
        assert_int_equal(ranks[i].made, TG_OK);
    for (int t = 0; t < STEPS; t++)
        check_step(method, strstr(method, "exchange=none") != NULL ? 1 : size, t);
}

/* ---- all specs ------------------------------------------------------------------------------- */

static char specs[SPECS_MOST][192];
static size_t nspecs;

static const tg_key *find_key(const tg_entry *e, const char *name)
{
    for (const tg_key *key = e->keys; key->name != NULL; key++)
        if (strcmp(key->name, name) == 0)
            return key;
    return NULL;
}

static void add_spec(const char *name, const char *keys)
{
    assert_true(nspecs < SPECS_MOST);
    snprintf(specs[nspecs++], sizeof specs[0], "%s:%s", name, keys);
}

/* Add all choices of `key`, after `before`. */
static void add_choices(const tg_entry *e, const char *before, const char *name)
{
    char choices[128], keys[128];
    const tg_key *key = find_key(e, name);
    if (key == NULL || key->choices == NULL)
        return;
    snprintf(choices, sizeof choices, "%s", key->choices);
    for (char *at, *word = strtok_r(choices, "|", &at); word != NULL;
         word = strtok_r(NULL, "|", &at))
        if (strcmp(word, "auto") != 0) {
            snprintf(keys, sizeof keys, "%s%s=%s", before, name, word);
            add_spec(e->name, keys);
        }
}

static int list_specs(void **state)
{
    size_t count;
    const tg_entry *const *methods = tg__method_entries(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const tg_entry *e = methods[i];
        const bool warms = find_key(e, "warmup") != NULL;
        const char *before = warms ? "warmup=0," : "";
        char keys[64];
        add_choices(e, before, "exchange");
        add_choices(e, before, "values");
        add_choices(e, "", "norm");
        if (find_key(e, "feedback") != NULL) {
            snprintf(keys, sizeof keys, "%sfeedback=residual,", before);
            add_choices(e, keys, "exchange");
        }
        if (find_key(e, "twoway") != NULL)
            add_spec(e->name, "twoway=yes");
        if (find_key(e, "beta") != NULL)
            add_spec(e->name, "beta=0.1");
        if (find_key(e, "threshold") != NULL)
            add_spec(e->name, "threshold=auto");
        if (find_key(e, "nesterov") != NULL)
            add_spec(e->name, "nesterov=yes,warmup=0");
        if (warms)
            add_spec(e->name, "warmup=10");
    }
    for (int i = 0; i < P_MOST; i++) {
        ranks[i].mean = malloc(STEPS * sizeof *ranks[i].mean);
        if (ranks[i].mean == NULL)
            return -1;
    }
    return 0;
}

static int free_means(void **state)
{
    (void)state;
    for (int i = 0; i < P_MOST; i++)
        free(ranks[i].mean);
    return 0;
}

static void test_one_level(void **state)
{
    (void)state;
    for (size_t i = 0; i < nspecs; i++)
        drive(specs[i], 3, NULL, i % 2 == 1);
}

static void test_two_levels(void **state)
{
    static const int nodes[] = {0, 0, 1, 1};
    (void)state;
    for (size_t i = 0; i < nspecs; i++)
        drive(specs[i], 4, nodes, i % 2 == 0);
}

/* The sum of two finite gradients is not finite, so the mean is not taken, although it would be
 * finite. */
static void test_a_sum_beyond_the_range_is_dropped(void **state)
{
    (void)state;
    run("dense", 2, NULL, false);
    for (int t = 0; t < STEPS; t++)
        assert_int_equal(ranks[0].step[t],
                         plan[t] == ALL_HUGE || plan[t] == ONE_COLUMN || plan[t] == ANY_SIZE
                             ? TG_E_NONFINITE
                             : TG_OK);
    assert_non_null(strstr(ranks[1].error[2], "the sum over ranks is not finite"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sum_beyond_the_range_is_dropped),
        cmocka_unit_test(test_one_level),
        cmocka_unit_test(test_two_levels),
    };
    return cmocka_run_group_tests(tests, list_specs, free_means);
}
