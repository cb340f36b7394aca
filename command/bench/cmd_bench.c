/* telegrad bench, and its part `codec`. The other parts are in cmd_bench_train.c,
 * cmd_bench_exchange.c and cmd_bench_strategy.c. */
#include "command/bench/bench_args.h"
#include "command/bench/bench_report.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/stop.h"
#include "command/job/launch.h"
#include "command/job/options.h"
#include "command/job/parts.h"
#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SIZES_MAX = 16, LEVELS_MAX = 3, N_MIN = 1000, N_MAX = 1 << 29, THREADS_MAX = 256 };

struct bench_command {
    size_t n[SIZES_MAX], sizes;
    char level[LEVELS_MAX][16];
    size_t levels;
    const char *filter, *gradients, *compare, *python;
    double seconds;
    unsigned threads;
    struct bench_report report;
};

/* ---- arguments ------------------------------------------------------------------------------- */

static tg_status set_levels(struct bench_command *c, const char *text)
{
    const char *at = text;
    for (c->levels = 0;; at++) {
        size_t len = strcspn(at, ",");
        char *level = c->level[c->levels];
        if (c->levels == LEVELS_MAX || len == 0 || len >= sizeof c->level[0])
            break;
        memcpy(level, at, len);
        level[len] = '\0';
        if (!bench_level_exists(level))
            break;
        c->levels++;
        at += len;
        if (*at == '\0')
            return TG_OK;
    }
    static const char *const others[] = {"avx2", "avx512", "neon"};
    char allowed[64] = "ref";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (bench_level_exists(others[i])) {
            strcat(allowed, ", ");
            strcat(allowed, others[i]);
        }
    return tg_fail(TG_E_SPEC, "--level \"%.64s\": allowed on this CPU: %s, separated by commas",
                   text, allowed);
}

enum { JSON = 1, SIZES, LEVELS, FILTER, GRADIENTS, THREADS, COMPARE, PYTHON, SECONDS };

static tg_status set(void *input, int key, char *arg)
{
    struct bench_command *c = input;
    double v = 0;
    switch (key) {
    case JSON:
        c->report.json = true;
        return TG_OK;
    case SIZES:
        return bench_args_list("elements", arg, N_MIN, N_MAX, SIZES_MAX, c->n, &c->sizes);
    case LEVELS:
        return set_levels(c, arg);
    case FILTER:
        c->filter = arg;
        return TG_OK;
    case GRADIENTS:
        c->gradients = arg;
        return TG_OK;
    case THREADS:
        TG_TRY(bench_args_real("threads", arg, 1, THREADS_MAX, &v));
        c->threads = (unsigned)v;
        return v == floor(v)
                   ? TG_OK
                   : tg_fail(TG_E_SPEC, "--threads \"%.64s\": allowed: 1 to %d", arg, THREADS_MAX);
    case COMPARE:
        c->compare = arg;
        return bench_args_compare(arg);
    case PYTHON:
        c->python = arg;
        return TG_OK;
    default:
        return bench_args_real("seconds", arg, 0.001, 3600, &c->seconds);
    }
}

static const struct cli_option options[] = {
    {.help = "What is measured"},
    {"elements", SIZES, "N,..", "25600000,1000000,100000", NULL, "elements of the vector"},
    {"filter", FILTER, "NAME", NULL, "target|method|index|kernel",
     "only rows whose name contains NAME, or of that group: target, method, index, kernel"},
    {"level", LEVELS, "LEVEL,..", "the best", NULL, "instruction sets: avx512, avx2, neon, ref"},
    {"gradients", GRADIENTS, "FILE.npy", NULL, NULL,
     "f32 values to compress, repeated or cut to N: see telegrad train --dump-gradients"},
    {"threads", THREADS, "N", "1", NULL, "threads of the codecs; the yardsticks have one"},
    {"seconds", SECONDS, "S", "0.5", NULL, "time per row, or a few calls if they take longer"},
    {.help = "Comparison"},
    {"compare", COMPARE, "torch", NULL, NULL,
     "measure instead the same work here and in PyTorch on the same core"},
    {"python", PYTHON, "PATH", "python3", NULL, "Python that has PyTorch"},
    {.help = "Output"},
    {"json", JSON, NULL, NULL, NULL, "print JSON lines"},
    {0}};

/* ---- measuring ------------------------------------------------------------------------------- */

static void begin(void *arg, size_t n, const char *name)
{
    char line[128];
    (void)arg;
    snprintf(line, sizeof line, "n = %s: %s", format_count(n).text, name);
    console_status(line);
}

static tg_status row(void *arg, const bench_row *row)
{
    console_status("");
    return bench_report_row(arg, row);
}

static tg_status comparison(void *arg, const bench_comparison *row)
{
    console_status("");
    return bench_report_comparison(arg, row);
}

