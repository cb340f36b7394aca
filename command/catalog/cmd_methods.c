/* telegrad methods, strategies, exchanges, codecs, ...: lists the registry's entries of a kind, as
 * text or JSON; `methods` also prints the table of docs/methods.md. */
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/catalog/entry.h"
#include "command/catalog/methods_card.h"
#include "command/job/options.h"
#include "command/output/output.h"
#include <jansson.h>
#include <string.h>

struct methods_options {
    int kind;
    bool json, markdown;
    struct cli_words names;
};

/* ---- what was asked for ---------------------------------------------------------------------- */

/* With --json, `methods` covers the whole registry and accepts names of any kind, and kinds. */
static bool spans_all(const struct methods_options *o)
{
    return o->kind == TG_KIND_METHOD && o->json;
}

static bool wanted(const void *arg, const tg_entry *entry)
{
    const struct methods_options *o = arg;
    for (size_t i = 0; i < o->names.count; i++)
        if (strcmp(o->names.word[i], entry->name) == 0)
            return true;
    return o->names.count == 0;
}

static bool wanted_kind(const struct methods_options *o, int kind)
{
    for (size_t i = 0; i < o->names.count; i++)
        if (strcmp(o->names.word[i], entry_kind(kind)) == 0)
            return true;
    return false;
}

static tg_status check_name(const struct methods_options *o, const char *name)
{
    if (entry_find(o->kind, name))
        return TG_OK;
    for (int kind = 0; kind < KINDS && spans_all(o); kind++)
        if (strcmp(entry_kind(kind), name) == 0 || entry_find(kind, name))
            return TG_OK;
    return entry_unknown(o->kind, name);
}

/* ---- printing -------------------------------------------------------------------------------- */

static tg_status print_text(const struct methods_options *o)
{
    if (o->names.count > 0) {
        for (size_t i = 0; i < o->names.count; i++)
            TG_TRY(
                entry_print(o->kind, entry_find(o->kind, o->names.word[i]), console_out_columns()));
        return TG_OK;
    }
    entry_print_table(o->kind, console_out_columns());
    printf("\ntelegrad %s NAME shows the keys, ranges and source of one\n", entry_kinds(o->kind));
    return TG_OK;
}

static tg_status print_markdown(const struct methods_options *o)
{
    size_t count;
    const tg_entry *const *entries = tg_registry_entries(TG_KIND_METHOD, &count);
    methods_card_markdown(entries, count, wanted, o);
    return TG_OK;
}

static tg_status fill_json(const struct methods_options *o, json_t *all)
{
    for (int kind = 0; kind < KINDS; kind++) {
        size_t count;
        const tg_entry *const *entries = entries_of(kind, &count);
        json_t *list, *object = NULL;
        if (kind != o->kind && !spans_all(o))
            continue;
        list = json_array();
        if (json_object_set_new(all, entry_kind(kind), list) != 0)
            return tg_fail(TG_E_NOMEM, "out of memory: %s", entry_kinds(kind));
        for (size_t i = 0; i < count; i++) {
            if (!wanted_kind(o, kind) && !wanted(o, entries[i]))
                continue;
            TG_TRY(entry_json(kind, entries[i], &object));
            if (json_array_append_new(list, object) != 0)
                return tg_fail(TG_E_NOMEM, "out of memory: %s", entries[i]->name);
        }
    }
    return TG_OK;
}

static tg_status print_json(const struct methods_options *o)
{
    json_t *all = json_pack("{s:s}", "version", tg_version());
    tg_status status = all ? fill_json(o, all)
                           : tg_fail(TG_E_NOMEM, "out of memory: list of %s", entry_kinds(o->kind));
    if (status == TG_OK && json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) == 0)
        putchar('\n');
    json_decref(all);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

enum { JSON = OPTIONS_KEY, MARKDOWN };

static tg_status set(void *input, int key, char *arg)
{
    struct methods_options *o = input;
    (void)arg;
    if (key == JSON)
        o->json = true;
    else
        o->markdown = true;
    return TG_OK;
}

