/* Ranks of one job that differ in instruction set level, driver, number of codec threads and
 * floating-point environment have the same bits as those of a uniform job, with every method. Each
 * rank is a process that runs this program again; they are connected by TCP. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../examples/socket_transport.h"
#include "base/floats.h"
#include "free_ports.h"
#include "kernel/kernel.h"
#include "two_tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#if defined __x86_64__
#include <xmmintrin.h>
#endif

enum { P = 3, STEPS = 3, ROWS = 240, COLS = 300, REST = 70001, N = ROWS * COLS + REST };

typedef enum floats { DEFAULT, FLUSHED, UPWARD, TRAPS } floats;

typedef struct place {
    const char *level;
    tg_driver driver;
    unsigned threads;
    floats floats; /* of the program that calls the library */
} place;

/* ---- floating-point environments ------------------------------------------------------------- */

static void set_floats(floats f)
{
#if defined __x86_64__
    if (f == FLUSHED)
        _mm_setcsr(_mm_getcsr() | 0x8040); /* FTZ, DAZ */
#elif defined __aarch64__
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    if (f == FLUSHED)
        __asm__ volatile("msr fpcr, %0" : : "r"(control | UINT64_C(1) << 24));
#endif
    if (f == UPWARD)
        fesetround(FE_UPWARD);
    if (f == TRAPS)
        (void)feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
}

/* Whether they are still as set. */
static bool has_floats(floats f)
{
    volatile float least = 0x1p-126f;
    const bool flushes = least / 2 == 0;
#if defined __x86_64__
    return flushes == (f == FLUSHED) && (fegetround() == FE_UPWARD) == (f == UPWARD) &&
           (fegetexcept() != 0) == (f == TRAPS);
#else
    return flushes == (f == FLUSHED) && (fegetround() == FE_UPWARD) == (f == UPWARD);
#endif
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static float w[N], g[N];

static void draw(void *arg, int step)
{
    TG__OWN_FLOATS;
    const tg_transport *t = arg;
    const tg_rng_key key = {
        .seed = 4, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)t->rank, .step = (uint64_t)step};
    for (size_t i = 0; i < N; i += 4) {
        uint32_t r[4];
        tg_rng_block(&key, i, r);
        for (size_t k = 0; k < 4 && i + k < N; k++) { /* both signs, many magnitudes, denormals */
            const int scale = r[k] & 8 ? -150 + (int)(r[k] >> 4 & 15) : -31 - (int)(r[k] & 7);
            g[i + k] = ldexpf((float)(int32_t)r[k], scale);
        }
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

/* Arguments: rank, driver, threads, floats, addresses (P). */
static int be_rank(char **arg)
{
    const place at = {.driver = (tg_driver)atoi(arg[1]),
                      .threads = (unsigned)atoi(arg[2]),
                      .floats = (floats)atoi(arg[3])};
    const char *address[P] = {arg[4], arg[5], arg[6]};
    set_floats(at.floats);
    tg_transport *t;
    tg_status status = socket_transport(atoi(arg[0]), P, address, 60000, &t);
    if (status == TG_OK) {
        status = run_methods(&at, t);
        if (status == TG_OK && !has_floats(at.floats))
            status = tg_fail(TG_E_STATE, "another floating-point environment than before");
        if (status != TG_OK)
            fprintf(stderr, "rank %s: %s\n", arg[0], tg_error());
        tg_transport_destroy(t);
    }
    return status == TG_OK ? 0 : 1;
}

/* ---- the test -------------------------------------------------------------------------------- */

static pid_t start(int rank, const place *at, char address[P][32], FILE *out)
{
    char number[4][16];
    snprintf(number[0], 16, "%d", rank);
    snprintf(number[1], 16, "%d", (int)at->driver);
    snprintf(number[2], 16, "%u", at->threads);
    snprintf(number[3], 16, "%d", (int)at->floats);
    char *argv[] = {"mixed_job_test", number[0],  number[1],  number[2], number[3],
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
    const char *const best = level("avx512"), *const middle = level("avx2");
    const place uniform[P] = {{best, TG_DRIVER_INLINE, 1, DEFAULT},
                              {best, TG_DRIVER_INLINE, 1, DEFAULT},
                              {best, TG_DRIVER_INLINE, 1, DEFAULT}};
    const place mixed[][P] = {{{"ref", TG_DRIVER_INLINE, 1, FLUSHED},
                               {middle, TG_DRIVER_THREAD, 3, DEFAULT},
                               {best, TG_DRIVER_INLINE, 2, TRAPS}},
                              {{best, TG_DRIVER_THREAD, 2, UPWARD},
                               {"ref", TG_DRIVER_INLINE, 3, DEFAULT},
                               {middle, TG_DRIVER_THREAD, 1, FLUSHED}}};
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
    if (argc == 5 + P)
        return be_rank(argv + 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(mixed_is_uniform)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
