/* Lists of the methods, strategies, optimizers and other kinds, collected from their rooms. */
#include "telegrad/registry.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/spec_value.h"
#include "codec/codec_impl.h"
#include "exchange/exchange.h"
#include "feedback/feedback.h"
#include "method/method.h"
#include "session/default_strategy.h"
#include "strategy/strategy.h"

#include <stdint.h>
#include <string.h>

static const struct {
    const char *name;
    const tg_entry *const *(*entries)(size_t *count_p);
} kinds[TG_KIND_COUNT] = {
    [TG_KIND_METHOD] = {"method", tg__method_entries},
    [TG_KIND_CODEC] = {"codec", tg__codec_entries},
    [TG_KIND_FEEDBACK] = {"feedback", tg__feedback_entries},
    [TG_KIND_EXCHANGE] = {"exchange", tg__exchange_entries},
    [TG_KIND_STRATEGY] = {"strategy", tg__strategy_entries},
    [TG_KIND_OPTIMIZER] = {"optimizer", tg__optimizer_entries},
    [TG_KIND_LR_SCHEDULE] = {"lr-schedule", tg__lr_schedule_entries},
};

const tg_method_card *tg_registry_method_card(const char *method)
{
    TG__OWN_FLOATS;
    if (method == NULL)
        return NULL;
    size_t count;
    const tg_entry *const *all = tg__method_entries(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i]->name, method) == 0)
            return &tg__method_of(all[i])->card;
    return NULL;
}

const tg_rate_hint *tg_registry_rate_hint(tg_kind kind, const char *name)
{
    TG__OWN_FLOATS;
    return kind == TG_KIND_METHOD     ? tg__method_rate(name)
           : kind == TG_KIND_STRATEGY ? tg__strategy_rate(name)
                                      : NULL;
}

/* Whether a method sends elements in parts and keeps the rest. Not powersgd: products of thin
 * matrices fit gradients, not the steps of Adam (docs/results/updates.md). A method that does not
 * parse does not.
 * parts_p  set to true if it does
 * goes_p   set to false if it does not go with averages of updates */
static tg_status sends_parts(const char *method, bool *parts_p, bool *goes_p)
{
    tg_spec *spec;
    const tg__method_def *def;
    if (method == NULL)
        return TG_OK;
    const tg_status status = tg__method_parse(method, &spec, &def);
    if (status != TG_OK)
        return status == TG_E_SPEC ? TG_OK : status;
    const bool all =
        (tg_spec_has(spec, "density") && tg_spec_real(spec, "density") == 1) ||
        (tg_spec_has(spec, "feedback") && strcmp(tg_spec_word(spec, "feedback"), "none") == 0);
    const bool keeps = def->feedback != NULL && strcmp(def->feedback, "residual") == 0;
    const bool fixed = tg_spec_has(spec, "threshold") && *tg_spec_word(spec, "threshold") == '\0';
    if ((def->properties & TG__OWNS_MOMENTUM) != 0 || tg__method_combine(def)->votes || fixed)
        *goes_p = false;
    tg_spec_free(spec);
    *parts_p = *parts_p || (keeps && !all);
    return TG_OK;
}

/* Whether an optimizer's step depends on earlier gradients, and `updates` can take it apart. */
static tg_status remembers(const char *optimizer, bool *is_p)
{
    tg_optimizer *o;
    *is_p = false;
    if (optimizer == NULL)
        return TG_OK;
    const tg_status status = tg_optimizer_create(optimizer, &o);
    if (status != TG_OK)
        return status == TG_E_SPEC ? TG_OK : status;
    *is_p = (o->ops->adaptive || o->momentum > 0) && !o->ops->whole;
    tg_optimizer_destroy(o);
    return TG_OK;
}

tg_status tg__default_strategy(const char *method, const char *const *rules, size_t nrules,
                               const char *optimizer, const char **strategy_p)
{
    bool goes = true, parts = false, is = false;
    TG_TRY(sends_parts(method, &parts, &goes));
    if (rules == NULL || nrules > PTRDIFF_MAX / sizeof *rules) /* no array is as long */
        nrules = 0;
    for (size_t i = 0; i < nrules; i++) {
        const char *equals = rules[i] == NULL ? NULL : strchr(rules[i], '=');
        TG_TRY(sends_parts(equals == NULL ? NULL : equals + 1, &parts, &goes));
    }
    TG_TRY(remembers(optimizer, &is));
    *strategy_p = parts && goes && is ? "updates" : "ssgd";
    return TG_OK;
}

const char *tg_registry_default_strategy(const char *method, const char *const *rules,
                                         size_t nrules, const char *optimizer)
{
    TG__OWN_FLOATS;
    const char *strategy;
    return tg__default_strategy(method, rules, nrules, optimizer, &strategy) == TG_OK ? strategy
                                                                                      : "ssgd";
}

static bool valid(tg_kind kind)
{
    return (unsigned)kind < TG_KIND_COUNT;
}

const char *tg_kind_name(tg_kind kind)
{
    return valid(kind) ? kinds[kind].name : "?";
}

const tg_entry *const *tg_registry_entries(tg_kind kind, size_t *count_p)
{
    if (count_p == NULL)
        return NULL;
    *count_p = 0;
    return valid(kind) ? kinds[kind].entries(count_p) : NULL;
}

static bool has(tg_kind kind, const char *name, size_t len)
{
    size_t count;
    const tg_entry *const *entries = kinds[kind].entries(&count);
    for (size_t i = 0; i < count; i++)
        if (strlen(entries[i]->name) == len && memcmp(entries[i]->name, name, len) == 0)
            return true;
    return false;
}

/* Report that `text` is not found among its kind. If it names something of another kind, say so. */
static tg_status of_another_kind(tg_kind kind, const char *text, tg_status status)
{
    const size_t len = strcspn(text, ":");
    if (has(kind, text, len))
        return status;
    for (tg_kind other = 0; other < TG_KIND_COUNT; other++) {
        if (!has(other, text, len))
            continue;
        size_t count;
        char list[TG__WORD_LIST] = "";
        const tg_entry *const *entries = kinds[kind].entries(&count);
        for (size_t i = 0; i < count; i++)
            tg__word_list_add(list, entries[i]->name, strlen(entries[i]->name));
        return tg_fail(status, "unknown %s \"%.*s\", which is %s %s: allowed: %s", kinds[kind].name,
                       (int)len, text, strchr("aeiou", kinds[other].name[0]) ? "an" : "a",
                       kinds[other].name, list);
    }
    return status;
}

tg_status tg_registry_parse(tg_kind kind, const char *text, tg_spec **spec_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(text, spec_p);
    if (!valid(kind))
        return tg_fail(TG_E_ARG, "kind %d: allowed: 0 to %d", (int)kind, TG_KIND_COUNT - 1);
    size_t count;
    const tg__method_def *def;
    const tg_entry *const *entries = kinds[kind].entries(&count);
    const tg_status status = kind == TG_KIND_METHOD
                                 ? tg__method_parse(text, spec_p, &def)
                                 : tg_spec_parse(kinds[kind].name, entries, count, text, spec_p);
    return status == TG_E_SPEC ? of_another_kind(kind, text, status) : status;
}