static struct cli_words *words_of(void *input)
{
    return &((struct methods_options *)input)->names;
}

static tg_status print(const struct methods_options *o)
{
    if (o->json && o->markdown)
        return tg_fail(TG_E_SPEC, "--json and --markdown cannot be combined");
    for (size_t i = 0; i < o->names.count; i++)
        TG_TRY(check_name(o, o->names.word[i]));
    TG_TRY(o->markdown ? print_markdown(o) : o->json ? print_json(o) : print_text(o));
    return output_flush();
}

static const struct cli_option methods[] = {
    {.help = "Options"},
    {"json", JSON, NULL, NULL, NULL,
     "print everything as one JSON object, with strategies, codecs and so on; NAMEs may be of any "
     "kind, or kinds (strategy)"},
    {"markdown", MARKDOWN, NULL, NULL, NULL, "print the table of docs/methods.md"},
    {0}};
static const struct cli_option others[] = {
    {.help = "Options"}, {"json", JSON, NULL, NULL, NULL, "print one JSON object"}, {0}};

static const struct cli_command *command_of(int kind)
{
    const struct cli_command *const all[] = {
        &command_methods,   &command_strategies, &command_exchanges,   &command_codecs,
        &command_feedbacks, &command_optimizers, &command_lr_schedules};
    size_t i = 0;
    while (strcmp(all[i]->name, entry_kinds(kind)) != 0)
        i++;
    return all[i];
}

static int cmd_methods(int argc, char **argv)
{
    struct methods_options o = {.kind = entry_kind_find(argv[0])};
    const int parsed = options_parse(command_of(o.kind), argc, argv, &o);
    if (parsed >= 0)
        return parsed;
    const tg_status status = print(&o);
    return cli_end(status);
}

#define SPEC_STRINGS                                                                            \
    "A spec string is a name and keys: NAME:key=value,key=value. Durations are steps (200) or " \
    "epochs (4ep); 1% is 0.01."

const struct cli_command command_methods = {
    .name = "methods",
    .run = cmd_methods,
    .lists = true,
    .summary = "list the methods of compression, with their keys and papers",
    .usage = "[--json | --markdown] [NAME]...",
    .about =
        "List the methods of compression, one per line; with NAMEs, everything about each: what it "
        "sends and keeps, bits per element, cost, when to use it, the algorithm that it becomes in "
        "the limit, keys with defaults and ranges, and its paper.\n\n" SPEC_STRINGS,
    .operands = "methods",
    .options = methods,
    .set = set,
    .words_of = words_of,
    .notes = "See also: telegrad strategies, exchanges, codecs, feedbacks, optimizers, "
             "lr-schedules, models.",
    .examples = "telegrad methods dgc"};

#define KIND(identifier, kinds, what, example)                                                   \
    const struct cli_command identifier = {                                                      \
        .name = kinds,                                                                           \
        .run = cmd_methods,                                                                      \
        .lists = true,                                                                           \
        .summary = "list the " what,                                                             \
        .usage = "[--json] [NAME]...",                                                           \
        .about = "List the " what ", one per line; with NAMEs, the keys of each, with defaults " \
                 "and ranges, and its paper.\n\n" SPEC_STRINGS,                                  \
        .operands = kinds,                                                                       \
        .options = others,                                                                       \
        .set = set,                                                                              \
        .words_of = words_of,                                                                    \
        .examples = "telegrad " kinds " " example}

KIND(command_strategies, "strategies", "strategies (when workers exchange, what they apply)", "cd");
KIND(command_exchanges, "exchanges", "exchanges (how the messages of all ranks are combined)",
     "allgather");
KIND(command_codecs, "codecs", "codecs (how a vector becomes a message)", "topk");
KIND(command_feedbacks, "feedbacks", "feedbacks (what is kept of what was not sent)", "residual");
KIND(command_optimizers, "optimizers", "optimizers", "adamw");
KIND(command_lr_schedules, "lr-schedules", "schedules of the learning rate", "cosine");
