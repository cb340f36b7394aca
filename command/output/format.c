#include "command/output/format.h"
#include "telegrad/tools.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Three significant digits; none after the decimal point from 100 on. */
static int digits_after(double v)
{
    v = fabs(v);
    return v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
}

format_text format_bytes(double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    format_text f = {"-"};
    size_t unit = 0;
    if (!isfinite(bytes))
        return f;
    while (fabs(bytes) >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1000;
        unit++;
    }
    snprintf(f.text, sizeof f.text, "%.*f %s", unit ? digits_after(bytes) : 0, bytes, units[unit]);
    return f;
}

format_text format_count(uint64_t n)
{
    char plain[24];
    format_text f;
    int len = snprintf(plain, sizeof plain, "%" PRIu64, n);
    size_t out = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            f.text[out++] = ',';
        f.text[out++] = plain[i];
    }
    f.text[out] = '\0';
    return f;
}

format_text format_seconds(double seconds)
{
    format_text f = {"-"};
    if (!isfinite(seconds))
        return f;
    if (seconds < 0.9995) {
        double ms = seconds * 1000;
        snprintf(f.text, sizeof f.text, "%.*f ms", digits_after(ms), ms);
    } else if (seconds < 99.95) {
        snprintf(f.text, sizeof f.text, "%.1f s", seconds);
    } else if (seconds < 359999.5) {
        uint64_t whole = (uint64_t)(seconds + 0.5);
        if (whole < 3600)
            snprintf(f.text, sizeof f.text, "%" PRIu64 ":%02" PRIu64, whole / 60, whole % 60);
        else
            snprintf(f.text, sizeof f.text, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, whole / 3600,
                     whole / 60 % 60, whole % 60);
    } else {
        const double days = seconds / 86400, years = days / 365.25;
        if (days < 999.5)
            snprintf(f.text, sizeof f.text, "%.*f d", digits_after(days), days);
        else
            snprintf(f.text, sizeof f.text, "%.3g y", years);
    }
    return f;
}

format_text format_ratio(double ratio, const char *suffix)
{
    format_text f = {"-"};
    if (isfinite(ratio) && fabs(ratio) >= 1e6)
        snprintf(f.text, sizeof f.text, "%.3g%s", ratio, suffix);
    else if (isfinite(ratio))
        snprintf(f.text, sizeof f.text, "%.*f%s", digits_after(ratio), ratio, suffix);
    return f;
}

/* Length in bytes of the UTF-8 character at text; 0 if it is not one. */
static size_t character(const char *text)
{
    return tg_utf8_decode(text, strnlen(text, 4), NULL);
}

bool format_is_utf8(const char *text)
{
    while (*text) {
        size_t len = character(text);
        if (!len)
            return false;
        text += len;
    }
    return true;
}

char *format_utf8(const char *text)
{
    char *copy = malloc(4 * strlen(text) + 1), *out = copy;
    if (!copy)
        return NULL;
    while (*text) {
        size_t len = character(text);
        if (len) {
            memcpy(out, text, len);
            out += len;
        } else {
            out += sprintf(out, "\\x%02x", (unsigned char)*text);
        }
        text += len ? len : 1;
    }
    *out = '\0';
    return copy;
}

char *format_shell(const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_-./:,=+@%";
    if (*text && strspn(text, safe) == strlen(text))
        return strdup(text);
    char *copy = malloc(4 * strlen(text) + 3), *out = copy;
    if (!copy)
        return NULL;
    *out++ = '\'';
    for (; *text; text++)
        if (*text == '\'')
            out = stpcpy(out, "'\\''");
        else
            *out++ = *text;
    stpcpy(out, "'");
    return copy;
}

void format_shorten(char *text, size_t most)
{
    char *cut = text;
    size_t n = 0;
    while (*text) {
        if (n++ == most - 3)
            cut = text;
        size_t len = character(text);
        text += len ? len : 1;
    }
    if (n > most)
        memcpy(cut, "...", sizeof "...");
}
