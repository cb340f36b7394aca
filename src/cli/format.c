#include "cli/format.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Three significant digits, none after the point from 100 on. */
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
    } else if (seconds < 1e15) {
        uint64_t whole = (uint64_t)(seconds + 0.5);
        if (whole < 3600)
            snprintf(f.text, sizeof f.text, "%" PRIu64 ":%02" PRIu64, whole / 60, whole % 60);
        else
            snprintf(f.text, sizeof f.text, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, whole / 3600,
                     whole / 60 % 60, whole % 60);
    }
    return f;
}

format_text format_ratio(double ratio, const char *suffix)
{
    format_text f = {"-"};
    if (isfinite(ratio))
        snprintf(f.text, sizeof f.text, "%.*f%s", digits_after(ratio), ratio, suffix);
    return f;
}
