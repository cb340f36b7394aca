/* Ranks of one job that differ in instruction set level, driver and number of codec threads have
 * the same bits as those of a uniform job, with every method. Each rank is a process that runs this
 * program again; they are connected by TCP. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../examples/socket_transport.h"
#include "free_ports.h"
#include "kernel/kernel.h"
#include "two_tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { P = 3, STEPS = 3, ROWS = 240, COLS = 300, REST = 70001, N = ROWS * COLS + REST };

typedef struct place {
    const char *level;
    tg_driver driver;
    unsigned threads;
} place;

/* ---- a rank ---------------------------------------------------------------------------------- */

static float w[N], g[N];

static void draw(void *arg, int step)
{
    const tg_transport *t = arg;
    const tg_rng_key key = {
        .seed = 4, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)t->rank, .step = (uint64_t)step};
    for (size_t i = 0; i < N; i += 4) {
        uint32_t r[4];
        tg_rng_block(&key, i, r);
        for (size_t k = 0; k < 4 && i + k < N; k++) /* both signs and many magnitudes */
            g[i + k] = ldexpf((float)(int32_t)r[k], -31 - (int)(r[k] & 7));
    }
}

/* Print a line for each method: its name and the hash of the parameters. */
static tg_status run_methods(const place *at, tg_transport *t)
{
    size_t count;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_METHOD, &count);
    for (size_t i = 0; i < count; i++) {
        const tg_session_config config = {.struct_size = sizeof config,
                                          .method = list[i]->name,
                                          .steps_per_epoch = 1,
                                          .driver = at->driver,
                                          .codec_threads = at->threads};
        const two_tensors m = {ROWS, COLS, REST, STEPS, w, g, draw, t};
        uint64_t hash = 0;
        TG_TRY(two_tensors_train(&m, &config, t, &hash));
        printf("%s %016" PRIx64 "\n", list[i]->name, hash);
    }
    return TG_OK;
}

/* Arguments: rank, driver, threads, addresses (P). */
static int be_rank(char **arg)
{
    const place at = {.driver = (tg_driver)atoi(arg[1]), .threads = (unsigned)atoi(arg[2])};
    const char *address[P] = {arg[3], arg[4], arg[5]};
    tg_transport *t;
    tg_status status = socket_transport(atoi(arg[0]), P, address, 60000, &t);
    if (status == TG_OK) {
        status = run_methods(&at, t);
        if (status != TG_OK)
            fprintf(stderr, "rank %s: %s\n", arg[0], tg_error());
        tg_transport_destroy(t);
    }
    return status == TG_OK ? 0 : 1;
}

/* ---- the test -------------------------------------------------------------------------------- */

static pid_t start(int rank, const place *at, char address[P][32], FILE *out)
{
    char number[3][16];
    snprintf(number[0], 16, "%d", rank);
    snprintf(number[1], 16, "%d", (int)at->driver);
    snprintf(number[2], 16, "%u", at->threads);
    char *argv[] = {"mixed_job_test", number[0],  number[1],  number[2],
                    address[0],       address[1], address[2], NULL};
    const pid_t child = fork();
    if (child == 0) {
        setenv("TG_CPU", at->level, 1);
        if (dup2(fileno(out), STDOUT_FILENO) >= 0)
            execv("/proc/self/exe", argv);
        _exit(127);
    }
    return child;
}

/* Run a job; returns the output, which must be the same for all ranks. Release it with free(). */
static char *run(const place *places)
{
    char address[P][32], *text[P];
    FILE *out[P];
    pid_t child[P];
    find_ports(P, address);
    for (int r = 0; r < P; r++) {
        out[r] = tmpfile();
        assert_non_null(out[r]);
        child[r] = start(r, &places[r], address, out[r]);
        assert_true(child[r] > 0);
    }
    for (int r = 0; r < P; r++) {
        int status = 1;
        assert_int_equal(waitpid(child[r], &status, 0), child[r]);
        assert_int_equal(status, 0);
        text[r] = calloc(1, 4096);
        assert_non_null(text[r]);
        rewind(out[r]);
        assert_true(fread(text[r], 1, 4095, out[r]) > 0);
        fclose(out[r]);
    }
    for (int r = 1; r < P; r++) {
        assert_string_equal(text[r], text[0]);
        free(text[r]);
    }
    return text[0];
}

/* The wanted level, or the best one below it that this machine has. */
static const char *level(const char *wanted)
{
    static const char *const levels[] = {"avx512", "avx2", "ref"};
    size_t i = 0;
    while (strcmp(levels[i], wanted) != 0)
        i++;
    while (tg__kernel_level(levels[i]) == NULL)
        i++;
    return levels[i];
}

static void mixed_is_uniform(void **state)
{
    const place uniform[P] = {{level("avx512"), TG_DRIVER_INLINE, 1},
                              {level("avx512"), TG_DRIVER_INLINE, 1},
                              {level("avx512"), TG_DRIVER_INLINE, 1}};
    const place mixed[][P] = {{{"ref", TG_DRIVER_INLINE, 1},
                               {level("avx2"), TG_DRIVER_THREAD, 3},
                               {level("avx512"), TG_DRIVER_INLINE, 2}},
                              {{level("avx512"), TG_DRIVER_THREAD, 2},
                               {"ref", TG_DRIVER_INLINE, 3},
                               {level("avx2"), TG_DRIVER_THREAD, 1}}};
    (void)state;
    char *want = run(uniform);
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++) {
        char *got = run(mixed[i]);
        assert_string_equal(got, want);
        free(got);
    }
    free(want);
}

int main(int argc, char **argv)
{
    if (argc == 4 + P)
        return be_rank(argv + 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(mixed_is_uniform)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
