#include "command/train/optimizer_default.h"
#include "command/job/spec_words.h"
#include "command/train/optimizer_option.h"
#include "command/train/rate_hints.h"
#include "command/train/run_notes.h"
#include "trainer/model/model.h"
#include <stdio.h>
#include <string.h>

/* The key momentum of a method's spec: of methods that accumulate SGD's momentum themselves. */
struct method_momentum {
    bool own, given; /* given: its value replaces the optimizer's */
    double value;
};

static struct method_momentum momentum_of(const char *method)
{
    struct method_momentum m = {.own = false};
    tg_spec *spec;
    if (tg_registry_parse(TG_KIND_METHOD, method, &spec) != TG_OK)
        return m; /* creating the session reports the error */
    m.own = tg_spec_has(spec, "momentum");
    m.given = m.own && tg_spec_given(spec, "momentum");
    m.value = m.given ? tg_spec_real(spec, "momentum") : 0;
    tg_spec_free(spec);
    return m;
}

/* ---- the default ----------------------------------------------------------------------------- */

struct choice {
    const char *ordinary; /* of the model, for dense gradients */
    const char *text;     /* the default of this run */
    char wished[64];      /* what the hint asks for */
    const char *needed;   /* what the strategy needs; NULL: nothing */
    rate_wish wish;
    char sgd_for[96]; /* what makes it SGD in place of the ordinary one; "": nothing does */
    const char *because;
};

/* Find what accumulates SGD's momentum itself, or takes local steps of SGD at the optimizer's rate,
 * for c->sgd_for. */
static tg_status find_sgd(const struct run_options *o, struct choice *c)
{
    const char *method = options_method(o);
    tg_spec *strategy;
    c->because = "whose momentum it accumulates itself";
    if (momentum_of(method).own)
        snprintf(c->sgd_for, sizeof c->sgd_for, "method %.*s", (int)strcspn(method, ":"), method);
    for (size_t i = 0; i < o->rule_count && !c->sgd_for[0]; i++) {
        const char *equals = strchr(o->rules[i], '=');
        if (equals && momentum_of(equals + 1).own)
            snprintf(c->sgd_for, sizeof c->sgd_for, "rule %.64s", o->rules[i]);
    }
    if (c->sgd_for[0])
        return TG_OK;
    TG_TRY(tg_registry_parse(TG_KIND_STRATEGY, o->strategy, &strategy));
    const char *local = tg_spec_has(strategy, "local") ? tg_spec_word(strategy, "local") : "";
    const bool steps = strcmp(local, "sgd") == 0 || strcmp(local, "dcasgd") == 0;
    c->because = "at whose rate it takes local steps";
    if (steps && !tg_spec_has(strategy, "eta_loc"))
        snprintf(c->sgd_for, sizeof c->sgd_for, "strategy %s:local=%s", tg_spec_name(strategy),
                 local);
    tg_spec_free(strategy);
    return TG_OK;
}

static tg_status choose(const struct run_options *o, struct choice *c)
{
    const char *of_model;
    tg_spec *usual;
    TG_TRY(model_usual_optimizer(o->model, &of_model));
    *c = (struct choice){.needed = tg_registry_strategy_optimizer(o->strategy),
                         .wish = rate_wish_of(o)};
    const bool own = of_model && !o->net.server;
    c->ordinary = own ? of_model : OPT_OPTIMIZER;
    if (own)
        TG_TRY(find_sgd(o, c));
    TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, OPT_OPTIMIZER, &usual));
    if (c->wish.hint)
        rate_hint_optimizer(c->wish.hint, tg_spec_real(usual, "lr"), c->wished);
    tg_spec_free(usual);
    c->text = c->needed       ? c->needed
              : c->wish.hint  ? c->wished
              : c->sgd_for[0] ? OPT_OPTIMIZER
                              : c->ordinary;
    return TG_OK;
}

/* ---- keys that are not given ----------------------------------------------------------------- */

static void add_key(char text[512], const char *key, double value)
{
    const size_t used = strlen(text);
    snprintf(text + used, 512 - used, "%c%s=%.9g", strchr(text, ':') ? ',' : ':', key, value);
}

