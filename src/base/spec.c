/* spec  = name [":" item {"," item}]
 * item  = key "=" value
 * value = any characters but "," "[" "]" | "[" spec "]" */
#include "base/spec_value.h"
#include "base/floats.h"
#include "base/arg.h"
#include "base/mem.h"
#include "base/memstream.h"
#include "telegrad/tools.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tg_spec {
    const tg_entry *entry;
    char *text; /* normal form */
    size_t nkeys;
    tg__spec_value *values; /* (nkeys), in the entry's order */
};

static size_t count_keys(const tg_entry *entry)
{
    size_t n = 0;
    while (entry->keys && entry->keys[n].name)
        n++;
    return n;
}

/* End the item at `item` with a zero byte; returns the start of the next one, NULL after the last.
 */
static char *cut_item(char *item)
{
    size_t depth = 0;
    for (char *p = item; *p; p++) {
        if (*p == '[')
            depth++;
        else if (*p == ']')
            depth--;
        else if (*p == ',' && depth == 0) {
            *p = '\0';
            return p + 1;
        }
    }
    return NULL;
}

/* "density=0,1": the comma ends the value, and the digits after it would be a key.
 * rest  what follows the comma; NULL: the value is the last */
static tg_status check_comma(const char *kind, const tg_entry *entry, const tg_key *key,
                             const char *value, const char *rest)
{
    const char *digits = rest ? rest : "";
    const size_t len = strcspn(digits, ",");
    const bool fraction = *digits >= '0' && *digits <= '9' && !memchr(digits, '=', len);
    const bool whole = strspn(value, "-0123456789") == strlen(value);
    if (!fraction || !whole || (key->type != TG_KEY_REAL && key->type != TG_KEY_DURATION))
        return TG_OK;
    const int cut = len < 32 ? (int)len : 32;
    return tg_fail(TG_E_SPEC,
                   "%s \"%s\": %s=%.32s,%.*s: a comma ends a value: write the decimal point: "
                   "%s=%.32s.%.*s",
                   kind, entry->name, key->name, value, cut, digits, key->name, value, cut, digits);
}

/* rest: the items after this one; NULL: none. */
static tg_status parse_item(const char *kind, char *item, const char *rest, tg_spec *spec)
{
    const tg_entry *entry = spec->entry;
    char *equals = strchr(item, '=');
    if (equals)
        *equals = '\0';
    size_t index = 0;
    if (!*item)
        return tg_fail(
            TG_E_SPEC,
            "%s \"%s\": a key is missing after the colon or a comma: allowed: key=value,key=value",
            kind, entry->name);
    TG_TRY(tg__spec_find_key(kind, entry, item, &index));
    const tg_key *key = &entry->keys[index];
    tg__spec_value *value = &spec->values[index];
    if (!equals || !equals[1])
        return tg_fail(TG_E_SPEC, "key \"%s\" of %s \"%s\" has no value: allowed: %s=VALUE",
                       key->name, kind, entry->name, key->name);
    if (value->given)
        return tg_fail(TG_E_SPEC, "key \"%s\" of %s \"%s\" is given twice", key->name, kind,
                       entry->name);
    TG_TRY(check_comma(kind, entry, key, equals + 1, rest));
    const tg_status status = tg__spec_value_parse(key, equals + 1, value);
    if (status != TG_OK)
        return tg_fail(status, "%s \"%s\": %s", kind, entry->name, tg_error());
    value->has = value->given = true;
    return TG_OK;
}

static tg_status fill_defaults(const char *kind, tg_spec *spec)
{
    for (size_t i = 0; i < spec->nkeys; i++) {
        const tg_key *key = &spec->entry->keys[i];
        if (spec->values[i].has || !key->def)
            continue;
        tg_status status = tg__spec_value_parse(key, key->def, &spec->values[i]);
        if (status != TG_OK)
            return tg_fail(status, "default of %s \"%s\": %s", kind, spec->entry->name, tg_error());
        spec->values[i].has = true;
    }
    return TG_OK;
}

static tg_status make_text(tg_spec *spec)
{
    size_t len = 0;
    FILE *file = tg__memstream_open(&spec->text, &len);
    if (file != NULL) {
        fputs(spec->entry->name, file);
        char before = ':';
        for (size_t i = 0; i < spec->nkeys; i++) {
            if (!spec->values[i].has)
                continue;
            fprintf(file, "%c%s=", before, spec->entry->keys[i].name);
            tg__spec_value_print(&spec->entry->keys[i], &spec->values[i], file);
            before = ',';
        }
    }
    if (tg__memstream_close(file, &spec->text) != TG_OK)
        return tg_fail(TG_E_NOMEM, "out of memory: text of spec \"%s\"", spec->entry->name);
    return TG_OK;
}

