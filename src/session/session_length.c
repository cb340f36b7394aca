/* Default warm-ups depend on the length of the run. They are settled once, before method and
 * strategy are created. A checkpoint holds that length, and a session loaded from it uses the
 * stored length instead of its own: extending a run does not change its warm-ups. */
#include "session/session_impl.h"
#include "base/spec_value.h"
#include "telegrad/spec.h"

#include <stdlib.h>
#include <string.h>

static const char section[] = "length"; /* of a checkpoint; older checkpoints have none */

tg_status tg__session_get_length(tg_session *s, tg__ckpt_reader *r)
{
    const void *bytes;
    s->from.length = (struct tg__length){.steps_per_epoch = s->config.steps_per_epoch};
    if (!tg__ckpt_has(r, section))
        return TG_OK;
    TG_TRY(tg__ckpt_get(r, section, sizeof s->from.length, &bytes, NULL));
    memcpy(&s->from.length, bytes, sizeof s->from.length);
    return TG_OK;
}

static tg_status parse_strategy(const tg_session *s, tg_spec **spec_p)
{
    size_t count;
    const tg_entry *const *entries = tg__strategy_entries(&count);
    return tg_spec_parse("strategy", entries, count, s->config.strategy, spec_p);
}

static tg_status settle_strategy(tg_session *s)
{
    tg_spec *spec;
    char *text = NULL;
    TG_TRY(parse_strategy(s, &spec));
    tg_status status = tg__spec_settle(spec, s->config.strategy, s->length.total_steps,
                                       s->length.steps_per_epoch, &text);
    tg_spec_free(spec);
    TG_TRY(status);
    free((void *)(uintptr_t)s->config.strategy);
    s->config.strategy = text;
    TG_TRY(parse_strategy(s, &spec));
    free(s->strategy_text);
    s->strategy_text = strdup(tg_spec_text(spec));
    tg_spec_free(spec);
    return s->strategy_text == NULL ? tg_fail(TG_E_NOMEM, "out of memory for a session") : TG_OK;
}

static tg_status is_open(const tg_session *s, bool *open_p)
{
    tg_spec *spec;
    TG_TRY(parse_strategy(s, &spec));
    *open_p = tg__spec_is_open(spec) || tg__rules_are_open(&s->rules);
    tg_spec_free(spec);
    return TG_OK;
}

tg_status tg__session_settle(tg_session *s)
{
    bool open;
    s->length.total_steps = s->config.total_steps;
    s->length.steps_per_epoch = s->config.steps_per_epoch;
    TG_TRY(is_open(s, &open));
    if (open && s->from.ranks != 0)
        s->length = s->from.length;
    TG_TRY(settle_strategy(s));
    TG_TRY(tg__rules_settle(&s->rules, s->length.total_steps, s->length.steps_per_epoch));
    return tg__rules_take_momentum(&s->rules, tg__session_momentum(s), tg__session_nesterov(s));
}

tg_status tg__session_put_length(const tg_session *s, tg__ckpt_writer *w)
{
    return tg__ckpt_put(w, section, &s->length, sizeof s->length);
}

const char *tg_session_spec(const tg_session *s, tg_kind kind)
{
    if (s == NULL)
        return NULL;
    if (s->strategy_text == NULL)
        return NULL;
    if (kind == TG_KIND_STRATEGY)
        return s->strategy_text;
    return kind == TG_KIND_METHOD ? tg_spec_text(tg__rules_default(&s->rules)->spec) : NULL;
}
