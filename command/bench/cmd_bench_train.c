/* telegrad bench train: training steps on this machine. */
#include "command/bench/bench_args.h"
#include "command/bench/bench_train_report.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/job/launch.h"
#include "command/job/options.h"
#include "trainer/model/model.h"
#include <stdlib.h>
#include <string.h>

enum { MODELS_MAX = 64, BATCH_MAX = 65536 };
#define BLAS_GFLOPS 15.0 /* per core; any tuned BLAS reaches more */

struct command {
    const char *spec[MODELS_MAX];
    char *models; /* the text that they point into; NULL: all models */
    const char *compare, *python;
    struct bench_train_options o;
    struct bench_train_report report;
};

/* ---- arguments ------------------------------------------------------------------------------- */

/* Whether the text after a comma is the next key of the same spec (`key=value`) and not a model. */
static bool is_key(const char *text)
{
    return text[strcspn(text, ":,=")] == '=';
}

static tg_status refuse_models(const char *text)
{
    return tg_fail(TG_E_SPEC,
                   "--models \"%.64s\": allowed: specs such as resnet20 or lstm:layers=1, at most "
                   "%d of them, separated by commas",
                   text, MODELS_MAX);
}

static tg_status set_models(struct command *c, const char *text)
{
    free(c->models);
    c->o.count = 0;
    c->models = strdup(text);
    if (!c->models)
        return tg_fail(TG_E_NOMEM, "out of memory: --models");
    for (char *at = c->models, *comma;; at = comma + 1) {
        if (c->o.count == MODELS_MAX || *at == ',' || *at == '\0')
            return refuse_models(text);
        c->spec[c->o.count++] = at;
        comma = strchr(at, ',');
        while (comma && is_key(comma + 1))
            comma = strchr(comma + 1, ',');
        if (!comma)
            return TG_OK;
        *comma = '\0';
    }
}

enum { JSON = 1, MODELS, BATCH, SECONDS, COMPARE, PYTHON, WORKERS, PRECISION };

static tg_status set(void *input, int key, char *arg)
{
    struct command *c = input;
    switch (key) {
    case JSON:
        c->report.json = true;
        return TG_OK;
    case MODELS:
        return set_models(c, arg);
    case BATCH:
        return bench_args_list("batch", arg, 1, BATCH_MAX, BENCH_TRAIN_BATCHES, c->o.batch,
                               &c->o.batches);
    case SECONDS:
        return bench_args_real("seconds", arg, 0.001, 3600, &c->o.seconds);
    case COMPARE:
        c->compare = arg;
        return bench_args_compare(arg);
    case PYTHON:
        c->python = arg;
        return TG_OK;
    case PRECISION:
        return options_precision("precision", arg, &c->o.precision);
    default:
        return bench_args_list("workers", arg, 1, BENCH_TRAIN_WORKERS, BENCH_TRAIN_WORKERS,
                               c->o.workers, &c->o.nworkers);
    }
}

static const struct cli_option options[] = {
    {.help = "What is measured"},
    {"models", MODELS, "SPEC,..", "all", "models", "networks, e.g. resnet20,lstm:layers=1"},
    {"batch", BATCH, "N,..", "32,128; for lstm and gpt those of the papers", NULL,
     "samples per step"},
    {"precision", PRECISION, "fp32|bf16", "fp32", NULL,
     "number format of forward and backward passes"},
    {"seconds", SECONDS, "S", "2", NULL, "time per row"},
    {"workers", WORKERS, "N,..", NULL, NULL,
     "measure instead, by wall-clock time, this many workers of one process that exchange dense "
     "gradients, and one alone"},
    {.help = "Comparison"},
    {"compare", COMPARE, "torch", NULL, NULL,
     "measure the same steps in PyTorch too, in turn on the same core, in its faster memory "
     "format; ratio is our time over PyTorch's"},
    {"python", PYTHON, "PATH", "python3", NULL, "Python that has PyTorch"},
    {.help = "Output"},
    {"json", JSON, NULL, NULL, NULL, "print JSON lines"},
    {0}};

/* Check the options that depend on each other, and fill in defaults. */
static tg_status complete(struct command *c)
{
    if (c->python && !c->compare)
        return tg_fail(TG_E_SPEC, "--python requires --compare torch");
    if (c->compare && c->o.nworkers > 0)
        return tg_fail(TG_E_SPEC, "--workers and --compare cannot be combined");
    if (c->compare)
        c->o.python = c->python ? c->python : "python3";
    if (!c->models) {
        size_t count;
        const tg_entry *const *models = model_entries(&count);
        for (c->o.count = 0; c->o.count < count && c->o.count < MODELS_MAX; c->o.count++)
            c->spec[c->o.count] = models[c->o.count]->name;
    }
    for (size_t i = 0; i < c->o.count; i++)
        if (strlen(c->spec[i]) > c->report.name_width)
            c->report.name_width = strlen(c->spec[i]);
    c->o.specs = c->spec;
    return TG_OK;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static void begin(void *arg, const char *spec, size_t batch)
{
    char line[128];
    (void)arg;
    snprintf(line, sizeof line, "%.64s, batch %zu", spec, batch);
    console_status(line);
}

static tg_status torch(void *arg, const char *version, double gemm_gflops)
{
    if (gemm_gflops < BLAS_GFLOPS)
        tg_log(
            TG_LOG_WARN,
            "PyTorch's matrix product runs at %.1f GFLOP/s, as slow as the reference BLAS, so its "
            "times say little: give it another (Debian: libopenblas0-pthread)",
            gemm_gflops);
    return bench_train_report_torch(arg, version, gemm_gflops);
}

static tg_status row(void *arg, const struct bench_train_row *row)
{
    console_status("");
    return bench_train_report_row(arg, row);
}

static tg_status measure(struct command *c)
{
    TG_TRY(complete(c));
    c->o.arg = &c->report;
    const tg_status status = bench_train(&c->o);
    console_status("");
    if (status != TG_OK) {
        (void)!bench_train_report_end(&c->report);
        return status;
    }
    TG_TRY(bench_train_report_end(&c->report));
    return c->report.failed
               ? tg_fail(TG_E_STATE, "%zu rows could not be measured", c->report.failed)
               : TG_OK;
}

static int cmd_bench_train(int argc, char **argv)
{
    struct command c = {.o = {.seconds = 2, .begin = begin, .torch = torch, .row = row}};
    int result = options_parse(&command_bench_train, argc, argv, &c);
    if (result < 0) {
        tg_status status = launch_check_one("bench train");
        if (status == TG_OK)
            status = measure(&c);
        result = cli_end(status);
    }
    free(c.models);
    return result;
}

const struct cli_command command_bench_train = {
    .name = "bench train",
    .run = cmd_bench_train,
    .summary = "training steps",
    .usage = "[OPTION]...",
    .about = "Time training steps on one core: forward and backward passes and SGD with momentum, "
             "with the batch in memory. Median, minimum and maximum of the processor time; GFLOP/s "
             "counts a step as three forward passes.",
    .options = options,
    .set = set,
    .examples = "telegrad bench train --models lenet5,mlp --batch 32 --seconds 0.1"};
