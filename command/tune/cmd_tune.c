/* telegrad tune */
#include "command/job/options_check.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/stop.h"
#include "command/train/cli_run.h"
#include "command/train/run_defaults.h"
#include "command/tune/tune.h"
#include "telegrad/tools.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HELD_OUT 10 /* the share of the training samples that is held out is one in so many */

/* ---- arguments ------------------------------------------------------------------------------- */

enum { VARY = OPTIONS_KEY, SEEDS, OUT, JSON };

static tg_status add_word(struct tune_options *o, const char *name, const char *value)
{
    if (o->words == TUNE_WORDS)
        return tg_fail(TG_E_SPEC, "--%s: allowed: at most %d options", name, TUNE_WORDS);
    o->word[o->words++] = (struct tune_word){name, value};
    return TG_OK;
}

static tg_status set_seeds(struct tune_options *o, const char *text)
{
    int64_t n;
    if (!tg_int_parse(text, &n) || n < 1 || n > TUNE_SEEDS)
        return tg_fail(TG_E_SPEC, "--seeds \"%.64s\": allowed: 1 to %d", text, TUNE_SEEDS);
    o->seeds = (uint64_t)n;
    return add_word(o, "seeds", text);
}

static tg_status set(void *input, int key, char *arg)
{
    struct tune_options *o = input;
    switch (key) {
    case VARY:
        TG_TRY(tune_grid_add(&o->grid, arg));
        return add_word(o, "vary", arg);
    case SEEDS:
        return set_seeds(o, arg);
    case OUT:
        o->dir = arg;
        return TG_OK;
    }
    o->json = true;
    return TG_OK;
}

static struct run_options *shared_of(void *input)
{
    return &((struct tune_options *)input)->common;
}

/* Set a shared option, and remember how it was given. */
static tg_status set_shared(struct run_options *common, int key, const char *arg)
{
    TG_TRY(options_set_shared(common, key, arg));
    return add_word((struct tune_options *)common, options_name(key), arg);
}

/* ---- before the first run -------------------------------------------------------------------- */

/* Settle which samples are held out, and which data are used if none are named. */
static tg_status settle_data(struct tune_options *o)
{
    struct run_options *c = &o->common;
    size_t samples;
    if (!c->data) {
        c->data = run_data_name(c);
        TG_TRY(add_word(o, "data", c->data));
    }
    TG_TRY(train_data_samples(c->data, 0, &samples));
    if (options_given(c, "holdout") && c->holdout == 0)
        return tg_fail(TG_E_SPEC,
                       "--holdout 0: runs are judged on training samples that are held out, never "
                       "on the test set: allowed: 1 and more");
    if (!options_given(c, "holdout"))
        c->holdout = samples / HELD_OUT;
    return c->holdout > 0
               ? TG_OK
               : tg_fail(TG_E_SPEC,
                         "--data %.64s: a tenth of its %zu training samples is less than one: "
                         "give --holdout N",
                         c->data, samples);
}

/* Settle the steps of a run of the search: a third of those that its options say. */
static tg_status settle_length(struct tune_run *run)
{
    struct run_options *o = &run->options;
    struct run_length whole;
    TG_TRY(run_check_session(o, o->data, (int)o->workers, &whole));
    run->epoch = whole.steps_per_epoch;
    run->at[1] = whole.steps / TUNE_SHARE;
    run->at[0] = run->at[1] / TUNE_SHARE;
    return run->at[0] > 0
               ? TG_OK
               : tg_fail(TG_E_SPEC,
                         "%" PRIu64 " steps: allowed: %d and more, because the search takes a "
                         "third of them, and its first part a third of that",
                         whole.steps, TUNE_SHARE * TUNE_SHARE);
}

/* Runs stop after some steps, and go on from a checkpoint in which all workers are at that step. */
static tg_status check_servers(const struct run_options *o)
{
    int64_t staleness;
    return launch_is_async(o, &staleness)
               ? tg_fail(TG_E_SPEC,
                         "--server-mode %.64s: workers make different numbers of steps, but runs "
                         "are compared after the same steps: allowed: sum, sync",
                         o->server_mode)
               : TG_OK;
}

