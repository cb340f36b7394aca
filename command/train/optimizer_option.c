#include "command/train/optimizer_option.h"
#include "telegrad/tools.h"
#include <string.h>

static tg_status same_rate(const struct run_options *o, const tg_spec *given)
{
    double lr = 0;
    if ((tg_real_parse(o->lr, &lr) || tg_percent_parse(o->lr, &lr)) &&
        lr == tg_spec_real(given, "lr"))
        return TG_OK;
    return tg_fail(TG_E_SPEC, "--lr %.64s and --optimizer %.64s both give a rate: give only one",
                   o->lr, o->optimizer);
}

/* Add the rate to an optimizer that does not give one. */
static tg_status add_rate(const struct run_options *o, char text[OPTIMIZER_OPTION_TEXT])
{
    tg_spec *spec = NULL;
    const size_t used = strlen(text);
    if (o->lr[strcspn(o->lr, ",:[]")] != '\0')
        return tg_fail(TG_E_SPEC,
                       "--lr \"%.64s\": allowed: a number, with a point for a fraction, as 0.1",
                       o->lr);
    TG_TRY(tg_registry_parse(TG_KIND_OPTIMIZER, text, &spec));
    const bool has_rate = tg_spec_given(spec, "lr");
    const tg_status same = has_rate ? same_rate(o, spec) : TG_OK;
    tg_spec_free(spec);
    if (has_rate)
        return same;
    snprintf(text + used, OPTIMIZER_OPTION_TEXT - used, "%clr=%.64s", strchr(text, ':') ? ',' : ':',
             o->lr);
    if (tg_registry_parse(TG_KIND_OPTIMIZER, text, &spec) != TG_OK)
        return tg_fail(TG_E_SPEC, "--lr %.64s: %s", o->lr, tg_error());
    tg_spec_free(spec);
    return TG_OK;
}

tg_status optimizer_option_join(const struct run_options *o, const char *usual,
                                char text[OPTIMIZER_OPTION_TEXT])
{
    const char *given = options_given(o, "optimizer") ? o->optimizer : o->lr ? usual : "";
    if (strlen(given) > OPTIMIZER_OPTION_TEXT - 128)
        return tg_fail(TG_E_SPEC, "--optimizer of %zu characters: allowed: %d", strlen(given),
                       OPTIMIZER_OPTION_TEXT - 128);
    strcpy(text, given);
    return o->lr ? add_rate(o, text) : TG_OK;
}
