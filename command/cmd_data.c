/* telegrad data: lists the data sets and where their files are. For the sets named, it prints their
 * contents and which rank would get which classes. */
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/train/cli_run.h"
#include "command/train/data_text.h"
#include "command/job/options.h"
#include "command/output/output.h"
#include "command/train/records.h"
#include "command/output/table.h"
#include <inttypes.h>
#include <string.h>

struct data_options {
    struct run_options common; /* holdout, workers, seed, shard */
    bool json;
    struct cli_words specs;
};

static tg_status no_memory(void)
{
    return tg_fail(TG_E_NOMEM, "out of memory: list of data sets");
}

/* ---- all sets -------------------------------------------------------------------------------- */

static model_input input_of(const data_set *set)
{
    return (model_input){.height = set->height,
                         .width = set->width,
                         .channels = set->channels,
                         .classes = set->classes};
}

static const char *where(const data_set *set)
{
    const char *path = NULL;
    if (train_data_find(set->entry->name, &path))
        return path;
    return set->place ? NULL : "";
}

static tg_status list_table(void)
{
    size_t count;
    const data_set *const *sets = data_sets(&count);
    struct table *t = table_create(4);
    if (t == NULL)
        return no_memory();
    table_fit(t, (size_t)console_out_columns());
    table_row(t);
    table_cell(t, "data set");
    table_cell(t, "of");
    table_cell(t, "input");
    table_rest(t, "where it was found");
    for (size_t i = 0; i < count; i++) {
        const data_set *set = sets[i];
        const model_input in = input_of(set);
        const char *found = where(set);
        char hint[256];
        snprintf(hint, sizeof hint, "named by %s:%s=PATH", set->entry->name,
                 set->path_key ? set->path_key : "");
        table_row(t);
        table_cell(t, set->entry->name);
        table_cell(t, data_text_unit(set->unit));
        table_cell(t, set->unit == TRAIN_IMAGES ? data_text_input(set->unit, &in).text : "");
        table_rest(t, found == NULL ? "not found" : found[0] ? found : hint);
    }
    const tg_status status = output_table(t);
    table_destroy(t);
    return status;
}

static tg_status list_json(void)
{
    size_t count;
    const data_set *const *sets = data_sets(&count);
    json_t *all = json_array();
    for (size_t i = 0; all && i < count; i++) {
        const data_set *set = sets[i];
        const char *found = where(set);
        json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", set->entry->name, "summary",
                                set->entry->summary, "source", set->entry->source, "unit",
                                data_text_unit(set->unit), "found",
                                found && found[0] ? jsonl_text(found) : json_null());
        if (json_array_append_new(all, row) != 0) {
            json_decref(all);
            all = NULL;
        }
    }
    return jsonl_print_new(all);
}

/* ---- one set --------------------------------------------------------------------------------- */

/* Set counts (world, classes) for the job's sharding; NULL for text, which has no classes. */
static tg_status count_shards(const struct data_options *o, const train_data *d,
                              uint64_t **counts_p)
{
    const char *shard = o->common.shard;
    const int workers = (int)o->common.workers;
    *counts_p = NULL;
    if (train_data_unit(d) != TRAIN_IMAGES) /* checks that the text can be sharded so */
        return train_data_shards(d, shard, o->common.seed, workers, NULL);
    uint64_t *counts = calloc(o->common.workers * train_data_classes(d), sizeof *counts);
    if (counts == NULL)
        return no_memory();
    const tg_status status = train_data_shards(d, shard, o->common.seed, workers, counts);
    if (status != TG_OK) {
        free(counts);
        return status;
    }
    *counts_p = counts;
    return TG_OK;
}

static tg_status show_counts(const struct data_options *o, const train_data *d,
                             const uint64_t *counts)
{
    const size_t classes = train_data_classes(d);
    const size_t rows = o->common.shard ? (size_t)o->common.workers : 1;
    struct table *t = table_create(classes + 2);
    char text[32];
    if (t == NULL)
        return no_memory();
    table_fit(t, (size_t)console_out_columns());
    table_row(t);
    table_cell(t, o->common.shard ? "rank" : "class");
    for (size_t c = 0; c < classes; c++) {
        snprintf(text, sizeof text, "%zu", c);
        table_cell(t, text);
    }
    table_cell(t, "all");
    for (size_t r = 0; r < rows; r++) {
        uint64_t sum = 0;
        snprintf(text, sizeof text, "%zu", r);
        table_row(t);
        table_cell(t, o->common.shard ? text : "to train");
        for (size_t c = 0; c < classes; c++) {
            sum += counts[r * classes + c];
            table_cell(t, format_count(counts[r * classes + c]).text);
        }
        table_cell(t, format_count(sum).text);
    }
    const tg_status status = output_table(t);
    table_destroy(t);
    return status;
}

static tg_status show_text(const struct data_options *o, const train_data *d,
                           const uint64_t *counts)
{
    const model_input in = train_data_input(d, 0);
    const train_unit unit = train_data_unit(d);
    printf("data           %s (%s)\n", train_data_name(d), train_data_origin(d));
    printf("%-14s %s\n", data_text_unit(unit), data_text_counts(d).text);
    printf("input          %s\n", data_text_input(unit, &in).text);
    if (unit == TRAIN_IMAGES)
        printf("augment        %s\n", d->augment ? "crop-flip" : "none");
    printf("hash           %016" PRIx64 "\n", train_data_hash(d));
    return counts ? show_counts(o, d, counts) : TG_OK;
}