static const tg__spec_value *find_value(const tg_spec *spec, const char *key, tg_key_type *type_p)
{
    for (size_t i = 0; spec && key && i < spec->nkeys; i++) {
        if (strcmp(spec->entry->keys[i].name, key) == 0) {
            *type_p = spec->entry->keys[i].type;
            return &spec->values[i];
        }
    }
    return NULL;
}

static tg_status make_values(tg_spec *spec)
{
    const size_t nkeys = count_keys(spec->entry);
    TG_TRY(tg_alloc(nkeys, sizeof *spec->values, &spec->values));
    spec->nkeys = nkeys;
    return TG_OK;
}

static tg_status derive(const char *kind, const tg_spec *from, tg_spec *spec)
{
    TG_TRY(make_values(spec));
    for (size_t i = 0; i < spec->nkeys; i++) {
        const tg_key *key = &spec->entry->keys[i];
        tg_key_type type = key->type;
        const tg__spec_value *value = find_value(from, key->name, &type);
        if (value && value->has && type == key->type)
            TG_TRY(tg__spec_value_copy(key, value, &spec->values[i]));
    }
    TG_TRY(fill_defaults(kind, spec));
    return make_text(spec);
}

tg_status tg__spec_derive(const char *kind, const tg_entry *entry, const tg_spec *from,
                          tg_spec **spec_p)
{
    tg_spec *spec;
    TG_TRY(tg_alloc(1, sizeof *spec, &spec));
    spec->entry = entry;
    const tg_status status = derive(kind, from, spec);
    if (status == TG_OK)
        *spec_p = spec;
    else
        tg_spec_free(spec);
    return status;
}

/* Parses text in place, cutting it into its parts. */
static tg_status parse(const char *kind, const tg_entry *const *entries, size_t count, char *text,
                       tg_spec *spec)
{
    char *items = strchr(text, ':');
    if (items)
        *items++ = '\0';
    TG_TRY(tg__spec_find_entry(kind, entries, count, text, &spec->entry));
    TG_TRY(make_values(spec));
    while (items) {
        char *item = items;
        items = cut_item(item);
        TG_TRY(parse_item(kind, item, items, spec));
    }
    TG_TRY(fill_defaults(kind, spec));
    return make_text(spec);
}

tg_status tg_spec_parse(const char *kind, const tg_entry *const *entries, size_t count,
                        const char *text, tg_spec **spec_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(kind, text, spec_p);
    if (!entries && count)
        return tg_fail(TG_E_ARG, "tg_spec_parse: entries is NULL");
    TG_TRY(tg__spec_check_text(kind, text));
    tg_spec *spec = calloc(1, sizeof *spec);
    TG__FREED char *copy = strdup(text);
    tg_status status = spec && copy ? parse(kind, entries, count, copy, spec)
                                    : tg_fail(TG_E_NOMEM, "out of memory: %s spec", kind);
    if (status == TG_OK)
        *spec_p = spec;
    else
        tg_spec_free(spec);
    return status;
}

void tg_spec_free(tg_spec *spec)
{
    if (!spec)
        return;
    for (size_t i = 0; i < spec->nkeys; i++)
        free(spec->values[i].word);
    free(spec->values);
    free(spec->text);
    free(spec);
}

const tg_entry *tg_spec_entry(const tg_spec *spec)
{
    return spec ? spec->entry : NULL;
}

const char *tg_spec_name(const tg_spec *spec)
{
    return spec ? spec->entry->name : NULL;
}

const char *tg_spec_text(const tg_spec *spec)
{
    return spec ? spec->text : NULL;
}

bool tg_spec_given(const tg_spec *spec, const char *key)
{
    tg_key_type type;
    const tg__spec_value *value = find_value(spec, key, &type);
    return value && value->given;
}

bool tg_spec_has(const tg_spec *spec, const char *key)
{
    tg_key_type type;
    const tg__spec_value *value = find_value(spec, key, &type);
    return value && value->has;
}

/* Reading a key that does not exist is a programming error. With assertions disabled it returns
 * zero, as for NULL. */
