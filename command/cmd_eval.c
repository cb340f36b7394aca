/* telegrad eval */
#include "bench/rows/npy.h"
#include "command/output/jsonl.h"
#include "command/output/cli.h"
#include "command/train/cli_run.h"
#include "command/output/console.h"
#include "command/train/data_text.h"
#include "command/output/format.h"
#include "command/output/outfile.h"
#include "command/output/output.h"
#include "command/output/stop.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct eval_options {
    struct run_options common; /* model, data, holdout, batch, resume, json */
    const char *weights, *logits;
    uint64_t samples; /* 0: all */
};

/* The files that receive the outputs. */
struct sink {
    tg_newfile *file;
    bool headed;
};

/* ---- settings -------------------------------------------------------------------------------- */

static tg_status check(const struct eval_options *o)
{
    TG_TRY(launch_check_one("eval"));
    if (!o->weights == !o->common.resume_dir)
        return tg_fail(TG_E_SPEC, "%s: allowed: --resume DIR or --weights FILE",
                       o->weights ? "--weights with --resume" : "no weights");
    if (outfile_is_stdout(o->logits))
        return tg_fail(TG_E_SPEC,
                       "--logits -: the logits must go to a file (./- is a file of that name)");
    if (o->weights && o->logits && outfile_same(o->weights, o->logits))
        return tg_fail(TG_E_SPEC,
                       "--logits \"%.64s\": this is the file of --weights: choose another",
                       o->logits);
    return TG_OK;
}

/* Options that are not given are taken from the metadata of the weights, under the same names. */
static tg_status complete(struct eval_options *o, const tg_weights *w)
{
    static const char *const names[] = {"model", "data",    "holdout",
                                        "batch", "context", "precision"};
    /* The holdout is part of the data: it does not apply to other data. */
    const bool other_data = options_given(&o->common, "data");
    if (!options_given(&o->common, "model") && !tg_weights_metadata(w, "model"))
        return tg_fail(TG_E_SPEC, "weights %s do not name their model: give --model SPEC",
                       tg_weights_path(w));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = tg_weights_metadata(w, names[i]);
        if (!text || options_given(&o->common, names[i]) ||
            (other_data && strcmp(names[i], "holdout") == 0))
            continue;
        if (options_set(&o->common, OPT_EVAL, names[i], text) != TG_OK) {
            char why[512];
            snprintf(why, sizeof why, "%s", tg_error());
            return tg_fail(TG_E_SPEC, "weights %s say of themselves: %s", tg_weights_path(w), why);
        }
    }
    return TG_OK;
}

/* Data that the command line does not name must be the data that the weights were trained on. */
static tg_status check_data(const tg_weights *w, const train_data *data, bool named)
{
    const char *trained = tg_weights_metadata(w, "data_hash");
    char here[32];
    snprintf(here, sizeof here, "%016" PRIx64, train_data_hash(data));
    if (named || !trained || strcmp(trained, here) == 0)
        return TG_OK;
    return tg_fail(TG_E_MISMATCH,
                   "weights %s were trained on data with hash %.16s, %s in %s has %s: give --data "
                   "NAME[:DIR] to test them on it",
                   tg_weights_path(w), trained, train_data_name(data), train_data_origin(data),
                   here);
}

/* What the weights were trained on, if that is not what these images are held out of. */
struct trained {
    const char *data; /* NULL: it is, or nothing is known */
    bool these;       /* they were among those trained on; false: other data */
};

static struct trained trained_on(const struct run_options *o, const tg_weights *w,
                                 const train_data *data)
{
    const char *hash = tg_weights_metadata(w, "data_hash"), *name = tg_weights_metadata(w, "data");
    const char *holdout = tg_weights_metadata(w, "holdout");
    char here[32];
    snprintf(here, sizeof here, "%016" PRIx64, train_data_hash(data));
    if (!hash || !name || strcmp(hash, here) == 0)
        return (struct trained){NULL, false};
    if (!o->data || strcmp(o->data, name) != 0)
        return (struct trained){name, false};
    const bool fewer = o->holdout > (holdout ? strtoull(holdout, NULL, 10) : 0);
    return (struct trained){fewer ? name : NULL, fewer};
}

/* ---- result ---------------------------------------------------------------------------------- */

static tg_status on_outputs(void *arg, const float *logits, size_t rows, size_t classes,
                            size_t total)
{
    struct sink *s = arg;
    errno = 0;
    bool good = s->headed || bench_npy_head_matrix(tg_newfile_stream(s->file), total, classes);
    s->headed = true;
    good = good && bench_npy_values(tg_newfile_stream(s->file), logits, rows * classes);
    return good ? TG_OK
                : tg_fail(TG_E_IO, "--logits: cannot write %s: %s", tg_newfile_path(s->file),
                          strerror(errno ? errno : EIO));
}