static tg_status settle_run(struct tune_run *run, const struct tune_options *o, size_t i)
{
    run->options = o->common;
    tune_grid_name(&o->grid, i, run->name);
    TG_TRY(tune_grid_set(&o->grid, i, &run->options, run->text));
    TG_TRY(run_defaults_settle(&run->options));
    TG_TRY(options_check(&run->options));
    TG_TRY(check_servers(&run->options));
    return settle_length(run);
}

/* Check everything that can be checked without training. Fills t->run. */
static tg_status prepare(struct tune_options *o, struct tune *t)
{
    TG_TRY(launch_check_one("tune"));
    launch_wants_more();
    if (o->grid.keys == 0)
        return tg_fail(TG_E_SPEC, "nothing to tune: give --vary KEY=VALUE,VALUE, e.g. --vary "
                                  "optimizer.lr=0.05,0.1; see telegrad tune --help");
    if (!o->dir)
        return tg_fail(TG_E_SPEC,
                       "no --out DIR: it keeps records and checkpoints, so that an interrupted "
                       "sweep can be continued");
    TG_TRY(options_check_length(&o->common));
    TG_TRY(tune_grid_check(&o->grid, &o->common));
    TG_TRY(settle_data(o));
    o->common.out = o->dir; /* there are records, which --log-every requires */
    t->runs = tune_grid_runs(&o->grid);
    t->run = calloc(t->runs, sizeof *t->run);
    t->order = calloc(t->runs, sizeof *t->order);
    if (!t->run || !t->order)
        return tg_fail(TG_E_NOMEM, "out of memory: %zu runs", t->runs);
    for (size_t i = 0; i < t->runs; i++) {
        const tg_status status = settle_run(&t->run[i], o, i);
        if (status != TG_OK)
            return tg_fail(status, "%s: %s", t->run[i].name, tg_error());
    }
    return TG_OK;
}

/* The first record of the folder: what is tuned, as it was given. NULL: out of memory */
static json_t *about_sweep(const struct tune_options *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->words; i++) {
        char *word;
        const char *value = o->word[i].value;
        if (asprintf(&word, "--%s%s%s", o->word[i].name, value ? " " : "", value ? value : "") < 0)
            continue;
        json_array_append_new(list, jsonl_text(word));
        free(word);
    }
    if (!options_given(&o->common, "holdout"))
        json_array_append_new(list, json_sprintf("--holdout %d", (int)o->common.holdout));
    return json_pack("{s:s, s:o}", "type", "tune", "options", list);
}

/* ---- the sweep ------------------------------------------------------------------------------- */

static tg_status print(const struct tune *t)
{
    if (tune_draw(t) != TG_OK)
        console_warning("no picture: %s", tg_error());
    return t->o->json ? tune_print_json(t) : tune_print(t);
}

static tg_status sweep(struct tune *t, struct tune_folder *f, const json_t *past)
{
    train_data *held;
    TG_TRY(run_open_data(&t->o->common, &held));
    t->held = held;
    t->images = train_data_unit(held) == TRAIN_IMAGES;
    tg_status status = tune_search(t, f, past);
    if (status == TG_OK && !t->interrupted)
        status = print(t);
    train_data_close(held);
    return status;
}

static void say_interrupted(const struct tune *t)
{
    size_t done, all;
    tune_count(t, &done, &all);
    console_note("%s; finished: %zu of %zu runs; to continue, give the same command again",
                 stop_words(), done, all);
}

static bool winner_diverged(const struct tune *t)
{
    bool diverged = false;
    for (uint64_t i = 0; i < t->o->seeds; i++)
        diverged = diverged || t->final[i].diverged;
    return diverged;
}

