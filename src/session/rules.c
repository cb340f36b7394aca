/* Rules by name patterns. `f32` is a common alias of the method `dense`. */
#include "session/rules.h"
#include "base/c_locale.h"
#include "base/mem.h"
#include "base/spec_value.h"
#include "telegrad/spec.h"

#include <math.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void find_same(const tg__rules *r, tg__rule *rule)
{
    rule->same = 0;
    while (strcmp(tg_spec_text(r->rule[rule->same].spec), tg_spec_text(rule->spec)) != 0)
        rule->same++; /* it finds itself at the latest */
}

static tg_status set_method(tg__rules *r, tg__rule *rule, const char *method)
{
    const char *meant = strcmp(method, "f32") == 0 ? "dense" : method;
    TG_TRY(tg__owned_text(&r->owned, meant, &rule->method));
    TG_TRY(tg__method_parse(rule->method, &rule->spec, &rule->def));
    find_same(r, rule);
    return TG_OK;
}

static tg_status read_rule(tg__rules *r, tg__rule *rule, const char *text)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals[1] == 0 || strpbrk(text, "\n") != NULL)
        return tg_fail(TG_E_SPEC,
                       "rule \"%.100s\": allowed: PATTERN=METHOD, e.g. *.bias=f32 or "
                       "fc*=dgc:density=0.001",
                       text);
    TG_TRY(tg__owned_text(&r->owned, text, &rule->pattern));
    rule->pattern[equals - text] = '\0';
    const tg_status status = set_method(r, rule, equals + 1);
    return status == TG_OK ? TG_OK : tg_fail(status, "rule \"%.100s\": %s", text, tg_error());
}

/* Ranks that do not exchange some tensors cannot agree on when to stop or skip. */
static tg_status check_exchanges(const tg__rules *r)
{
    const tg__rule *other = tg__rules_default(r);
    bool none = tg__method_is_apart(other->spec);
    for (size_t i = 0; i < r->count; i++)
        if (tg__method_is_apart(r->rule[i].spec) != none)
            return tg_fail(TG_E_SPEC,
                           "rule \"%s=%s\" and method \"%s\": exchange=none must hold for all "
                           "tensors or for none",
                           r->rule[i].pattern, r->rule[i].method, other->method);
    return TG_OK;
}

tg_status tg__rules_init(tg__rules *r, const char *const *text, size_t n, const char *method)
{
    *r = (tg__rules){0};
    TG_TRY(tg__owned_alloc(&r->owned, n + 1, sizeof *r->rule, &r->rule));
    r->count = n + 1;
    for (size_t i = 0; i < n; i++)
        TG_TRY(read_rule(r, &r->rule[i], text[i]));
    TG_TRY(set_method(r, &r->rule[n], method));
    return check_exchanges(r);
}

bool tg__rules_are_open(const tg__rules *r)
{
    bool any = false;
    for (size_t i = 0; i < r->count; i++)
        any = any || tg__spec_is_open(r->rule[i].spec);
    return any;
}

/* Takes ownership of text. */
static tg_status replace_method(tg__rules *r, tg__rule *rule, char *text)
{
    tg_spec *spec;
    TG_TRY(tg__owned_add(&r->owned, text, free));
    TG_TRY(tg__method_parse(text, &spec, &rule->def));
    tg_spec_free(rule->spec);
    rule->method = text;
    rule->spec = spec;
    return TG_OK;
}

static tg_status settle(tg__rules *r, tg__rule *rule, uint64_t total_steps,
                        uint64_t steps_per_epoch)
{
    char *text;
    TG_TRY(tg__spec_settle(rule->spec, rule->method, total_steps, steps_per_epoch, &text));
    return replace_method(r, rule, text);
}

/* Append key=value to the method's spec, unless the spec sets the key or the method has no such
 * key. */
