#include "command/train/loss_notes.h"
#include "command/job/known_losses.h"
#include "command/job/launch.h"
#include "command/job/spec_words.h"
#include "command/train/rate_hints.h"
#include "command/train/run_notes.h"

#include <stdio.h>
#include <string.h>

static void warn(struct run_options *o, tg_kind kind, const char *name, const known_loss *k)
{
    char more[64] = "";
    if (k->change)
        snprintf(more, sizeof more, ", and a %s than %g may lose more", k->change, k->trained);
    run_notes_add(o, true,
                  "%s %s lost %.*f %s compared with dense training (%s)%s: see telegrad %s %s",
                  tg_kind_name(kind), k->spec, k->digits, k->loss, k->unit, k->job, more,
                  kind == TG_KIND_METHOD ? "methods" : "strategies", name);
}

static tg_status check(struct run_options *o, tg_kind kind, const char *text)
{
    tg_spec *spec;
    known_loss k;
    TG_TRY(tg_registry_parse(kind, text, &spec));
    if (known_losses_find(kind, spec, o->model, &k) && k.loss > k.seeds)
        warn(o, kind, tg_spec_name(spec), &k);
    tg_spec_free(spec);
    return TG_OK;
}

/* Whether the strategy has a default method of its own (cd, demo, sparseloco), with which its loss
 * was measured, and the run has another. */
static bool has_other_method(const struct run_options *o)
{
    const char *own = tg_registry_strategy_method(o->strategy), *method = options_method(o);
    return strcmp(own, "dense") != 0 && !spec_same_name(method, own);
}

tg_status loss_notes_check(struct run_options *o)
{
    bool dense;
    if (launch_ranks_told(&o->net, o->workers) == 1 && o->servers == 0)
        return TG_OK;
    TG_TRY(rate_hint_is_dense(o->strategy, &dense));
    if (!dense)
        TG_TRY(check(o, TG_KIND_METHOD, options_method(o)));
    return has_other_method(o) ? TG_OK : check(o, TG_KIND_STRATEGY, o->strategy);
}