static const tg__spec_value *need(const tg_spec *spec, const char *key, tg_key_type want,
                                  tg_key_type or_this)
{
    static char empty[] = "";
    static const tg__spec_value zero = {.word = empty};
    tg_key_type type = want;
    const tg__spec_value *value = find_value(spec, key, &type);
    bool ok = value && value->has && (type == want || type == or_this);
    assert((ok || !spec || !key) && "tg_spec_*: no such key, another type, or no value");
    return ok ? value : &zero;
}

int64_t tg_spec_int(const tg_spec *spec, const char *key)
{
    return need(spec, key, TG_KEY_INT, TG_KEY_INT)->integer;
}

double tg_spec_real(const tg_spec *spec, const char *key)
{
    return need(spec, key, TG_KEY_REAL, TG_KEY_REAL)->real;
}

bool tg_spec_flag(const tg_spec *spec, const char *key)
{
    return need(spec, key, TG_KEY_FLAG, TG_KEY_FLAG)->integer != 0;
}

tg_duration tg_spec_duration(const tg_spec *spec, const char *key)
{
    TG__OWN_FLOATS;
    return need(spec, key, TG_KEY_DURATION, TG_KEY_DURATION)->duration;
}

const char *tg_spec_word(const tg_spec *spec, const char *key)
{
    tg_key_type type = TG_KEY_CHOICE;
    const tg__spec_value *value = find_value(spec, key, &type);
    if (value && (type == TG_KEY_INT || type == TG_KEY_REAL))
        return value->word ? value->word : "";
    return need(spec, key, TG_KEY_CHOICE, TG_KEY_SPEC)->word;
}

tg_status tg__spec_set(tg_spec *spec, const char *key, const char *text)
{
    size_t index = 0;
    tg__spec_value value = {.has = true};
    TG_TRY(tg__spec_find_key("spec", spec->entry, key, &index));
    TG_TRY(tg__spec_value_parse(&spec->entry->keys[index], text, &value));
    value.given = spec->values[index].given;
    free(spec->values[index].word);
    spec->values[index] = value;
    free(spec->text);
    spec->text = NULL;
    return make_text(spec);
}

tg_status tg_duration_steps(tg_duration d, uint64_t steps_per_epoch, const char *what,
                            uint64_t *steps_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(what, steps_p);
    if (d.epochs && steps_per_epoch == 0)
        return tg_fail(TG_E_SPEC,
                       "%s=%gep: the number of steps in an epoch is not known here: allowed: %s in "
                       "steps",
                       what, d.count, what);
    double steps = round(d.epochs ? d.count * (double)steps_per_epoch : d.count);
    if (!(steps >= 0 && steps < 0x1p64))
        return tg_fail(TG_E_SPEC, "%s=%g%s: allowed: 0 <= steps < 2^64", what, d.count,
                       d.epochs ? "ep" : "");
    *steps_p = (uint64_t)steps;
    return TG_OK;
}

static bool is_open(const tg_spec *spec, size_t i)
{
    const tg_key *key = &spec->entry->keys[i];
    return key->type == TG_KEY_DURATION && key->share > 0 && !spec->values[i].given;
}

bool tg__spec_is_open(const tg_spec *spec)
{
    bool any = false;
    for (size_t i = 0; i < spec->nkeys; i++)
        any = any || is_open(spec, i);
    return any;
}

tg_status tg__spec_settle(const tg_spec *spec, const char *text, uint64_t total_steps,
                          uint64_t steps_per_epoch, char **text_p)
{
    size_t len = 0;
    char *settled = NULL, before = strchr(text, ':') == NULL ? ':' : ',';
    FILE *file = tg__memstream_open(&settled, &len);
    if (file != NULL)
        fputs(text, file);
    for (size_t i = 0; file != NULL && i < spec->nkeys; i++) {
        const tg_key *key = &spec->entry->keys[i];
        const tg_duration d = spec->values[i].duration;
        if (!is_open(spec, i))
            continue;
        const double epoch = steps_per_epoch > 0 ? (double)steps_per_epoch : TG_DEFAULT_EPOCH_STEPS;
        const double usual = round(d.epochs ? d.count * epoch : d.count);
        const double share = fmin(floor((double)total_steps * key->share), key->max);
        const double most = total_steps > 0 ? share : usual;
        if (usual <= most && (!d.epochs || steps_per_epoch > 0))
            continue; /* as written: an epoch is a stage */
        fprintf(file, "%c%s=%.0f", before, key->name, usual < most ? usual : most);
        before = ',';
    }
    if (tg__memstream_close(file, &settled) != TG_OK)
        return tg_fail(TG_E_NOMEM, "out of memory: text of spec \"%s\"", spec->entry->name);
    *text_p = settled;
    return TG_OK;
}
