#include "base/spec_value.h"
#include "telegrad/tools.h"
#include "base/c_locale.h"
#include "base/mem.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEPS 0x1p53 /* whole numbers up to here are exact in a double */

void tg__word_list_add(char list[TG__WORD_LIST], const char *word, size_t len)
{
    static const char cut[] = ", ...";
    size_t used = strlen(list);
    if (used >= sizeof cut && strcmp(list + used - (sizeof cut - 1), cut) == 0)
        return;
    if (used + 2 + len + sizeof cut > TG__WORD_LIST) {
        memcpy(list + used, cut, sizeof cut);
        return;
    }
    if (used) {
        memcpy(list + used, ", ", 2);
        used += 2;
    }
    memcpy(list + used, word, len);
    list[used + len] = '\0';
}

/* "0 < density <= 1", "k >= 1", "x <= 5"; "any" if there is no bound. */
typedef struct range_text {
    char text[160];
} range_text;

static range_text range_of(const tg_key *key, double min, const char *any)
{
    range_text r;
    char lo[TG_REAL_TEXT], hi[TG_REAL_TEXT];
    bool has_lo = isfinite(min), has_hi = isfinite(key->max);
    if (has_lo)
        tg_real_text(min, lo);
    if (has_hi)
        tg_real_text(key->max, hi);
    if (has_lo && has_hi)
        snprintf(r.text, sizeof r.text, "%s %s %.64s <= %s", lo,
                 key->min_open ? "<" : "<=", key->name, hi);
    else if (has_lo)
        snprintf(r.text, sizeof r.text, "%.64s %s %s", key->name, key->min_open ? ">" : ">=", lo);
    else if (has_hi)
        snprintf(r.text, sizeof r.text, "%.64s <= %s", key->name, hi);
    else
        snprintf(r.text, sizeof r.text, "%s", any);
    return r;
}

static bool in_range(const tg_key *key, double min, double v)
{
    return (key->min_open ? v > min : v >= min) && v <= key->max;
}

static tg_status keep_word(const char *word, size_t len, tg__spec_value *value)
{
    value->word = strndup(word, len);
    if (!value->word)
        return tg_fail(TG_E_NOMEM, "out of memory: a word of %zu bytes", len);
    return TG_OK;
}

/* The word of key->choices that equals text; all words are added to list. NULL: none is equal. */
static const char *find_choice(const tg_key *key, const char *text, char list[TG__WORD_LIST])
{
    size_t want = strlen(text);
    for (const char *p = key->choices; p && *p;) {
        size_t len = strcspn(p, "|");
        if (len == want && want && memcmp(p, text, len) == 0)
            return p;
        tg__word_list_add(list, p, len);
        p += len + (p[len] == '|');
    }
    return NULL;
}

/* The hint `did you mean "auto"? ` for a text that is not a number. */
static const char *word_hint(const tg_key *key, const char *text, tg_nearest *near)
{
    tg_nearest_begin(near, text);
    tg_nearest_offer_list(near, key->choices);
    return tg_nearest_hint(near);
}

/* Why a text is no number, to stand before what is allowed. */
static const char *not_a_number(const char *text, bool whole)
{
    char *end;
    double v;
    if (whole)
        return "not a whole number of 64 bits; ";
    if (*text == '+' && tg_real_parse(text + 1, &v))
        return "a number has no plus sign; ";
    const locale_t before = tg__c_locale_enter();
    errno = 0;
    v = strtod(text, &end);
    tg__c_locale_leave(before);
    if (end != text && !*end && errno == ERANGE && fabs(v) < 1)
        return "too close to 0 for a number of 64 bits; ";
    return "not a finite decimal number; ";
}

static tg_status parse_number(const tg_key *key, const char *text, tg__spec_value *value)
{
    const bool whole = key->type == TG_KEY_INT;
    int64_t integer = 0;
    double v = 0;
    char list[TG__WORD_LIST] = "";
    const char *word = find_choice(key, text, list);
    if (word)
        return keep_word(word, strlen(text), value);
    bool ok = whole ? tg_int_parse(text, &integer)
                    : tg_real_parse(text, &v) || tg_percent_parse(text, &v);
    if (ok && in_range(key, key->min, whole ? (double)integer : v)) {
        if (whole)
            value->integer = integer;
        else
            value->real = v;
        return TG_OK;
    }
    tg_nearest near;
    const char *wrong = not_a_number(text, whole);
    const char *any = whole ? "any whole number" : "any finite number";
    return tg_fail(TG_E_SPEC, "%s=%.64s: %s%sallowed: %s%s%s", key->name, text, ok ? "" : wrong,
                   ok ? "" : word_hint(key, text, &near), range_of(key, key->min, any).text,
                   list[0] ? "; or " : "", list);
}

/* Returns false if it is not a duration; the caller checks the range. */
static bool read_duration(const char *text, tg_duration *d_p)
{
    char number[64];
    size_t len = strlen(text);
    bool epochs = len > 2 && strcmp(text + len - 2, "ep") == 0;
    if (epochs)
        len -= 2;
    if (len >= sizeof number)
        return false;
    memcpy(number, text, len);
    number[len] = '\0';
    double v;
    if (!tg_real_parse(number, &v) || v < 0)
        return false;
    if (!epochs && (v > MAX_STEPS || v != floor(v)))
        return false;
    *d_p = (tg_duration){.count = v, .epochs = epochs && v > 0};
    return true;
}

