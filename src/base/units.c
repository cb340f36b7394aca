#include "telegrad/tools.h"
#include "base/floats.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

enum { NUMBER = 64, UNIT = 12 };

typedef struct quantity {
    double number;
    char unit[UNIT], small[UNIT]; /* as written, and in lower case */
} quantity;

typedef struct named {
    const char *name;
    double factor;
} named;

/* Split text into the number and what follows it and the blanks. No unit begins with a digit, so an
 * exponent belongs to the number. */
static bool split(const char *text, size_t len, quantity *q)
{
    char number[NUMBER];
    size_t end = len;
    while (end && strchr("0123456789.", text[end - 1]) == NULL)
        end--;
    const char *unit = text + end;
    size_t left = len - end;
    while (left && *unit == ' ')
        unit++, left--;
    if (end >= NUMBER || left >= UNIT)
        return false;
    memcpy(number, text, end);
    number[end] = '\0';
    for (size_t i = 0; i < left; i++) {
        q->unit[i] = unit[i];
        q->small[i] = (char)(unit[i] >= 'A' && unit[i] <= 'Z' ? unit[i] - 'A' + 'a' : unit[i]);
    }
    q->unit[left] = q->small[left] = '\0';
    return tg_real_parse(number, &q->number) && q->number >= 0;
}

/* The number of letters of `small` that form a prefix, and its factor: "m" is base^2, "mi"
 * 1024^2. */
static size_t prefix(const char *small, double base, double *factor_p)
{
    static const char letters[] = "kmgt";
    const char *at = *small ? strchr(letters, *small) : NULL;
    const bool binary = at && small[1] == 'i';
    *factor_p = 1;
    if (!at)
        return 0;
    *factor_p = tg__real_power(binary ? 1024 : base, (uint64_t)(at - letters) + 1);
    return binary ? 2 : 1;
}

static bool found(const char *text, const named *units, size_t count, double *factor_p)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, units[i].name) == 0) {
            *factor_p = units[i].factor;
            return true;
        }
    return false;
}

static bool finish(double v, double *v_p)
{
    if (!isfinite(v))
        return false;
    *v_p = v;
    return true;
}

bool tg_rate_parse(const char *text, size_t len, double *bps_p)
{
    TG__OWN_FLOATS;
    if (!text || !bps_p)
        return false;
    static const named words[] = {{"bit", 1},    {"bits", 1},   {"bit/s", 1},
                                  {"bits/s", 1}, {"byte/s", 8}, {"bytes/s", 8}};
    static const named letters[] = {{"bps", 1}, {"b/s", 1}, {"Bps", 8}, {"B/s", 8}};
    quantity q;
    double thousands, each;
    if (!split(text, len, &q))
        return false;
    const size_t skip = prefix(q.small, 1000, &thousands);
    if (!found(q.small + skip, words, TG_COUNT(words), &each) &&
        !found(q.unit + skip, letters, TG_COUNT(letters), &each))
        return false;
    return finish(q.number * (thousands * each), bps_p);
}

bool tg_time_parse(const char *text, size_t len, double *ns_p)
{
    TG__OWN_FLOATS;
    if (!text || !ns_p)
        return false;
    static const named units[] = {{"us", 1e3}, {"\u00b5s", 1e3}, {"\u03bcs", 1e3}, {"ms", 1e6},
                                  {"s", 1e9},  {"sec", 1e9},     {"min", 60e9}};
    quantity q;
    double each;
    return split(text, len, &q) && found(q.small, units, TG_COUNT(units), &each) &&
           finish(q.number * each, ns_p);
}

bool tg_bytes_parse(const char *text, size_t len, double *bytes_p)
{
    TG__OWN_FLOATS;
    if (!text || !bytes_p)
        return false;
    static const named units[] = {{"b", 1}, {"byte", 1}, {"bytes", 1}};
    quantity q;
    double binary, decimal, each;
    if (!split(text, len, &q))
        return false;
    const size_t skip = prefix(q.small, 1024, &binary);
    (void)prefix(q.small, 1000, &decimal);
    if (q.small[skip] == '\0')
        return finish(q.number * binary, bytes_p);
    /* A small b behind a capital prefix is a bit, as in 4Mb, and so is one alone. */
    const char *unit = q.unit + skip;
    if (strcmp(unit, "b") == 0 && (skip == 0 || strcmp(q.unit, q.small) != 0))
        return false;
    return found(q.small + skip, units, TG_COUNT(units), &each) &&
           finish(q.number * decimal * each, bytes_p);
}
