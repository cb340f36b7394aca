#include "command/catalog/entry.h"
#include "trainer/loop/train.h"
#include "telegrad/tools.h"
#include "trainer/model/model.h"
#include <string.h>

static const struct {
    const char *one, *all;
} names[KINDS] = {
    [TG_KIND_METHOD] = {"method", "methods"},
    [TG_KIND_CODEC] = {"codec", "codecs"},
    [TG_KIND_FEEDBACK] = {"feedback", "feedbacks"},
    [TG_KIND_EXCHANGE] = {"exchange", "exchanges"},
    [TG_KIND_STRATEGY] = {"strategy", "strategies"},
    [TG_KIND_OPTIMIZER] = {"optimizer", "optimizers"},
    [TG_KIND_LR_SCHEDULE] = {"lr-schedule", "lr-schedules"},
    [KIND_MODEL] = {"model", "models"},
};

const char *entry_kind(int kind)
{
    return names[kind].one;
}

const char *entry_kinds(int kind)
{
    return names[kind].all;
}

int entry_kind_find(const char *name)
{
    int kind = 0;
    while (kind < KINDS && strcmp(names[kind].one, name) != 0 && strcmp(names[kind].all, name) != 0)
        kind++;
    return kind < KINDS ? kind : -1;
}

const tg_entry *const *entries_of(int kind, size_t *count_p)
{
    if (kind < TG_KIND_COUNT)
        return tg_registry_entries((tg_kind)kind, count_p);
#ifdef HAVE_TRAIN
    return model_entries(count_p);
#else
    *count_p = 0;
    return NULL;
#endif
}

const tg_entry *entry_find(int kind, const char *name)
{
    size_t count;
    const tg_entry *const *entries = entries_of(kind, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i]->name, name) == 0)
            return entries[i];
    return NULL;
}

static const char *article(int kind)
{
    return strchr("aeiou", names[kind].one[0]) ? "an" : "a";
}

static void offer_kind(tg_nearest *near, int kind)
{
    size_t count;
    const tg_entry *const *entries = entries_of(kind, &count);
    for (size_t i = 0; i < count; i++)
        tg_nearest_offer(near, entries[i]->name, strlen(entries[i]->name));
}

static void list_names(int kind, char *text, size_t room)
{
    size_t count, used = 0;
    const tg_entry *const *entries = entries_of(kind, &count);
    text[0] = '\0';
    for (size_t i = 0; i < count && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s", i ? ", " : "", entries[i]->name);
}

tg_status entry_unknown(int kind, const char *name)
{
    tg_nearest near;
    const int meant = entry_kind_find(name);
    if (meant >= 0)
        return tg_fail(TG_E_SPEC, "no %s \"%.64s\": telegrad %s lists all %s", names[kind].one,
                       name, names[meant].all, names[meant].all);
    for (int other = 0; other < KINDS; other++)
        if (other != kind && entry_find(other, name))
            return tg_fail(TG_E_SPEC, "\"%.64s\" is %s %s, not %s %s: see telegrad %s %.64s", name,
                           article(other), names[other].one, article(kind), names[kind].one,
                           names[other].all, name);
    char bare[64]; /* the name at the start of a spec string */
    snprintf(bare, sizeof bare, "%.*s", (int)(strcspn(name, ":") < 63 ? strcspn(name, ":") : 63),
             name);
    if (strchr(name, ':') && entry_find(kind, bare))
        return tg_fail(TG_E_SPEC, "\"%.64s\": allowed: a name without keys: telegrad %s %s", name,
                       names[kind].all, bare);
    char hint[160] = "", all[640];
    tg_nearest_begin(&near, bare);
    offer_kind(&near, kind);
    if (near.word[0])
        snprintf(hint, sizeof hint, "%s", tg_nearest_hint(&near));
    for (int other = 0; other < KINDS && !hint[0]; other++) {
        offer_kind(&near, other);
        if (near.word[0])
            snprintf(hint, sizeof hint, "did you mean \"%s\", %s %s (telegrad %s %s)? ", near.word,
                     article(other), names[other].one, names[other].all, near.word);
    }
    list_names(kind, all, sizeof all);
    return tg_fail(TG_E_SPEC, "unknown %s \"%.64s\": %sallowed: %s; see telegrad %s",
                   names[kind].one, name, hint, all, names[kind].all);
}

const char *entry_key_type(const tg_key *key)
{
    static const char *const type_names[] = {
        [TG_KEY_INT] = "integer",   [TG_KEY_REAL] = "real",         [TG_KEY_FLAG] = "flag",
        [TG_KEY_CHOICE] = "choice", [TG_KEY_DURATION] = "duration", [TG_KEY_SPEC] = "spec"};
    return type_names[key->type];
}

bool entry_key_has_range(const tg_key *key)
{
    return key->type == TG_KEY_INT || key->type == TG_KEY_REAL || key->type == TG_KEY_DURATION;
}