static tg_status parse_duration(const tg_key *key, const char *text, tg__spec_value *value)
{
    tg_duration d;
    double min = fmax(key->min, 0);
    bool ok = read_duration(text, &d);
    if (ok && in_range(key, min, d.count)) {
        value->duration = d;
        return TG_OK;
    }
    return tg_fail(TG_E_SPEC, "%s=%.64s: %sallowed: whole steps (200) or epochs (4ep, 0.5ep), %s",
                   key->name, text, ok ? "" : "not a duration; ", range_of(key, min, "").text);
}

static tg_status parse_choice(const tg_key *key, const char *text, tg__spec_value *value)
{
    char list[TG__WORD_LIST] = "";
    const char *word = find_choice(key, text, list);
    if (word)
        return keep_word(word, strlen(text), value);
    tg_nearest near;
    return tg_fail(TG_E_SPEC, "%s=%.64s: %sallowed: %s", key->name, text,
                   word_hint(key, text, &near), list);
}

static tg_status parse_flag(const tg_key *key, const char *text, tg__spec_value *value)
{
    bool yes = strcmp(text, "yes") == 0;
    if (!yes && strcmp(text, "no") != 0)
        return tg_fail(TG_E_SPEC, "%s=%.64s: allowed: yes, no", key->name, text);
    value->integer = yes;
    return TG_OK;
}

/* [text], with the first bracket closed at the end, or a bare name (which needs no brackets). */
static tg_status parse_nested(const tg_key *key, const char *text, tg__spec_value *value)
{
    size_t len = strlen(text);
    if (len && strcspn(text, "[]:=,") == len)
        return keep_word(text, len, value);
    size_t depth = 0, i = 0;
    if (text[0] == '[') {
        do {
            if (text[i] == '[')
                depth++;
            else if (text[i] == ']')
                depth--;
            i++;
        } while (depth && i < len);
    }
    if (len <= 2 || depth || i != len)
        return tg_fail(TG_E_SPEC, "%s=%.64s: allowed: a spec string in brackets, %s=[name:key=...]",
                       key->name, text, key->name);
    return keep_word(text + 1, len - 2, value);
}

tg_status tg__spec_value_copy(const tg_key *key, const tg__spec_value *from, tg__spec_value *value)
{
    char list[TG__WORD_LIST] = "";
    const bool choice = from->word != NULL && key->type != TG_KEY_SPEC;
    const bool number = from->word == NULL && key->type != TG_KEY_FLAG;
    const double v = key->type == TG_KEY_INT    ? (double)from->integer
                     : key->type == TG_KEY_REAL ? from->real
                                                : from->duration.count;
    if (choice && !find_choice(key, from->word, list))
        return tg_fail(TG_E_SPEC, "%s=%.64s: allowed: %s", key->name, from->word, list);
    if (number && !in_range(key, key->min, v))
        return tg_fail(TG_E_SPEC, "%s=%g: allowed: %s", key->name, v,
                       range_of(key, key->min, "any finite number").text);
    *value = *from;
    value->word = NULL;
    return from->word != NULL ? keep_word(from->word, strlen(from->word), value) : TG_OK;
}

tg_status tg__spec_value_parse(const tg_key *key, const char *text, tg__spec_value *value)
{
    switch (key->type) {
    case TG_KEY_INT:
    case TG_KEY_REAL:
        return parse_number(key, text, value);
    case TG_KEY_FLAG:
        return parse_flag(key, text, value);
    case TG_KEY_CHOICE:
        return parse_choice(key, text, value);
    case TG_KEY_DURATION:
        return parse_duration(key, text, value);
    case TG_KEY_SPEC:
        return parse_nested(key, text, value);
    }
    return tg_fail(TG_E_ARG, "key \"%s\" has type %d: allowed: the values of tg_key_type",
                   key->name, (int)key->type);
}

void tg__spec_value_print(const tg_key *key, const tg__spec_value *value, FILE *file)
{
    char real[TG_REAL_TEXT];
    switch (key->type) {
    case TG_KEY_INT:
        if (value->word)
            fputs(value->word, file);
        else
            fprintf(file, "%" PRId64, value->integer);
        break;
    case TG_KEY_REAL:
        if (!value->word)
            tg_real_text(value->real, real);
        fputs(value->word ? value->word : real, file);
        break;
    case TG_KEY_FLAG:
        fputs(value->integer ? "yes" : "no", file);
        break;
    case TG_KEY_CHOICE:
        fputs(value->word, file);
        break;
    case TG_KEY_DURATION:
        if (value->duration.epochs) {
            tg_real_text(value->duration.count, real);
            fprintf(file, "%sep", real);
        } else {
            fprintf(file, "%.0f", value->duration.count);
        }
        break;
    case TG_KEY_SPEC:
        fprintf(file, "[%s]", value->word);
        break;
    }
}
