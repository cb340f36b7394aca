#include "command/compare/compare_plan.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/job/options_check.h"
#include "command/train/run_defaults.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUNS 1000

void plan_free(struct compare_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        free(plan->runs[i].text);
        free(plan->runs[i].where);
        free(plan->runs[i].name);
    }
    free(plan->runs);
    free(plan->spec_text);
    *plan = (struct compare_plan){0};
}

tg_status plan_add(struct compare_plan *plan, const char *name, const char *text, const char *where)
{
    if (plan->count == MAX_RUNS)
        return tg_fail(TG_E_SPEC, "%s: too many runs: allowed: at most %d", where, MAX_RUNS);
    if (plan->count == plan->room) {
        size_t room = plan->room ? 2 * plan->room : 8;
        void *runs = realloc(plan->runs, room * sizeof *plan->runs);
        if (!runs)
            return tg_fail(TG_E_NOMEM, "out of memory: %zu runs", room);
        plan->runs = runs;
        plan->room = room;
    }
    struct planned_run *run = &plan->runs[plan->count++];
    *run = (struct planned_run){
        .text = strdup(text), .where = strdup(where), .name = name ? strdup(name) : NULL};
    if (!run->text || !run->where || (name && !run->name))
        return tg_fail(TG_E_NOMEM, "out of memory: %s", where);
    return TG_OK;
}

/* Remove the blanks at both ends, in place. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* A comma before another option of the run was meant as a semicolon. */
static tg_status check_commas(const char *key, const char *value)
{
    static const char *const keys[] = {",method=", ",strategy=", ",optimizer=", ",rule=", ",name="};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strstr(value, keys[i]))
            return tg_fail(TG_E_SPEC,
                           "%.64s=%.64s: allowed: semicolons between keys, key=value;key=value",
                           key, value);
    return TG_OK;
}

/* Set one "key=value". A run's own rules replace the common ones, as all its options do. */
static tg_status set_word(struct planned_run *run, char *word)
{
    char *equals = strchr(word, '=');
    if (!equals) {
        tg_spec *spec;
        const bool method = tg_registry_parse(TG_KIND_METHOD, word, &spec) == TG_OK;
        if (method)
            tg_spec_free(spec);
        return tg_fail(TG_E_SPEC, "\"%.64s\": %s%.64s%sallowed: key=value;key=value", word,
                       method ? "did you mean \"method=" : "", method ? word : "",
                       method ? "\"? " : "");
    }
    *equals = '\0';
    char *key = trim(word), *value = trim(equals + 1);
    TG_TRY(check_commas(key, value));
    if (strcmp(key, "rule") == 0 && !run->own_rules) {
        run->options.rule_count = 0;
        run->own_rules = true;
    }
    if (strcmp(key, "rule") != 0 && strcmp(key, "name") != 0 && options_given(&run->options, key))
        return tg_fail(TG_E_SPEC, "%.64s=%.64s: the key is given twice", key, value);
    if (strcmp(key, "name") != 0)
        return options_set(&run->options, OPT_RUN, key, value);
    if (!*value || run->name)
        return tg_fail(TG_E_SPEC, "name=%.64s: allowed: one name for each run", value);
    run->named = true;
    run->name = strdup(value);
    return run->name ? TG_OK : tg_fail(TG_E_NOMEM, "out of memory: name of a run");
}

static tg_status append_word(char **text, const char *word)
{
    char *longer;
    if (asprintf(&longer, "%s %s", *text, word) < 0)
        return tg_fail(TG_E_NOMEM, "out of memory: name of a run");
    free(*text);
    *text = longer;
    return TG_OK;
}

/* Whether a name goes without the strategy: it is the default, or ssgd where that is the default.
 * The options are settled. */
static bool is_plain(const struct run_options *o)
{
    if (!options_given(o, "strategy"))
        return true;
    return strcmp(o->strategy, "ssgd") == 0 &&
           strcmp(tg_registry_default_strategy(options_method(o), o->rules, o->rule_count,
                                               options_optimizer(o)),
                  "ssgd") == 0;
}

