/* Default warm-ups depend on the length of the run. They are settled once, before method and
 * strategy are created. A checkpoint holds that length, and a session loaded from it uses the
 * stored length instead of its own: extending a run does not change its warm-ups. */
#include "session/session_impl.h"
#include "base/spec_value.h"
#include "telegrad/spec.h"
#include "transport/endpoint.h"

#include <stdlib.h>

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

static tg_status settle_strategy(tg_session *s)
{
    char *text;
    TG_TRY(tg__spec_settle(s->strategy_spec, s->config.strategy, s->length.total_steps,
                           s->length.steps_per_epoch, &text));
    TG_TRY(tg__owned_add(&s->owned, text, free));
    s->config.strategy = text;
    s->settled = true;
    return tg__session_parse_strategy(s);
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
    if (s == NULL || !s->settled)
        return NULL;
    if (kind == TG_KIND_STRATEGY)
        return tg_spec_text(s->strategy_spec);
    return kind == TG_KIND_METHOD ? tg_spec_text(tg__rules_default(&s->rules)->spec) : NULL;
}