/* Take the values that `usual` gives and `own` does not. written: own as text. own NULL: all */
static tg_status complete(struct run_options *o, const char *written, const tg_spec *own,
                          const tg_spec *usual)
{
    static const char *const keys[] = {"lr", "momentum", "weight_decay"};
    const struct method_momentum method = momentum_of(options_method(o));
    char *text = o->settled.optimizer;
    if (!own)
        written = tg_spec_name(usual);
    if (strlen(written) > sizeof o->settled.optimizer - 96)
        return tg_fail(TG_E_SPEC, "--optimizer of %zu characters: allowed: %zu", strlen(written),
                       sizeof o->settled.optimizer - 96);
    snprintf(text, sizeof o->settled.optimizer, "%s", written);
    for (size_t i = 0; i < TG_COUNT(keys); i++) {
        const bool open = !own || !tg_spec_given(own, keys[i]);
        if (!open || !tg_spec_given(usual, keys[i]))
            continue;
        const bool replaced = method.given && strcmp(keys[i], "momentum") == 0;
        add_key(text, keys[i], replaced ? method.value : tg_spec_real(usual, keys[i]));
    }
    return TG_OK;
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* Say which keys that were not given have a value of the method, or of the strategy, which is not
 * the usual one. */
static tg_status say_open(struct run_options *o, const char *subject, tg_kind kind,
                          const tg_spec *own)
{
    static const char *const names[] = {"lr", "momentum"};
    tg_spec *now, *usual;
    char keys[96] = "", values[64] = "";
    int count = 0;
    TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, o->settled.optimizer, &now));
    const tg_status status = tg_registry_parse(TG_KIND_OPTIMIZER, OPT_OPTIMIZER, &usual);
    for (size_t i = 0; i < TG_COUNT(names) && status == TG_OK; i++) {
        const double value = tg_spec_real(now, names[i]), other = tg_spec_real(usual, names[i]);
        if (tg_spec_given(own, names[i]) || value == other)
            continue;
        const char *and = count++ ? " and " : "";
        const size_t k = strlen(keys), v = strlen(values);
        snprintf(keys + k, sizeof keys - k, "%s%s=%.9g", and, names[i], value);
        snprintf(values + v, sizeof values - v, "%s%.9g", and, other);
    }
    if (status == TG_OK)
        tg_spec_free(usual);
    tg_spec_free(now);
    if (count > 0)
        run_notes_add(o, false,
                      "%s: %s, which you did not set, %s of the %s; the usual default%s %s",
                      subject, keys, count > 1 ? "are those" : "is that", tg_kind_name(kind),
                      count > 1 ? "s are" : " is", values);
    return status;
}

/* Say why the optimizer is not the ordinary one. own: what was given, parsed; NULL: nothing was */
static tg_status say(struct run_options *o, const struct choice *c, const tg_spec *own, bool same)
{
    char subject[80];
    const char *now = o->settled.optimizer;
    if (c->needed) {
        if (!options_given(o, "optimizer"))
            run_notes_add(o, false,
                          "strategy %.64s needs optimizer %.300s, and has it instead of %s",
                          o->strategy, now, c->ordinary);
        return TG_OK;
    }
    if (!same || (!c->wish.hint && !c->sgd_for[0]))
        return TG_OK;
    const bool chosen = options_given(o, "optimizer"),
               usual = strcmp(c->ordinary, OPT_OPTIMIZER) == 0;
    if (!c->wish.hint) {
        if (!chosen)
            run_notes_add(o, false, "%s: the default optimizer is %.300s, %s, not %s", c->sgd_for,
                          now, c->because, c->ordinary);
        return TG_OK;
    }
    snprintf(subject, sizeof subject, "%s %.*s", tg_kind_name(c->wish.kind),
             (int)strcspn(c->wish.spec, ":"), c->wish.spec);
    if (chosen || (own && usual))
        return say_open(o, subject, c->wish.kind, own);
    run_notes_add(o, false, "%s: the default optimizer is %.300s, with which it learns, not %s",
                  subject, now, c->ordinary);
    return TG_OK;
}

/* written: the optimizer from the command line, own: the same parsed; "" and NULL: none */
static tg_status settle(struct run_options *o, const struct choice *c, const char *written,
                        const tg_spec *own)
{
    tg_spec *usual;
    const bool other = own && !spec_same_name(c->text, tg_spec_name(own));
    const char *text = other ? OPT_OPTIMIZER : c->text;
    TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, text, &usual));
    const bool same = !own || spec_same_name(text, tg_spec_name(own));
    tg_status status = TG_OK;
    if (same)
        status = complete(o, written, own, usual);
    else if (o->lr)
        snprintf(o->settled.optimizer, sizeof o->settled.optimizer, "%s", written);
    tg_spec_free(usual);
    return status != TG_OK ? status : say(o, c, own, same);
}

tg_status optimizer_default_settle(struct run_options *o)
{
    struct choice c;
    tg_spec *own = NULL;
    char written[OPTIMIZER_OPTION_TEXT], name[64];
    TG_TRY(choose(o, &c));
    snprintf(name, sizeof name, "%.*s", (int)strcspn(c.text, ":"), c.text);
    TG_TRY(optimizer_option_join(o, name, written));
    if (written[0])
        TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, written, &own));
    const tg_status status = settle(o, &c, written, own);
    tg_spec_free(own);
    return status;
}