static tg_status tune(struct tune *t, int *exit_status_p)
{
    struct tune_folder *f;
    const json_t *past;
    json_t *about = about_sweep(t->o);
    if (!about)
        return tg_fail(TG_E_NOMEM, "out of memory: --out %s", t->o->dir);
    const tg_status opened = tune_folder_open(t->o->dir, about, &f, &past);
    json_decref(about);
    TG_TRY(opened);
    const tg_status status = sweep(t, f, past);
    if (status != TG_OK) {
        tune_folder_abandon(f);
        return status;
    }
    TG_TRY(tune_folder_close(f));
    if (t->interrupted)
        say_interrupted(t);
    *exit_status_p = t->interrupted ? stop_exit_status() : winner_diverged(t) ? CLI_FAILED : CLI_OK;
    return TG_OK;
}

static int run_tune(struct tune_options *o, struct tune *t)
{
    struct launch launch = {0};
    int exit_status = CLI_OK;
    tg_status status = prepare(o, t);
    if (status == TG_OK)
        status =
            launch_open(&launch, &(struct job_call){.net = &o->common.net,
                                                    .command = "tune",
                                                    .trains = true,
                                                    .timeout_s = options_patience(&o->common)});
    if (status != TG_OK)
        return launch_fail(&launch, status);
    t->launch = &launch;
    stop_install(launch.speaks);
    status = tune(t, &exit_status);
    if (status != TG_OK)
        return launch_fail(&launch, status);
    launch_close(&launch);
    return exit_status;
}

static int cmd_tune(int argc, char **argv)
{
    static struct tune_options o; /* large, and zero at first */
    struct tune *t = calloc(1, sizeof *t);
    if (!t)
        return cli_end(tg_fail(TG_E_NOMEM, "out of memory: a sweep"));
    options_defaults(&o.common, 1);
    o.seeds = 3;
    t->o = &o;
    int exit_status = options_parse(&command_tune, argc, argv, &o);
    if (exit_status < 0)
        exit_status = run_tune(&o, t);
    for (size_t i = 0; t->run && i < t->runs; i++)
        for (size_t k = 0; k < TUNE_KEYS; k++)
            free(t->run[i].text[k]);
    free(t->run);
    free(t->order);
    free(t);
    tune_grid_free(&o.grid);
    return exit_status;
}

static const struct cli_option own[] = {
    {.help = "What is tuned"},
    {"vary", VARY, "KEY=VALUES", NULL, NULL,
     "values to try, separated by commas: of a key of a spec (optimizer.lr=0.05,0.1; "
     "strategy.k=2,5; also of method, lr-schedule, model), or of an option (batch=16,32); all "
     "combinations are tried; repeatable"},
    {"seeds", SEEDS, "N", "3", NULL,
     "train the winner N times at full length, with N seeds from --seed on"},
    {"out", OUT, "DIR", NULL, NULL,
     "folder for records, checkpoints and the picture; give it again to continue an interrupted "
     "sweep; required"},
    {"json", JSON, NULL, NULL, NULL, "print the table and the winner as JSON lines"},
    {0}};

const struct cli_command command_tune = {
    .name = "tune",
    .run = cmd_tune,
    .summary = "find the best learning rate and other settings; train with them",
    .usage = "[OPTION]... --vary KEY=VALUES... --out DIR",
    .about =
        "Try all combinations of some settings, and train with the best.\n\n"
        "Each combination trains for a third of the length that the options say, with schedules of "
        "that third, on the training data without a part that is held out. After a third of that, "
        "the worse half stops; the winner is the best of the others. Images are judged by accuracy "
        "on what was held out, texts by loss; the test set is not looked at. The winner then "
        "trains at full length on all training data, and is tested on the test set.",
    .options = own,
    .set = set,
    .shared = options_of_tune,
    .set_shared = set_shared,
    .shared_of = shared_of,
    .notes = "The options from --model to --log-every mean the same as in telegrad train, and hold "
             "for every run. Interrupt a sweep once to stop it after the step, and give the same "
             "command again to continue.",
    .examples = "telegrad tune --model resnet20 --epochs 30 --method dgc:density=0.001 \\\n"
                "  --vary optimizer.lr=0.025,0.05,0.1,0.2 --vary optimizer.momentum=0,0.9 \\\n"
                "  --workers 4 --data cifar10 --out tuned"};