/* Make a name such as "dgc:density=0.001 *.bias=f32 cd:k=5", with the method as it was written. */
static tg_status make_name(struct planned_run *run)
{
    const struct run_options *o = &run->options;
    run->name = strdup(o->method ? o->method : tg_registry_strategy_method(o->strategy));
    if (!run->name)
        return tg_fail(TG_E_NOMEM, "out of memory: name of a run");
    for (size_t i = 0; i < o->rule_count; i++)
        TG_TRY(append_word(&run->name, o->rules[i]));
    return is_plain(o) ? TG_OK : append_word(&run->name, o->strategy);
}

static tg_status bad_name(const char *name)
{
    char *shown = format_utf8(name);
    tg_status status = shown ? tg_fail(TG_E_SPEC, "name \"%.64s\": allowed: UTF-8 text", shown)
                             : tg_fail(TG_E_NOMEM, "out of memory: name of a run");
    free(shown);
    return status;
}

/* A key behind a comma or a blank was meant as a key, not as part of the name. */
static tg_status check_name(const struct planned_run *run)
{
    static const char *const keys[] = {"method=", "strategy=", "optimizer=", "rule=", "lr="};
    if (!format_is_utf8(run->name))
        return bad_name(run->name);
    for (size_t i = 0; run->named && i < sizeof keys / sizeof keys[0]; i++) {
        const char *at = strstr(run->name, keys[i]);
        if (at && at > run->name && strchr(", ", at[-1]))
            return tg_fail(TG_E_SPEC,
                           "name=%.64s: allowed: semicolons between keys, key=value;key=value",
                           run->name);
    }
    return TG_OK;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Of the settings that a run may have for itself. */
static bool same_settings(const struct run_options *a, const struct run_options *b)
{
    bool same = a->rule_count == b->rule_count;
    for (size_t i = 0; same && i < a->rule_count; i++)
        same = strcmp(a->rules[i], b->rules[i]) == 0;
    return same && same_text(options_method(a), options_method(b)) &&
           same_text(a->strategy, b->strategy) &&
           same_text(options_optimizer(a), options_optimizer(b)) &&
           same_text(a->lr_schedule, b->lr_schedule) && same_text(a->link, b->link) &&
           a->lr_scale == b->lr_scale && a->accumulate == b->accumulate &&
           a->precision == b->precision && a->steps == b->steps && a->nodes == b->nodes &&
           a->overlap == b->overlap && a->fusion == b->fusion;
}

/* As when an unquoted ";" ended the command in a shell, and the run's settings were lost. */
static void warn_of_twins(const struct compare_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        for (size_t k = 0; k < i; k++)
            if (same_settings(&plan->runs[k].options, &plan->runs[i].options)) {
                console_warning(
                    "runs \"%.64s\" and \"%.64s\" have the same settings; in a shell, quote "
                    "--run 'key=value;key=value'",
                    plan->runs[k].name, plan->runs[i].name);
                return;
            }
}

static tg_status resolve(struct compare_plan *plan, size_t i)
{
    struct planned_run *run = &plan->runs[i];
    char *rest = run->text;
    const uint64_t given = run->options.given; /* common ones; the run's own take precedence */
    run->options.given = 0;
    if (!run->name && rest[strspn(rest, "; \t")] == '\0')
        return tg_fail(TG_E_SPEC, "a run without settings: allowed: key=value;key=value");
    while (rest) {
        char *word = rest;
        rest = strchr(rest, ';');
        if (rest)
            *rest++ = '\0';
        word = trim(word);
        if (*word)
            TG_TRY(set_word(run, word));
    }
    run->options.given |= given;
    if (run->name)
        TG_TRY(check_name(run));
    TG_TRY(run_defaults_settle(&run->options));
    if (!run->name)
        TG_TRY(make_name(run));
    TG_TRY(check_name(run));
    for (size_t j = 0; j < i; j++)
        if (strcmp(plan->runs[j].name, run->name) == 0)
            return tg_fail(TG_E_SPEC, "name \"%.64s\" is already that of %s: choose another",
                           run->name, plan->runs[j].where);
    return options_check(&run->options);
}

tg_status plan_resolve(struct compare_plan *plan, const struct run_options *common)
{
    TG_TRY(options_check_length(common));
    for (size_t i = 0; i < plan->count; i++) {
        plan->runs[i].options = *common;
        tg_status status = resolve(plan, i);
        if (status != TG_OK)
            return tg_fail(status, "%s: %s", plan->runs[i].where, tg_error());
    }
    warn_of_twins(plan);
    return TG_OK;
}