static tg_status show_json(const struct data_options *o, const train_data *d,
                           const uint64_t *counts)
{
    json_t *all =
        json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:b, s:o}", "data", train_data_name(d), "origin",
                  jsonl_text(train_data_origin(d)), "unit", data_text_unit(train_data_unit(d)),
                  "train", (json_int_t)train_data_train(d), "test", (json_int_t)train_data_test(d),
                  "classes", (json_int_t)train_data_classes(d), "augment", (int)d->augment, "hash",
                  json_sprintf("%016" PRIx64, train_data_hash(d)));
    if (all && counts &&
        json_object_set_new(all, "shards",
                            jsonl_counts(counts, o->common.shard ? (size_t)o->common.workers : 1,
                                         train_data_classes(d))) != 0) {
        json_decref(all);
        return no_memory();
    }
    return jsonl_print_new(all);
}

static tg_status show(const struct data_options *o, const char *spec)
{
    train_data *d;
    uint64_t *counts;
    TG_TRY(train_data_open(spec, (size_t)o->common.holdout, &d));
    tg_status status = count_shards(o, d, &counts);
    if (status == TG_OK) {
        status = o->json ? show_json(o, d, counts) : show_text(o, d, counts);
        free(counts);
    }
    train_data_close(d);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

enum { JSON = OPTIONS_KEY, HOLDOUT, WORKERS, SEED, SHARD };

static tg_status set(void *input, int key, char *arg)
{
    struct data_options *o = input;
    static const char *const names[] = {[HOLDOUT - OPTIONS_KEY] = "holdout",
                                        [WORKERS - OPTIONS_KEY] = "workers",
                                        [SEED - OPTIONS_KEY] = "seed",
                                        [SHARD - OPTIONS_KEY] = "shard"};
    if (key != JSON)
        return options_set(&o->common, OPT_TRAIN, names[key - OPTIONS_KEY], arg);
    o->json = true;
    return TG_OK;
}

static struct cli_words *words_of(void *input)
{
    return &((struct data_options *)input)->specs;
}

/* Refuse options that the list, or data without shards, would ignore. */
static tg_status check(const struct data_options *o)
{
    static const char *const names[] = {"shard", "holdout", "workers", "seed"};
    for (size_t i = 0; i < TG_COUNT(names); i++)
        if (o->specs.count == 0 && options_given(&o->common, names[i]))
            return tg_fail(TG_E_SPEC, "--%s requires a data set: telegrad data SPEC --%s ...",
                           names[i], names[i]);
    for (size_t i = 2; i < TG_COUNT(names); i++)
        if (!o->common.shard && options_given(&o->common, names[i]))
            return tg_fail(TG_E_SPEC, "--%s requires --shard SPEC", names[i]);
    return TG_OK;
}

static const struct cli_option options[] = {
    {.help = "What each worker would train on"},
    {"shard", SHARD, "SPEC", NULL, "iid|dirichlet|label|contiguous",
     "how workers share the training data: iid, dirichlet:alpha=0.5, label:classes=2, contiguous"},
    {"workers", WORKERS, "N", "4", NULL, "number of workers; requires --shard"},
    {"seed", SEED, "N", "1", NULL, "seed of the shares that are drawn; requires --shard"},
    {"holdout", HOLDOUT, "N", NULL, NULL,
     "test on the last N training images, or tokens of a text, instead of the test set"},
    {.help = "Output"},
    {"json", JSON, NULL, NULL, NULL, "print JSON"},
    {0}};

static int cmd_data(int argc, char **argv)
{
    struct data_options o = {.json = false};
    options_defaults(&o.common, 4);
    int parsed = options_parse(&command_data, argc, argv, &o);
    if (parsed >= 0)
        return parsed;
    tg_status status = check(&o);
    if (status == TG_OK)
        run_warn_of_data_place();
    if (o.specs.count == 0 && status == TG_OK)
        status = o.json ? list_json() : list_table();
    for (size_t i = 0; i < o.specs.count && status == TG_OK; i++)
        status = show(&o, o.specs.word[i]);
    if (status == TG_OK)
        status = output_flush();
    return cli_end(status);
}

const struct cli_command command_data = {
    .name = "data",
    .run = cmd_data,
    .lists = true,
    .summary = "list what can be trained on, and where it was found",
    .usage = "[OPTION]... [SPEC]...",
    .about =
        "List the data sets and where their files were found; with SPECs, say what is in them. "
        "SPEC is NAME, NAME:PATH or NAME:key=value,... as in telegrad train --data. Files are "
        "looked for in $TELEGRAD_DATA, then in ./data, plain or as .gz or .xz.",
    .operands = "data",
    .options = options,
    .set = set,
    .words_of = words_of,
    .notes = "mnist, fashion-mnist, cifar10: images; dir=, augment=none|crop-flip\n"
             "cifar10:train=1-4,test=5: by batches; test=test is test_batch.bin\n"
             "glyphs:train=60000,test=10000,seed=1: generated digits\n"
             "text:FILE, shakespeare: characters; file=, split=0.9, unit=bytes\n"
             "words:DIR, wikitext-2: words; dir=, eval=test|valid",
    .examples = "telegrad data cifar10:train=1-4,test=5 --shard dirichlet:alpha=0.1"};
