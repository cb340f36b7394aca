#include "base/spec_value.h"
#include "telegrad/tools.h"
#include <string.h>

tg_status tg__spec_check_text(const char *kind, const char *text)
{
    size_t depth = 0;
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c <= ' ' || c == 0x7f)
            return tg_fail(TG_E_SPEC,
                           "%s \"%.64s\": blank or control character at position %zu: allowed: "
                           "name:key=value,key=value without blanks",
                           kind, text, (size_t)(p - text) + 1);
        if (c == '[')
            depth++;
        if (c == ']' && depth-- == 0)
            return tg_fail(TG_E_SPEC,
                           "%s \"%.64s\": the \"]\" at position %zu has no \"[\" before it", kind,
                           text, (size_t)(p - text) + 1);
    }
    if (depth)
        return tg_fail(TG_E_SPEC, "%s \"%.64s\": %zu \"[\" without \"]\"", kind, text, depth);
    return TG_OK;
}

/* "topk,density=0.1": what follows the entry's name and another mark than the colon; NULL: name is
 * no such text. */
static const char *after_wrong_mark(const char *name, const tg_entry *entry)
{
    const size_t len = strlen(entry->name);
    if (strncmp(name, entry->name, len) != 0 || !name[len] || !strchr(",;/=", name[len]))
        return NULL;
    return strchr(name + len + 1, '=') ? name + len + 1 : NULL;
}

tg_status tg__spec_find_entry(const char *kind, const tg_entry *const *entries, size_t count,
                              const char *name, const tg_entry **entry_p)
{
    char list[TG__WORD_LIST] = "";
    tg_nearest near;
    tg_nearest_begin(&near, name);
    for (size_t i = 0; i < count; i++) {
        const size_t len = strlen(entries[i]->name);
        const char *rest = after_wrong_mark(name, entries[i]);
        if (strcmp(entries[i]->name, name) == 0) {
            *entry_p = entries[i];
            return TG_OK;
        }
        if (rest)
            return tg_fail(TG_E_SPEC, "unknown %s \"%.64s\": a colon ends the name: write %s:%.64s",
                           kind, name, entries[i]->name, rest);
        tg__word_list_add(list, entries[i]->name, len);
        tg_nearest_offer(&near, entries[i]->name, len);
    }
    const char *hint = tg_nearest_hint(&near);
    if (!hint[0] && strchr(name, '='))
        hint = "a name and a colon come before its keys; ";
    return tg_fail(TG_E_SPEC, "unknown %s \"%.64s\": %sallowed: %s", kind, name, hint, list);
}

tg_status tg__spec_find_key(const char *kind, const tg_entry *entry, const char *name,
                            size_t *index_p)
{
    char list[TG__WORD_LIST] = "";
    tg_nearest near;
    tg_nearest_begin(&near, name);
    for (size_t i = 0; entry->keys && entry->keys[i].name; i++) {
        const size_t len = strlen(entry->keys[i].name);
        if (strcmp(entry->keys[i].name, name) == 0) {
            *index_p = i;
            return TG_OK;
        }
        tg__word_list_add(list, entry->keys[i].name, len);
        tg_nearest_offer(&near, entry->keys[i].name, len);
    }
    return tg_fail(TG_E_SPEC, "unknown key \"%.64s\" of %s \"%s\": %sallowed: %s", name, kind,
                   entry->name, tg_nearest_hint(&near), list[0] ? list : "none, it has no keys");
}
