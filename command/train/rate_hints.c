#include "command/train/rate_hints.h"
#include "command/job/launch.h"
#include "command/job/spec_words.h"
#include "command/train/run_notes.h"
#include "command/train/traffic_note.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_ssgd(const struct run_options *o)
{
    return spec_same_name(o->strategy, "ssgd");
}

rate_wish rate_wish_of(const struct run_options *o)
{
    rate_wish wish = {.kind = is_ssgd(o) ? TG_KIND_METHOD : TG_KIND_STRATEGY};
    wish.spec = is_ssgd(o) ? options_method(o) : o->strategy;
    const tg_rate_hint *hint = tg_registry_rate_hint(wish.kind, wish.spec);
    if (hint && hint->factor > 0)
        wish.hint = hint;
    return wish;
}

void rate_hint_optimizer(const tg_rate_hint *hint, double rate, char text[64])
{
    const size_t name = strcspn(OPT_OPTIMIZER, ":");
    snprintf(text, 64, "%.*s:lr=%.9g,momentum=0", (int)name, OPT_OPTIMIZER, hint->factor * rate);
}

/* ---- warnings -------------------------------------------------------------------------------- */

/* The rates of the run; `usual`: the rate of OPT_OPTIMIZER. */
struct rates {
    double lr, momentum, usual;
};

/* Whether a warning about this method exists. Each method is warned about once. */
static bool is_told(const struct run_options *o, const char *method)
{
    for (size_t i = 0; i < o->settled.notes; i++)
        if (o->settled.note[i].kind == RUN_WARNING && strstr(o->settled.note[i].text, method))
            return true;
    return false;
}

static double in_all(const struct rates *r)
{
    return r->momentum < 1 ? r->lr / (1 - r->momentum) : r->lr;
}

static bool in_range(const tg_rate_hint *hint, const struct rates *r)
{
    const double all = in_all(r), rounding = 1 + 1e-9;
    return all * rounding >= hint->low * r->usual && all <= hint->high * r->usual * rounding;
}

static void check_method(struct run_options *o, const struct rates *r, const char *spec,
                         const char *rule)
{
    const tg_rate_hint *hint = tg_registry_rate_hint(TG_KIND_METHOD, spec);
    char subject[80], strategy[80] = "", best[64];
    if (!hint || hint->high <= 0)
        return;
    const double low = hint->low * r->usual, high = hint->high * r->usual;
    const bool fits = in_range(hint, r) && !(hint->plain && r->momentum > 0);
    snprintf(subject, sizeof subject, "method %.*s", (int)strcspn(spec, ":"), spec);
    if (fits || is_told(o, subject))
        return;
    rate_hint_optimizer(hint, r->usual, best);
    if (!is_ssgd(o))
        snprintf(strategy, sizeof strategy, "strategy %.*s, ", (int)strcspn(o->strategy, ":"),
                 o->strategy);
    run_notes_add(o, true,
                  "%s%.100s%s%s with %slr=%g, momentum=%g: it is known to learn%s with "
                  "lr / (1 - momentum) from %g to %g%s: try --optimizer %s",
                  rule ? "rule " : "", rule ? rule : "", rule ? ": " : "", subject, strategy, r->lr,
                  r->momentum, is_ssgd(o) ? "" : ", with ssgd,", low, high,
                  hint->plain ? ", and momentum=0" : "", best);
}

/* Whether a spec has the key and the whole number of "k=1". */
static bool holds(const tg_spec *spec, const char *condition)
{
    char key[32];
    const char *equals = strchr(condition, '=');
    snprintf(key, sizeof key, "%.*s", (int)(equals - condition), condition);
    return tg_spec_int(spec, key) == strtoll(equals + 1, NULL, 10);
}

/* Warn of a method or strategy that learns worse at its defaults, whatever the rate. A strategy
 * with a range of rates is warned of only outside that range. r: NULL if rates are not
 * comparable */
static tg_status caution(struct run_options *o, const struct rates *r, tg_kind kind,
                         const char *text)
{
    const tg_rate_hint *hint = tg_registry_rate_hint(kind, text);
    tg_spec *spec;
    if (!hint || !hint->expect)
        return TG_OK;
    if (kind == TG_KIND_STRATEGY && hint->high > 0 && (!r || in_range(hint, r)))
        return TG_OK;
    TG_TRY(tg_registry_parse(kind, text, &spec));
    if ((!hint->key || !tg_spec_given(spec, hint->key)) &&
        (!hint->unless || !holds(spec, hint->unless)))
        run_notes_add(o, true, "%s %s: %s; instead: %s", tg_kind_name(kind), tg_spec_name(spec),
                      hint->expect, hint->instead ? hint->instead : "another");
    tg_spec_free(spec);
    return TG_OK;
}

static void check_methods(struct run_options *o, const struct rates *r)
{
    check_method(o, r, options_method(o), NULL);
    for (size_t i = 0; i < o->rule_count; i++) {
        const char *equals = strchr(o->rules[i], '=');
        if (equals)
            check_method(o, r, equals + 1, o->rules[i]);
    }
}

static bool is_dense(const char *method)
{
    return spec_same_name(method, "dense") || strcmp(method, "f32") == 0;
}

