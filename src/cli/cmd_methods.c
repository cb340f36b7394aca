/* telegrad methods: everything that the registry holds, for people and as JSON; the methods as the
 * table of docs/methods.md. */
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/entry.h"
#include "cli/methods_card.h"
#include "cli/options.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

struct methods_options {
    bool json, markdown;
    char **names; /* (count) */
    size_t count;
};

#define KINDS (KIND_MODEL + 1)

static const char *kind_name(int kind)
{
    return kind < TG_KIND_COUNT ? tg_kind_name((tg_kind)kind) : "model";
}

static const tg_entry *const *kind_entries(int kind, size_t *count_p)
{
    return kind < TG_KIND_COUNT ? tg_registry_entries((tg_kind)kind, count_p)
                                : train_models(count_p);
}

static bool wanted(const void *arg, const tg_entry *entry)
{
    const struct methods_options *o = arg;
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->names[i], entry->name) == 0)
            return true;
    return o->count == 0;
}

/* Whether all entries of a kind were asked for, by its name. */
static bool wanted_kind(const struct methods_options *o, int kind)
{
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->names[i], kind_name(kind)) == 0)
            return true;
    return false;
}

static tg_status check_names(const struct methods_options *o)
{
    for (size_t i = 0; i < o->count; i++) {
        bool found = false;
        for (int kind = 0; kind < KINDS; kind++) {
            size_t count;
            const tg_entry *const *entries = kind_entries(kind, &count);
            found = found || strcmp(kind_name(kind), o->names[i]) == 0;
            for (size_t e = 0; e < count; e++)
                found = found || strcmp(entries[e]->name, o->names[i]) == 0;
        }
        if (!found)
            return tg_fail(TG_E_SPEC,
                           "unknown name \"%.64s\": allowed: those that telegrad "
                           "methods lists",
                           o->names[i]);
    }
    return TG_OK;
}