/* The step recorded in the file. Metadata may be any text; NULL: it names no step. */
static const char *step_of(const tg_weights *w)
{
    const char *step = tg_weights_metadata(w, "step");
    return step && *step && strlen(step) < 19 && !step[strspn(step, "0123456789")] ? step : NULL;
}

static tg_status print_json(const struct eval_options *o, const tg_weights *w,
                            const train_data *data, const train_eval_info *info)
{
    const char *step = step_of(w);
    json_t *record = json_pack(
        "{s:s, s:o, s:o, s:o, s:I, s:s, s:o, s:o, s:o, s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:f, "
        "s:s, s:s}",
        "type", "eval", "weights", jsonl_text(tg_weights_path(w)), "step",
        step ? json_integer(strtoll(step, NULL, 10)) : json_null(), "model",
        jsonl_text(o->common.model), "params", (json_int_t)info->params, "data",
        train_data_name(data), "data_origin", jsonl_text(train_data_origin(data)), "data_hash",
        json_sprintf("%016" PRIx64, train_data_hash(data)), "trained_on",
        jsonl_text(trained_on(&o->common, w, data).data), "split",
        o->common.holdout ? "holdout" : "test", "samples", (json_int_t)info->labels, "batch",
        (json_int_t)o->common.batch, "precision", train_precision_names[o->common.precision],
        "test_accuracy", jsonl_real(info->accuracy), "test_loss", jsonl_real(info->loss),
        "perplexity", jsonl_perplexity(train_data_unit(data) != TRAIN_IMAGES, info->loss),
        "seconds", info->seconds, "version", tg_version(), "cpu", tg_cpu_level());
    return jsonl_print_new(record);
}

static tg_status print_table(const struct eval_options *o, const tg_weights *w,
                             const train_data *data, const train_eval_info *info)
{
    const char *step = step_of(w);
    char *path = format_utf8(tg_weights_path(w));
    printf("weights        %s%s%s\n", path ? path : "", step ? ", step " : "", step ? step : "");
    free(path);
    printf("model          %s, %s parameters\n", o->common.model, format_count(info->params).text);
    printf("data           %s (%s), %s of %s to test%s\n", train_data_name(data),
           train_data_origin(data), format_count(info->labels).text,
           format_count(train_data_test(data)).text,
           o->common.holdout ? ", held out of training" : "");
    const struct trained trained = trained_on(&o->common, w, data);
    char *on = trained.data ? format_utf8(trained.data) : NULL;
    if (on)
        printf("trained on     %s, %s\n", on,
               trained.these ? "which held out fewer images: some that are tested were trained on"
                             : "which is other data");
    free(on);
    if (o->common.precision != TRAIN_FP32)
        printf("precision      %s\n", train_precision_names[o->common.precision]);
    printf("test           accuracy %s, loss %s\n", data_text_accuracy(info->accuracy).text,
           data_text_loss(train_data_unit(data), info->loss).text);
    printf("time           %s\n", format_seconds(info->seconds).text);
    return output_flush();
}

/* ---- work ------------------------------------------------------------------------------------ */

static tg_status test(const struct eval_options *o, const tg_weights *w, const train_data *data,
                      train_eval_info *info_p)
{
    struct sink sink = {0};
    const train_eval_job job = {.model = o->common.model,
                                .weights = w,
                                .batch = (size_t)o->common.batch,
                                .context = (size_t)o->common.context,
                                .precision = o->common.precision,
                                .samples = (size_t)o->samples,
                                .outputs = o->logits ? on_outputs : NULL,
                                .arg = &sink,
                                .stop = &stop_signal};
    if (o->logits)
        TG_TRY(outfile_check_old("--logits", o->logits, 0, "\x93NUMPY", "logits"));
    if (o->logits)
        TG_TRY(outfile_open("--logits", o->logits, &sink.file));
    tg_status status = train_evaluate(&job, data, info_p);
    if (!o->logits)
        return status;
    if (status == TG_OK)
        return outfile_commit(sink.file, "--logits");
    outfile_abandon(sink.file);
    return status;
}

/* Weights that do not fit a model may fit another one than was given. */
static tg_status name_model(const struct eval_options *o, const tg_weights *w, tg_status status)
{
    const char *own = tg_weights_metadata(w, "model");
    char why[512];
    if (status != TG_E_MISMATCH || !options_given(&o->common, "model"))
        return status;
    snprintf(why, sizeof why, "%s", tg_error());
    return tg_fail(status, "--model %.64s: %s%s%.100s", o->common.model, why,
                   own ? "; the weights say that they are of " : "", own ? own : "");
}

