#include "trainer/data/data_spec.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SETS_MAX = 32 };

static tg_status find_set(const char *text, size_t len, const data_set **set_p)
{
    const tg_entry *entries[SETS_MAX];
    size_t count;
    tg_spec *spec = NULL;
    const data_set *const *sets = data_sets(&count);
    count = count < SETS_MAX ? count : SETS_MAX;
    for (size_t i = 0; i < count; i++) {
        entries[i] = sets[i]->entry;
        if (strlen(entries[i]->name) == len && memcmp(entries[i]->name, text, len) == 0) {
            *set_p = sets[i];
            return TG_OK;
        }
    }
    char name[65]; /* as much as a message shows */
    snprintf(name, sizeof name, "%.*s", (int)(len < 64 ? len : 64), text);
    const tg_status status = tg_spec_parse("data set", entries, count, name, &spec);
    tg_spec_free(spec);
    return tg_fail(status == TG_OK ? TG_E_SPEC : status,
                   "%s (NAME:PATH says where the files are, as text:%.64s)", tg_error(),
                   access(text, F_OK) == 0 ? text : "FILE");
}

/* Whether text begins with letters and "=". */
static bool is_key(const char *text)
{
    const size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    return len > 0 && text[len] == '=';
}

/* The length of the path at text: to its end or to the next ",key=". */
static size_t path_length(const char *text)
{
    size_t len = strcspn(text, ",");
    while (text[len] && !is_key(text + len + 1))
        len += 1 + strcspn(text + len + 1, ",");
    return len;
}

static tg_status take_path(data_spec *spec, const char *text, size_t len)
{
    const data_set *set = spec->set;
    if (spec->path)
        return tg_fail(TG_E_SPEC, "data set %s has two paths, %.64s and %.*s: give one",
                       set->entry->name, spec->path, (int)(len < 64 ? len : 64), text);
    if (!set->path_key)
        return tg_fail(TG_E_SPEC, "data set %s is generated and takes no path: %.*s",
                       set->entry->name, (int)(len < 200 ? len : 200), text);
    if (len == 0)
        return tg_fail(TG_E_SPEC, "data set %s: an empty path: allowed: %s:%s=PATH",
                       set->entry->name, set->entry->name, set->path_key);
    spec->path = strndup(text, len);
    return spec->path ? TG_OK : tg_fail(TG_E_NOMEM, "out of memory: a path");
}

/* Take the path out of `text`, the part after "NAME:". The keys that are left go to `keys`, which
 * has room for all of `text`. */
static tg_status split_items(data_spec *spec, const char *text, char *keys)
{
    const char *key = spec->set->path_key;
    const size_t key_len = key ? strlen(key) : 0;
    size_t used = 0;
    while (*text) {
        const bool named = key && strncmp(text, key, key_len) == 0 && text[key_len] == '=';
        size_t len;
        if (named || !is_key(text)) {
            text += named ? key_len + 1 : 0;
            len = path_length(text);
            TG_TRY(take_path(spec, text, len));
        } else {
            len = strcspn(text, ",");
            keys[used] = used ? ',' : ':';
            memcpy(keys + used + 1, text, len);
            used += 1 + len;
        }
        text += len;
        if (*text == ',' && !text[1])
            return tg_fail(TG_E_SPEC, "data set %s: a key is missing after the last comma",
                           spec->set->entry->name);
        text += *text == ',';
    }
    keys[used] = '\0';
    return TG_OK;
}

static tg_status parse(const char *text, data_spec *spec, char *keys)
{
    const size_t len = strcspn(text, ":");
    TG_TRY(find_set(text, len, &spec->set));
    memcpy(keys, text, len);
    keys[len] = '\0';
    if (text[len] == ':' && !text[len + 1])
        return tg_fail(TG_E_SPEC, "data set \"%s\": a key or a path is missing after the colon",
                       text);
    if (text[len] == ':')
        TG_TRY(split_items(spec, text + len + 1, keys + len));
    const tg_status status = tg_spec_parse("data set", &spec->set->entry, 1, keys, &spec->keys);
    if (status != TG_E_SPEC || !spec->set->path_key)
        return status;
    char why[512]; /* this message does not list the key of the path */
    snprintf(why, sizeof why, "%s", tg_error());
    return tg_fail(TG_E_SPEC, "%s; %s=PATH says where the files are", why, spec->set->path_key);
}

tg_status data_spec_parse(const char *text, data_spec *spec_p)
{
    data_spec spec = {NULL, NULL, NULL};
    char *keys;
    TG_TRY(tg_alloc(strlen(text) + 2, 1, &keys));
    const tg_status status = parse(text, &spec, keys);
    free(keys);
    if (status != TG_OK) {
        data_spec_free(&spec);
        return status;
    }
    *spec_p = spec;
    return TG_OK;
}

void data_spec_free(data_spec *spec)
{
    free(spec->path);
    tg_spec_free(spec->keys);
    *spec = (data_spec){NULL, NULL, NULL};
}
