/* Default warm-ups depend on the length of the run, and what cd averages on the method and the
 * optimizer. They are settled once, before method and strategy are created. A checkpoint holds that
 * length, and a session loaded from it uses the stored length instead of its own: extending a run
 * does not change its warm-ups. */
#include "session/session_impl.h"
#include "base/floats.h"
#include "base/spec_value.h"
#include "strategy/delayed.h"
#include "telegrad/spec.h"
#include "transport/endpoint.h"

#include <stdlib.h>
#include <string.h>

static const char section[] = "length"; /* of a checkpoint; older checkpoints have none */

tg_status tg__session_get_length(tg_session *s, tg__ckpt_reader *r)
{
    s->from.length = (struct tg__length){.steps_per_epoch = s->config.steps_per_epoch};
    return tg__ckpt_has(r, section)
               ? tg__ckpt_read(r, section, &s->from.length, sizeof s->from.length)
               : TG_OK;
}

tg_status tg__session_parse_strategy(tg_session *s)
{
    size_t count;
    const tg_entry *const *entries = tg__strategy_entries(&count);
    tg_spec_free(s->strategy_spec);
    s->strategy_spec = NULL;
    return tg_spec_parse("strategy", entries, count, s->config.strategy, &s->strategy_spec);
}

/* Write into the spec what is averaged, so that records and checkpoints say it. */
static tg_status settle_average(tg_session *s)
{
    char *text;
    tg_spec *spec = s->strategy_spec;
    if (!tg_spec_has(spec, "average") || strcmp(tg_spec_word(spec, "average"), "auto") != 0)
        return TG_OK;
    const bool updates = tg__delayed_averages_updates(spec, s->prefers_updates);
    TG_TRY(tg__spec_set(spec, "average", updates ? "updates" : "gradients"));
    TG_TRY(tg__owned_text(&s->owned, tg_spec_text(spec), &text));
    s->config.strategy = text;
    return TG_OK;
}

static tg_status settle_strategy(tg_session *s)
{
    char *text;
    TG_TRY(tg__spec_settle(s->strategy_spec, s->config.strategy, s->length.total_steps,
                           s->length.steps_per_epoch, &text));
    TG_TRY(tg__owned_add(&s->owned, text, free));
    s->config.strategy = text;
    s->settled = true;
    TG_TRY(tg__session_parse_strategy(s));
    return settle_average(s);
}

tg_status tg__session_settle(tg_session *s)
{
    const bool open = tg__spec_is_open(s->strategy_spec) || tg__rules_are_open(&s->rules);
    s->length.total_steps = s->config.total_steps;
    s->length.steps_per_epoch = s->config.steps_per_epoch;
    if (open && s->from.ranks != 0)
        s->length = s->from.length;
    TG_TRY(settle_strategy(s));
    TG_TRY(tg__rules_settle(&s->rules, s->length.total_steps, s->length.steps_per_epoch));
    if (tg__servers_of(s->transport) > 0 && tg__strategy_is_served(s->config.strategy))
        TG_TRY(tg__rules_take_servers(&s->rules));
    return tg__rules_take_momentum(&s->rules, tg__session_momentum(s), tg__session_nesterov(s));
}

tg_status tg__session_put_length(const tg_session *s, tg__ckpt_writer *w)
{
    return tg__ckpt_put(w, section, &s->length, sizeof s->length);
}

const char *tg_session_spec(const tg_session *s, tg_kind kind)
{
    TG__OWN_FLOATS;
    if (s == NULL || !s->settled)
        return NULL;
    if (kind == TG_KIND_STRATEGY)
        return tg_spec_text(s->strategy_spec);
    return kind == TG_KIND_METHOD ? tg_spec_text(tg__rules_default(&s->rules)->spec) : NULL;
}