/* The method, or the first rule, that codes gradients; NULL: all are dense. */
static const char *coding_of(const struct run_options *o)
{
    const char *rule = NULL;
    for (size_t i = 0; i < o->rule_count && !rule; i++) {
        const char *equals = strchr(o->rules[i], '=');
        if (equals && !is_dense(equals + 1))
            rule = o->rules[i];
    }
    return is_dense(options_method(o)) ? rule : options_method(o);
}

/* Warn if nothing that the method codes is sent. */
static tg_status check_sent(struct run_options *o, const char *coding)
{
    tg_spec *method;
    const bool waits = !is_ssgd(o) && !coding;
    const bool alone = launch_ranks_told(&o->net, o->workers) == 1 && o->servers == 0;
    const char *more = launch_ranks_option(&o->net);
    if (alone && coding && !o->dry_run)
        run_notes_add(o, true,
                      "%s %.100s with one worker, which sends nothing: gradients are coded and "
                      "decoded again, and no bytes are saved; allowed: %s with N >= 2",
                      coding == options_method(o) ? "method" : "rule", coding, more);
    if (alone && waits && !o->dry_run)
        run_notes_add(o, true,
                      "strategy %.64s with one worker, which exchanges nothing; allowed: %s with "
                      "N >= 2",
                      o->strategy, more);
    TG_TRY(tg_registry_parse(TG_KIND_METHOD, options_method(o), &method));
    if (!alone && tg_spec_has(method, "exchange") &&
        strcmp(tg_spec_word(method, "exchange"), "none") == 0)
        run_notes_add(o, true,
                      "method %s:exchange=none: nothing is exchanged: each worker trains weights "
                      "of its own, and tests its part of the test set with them",
                      tg_spec_name(method));
    traffic_note_add(o, method);
    tg_spec_free(method);
    return TG_OK;
}

tg_status rate_hint_is_dense(const char *strategy, bool *dense_p)
{
    const tg_rate_hint *hint = tg_registry_rate_hint(TG_KIND_STRATEGY, strategy);
    tg_spec *spec;
    *dense_p = hint && hint->dense;
    if (*dense_p && hint->dense_if) {
        TG_TRY(tg_registry_parse(TG_KIND_STRATEGY, strategy, &spec));
        *dense_p = holds(spec, hint->dense_if);
        tg_spec_free(spec);
    }
    return TG_OK;
}

/* Warn if the strategy never uses the method, or that of a rule. */
static tg_status check_used(struct run_options *o)
{
    const tg_rate_hint *hint = tg_registry_rate_hint(TG_KIND_STRATEGY, o->strategy);
    const char *coding = coding_of(o);
    bool dense;
    TG_TRY(rate_hint_is_dense(o->strategy, &dense));
    if (!dense)
        return check_sent(o, coding);
    if (coding && (o->method || coding != options_method(o)))
        run_notes_add(o, true,
                      "strategy %.*s: all that it exchanges is dense: %s %.100s is not used; "
                      "instead: %s",
                      (int)strcspn(o->strategy, ":"), o->strategy,
                      coding == options_method(o) ? "method" : "rule", coding, hint->dense);
    return TG_OK;
}

/* Within a node exchanges are dense. */
static void check_nodes(struct run_options *o)
{
    const uint64_t ranks = launch_ranks_told(&o->net, o->workers);
    const char *coding = coding_of(o);
    if (o->nodes == 0 || o->nodes == OPT_NODES_AUTO || ranks < 2 || ranks > o->nodes)
        return;
    if (coding)
        run_notes_add(o, true,
                      "--nodes %d with %d workers: all workers are in one node, within which "
                      "gradients are exchanged uncompressed: %s %.100s saves no bytes; use nodes "
                      "of fewer workers",
                      (int)o->nodes, (int)ranks, coding == options_method(o) ? "method" : "rule",
                      coding);
    else if (ranks < o->nodes || o->link || o->links_of_count > 0)
        run_notes_add(o, true,
                      "--nodes %d with %d workers: all workers are in one node, so there is "
                      "nothing to exchange between nodes%s",
                      (int)o->nodes, (int)ranks,
                      o->link             ? ": --link has no effect"
                      : o->links_of_count ? ": --link-of has no effect"
                                          : "");
}

static bool methods_matter(const struct run_options *o)
{
    const tg_rate_hint *hint = tg_registry_rate_hint(TG_KIND_STRATEGY, o->strategy);
    return is_ssgd(o) || (hint && hint->methods);
}

tg_status rate_hints_check(struct run_options *o)
{
    tg_spec *used, *usual;
    TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, options_optimizer(o), &used));
    tg_status status = tg_registry_parse(TG_KIND_OPTIMIZER, OPT_OPTIMIZER, &usual);
    struct rates rates = {0};
    /* Rates of different optimizers are not comparable. */
    const bool comparable = status == TG_OK && strcmp(tg_spec_name(used), tg_spec_name(usual)) == 0;
    if (comparable)
        rates = (struct rates){.lr = tg_spec_real(used, "lr"),
                               .momentum = tg_spec_real(used, "momentum"),
                               .usual = tg_spec_real(usual, "lr")};
    if (comparable && methods_matter(o))
        check_methods(o, &rates);
    if (status == TG_OK)
        tg_spec_free(usual);
    tg_spec_free(used);
    TG_TRY(status);
    const struct rates *r = comparable ? &rates : NULL;
    TG_TRY(check_used(o));
    check_nodes(o);
    TG_TRY(caution(o, r, TG_KIND_METHOD, options_method(o)));
    return caution(o, r, TG_KIND_STRATEGY, o->strategy);
}
