#include "base/c_locale.h"
#include "base/floats.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* strtod and printf follow the thread's locale ("0,5" in a German program), but spec strings must
 * not. */

void tg_real_text(double v, char text[TG_REAL_TEXT])
{
    TG__OWN_FLOATS;
    if (!text)
        return;
    if (v == 0)
        v = 0; /* no "-0" */
    locale_t old = tg__c_locale_enter();
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, TG_REAL_TEXT, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    tg__c_locale_leave(old);
}

static const char *skip_digits(const char *p)
{
    return p + strspn(p, "0123456789");
}

static bool is_real(const char *p)
{
    p += *p == '-';
    const char *whole = skip_digits(p);
    ptrdiff_t digits = whole - p;
    if (*whole == '.') {
        p = skip_digits(whole + 1);
        digits += p - (whole + 1);
    } else {
        p = whole;
    }
    if (!digits)
        return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '-' || *p == '+';
        const char *end = skip_digits(p);
        if (end == p)
            return false;
        p = end;
    }
    return *p == '\0';
}

bool tg_real_parse(const char *text, double *v_p)
{
    TG__OWN_FLOATS;
    if (!text || !v_p)
        return false;
    if (!is_real(text))
        return false;
    locale_t old = tg__c_locale_enter();
    double v = strtod(text, NULL);
    tg__c_locale_leave(old);
    if (!isfinite(v))
        return false;
    if (v == 0 && strcspn(text, "123456789") < strcspn(text, "eE"))
        return false;
    *v_p = v == 0 ? 0 : v;
    return true;
}

/* The exponent in the text is reduced by two: a division would round a second time. */
bool tg_percent_parse(const char *text, double *v_p)
{
    TG__OWN_FLOATS;
    if (!text || !v_p)
        return false;
    char number[64], moved[96];
    const size_t len = strlen(text), mantissa = strcspn(text, "eE%");
    if (len < 2 || len > sizeof number || text[len - 1] != '%')
        return false;
    memcpy(number, text, len - 1);
    number[len - 1] = '\0';
    if (!is_real(number))
        return false;
    const long exponent = number[mantissa] ? strtol(number + mantissa + 1, NULL, 10) : 0;
    if (exponent > 9999 || exponent < -9999)
        return false;
    snprintf(moved, sizeof moved, "%.*se%ld", (int)mantissa, number, exponent - 2);
    return tg_real_parse(moved, v_p);
}

bool tg_int_parse(const char *text, int64_t *v_p)
{
    if (!text || !v_p)
        return false;
    bool negative = *text == '-';
    const char *p = text + negative;
    if (*p == '\0' || *skip_digits(p) != '\0')
        return false;
    const uint64_t limit = negative ? UINT64_C(1) << 63 : INT64_MAX;
    uint64_t v = 0;
    for (; *p; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (v > (limit - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *v_p = !negative ? (int64_t)v : v ? -(int64_t)(v - 1) - 1 : 0;
    return true;
}

double tg__real_power(double x, uint64_t n)
{
    double result = 1;
    for (; n; n >>= 1, x *= x)
        if (n & 1)
            result *= x;
    return result;
}