static tg_status add_key(tg__rules *r, tg__rule *rule, const char *key, const char *value)
{
    char *text;
    if (!tg_spec_has(rule->spec, key) || tg_spec_given(rule->spec, key))
        return TG_OK;
    if (asprintf(&text, "%s%c%s=%s", rule->method, strchr(rule->method, ':') ? ',' : ':', key,
                 value) < 0)
        return tg_fail(TG_E_NOMEM, "out of memory: method \"%.64s\"", rule->method);
    return replace_method(r, rule, text);
}

tg_status tg__rules_take_momentum(tg__rules *r, double momentum, int nesterov)
{
    for (size_t i = 0; i < r->count; i++) {
        char value[TG_REAL_TEXT];
        if (!(r->rule[i].def->properties & TG__OWNS_MOMENTUM))
            continue;
        tg_real_text(isnan(momentum) ? 0 : momentum, value);
        if (!isnan(momentum))
            TG_TRY(add_key(r, &r->rule[i], "momentum", value));
        if (!isnan(momentum) && nesterov >= 0) /* method.c accepts both or neither */
            TG_TRY(add_key(r, &r->rule[i], "nesterov", nesterov ? "yes" : "no"));
    }
    for (size_t i = 0; i < r->count; i++)
        find_same(r, &r->rule[i]);
    return TG_OK;
}

static bool has_star(const tg__rule *rule)
{
    for (const tg_key *k = tg_spec_entry(rule->spec)->keys; k->name != NULL; k++)
        if (strcmp(k->name, "exchange") == 0)
            return strstr(k->choices, "star") != NULL;
    return false;
}

tg_status tg__rules_take_servers(tg__rules *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (has_star(&r->rule[i]))
            TG_TRY(add_key(r, &r->rule[i], "exchange", "star"));
    for (size_t i = 0; i < r->count; i++)
        find_same(r, &r->rule[i]);
    return TG_OK;
}

tg_status tg__rules_settle(tg__rules *r, uint64_t total_steps, uint64_t steps_per_epoch)
{
    for (size_t i = 0; i < r->count; i++)
        TG_TRY(settle(r, &r->rule[i], total_steps, steps_per_epoch));
    for (size_t i = 0; i < r->count; i++)
        find_same(r, &r->rule[i]);
    return TG_OK;
}

void tg__rules_free(tg__rules *r)
{
    for (size_t i = 0; i < r->count; i++)
        tg_spec_free(r->rule[i].spec);
    tg__owned_free(&r->owned);
    *r = (tg__rules){0};
}

/* In the C locale, byte by byte, so that ranks whose programs chose other locales agree. */
static bool matches(const tg__rule *rule, const char *name)
{
    const locale_t before = tg__c_locale_enter();
    const bool is = fnmatch(rule->pattern, name, 0) == 0;
    tg__c_locale_leave(before);
    return is;
}

size_t tg__rules_find(const tg__rules *r, const char *name)
{
    size_t i = 0;
    while (i + 1 < r->count && !matches(&r->rule[i], name))
        i++;
    return i;
}

static tg_status unused(const tg__rule *rule, const char *const *name, size_t n)
{
    char list[300] = "";
    size_t at = 0, taken = n;
    for (size_t i = 0; i < n && taken == n; i++)
        if (matches(rule, name[i]))
            taken = i;
    if (taken < n)
        return tg_fail(TG_E_SPEC,
                       "the rule for \"%s\": rules before it take all tensors that it matches "
                       "(\"%s\")",
                       rule->pattern, name[taken]);
    for (size_t i = 0; i < n && at + 4 < sizeof list; i++) {
        bool fits = at + strlen(name[i]) + 8 < sizeof list;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i == 0 ? "" : ", ",
                               fits ? name[i] : "...");
        if (!fits)
            break;
    }
    return tg_fail(TG_E_SPEC, "the rule for \"%s\" matches no tensor: there are %s", rule->pattern,
                   list);
}

tg_status tg__rules_all_used(const tg__rules *r, const char *const *name, size_t n)
{
    for (size_t i = 0; i + 1 < r->count; i++) {
        size_t t = 0;
        while (t < n && tg__rules_find(r, name[t]) != i)
            t++;
        if (t == n)
            return unused(&r->rule[i], name, n);
    }
    return TG_OK;
}
