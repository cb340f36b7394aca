#include "command/catalog/entry.h"
#include "command/catalog/methods_card.h"
#include "command/job/known_losses.h"
#include <math.h>
#include <string.h>

/* The entry with all its defaults, in normal form. It is parsed again, which checks the
 * defaults. */
static tg_status default_spec(int kind, const tg_entry *entry, tg_spec **spec_p)
{
    size_t count;
    const tg_entry *const *entries = entries_of(kind, &count);
    tg_spec *spec = NULL, *again = NULL;
    TG_TRY(tg_spec_parse(entry_kind(kind), entries, count, entry->name, &spec));
    tg_status status = tg_spec_parse(entry_kind(kind), entries, count, tg_spec_text(spec), &again);
    tg_spec_free(spec);
    TG_TRY(status);
    *spec_p = again;
    return TG_OK;
}

/* Append item, which is taken over. Returns NULL if either argument is NULL. */
static json_t *append(json_t *list, json_t *item)
{
    if (list && json_array_append_new(list, item) == 0)
        return list;
    if (!list)
        json_decref(item);
    json_decref(list);
    return NULL;
}

/* Add the members of `more`, which is taken over. Returns NULL if either argument is NULL. */
static json_t *join(json_t *object, json_t *more)
{
    if (object && (!more || json_object_update(object, more) != 0)) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return object;
}

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *choices_json(const tg_key *key)
{
    json_t *list = json_array();
    const char *p = key->type == TG_KEY_FLAG ? "yes|no" : key->choices;
    while (list && p && *p) {
        size_t len = strcspn(p, "|");
        list = append(list, json_stringn(p, len));
        p += len + (p[len] == '|');
    }
    return list;
}

static json_t *key_json(const tg_key *key)
{
    json_t *object =
        json_pack("{s:s, s:s, s:s?, s:s}", "name", key->name, "type", entry_key_type(key),
                  "default", key->def, "help", key->help ? key->help : "");
    if (entry_key_has_range(key))
        object = join(object, json_pack("{s:o, s:o, s:b}", "min", real(key->min), "max",
                                        real(key->max), "min_open", (int)key->min_open));
    if (key->type == TG_KEY_FLAG || key->choices)
        object = join(object, json_pack("{s:o}", "choices", choices_json(key)));
    return object;
}

tg_status entry_json(int kind, const tg_entry *entry, json_t **object_p)
{
    tg_spec *spec = NULL;
    TG_TRY(default_spec(kind, entry, &spec));
    json_t *keys = json_array();
    for (const tg_key *key = entry->keys; keys && key && key->name; key++)
        keys = append(keys, key_json(key));
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", entry->name, "summary",
                               entry->summary, "source", entry->source ? entry->source : "", "spec",
                               tg_spec_text(spec), "keys", keys);
    tg_spec_free(spec);
    if (kind == TG_KIND_METHOD)
        object = join(object, json_pack("{s:o}", "card",
                                        methods_card_json(tg_registry_method_card(entry->name))));
    if (kind == TG_KIND_STRATEGY)
        object = join(object,
                      json_pack("{s:s, s:s?}", "method", tg_registry_strategy_method(entry->name),
                                "optimizer", tg_registry_strategy_optimizer(entry->name)));
    if (kind == TG_KIND_METHOD || kind == TG_KIND_STRATEGY)
        object = join(object,
                      json_pack("{s:o, s:o}", "rate",
                                rate_hint_json(tg_registry_rate_hint((tg_kind)kind, entry->name)),
                                "losses", known_losses_json((tg_kind)kind, entry->name)));
    if (!object)
        return tg_fail(TG_E_NOMEM, "out of memory: %s", entry->name);
    *object_p = object;
    return TG_OK;
}
