#include "cli/run_defaults.h"
#include "cli/console.h"
#include "cli/method_rate.h"
#include "cli/optimizer_option.h"
#include <stdio.h>
#include <string.h>

/* The momentum that the method names itself, which it has in the place of the optimizer's; else
 * `usual`. */
static double momentum_of(const struct run_options *o, double usual)
{
    tg_spec *spec;
    if (tg_registry_parse(TG_KIND_METHOD, options_method(o), &spec) != TG_OK)
        return usual; /* whoever makes the session says why */
    const double momentum =
        tg_spec_given(spec, "momentum") ? tg_spec_real(spec, "momentum") : usual;
    tg_spec_free(spec);
    return momentum;
}

static void add_key(char text[512], const char *key, double value)
{
    const size_t used = strlen(text);
    snprintf(text + used, 512 - used, "%c%s=%.9g", strchr(text, ':') ? ',' : ':', key, value);
}

/* What `own` leaves open `usual` says: lr and momentum, which defaults name. */
static tg_status complete(struct run_options *o, const char *written, const tg_spec *own,
                          const tg_spec *usual)
{
    static const char *const keys[] = {"lr", "momentum"}; /* with momentum_of */
    char *text = o->settled.optimizer;
    if (!own)
        written = tg_spec_name(usual);
    if (strlen(written) > sizeof o->settled.optimizer - 64)
        return tg_fail(TG_E_SPEC, "--optimizer of %zu characters: allowed: %zu", strlen(written),
                       sizeof o->settled.optimizer - 64);
    snprintf(text, sizeof o->settled.optimizer, "%s", written);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const bool open = !own || !tg_spec_given(own, keys[i]);
        if (!open || !tg_spec_given(usual, keys[i]))
            continue;
        const double value = tg_spec_real(usual, keys[i]);
        add_key(text, keys[i], i == 1 ? momentum_of(o, value) : value);
    }
    return TG_OK;
}

/* What the optimizer will have, of what the method learns with. */
static tg_status check_rate(struct run_options *o, const method_rate *wish, double usual)
{
    tg_spec *spec;
    TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, o->settled.optimizer, &spec));
    const double lr = tg_spec_real(spec, "lr"), momentum = tg_spec_real(spec, "momentum");
    const double in_all = momentum < 1 ? lr / (1 - momentum) : lr;
    const double low = wish->low * usual, high = wish->high * usual;
    tg_spec_free(spec);
    o->settled.warns = in_all < low || in_all > high || (wish->plain && momentum > 0);
    if (o->settled.warns)
        snprintf(o->settled.note, sizeof o->settled.note,
                 "method %s with lr=%g, momentum=%g: it is known to learn with lr / (1 - momentum) "
                 "from %g to %g%s; without --optimizer it has lr=%g, momentum=0",
                 wish->method, lr, momentum, low, high, wish->plain ? ", and momentum=0" : "",
                 wish->factor * usual);
    return TG_OK;
}

/* written: what the command line says, and own as it is read; "" and NULL: nothing. needed: by the
 * strategy, or NULL. */
static tg_status settle(struct run_options *o, const char *written, const tg_spec *own,
                        const char *needed)
{
    tg_spec *usual;
    char plain[64];
    const bool ssgd = strcspn(o->strategy, ":") == 4 && strncmp(o->strategy, "ssgd", 4) == 0;
    const method_rate *wish = ssgd ? method_rate_of(options_method(o)) : NULL;
    TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, OPT_OPTIMIZER, &usual));
    const double rate = tg_spec_real(usual, "lr");
    if (wish)
        snprintf(plain, sizeof plain, "%s:lr=%.9g,momentum=0", tg_spec_name(usual),
                 wish->factor * rate);
    tg_spec_free(usual);
    TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER,
                             needed ? needed
                             : wish ? plain
                                    : OPT_OPTIMIZER,
                             &usual));
    tg_status status = TG_OK;
    const bool same = !own || strcmp(tg_spec_name(own), tg_spec_name(usual)) == 0;
    const bool open = !own || !tg_spec_given(own, "lr") || !tg_spec_given(own, "momentum");
    if (same)
        status = complete(o, written, own, usual);
    else if (o->lr)
        snprintf(o->settled.optimizer, sizeof o->settled.optimizer, "%s", written);
    if (status == TG_OK && same && wish && open)
        snprintf(o->settled.note, sizeof o->settled.note,
                 "method %s: optimizer %.300s, with which it learns, in the place of %s",
                 wish->method, o->settled.optimizer, OPT_OPTIMIZER);
    else if (needed && !options_given(o, "optimizer"))
        snprintf(o->settled.note, sizeof o->settled.note,
                 "strategy %.64s: optimizer %.300s, which it needs, in the place of %s",
                 o->strategy, o->settled.optimizer, OPT_OPTIMIZER);
    if (status == TG_OK && same && wish && own)
        status = check_rate(o, wish, rate);
    tg_spec_free(usual);
    return status;
}

tg_status run_defaults_settle(struct run_options *o)
{
    tg_spec *own = NULL;
    char written[OPTIMIZER_OPTION_TEXT];
    o->settled = (struct run_settled){.warns = false};
    TG_TRY(optimizer_option_join(o, written));
    if (written[0])
        TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, written, &own));
    const tg_status status = settle(o, written, own, tg_registry_strategy_optimizer(o->strategy));
    tg_spec_free(own);
    return status;
}

void run_defaults_say(const struct run_options *o, const char *title)
{
    const char *note = o->settled.note, *colon = title[0] ? ": " : "";
    if (!note[0])
        return;
    if (o->settled.warns)
        console_warning("%s%s%s", title, colon, note);
    else
        console_note("%s%s%s", title, colon, note);
}
