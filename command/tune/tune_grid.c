#include "command/tune/tune_grid.h"
#include "command/job/option_table.h"
#include "command/train/run_defaults.h"
#include "telegrad/tools.h"
#include "trainer/model/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one --vary ------------------------------------------------------------------------------ */

static const struct option_def *find(const char *name)
{
    for (size_t i = 0; i < option_table_count; i++)
        if (option_table[i].o.name && strcmp(option_table[i].o.name, name) == 0)
            return &option_table[i];
    return NULL;
}

static bool has_keys(const struct option_def *option)
{
    return option->form == FORM_SPEC || option->form == FORM_MODEL;
}

/* The option that varies. Errors TG_E_SPEC */
static tg_status check_option(const struct tune_key *k)
{
    const struct option_def *option = find(k->option);
    char list[256] = "";
    tg_nearest near;
    if (option && option->where & OPT_VARY && (!k->key || has_keys(option)))
        return TG_OK;
    if (option && option->where & OPT_VARY)
        return tg_fail(TG_E_SPEC, "--vary %.64s: %s has no keys: allowed: --vary %s=VALUE,VALUE",
                       k->name, k->option, k->option);
    tg_nearest_begin(&near, k->option);
    for (size_t i = 0; i < option_table_count; i++) {
        const struct option_def *other = &option_table[i];
        if (!(other->where & OPT_VARY))
            continue;
        tg_nearest_offer(&near, other->o.name, strlen(other->o.name));
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", list[0] ? ", " : "",
                 other->o.name);
    }
    return tg_fail(TG_E_SPEC, "--vary %.64s: \"%.64s\" cannot vary: %sallowed: %s", k->name,
                   k->option, tg_nearest_hint(&near), list);
}

/* A value of a whole option that has commas itself stands in brackets. */
static char *without_brackets(const struct tune_key *k, char *value)
{
    const size_t len = strlen(value);
    if (k->key || len < 2 || value[0] != '[' || value[len - 1] != ']')
        return value;
    value[len - 1] = '\0';
    return value + 1;
}

static tg_status add_value(struct tune_key *k, char *value)
{
    value = without_brackets(k, value);
    if (!*value)
        return tg_fail(TG_E_SPEC, "--vary %.64s: an empty value: allowed: %.64s=VALUE,VALUE",
                       k->name, k->name);
    for (size_t i = 0; i < k->count; i++)
        if (strcmp(k->value[i], value) == 0)
            return tg_fail(TG_E_SPEC, "--vary %.64s: the value %.64s is given twice", k->name,
                           value);
    if (k->count == TUNE_VALUES)
        return tg_fail(TG_E_SPEC, "--vary %.64s: allowed: at most %d values", k->name, TUNE_VALUES);
    k->value[k->count++] = value;
    return TG_OK;
}

/* Split at the commas that do not stand in brackets. */
static tg_status add_values(struct tune_key *k, char *list)
{
    int depth = 0;
    char *value = list;
    for (char *at = list;; at++) {
        const bool ends = *at == '\0' || (*at == ',' && depth == 0), last = *at == '\0';
        depth += (*at == '[') - (*at == ']');
        if (depth < 0 || (last && depth != 0))
            return tg_fail(TG_E_SPEC, "--vary %.64s: brackets that do not match", k->name);
        if (!ends)
            continue;
        *at = '\0';
        TG_TRY(add_value(k, value));
        if (last)
            return TG_OK;
        value = at + 1;
    }
}

static tg_status cut(struct tune_key *k, const char *given)
{
    char *equals = strchr(k->text, '=');
    if (!equals || equals == k->text)
        return tg_fail(TG_E_SPEC,
                       "--vary \"%.64s\": allowed: KEY=VALUE,VALUE, e.g. optimizer.lr=0.05,0.1 or "
                       "batch=16,32",
                       given);
    *equals = '\0';
    k->name = strdup(k->text);
    if (!k->name)
        return tg_fail(TG_E_NOMEM, "out of memory: --vary");
    k->option = k->text;
    char *dot = strchr(k->text, '.');
    if (dot) {
        *dot = '\0';
        k->key = dot + 1;
    }
    TG_TRY(check_option(k));
    return add_values(k, equals + 1);
}

tg_status tune_grid_add(struct tune_grid *g, const char *text)
{
    if (g->keys == TUNE_KEYS)
        return tg_fail(TG_E_SPEC, "--vary \"%.64s\": the option is allowed at most %d times", text,
                       TUNE_KEYS);
    struct tune_key *k = &g->key[g->keys++];
    *k = (struct tune_key){.text = strdup(text)};
    if (!k->text)
        return tg_fail(TG_E_NOMEM, "out of memory: --vary");
    TG_TRY(cut(k, text));
    for (size_t i = 0; i + 1 < g->keys; i++)
        if (strcmp(g->key[i].name, k->name) == 0)
            return tg_fail(TG_E_SPEC, "--vary %.64s is given twice: allowed: all values in one",
                           k->name);
    return TG_OK;
}

void tune_grid_free(struct tune_grid *g)
{
    for (size_t i = 0; i < g->keys; i++) {
        free(g->key[i].text);
        free(g->key[i].name);
    }
    g->keys = 0;
}

/* ---- the grid -------------------------------------------------------------------------------- */

size_t tune_grid_runs(const struct tune_grid *g)
{
    size_t runs = 1;
    for (size_t k = 0; k < g->keys && runs <= TUNE_RUNS; k++)
        runs *= g->key[k].count;
    return runs;
}