static tg_status measure(struct bench_command *c)
{
    const bench_options o = {.n = c->n,
                             .count = c->sizes,
                             .filter = c->filter,
                             .gradients = c->gradients,
                             .threads = c->threads,
                             .seconds = c->seconds,
                             .arg = &c->report,
                             .begin = begin,
                             .row = row};
    tg_status status = c->compare
                           ? bench_compare_torch(&o, c->python ? c->python : "python3", comparison)
                           : bench_codec(&o);
    console_status("");
    if (status != TG_OK)
        return status;
    TG_TRY(bench_report_end(&c->report));
    if (c->report.rows == 0)
        return tg_fail(TG_E_SPEC,
                       "--filter \"%.64s\": no row matches; allowed: part of a row's name, or "
                       "target, method, index, kernel",
                       c->filter);
    return c->report.failed ? tg_fail(TG_E_STATE, "%zu of %zu rows could not be measured",
                                      c->report.failed, c->report.rows)
                            : TG_OK;
}

/* Copy the arguments without --level (or what the parser takes for it) and its value. Returns their
 * number. */
static int copy_without_level(char **to, char **argv, int argc)
{
    int count = 0;
    for (int i = 0; i < argc; i++) {
        const size_t len = strcspn(argv[i], "=");
        if (len <= 2 || strncmp(argv[i], "--level", len) != 0)
            to[count++] = argv[i];
        else if (argv[i][len] == '\0')
            i++; /* its value */
    }
    return count;
}

/* The instruction set is chosen once per process, so another level runs in a process of its own. */
static int run_at_level(const char *level, int argc, char **argv)
{
    char **own = calloc((size_t)argc + 5, sizeof *own);
    char self[] = "/proc/self/exe", bench[] = "bench", codec[] = "codec", option[] = "--level",
         last[16];
    pid_t pid;
    int status = 0;
    if (!own || setenv("TG_CPU", level, 1) != 0) {
        free(own);
        console_error("out of memory");
        return CLI_FAILED;
    }
    snprintf(last, sizeof last, "%s", level);
    own[0] = self;
    own[1] = bench;
    own[2] = codec; /* options_parse has renamed argv[0] */
    const int count = 3 + copy_without_level(own + 3, argv + 1, argc - 1);
    own[count] = option;
    own[count + 1] = last;
    int error = posix_spawn(&pid, self, NULL, NULL, own, environ);
    free(own);
    if (error || waitpid(pid, &status, 0) < 0) {
        console_error("cannot run another process: %s", strerror(error ? error : errno));
        return CLI_FAILED;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_levels(const struct bench_command *c, int argc, char **argv)
{
    int worst = CLI_OK;
    stop_install_at_once(false); /* the process of the level says that it was interrupted */
    for (size_t i = 0; i < c->levels; i++) {
        int status = run_at_level(c->level[i], argc, argv);
        if (status > CLI_USAGE)
            return status;
        worst = status > worst ? status : worst;
    }
    return worst;
}

static int cmd_bench_codec(int argc, char **argv)
{
    struct bench_command c = {
        .n = {25600000, 1000000, 100000}, .sizes = 3, .seconds = 0.5, .threads = 1};
    int parsed = options_parse(&command_bench_codec, argc, argv, &c);
    if (parsed >= 0)
        return parsed;
    if (c.python && !c.compare) {
        console_error("--python requires --compare torch");
        return CLI_USAGE;
    }
    if (launch_check_one("bench codec") != TG_OK) {
        console_error("%s", tg_error());
        return CLI_USAGE;
    }
    if (c.levels > 1 || (c.levels == 1 && strcmp(c.level[0], tg_cpu_level()) != 0))
        return run_levels(&c, argc, argv);
    tg_status status = measure(&c);
    return cli_end(status);
}

const struct cli_command command_bench_codec = {
    .name = "bench codec",
    .run = cmd_bench_codec,
    .summary = "codecs, methods, index codings and kernels",
    .usage = "[OPTION]...",
    .about =
        "Time codecs, methods, index codings and kernels on one core, each between two yardsticks: "
        "axpy (r += g, 12 bytes per element) and memcpy of the same vector.\n\n"
        "limit: the bytes that must be touched over those of axpy. over it: the time over that "
        "limit. bits: per element. error: relative, in the 2-norm. target: the time allowed, in "
        "multiples of axpy or memcpy.",
    .options = options,
    .set = set,
    .examples = "telegrad bench codec --elements 25600000 --level avx512,avx2 --filter target"};

static const struct cli_command *const parts[] = {&command_bench_codec,
#ifdef HAVE_TRAIN
                                                  &command_bench_train,
#endif
                                                  &command_bench_exchange, &command_bench_server,
                                                  &command_bench_strategy, NULL};

static int cmd_bench(int argc, char **argv)
{
    int rank, size;
    (void)launch_under_mpi(&rank, &size);
    stop_install_at_once(rank == 0);
    return parts_run(&command_bench, argc, argv);
}

const struct cli_command command_bench = {
    .name = "bench",
    .run = cmd_bench,
    .summary = "measure codecs, training steps, exchanges, servers or strategies",
    .usage = "codec|train|exchange|server|strategy [OPTION]...",
    .about = "Measure how fast this machine does parts of the work, beside what it should take. "
             "telegrad bench codec --help and so on explain the options.",
    .parts = parts,
    .examples = "telegrad bench codec --filter topk"};