static tg_status evaluate(struct eval_options *o, const tg_weights *w)
{
    train_data *data = NULL;
    train_eval_info info = {.loss = 0};
    const bool named = options_given(&o->common, "data") || options_given(&o->common, "holdout");
    TG_TRY(complete(o, w));
    TG_TRY(run_open_data(&o->common, &data));
    tg_status status = check_data(w, data, named);
    if (status == TG_OK)
        status = name_model(o, w, test(o, w, data, &info));
    if (status == TG_OK)
        status = (o->common.json ? print_json : print_table)(o, w, data, &info);
    train_data_close(data);
    if (status == TG_OK && !isfinite(info.loss))
        return tg_fail(TG_E_NONFINITE,
                       "weights %s: the test loss is not finite, so there is no accuracy: the "
                       "training of these weights diverged",
                       tg_weights_path(w));
    return status;
}

static tg_status open_and_evaluate(struct eval_options *o)
{
    tg_weights *w;
    TG_TRY(check(o));
    if (o->common.resume_dir)
        TG_TRY(run_check_resume(o->common.resume_dir));
    TG_TRY(o->weights ? tg_weights_open(o->weights, &w)
                      : tg_weights_open_newest(o->common.resume_dir, &w));
    tg_status status = evaluate(o, w);
    tg_weights_close(w);
    return status;
}

/* ---- arguments ------------------------------------------------------------------------------- */

enum {
    RESUME = OPTIONS_KEY,
    WEIGHTS,
    MODEL,
    DATA,
    HOLDOUT,
    CONTEXT,
    BATCH,
    PRECISION,
    SAMPLES,
    LOGITS,
    JSON
};

static const struct cli_option own[] = {
    {.help = "Weights"},
    {"resume", RESUME, "DIR", NULL, NULL, "those of the newest checkpoint of a folder"},
    {"weights", WEIGHTS, "FILE", NULL, NULL,
     "those of a .safetensors file, from telegrad or elsewhere"},
    {.help = "Model and data (default: what the weights say)"},
    {"model", MODEL, "SPEC", NULL, "models", "network: see telegrad models"},
    {"data", DATA, "SPEC", NULL, "data", "data set: see telegrad data"},
    {"holdout", HOLDOUT, "N", NULL, NULL,
     "test on the last N training images, or tokens of a text, instead of the test set"},
    {"context", CONTEXT, "N", NULL, NULL, "tokens in each sample of a text"},
    {"batch", BATCH, "N", NULL, NULL, "samples that are tested at a time"},
    {"precision", PRECISION, "fp32|bf16", NULL, NULL, "number format of the forward pass"},
    {.help = "Output"},
    {"samples", SAMPLES, "N", NULL, NULL, "test only the first N samples"},
    {"logits", LOGITS, "FILE", NULL, NULL,
     "write the outputs for images as a .npy file of (samples, classes) f32"},
    {"json", JSON, NULL, NULL, NULL, "print the result as a JSON object"},
    {0}};

static const char *name_of(int key)
{
    const struct cli_option *option = own;
    while (option->key != key)
        option++;
    return option->name;
}

static tg_status set(void *input, int key, char *arg)
{
    struct eval_options *o = input;
    char *end = NULL;
    if (key != WEIGHTS && key != LOGITS && key != SAMPLES)
        return options_set(&o->common, OPT_EVAL, name_of(key), arg);
    if (!*arg)
        return tg_fail(TG_E_SPEC, "--%s has no value; see telegrad eval --help", name_of(key));
    if (key == WEIGHTS)
        o->weights = arg;
    if (key == LOGITS)
        o->logits = arg;
    if (key != SAMPLES)
        return TG_OK;
    o->samples = strtoull(arg, &end, 10);
    if (*arg < '0' || *arg > '9' || *end || o->samples < 1 || o->samples > 1000000000)
        return tg_fail(TG_E_SPEC, "--samples \"%.64s\": allowed: 1 to 1000000000", arg);
    return TG_OK;
}

static int cmd_eval(int argc, char **argv)
{
    struct eval_options o = {0};
    options_defaults(&o.common, 1);
    const int parsed = options_parse(&command_eval, argc, argv, &o);
    if (parsed >= 0)
        return parsed;
    stop_install(true);
    tg_status status = open_and_evaluate(&o);
    if (status == TG_OK)
        return CLI_OK;
    if (stop_signal) {
        console_note("interrupted by %s", stop_signal_name());
        return stop_exit_status();
    }
    console_error("%s", tg_error());
    return cli_exit_status(status);
}

const struct cli_command command_eval = {
    .name = "eval",
    .run = cmd_eval,
    .summary = "test the weights of a checkpoint or of a file",
    .usage = "[OPTION]... --resume DIR\n[OPTION]... --weights FILE",
    .about = "Test weights on the test set, as telegrad train does.",
    .options = own,
    .set = set,
    .examples = "telegrad eval --resume checkpoints\n"
                "telegrad eval --weights lenet.safetensors --model lenet5 --data mnist"};