const char *tune_grid_value(const struct tune_grid *g, size_t run, size_t k)
{
    for (size_t i = g->keys - 1; i > k; i--)
        run /= g->key[i].count;
    return g->key[k].value[run % g->key[k].count];
}

void tune_grid_name(const struct tune_grid *g, size_t run, char name[TUNE_NAME])
{
    name[0] = '\0';
    for (size_t k = 0; k < g->keys; k++) {
        const size_t used = strlen(name);
        snprintf(name + used, TUNE_NAME - used, "%s%s=%s", k ? " " : "", g->key[k].name,
                 tune_grid_value(g, run, k));
    }
}

/* What the option's spec is without what varies; for an optimizer that is not given, the name of
 * the one that the run would have. Errors TG_E_SPEC */
static tg_status base_of(const struct run_options *o, const struct option_def *option,
                         char base[512])
{
    const char *given = *(const char *const *)((const char *)o + option->offset);
    if (option->kind == TG_KIND_METHOD && option->form == FORM_SPEC)
        given = options_method(o);
    int len = (int)strlen(given);
    struct run_options usual;
    if (option->offset == offsetof(struct run_options, optimizer) &&
        !options_given(o, "optimizer")) {
        usual = *o;
        TG_TRY(run_defaults_settle(&usual));
        given = options_optimizer(&usual);
        len = (int)strcspn(given, ":");
    }
    if (len >= 512)
        return tg_fail(TG_E_SPEC, "--%s of %d characters: allowed: 511", option->o.name, len);
    snprintf(base, 512, "%.*s", len, given);
    return TG_OK;
}

static tg_status parse(const struct option_def *option, const char *text, tg_spec **spec_p)
{
    return option->form == FORM_MODEL ? model_parse(text, spec_p)
                                      : tg_registry_parse(option->kind, text, spec_p);
}

/* Whether the common options set the key themselves. */
static bool gives(const struct run_options *common, const char *option, const char *key)
{
    const struct option_def *def = find(option);
    const char *text = *(const char *const *)((const char *)common + def->offset);
    tg_spec *spec;
    if (!options_given(common, option) || parse(def, text, &spec) != TG_OK)
        return false;
    const bool given = tg_spec_given(spec, key);
    tg_spec_free(spec);
    return given;
}

static bool varies(const struct tune_grid *g, const char *name)
{
    size_t k = 0;
    while (k < g->keys && strcmp(g->key[k].name, name) != 0)
        k++;
    return k < g->keys;
}

/* --lr is the key lr of the optimizer. */
static tg_status check_rates(const struct tune_grid *g, const struct run_options *common)
{
    const bool by_key = varies(g, "optimizer.lr"), by_option = varies(g, "lr");
    if (by_key && (by_option || common->lr))
        return tg_fail(TG_E_SPEC, "--vary optimizer.lr and --%s: both set the rate: give only one",
                       by_option ? "vary lr" : "lr");
    return by_option && gives(common, "optimizer", "lr")
               ? tg_fail(TG_E_SPEC,
                         "--vary lr and --optimizer %.64s: both set the rate: give only one",
                         common->optimizer)
               : TG_OK;
}

tg_status tune_grid_check(const struct tune_grid *g, const struct run_options *common)
{
    for (size_t i = 0; i < g->keys; i++) {
        const struct tune_key *k = &g->key[i];
        if (k->key ? gives(common, k->option, k->key) : options_given(common, k->option))
            return tg_fail(TG_E_SPEC, "--vary %.64s: --%s sets it, too: give only one of them",
                           k->name, k->option);
    }
    TG_TRY(check_rates(g, common));
    const size_t runs = tune_grid_runs(g);
    if (runs < 2)
        return tg_fail(TG_E_SPEC,
                       "--vary %.64s: one combination leaves nothing to choose: "
                       "allowed: two values or more",
                       g->key[0].name);
    return runs <= TUNE_RUNS
               ? TG_OK
               : tg_fail(TG_E_SPEC,
                         "--vary: more than %d combinations of values: allowed: 2 to %d: give "
                         "fewer values, or tune in two steps",
                         TUNE_RUNS, TUNE_RUNS);
}

/* Add "key=value" to the option's spec. */
static tg_status set_key(const struct tune_key *k, const char *value, struct run_options *o,
                         char **text_p)
{
    const struct option_def *option = find(k->option);
    char base[512];
    TG_TRY(base_of(o, option, base));
    if (asprintf(text_p, "%s%c%s=%s", base, strchr(base, ':') ? ',' : ':', k->key, value) < 0) {
        *text_p = NULL;
        return tg_fail(TG_E_NOMEM, "out of memory: --vary %.64s", k->name);
    }
    return options_set(o, OPT_VARY, k->option, *text_p);
}

/* Whole options come first, because keys are added to them, and the optimizer's keys last, because
 * the others may say which optimizer it is. */
tg_status tune_grid_set(const struct tune_grid *g, size_t run, struct run_options *o,
                        char *text[TUNE_KEYS])
{
    for (size_t k = 0; k < TUNE_KEYS; k++)
        text[k] = NULL;
    for (size_t k = 0; k < g->keys; k++)
        if (!g->key[k].key)
            TG_TRY(options_set(o, OPT_VARY, g->key[k].option, tune_grid_value(g, run, k)));
    for (int last = 0; last < 2; last++)
        for (size_t k = 0; k < g->keys; k++)
            if (g->key[k].key && (strcmp(g->key[k].option, "optimizer") == 0) == last)
                TG_TRY(set_key(&g->key[k], tune_grid_value(g, run, k), o, &text[k]));
    return TG_OK;
}
