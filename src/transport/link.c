/* link = item {"," item}
 * item = rate | time | ("up" | "down") "=" rate | ("delay" | "jitter") "=" time A rate alone sets
 * up and down, a time alone sets delay; nothing may be set twice. Blanks around items are
 * ignored. */
#include "transport/endpoint.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define RATE_MAX 1e18 /* bits per second */
#define RATES TG_UNITS_RATE " (1 bit/s to 1e18)"
#define TIMES TG_UNITS_TIME " (at most 3600s)"

bool tg__delay_parse(const char *text, size_t len, int64_t *ns_p)
{
    double ns = 0;
    if (!tg_time_parse(text, len, &ns) || ns > (double)TG__TIME_MAX_NS)
        return false;
    *ns_p = llround(ns);
    return true;
}

static bool rate_parse(const char *text, size_t len, double *bps_p)
{
    double bps = 0;
    if (!tg_rate_parse(text, len, &bps) || bps < 1 || bps > RATE_MAX)
        return false;
    *bps_p = bps;
    return true;
}

enum { UP = 1, DOWN = 2, DELAY = 4, JITTER = 8 };

/* What the item sets; 0 if it has none of the forms above. *allowed_p: what it may be. */
static unsigned parse_item(const char *item, size_t len, tg_link *link, const char **allowed_p)
{
    static const struct key {
        const char *name;
        unsigned sets;
        const char *allowed;
    } keys[] = {{"up=", UP, RATES},
                {"down=", DOWN, RATES},
                {"delay=", DELAY, TIMES},
                {"jitter=", JITTER, TIMES}};
    unsigned sets = 0;
    *allowed_p = RATES "; " TIMES "; either after up=, down=, delay= or jitter=";
    for (size_t i = 0; i < TG_COUNT(keys); i++) {
        size_t key_len = strlen(keys[i].name);
        if (len >= key_len && memcmp(item, keys[i].name, key_len) == 0) {
            sets = keys[i].sets;
            *allowed_p = keys[i].allowed;
            item += key_len;
            len -= key_len;
        }
    }
    double bps = 0;
    int64_t ns = 0;
    if (rate_parse(item, len, &bps)) {
        if (!sets)
            sets = UP | DOWN;
        if (sets & UP)
            link->up_bps = bps;
        if (sets & DOWN)
            link->down_bps = bps;
        return sets & (DELAY | JITTER) ? 0 : sets;
    }
    if (tg__delay_parse(item, len, &ns)) {
        if (!sets)
            sets = DELAY;
        if (sets & DELAY)
            link->delay_ns = ns;
        if (sets & JITTER)
            link->jitter_ns = ns;
        return sets & (UP | DOWN) ? 0 : sets;
    }
    return 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Whether it is a number alone, or behind a key. */
static bool lacks_unit(const char *item, size_t len)
{
    char text[32];
    double v;
    const char *equals = memchr(item, '=', len);
    const size_t at = equals ? (size_t)(equals - item) + 1 : 0;
    if (len - at >= sizeof text)
        return false;
    memcpy(text, item + at, len - at);
    text[len - at] = '\0';
    return tg_real_parse(text, &v);
}

/* Write what is wrong with a unit that is nearly one of a rate, to stand before what is allowed;
 * "": nothing to say. */
static void explain(const char *item, size_t len, char why[96])
{
    size_t at = len;
    while (at > 0 && is_letter(item[at - 1]))
        at--;
    const char *unit = item + at;
    const size_t n = len - at;
    why[0] = '\0';
    if (lacks_unit(item, len)) {
        snprintf(why, 96, "a number without a unit; ");
        return;
    }
    if (at == 0 || n == 0 || len > 24)
        return;
    const bool prefix = n == 1 || (strchr("kKmMgGtT", unit[0]) && (n == 2 || unit[1] == 'i'));
    if (n >= 3 && memcmp(unit + n - 3, "BPS", 3) == 0)
        snprintf(why, 96, "BPS may be bits or bytes: write bps for bits, Bps for bytes; ");
    else if (n <= 3 && prefix && (unit[n - 1] == 'b' || unit[n - 1] == 'B'))
        snprintf(why, 96, "a number of %s, not a rate: did you mean \"%.*s/s\"? ",
                 unit[n - 1] == 'b' ? "bits" : "bytes", (int)len, item);
}

tg_status tg_link_parse(const char *text, tg_link *link_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(text, link_p);
    tg_link link = {.struct_size = sizeof link};
    unsigned seen = 0;
    for (const char *item = text;; item++) {
        size_t len = strcspn(item, ",");
        int shown = len < 64 ? (int)len : 64;
        size_t lead = TG__MIN(strspn(item, " "), len), tail = len;
        while (tail > lead && item[tail - 1] == ' ')
            tail--;
        const char *allowed;
        char why[96];
        unsigned sets = parse_item(item + lead, tail - lead, &link, &allowed);
        if (!sets) {
            explain(item + lead, tail - lead, why);
            return tg_fail(TG_E_SPEC, "link \"%.64s\": \"%.*s\": %sallowed: %s", text, shown, item,
                           why, allowed);
        }
        if (seen & sets)
            return tg_fail(
                TG_E_SPEC,
                "link \"%.64s\": \"%.*s\" sets the %s a second time: allowed: a rate and a "
                "time, e.g. 20mbit,10ms",
                text, shown, item,
                sets & DELAY    ? "delay"
                : sets & JITTER ? "jitter"
                                : "rate");
        seen |= sets;
        item += len;
        if (!*item)
            break;
    }
    *link_p = link;
    return TG_OK;
}

static bool rate_ok(double bps)
{
    return bps == 0 || (bps >= 1 && bps <= RATE_MAX);
}

static bool time_ok(int64_t ns)
{
    return ns >= 0 && ns <= TG__TIME_MAX_NS;
}

tg_status tg__link_check(const char *what, const tg_link *link)
{
    if (link->struct_size != sizeof *link)
        return tg_fail(TG_E_ARG, "%s: struct_size of the link is %zu: allowed: %zu", what,
                       link->struct_size, sizeof *link);
    if (!rate_ok(link->up_bps) || !rate_ok(link->down_bps))
        return tg_fail(TG_E_ARG, "%s: up_bps=%g, down_bps=%g: allowed: 0 (unlimited) or 1..1e18",
                       what, link->up_bps, link->down_bps);
    if (!time_ok(link->delay_ns) || !time_ok(link->jitter_ns))
        return tg_fail(TG_E_ARG, "%s: delay_ns=%lld, jitter_ns=%lld: allowed: 0..%lld", what,
                       (long long)link->delay_ns, (long long)link->jitter_ns,
                       (long long)TG__TIME_MAX_NS);
    return TG_OK;
}