/* The entry with all defaults in normal form; it was read back, so the defaults hold. */
static tg_status default_spec(int kind, const tg_entry *entry, tg_spec **spec_p)
{
    size_t count;
    const tg_entry *const *entries = kind_entries(kind, &count);
    tg_spec *spec = NULL, *again = NULL;
    TG_TRY(tg_spec_parse(kind_name(kind), entries, count, entry->name, &spec));
    tg_status status = tg_spec_parse(kind_name(kind), entries, count, tg_spec_text(spec), &again);
    tg_spec_free(spec);
    TG_TRY(status);
    *spec_p = again;
    return TG_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *const type_names[] = {
    [TG_KEY_INT] = "integer",   [TG_KEY_REAL] = "real",         [TG_KEY_FLAG] = "flag",
    [TG_KEY_CHOICE] = "choice", [TG_KEY_DURATION] = "duration", [TG_KEY_SPEC] = "spec"};

static bool has_range(const tg_key *key)
{
    return key->type == TG_KEY_INT || key->type == TG_KEY_REAL || key->type == TG_KEY_DURATION;
}

/* A bound as short as it reads back: powers of two and the like stay readable. */
static const char *bound(double v, char text[32])
{
    snprintf(text, 32, fabs(v) < 1e15 ? "%.10g" : "%.3g", v);
    return text;
}

static void print_allowed(const tg_key *key)
{
    char low[32], high[32];
    if (key->type == TG_KEY_CHOICE) {
        printf("%s", key->choices);
    } else if (key->type == TG_KEY_FLAG) {
        printf("yes|no");
    } else if (!has_range(key)) {
        printf("%s", type_names[key->type]);
    } else {
        printf("%s", type_names[key->type]);
        /* From 1e15 on a bound is there for the machine's sake. */
        if (isfinite(key->min) && fabs(key->min) < 1e15)
            printf(" %s %s", key->min_open ? ">" : ">=", bound(key->min, low));
        if (isfinite(key->max) && fabs(key->max) < 1e15)
            printf("%s <= %s", isfinite(key->min) ? "," : "", bound(key->max, high));
        if (key->choices)
            printf(" or %s", key->choices);
    }
}

void print_entry(int kind, const tg_entry *entry)
{
    printf("  %s: %s\n", entry->name, entry->summary);
    if (kind == TG_KIND_METHOD)
        methods_card_print(tg_registry_method_card(entry->name));
    if (kind == TG_KIND_STRATEGY)
        printf("      method where none is named: %s\n", tg_registry_strategy_method(entry->name));
    for (const tg_key *key = entry->keys; key && key->name; key++) {
        printf("      %s%s%s  (", key->name, key->def ? "=" : "", key->def ? key->def : "");
        print_allowed(key);
        printf(")  %s\n", key->help ? key->help : "");
    }
    if (entry->source && entry->source[0])
        printf("      source: %s\n", entry->source);
}

static tg_status print_all(const struct methods_options *o)
{
    for (int kind = 0; kind < KINDS; kind++) {
        size_t count;
        bool headed = false;
        const tg_entry *const *entries = kind_entries(kind, &count);
        for (size_t i = 0; i < count; i++) {
            if (!wanted_kind(o, kind) && !wanted(o, entries[i]))
                continue;
            if (!headed)
                printf("%s\n", kind_name(kind));
            headed = true;
            print_entry(kind, entries[i]);
        }
    }
    return TG_OK;
}

static tg_status print_markdown(const struct methods_options *o)
{
    size_t count;
    const tg_entry *const *entries = tg_registry_entries(TG_KIND_METHOD, &count);
    methods_card_markdown(entries, count, wanted, o);
    return TG_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Appends item (taken over); NULL when anything is. */
static json_t *append(json_t *list, json_t *item)
{
    if (list && json_array_append_new(list, item) == 0)
        return list;
    if (!list)
        json_decref(item);
    json_decref(list);
    return NULL;
}

/* Adds the members of `more` (taken over); NULL when anything is. */
static json_t *join(json_t *object, json_t *more)
{
    if (object && (!more || json_object_update(object, more) != 0)) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return object;
}

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *choices_json(const tg_key *key)
{
    json_t *list = json_array();
    const char *p = key->type == TG_KEY_FLAG ? "yes|no" : key->choices;
    while (list && p && *p) {
        size_t len = strcspn(p, "|");
        list = append(list, json_stringn(p, len));
        p += len + (p[len] == '|');
    }
    return list;
}

static json_t *key_json(const tg_key *key)
{
    json_t *object =
        json_pack("{s:s, s:s, s:s?, s:s}", "name", key->name, "type", type_names[key->type],
                  "default", key->def, "help", key->help ? key->help : "");
    if (has_range(key))
        object = join(object, json_pack("{s:o, s:o, s:b}", "min", real(key->min), "max",
                                        real(key->max), "min_open", (int)key->min_open));
    if (key->type == TG_KEY_FLAG || key->choices)
        object = join(object, json_pack("{s:o}", "choices", choices_json(key)));
    return object;
}

tg_status entry_json(int kind, const tg_entry *entry, json_t **object_p)
{
    tg_spec *spec = NULL;
    TG_TRY(default_spec(kind, entry, &spec));
    json_t *keys = json_array();
    for (const tg_key *key = entry->keys; keys && key && key->name; key++)
        keys = append(keys, key_json(key));
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", entry->name, "summary",
                               entry->summary, "source", entry->source ? entry->source : "", "spec",
                               tg_spec_text(spec), "keys", keys);
    tg_spec_free(spec);
    if (kind == TG_KIND_METHOD)
        object = join(object, json_pack("{s:o}", "card",
                                        methods_card_json(tg_registry_method_card(entry->name))));
    if (kind == TG_KIND_STRATEGY)
        object =
            join(object, json_pack("{s:s}", "method", tg_registry_strategy_method(entry->name)));
    if (!object)
        return tg_fail(TG_E_NOMEM, "out of memory: %s", entry->name);
    *object_p = object;
    return TG_OK;
}

static tg_status fill_json(const struct methods_options *o, json_t *all)
{
    for (int kind = 0; kind < KINDS; kind++) {
        size_t count;
        const tg_entry *const *entries = kind_entries(kind, &count);
        json_t *list = json_array(), *object = NULL;
        if (json_object_set_new(all, kind_name(kind), list) != 0)
            return tg_fail(TG_E_NOMEM, "out of memory: %s", kind_name(kind));
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
    tg_status status =
        all ? fill_json(o, all) : tg_fail(TG_E_NOMEM, "out of memory: list of methods");
    if (status == TG_OK && json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) != 0)
        status = tg_fail(TG_E_IO, "standard output cannot be written");
    putchar('\n');
    json_decref(all);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

enum { JSON = OPTIONS_KEY, MARKDOWN };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct methods_options *o = state->input;
    (void)arg;
    switch (key) {
    case JSON:
        o->json = true;
        return 0;
    case MARKDOWN:
        o->markdown = true;
        return 0;
    case ARGP_KEY_ARGS:
        o->names = state->argv + state->next;
        o->count = (size_t)(state->argc - state->next);
        state->next = state->argc;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

int cmd_methods(int argc, char **argv)
{
    static const struct argp_option list[] = {
        {.name = "json", .key = JSON}, {.name = "markdown", .key = MARKDOWN}, {0}};
    const struct argp parser = {.options = list, .parser = parse};
    struct methods_options o = {0};
    int parsed = options_parse(&parser, "methods", help_methods, argc, argv, &o);
    if (parsed >= 0)
        return parsed;
    tg_status status = check_names(&o);
    if (status == TG_OK)
        status = o.markdown ? print_markdown(&o) : o.json ? print_json(&o) : print_all(&o);
    if (status == TG_OK && (fflush(stdout) != 0 || ferror(stdout)))
        status = tg_fail(TG_E_IO, "standard output cannot be written");
    if (status != TG_OK)
        console_error("%s", tg_error());
    return cli_exit_status(status);
}
