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

format_text format_loss(double loss)
{
    format_text f = {"not finite"};
    if (isfinite(loss))
        snprintf(f.text, sizeof f.text, "%.4f", loss);
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

/* Columns that a character takes on a terminal: 0 if it combines with the one before, 2 if it is
 * wide (East Asian, emoji). Unicode 15; the locale does not matter. */
static size_t columns(uint32_t code)
{
    static const struct range {
        uint32_t from, to, columns;
    } ranges[] = {
        {0x0300, 0x036f, 0},   {0x0483, 0x0489, 0},   {0x0591, 0x05bd, 0},   {0x064b, 0x065f, 0},
        {0x0e31, 0x0e31, 0},   {0x0e34, 0x0e3a, 0},   {0x0e47, 0x0e4e, 0},   {0x1100, 0x115f, 2},
        {0x1ab0, 0x1aff, 0},   {0x1dc0, 0x1dff, 0},   {0x200b, 0x200f, 0},   {0x20d0, 0x20f0, 0},
        {0x231a, 0x231b, 2},   {0x23e9, 0x23ec, 2},   {0x2e80, 0x303e, 2},   {0x3041, 0x33ff, 2},
        {0x3400, 0x4dbf, 2},   {0x4e00, 0x9fff, 2},   {0xa000, 0xa4cf, 2},   {0xa960, 0xa97c, 2},
        {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},   {0xfe20, 0xfe2f, 0},
        {0xfe30, 0xfe6f, 2},   {0xff01, 0xff60, 2},   {0xffe0, 0xffe6, 2},   {0x17000, 0x18cff, 2},
        {0x1b000, 0x1b2ff, 2}, {0x1f300, 0x1f64f, 2}, {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1f9ff, 2},
        {0x20000, 0x3fffd, 2}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && ranges[i].from <= code; i++)
        if (code <= ranges[i].to)
            return ranges[i].columns;
    return 1;
}

/* The next character, its columns in *columns_p; a byte that is no UTF-8 takes one. */
static const char *next(const char *text, size_t *columns_p)
{
    uint32_t code = 0;
    const size_t len = tg_utf8_decode(text, strnlen(text, 4), &code);
    *columns_p = len ? columns(code) : 1;
    return text + (len ? len : 1);
}

size_t format_width(const char *text)
{
    size_t n = 0, one;
    while (*text) {
        text = next(text, &one);
        n += one;
    }
    return n;
}

void format_shorten(char *text, size_t most)
{
    char *cut = text;
    size_t n = 0, one;
    if (format_width(text) <= most)
        return;
    for (const char *after = next(cut, &one); n + one <= most - 3; after = next(cut, &one)) {
        n += one;
        cut += after - cut;
    }
    memcpy(cut, "...", sizeof "...");
}
