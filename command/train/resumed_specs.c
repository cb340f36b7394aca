#include "command/train/resumed_specs.h"
#include "telegrad/tools.h"
#include "telegrad/weights.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Append a warm-up key that the text does not give. */
static tg_status add_key(char **text, const char *key, tg_duration d)
{
    char count[TG_REAL_TEXT], *longer;
    tg_real_text(d.count, count);
    if (asprintf(&longer, "%s%c%s=%s%s", *text, strchr(*text, ':') ? ',' : ':', key, count,
                 d.epochs ? "ep" : "") < 0)
        return tg_fail(TG_E_NOMEM, "out of memory: %.64s", *text);
    free(*text);
    *text = longer;
    return TG_OK;
}

static tg_status add_keys(const tg_spec *own, const tg_spec *saved, char **text)
{
    for (const tg_key *key = tg_spec_entry(own)->keys; key && key->name; key++)
        if (key->type == TG_KEY_DURATION && key->share > 0 && !tg_spec_given(own, key->name))
            TG_TRY(add_key(text, key->name, tg_spec_duration(saved, key->name)));
    return TG_OK;
}

/* The spec `written`, with the warm-ups that it does not give taken from `saved`. */
static tg_status complete(const struct run_options *o, tg_kind kind, const char *written,
                          const char *saved, char **text_p)
{
    tg_spec *own, *old;
    if (!saved)
        return tg_fail(TG_E_MISMATCH, "--resume %s: the checkpoint does not name its %s",
                       o->resume_dir, tg_kind_name(kind));
    TG_TRY(tg_registry_parse(kind, written, &own));
    tg_status status = tg_registry_parse(kind, saved, &old);
    if (status != TG_OK) {
        tg_spec_free(own);
        return status;
    }
    *text_p = strdup(written);
    if (!*text_p)
        status = tg_fail(TG_E_NOMEM, "out of memory: %.64s", written);
    else if (strcmp(tg_spec_name(own), tg_spec_name(old)) != 0)
        status = tg_fail(TG_E_MISMATCH,
                         "--resume %s: the checkpoint was saved with %s %s, and this run has %s",
                         o->resume_dir, tg_kind_name(kind), tg_spec_name(old), tg_spec_name(own));
    else
        status = add_keys(own, old, text_p);
    tg_spec_free(old);
    tg_spec_free(own);
    return status;
}

tg_status resumed_specs_read(const struct run_options *o, struct resumed_specs *r_p)
{
    struct resumed_specs r = {0};
    tg_weights *w;
    TG_TRY(tg_weights_open_saved(o->resume_dir, &w));
    const char *step = tg_weights_metadata(w, "step");
    r.step = step ? strtoull(step, NULL, 10) : 0;
    tg_status status =
        complete(o, TG_KIND_STRATEGY, o->strategy, tg_weights_metadata(w, "strategy"), &r.strategy);
    if (status == TG_OK)
        status = complete(o, TG_KIND_METHOD, options_method(o), tg_weights_metadata(w, "method"),
                          &r.method);
    tg_weights_close(w);
    if (status != TG_OK)
        resumed_specs_free(&r);
    else
        *r_p = r;
    return status;
}

void resumed_specs_free(struct resumed_specs *r)
{
    free(r->method);
    free(r->strategy);
    *r = (struct resumed_specs){0};
}
