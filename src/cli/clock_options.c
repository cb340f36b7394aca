#include "cli/clock_options.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A link's delay is written as a time is; what is none may be a file's name. */
tg_status clock_options_tau(struct run_options *o, const char *value)
{
    tg_link time;
    char text[64];
    const int len = snprintf(text, sizeof text, "delay=%s", value);
    o->tau = strcmp(value, "measured") == 0 ? NULL : value;
    o->tau_ns = 0;
    if (o->tau == NULL || strchr(value, ',') || len >= (int)sizeof text ||
        tg_link_parse(text, &time) != TG_OK)
        return TG_OK;
    if (time.delay_ns < 1)
        return tg_fail(TG_E_SPEC, "--tau \"%.64s\": allowed: a time above 0, as 150ms", value);
    o->tau_ns = time.delay_ns;
    return TG_OK;
}

tg_status clock_options_jitter(struct run_options *o, const char *value)
{
    char *end = NULL;
    const double percent = strtod(value, &end);
    if (*value < '0' || *value > '9' || strcmp(end, "%") != 0 || !(percent <= 1000))
        return tg_fail(TG_E_SPEC, "--jitter \"%.64s\": allowed: 0%% to 1000%%", value);
    o->jitter = percent / 100;
    return TG_OK;
}

/* "3=..." or "3:...": a rank, and what follows. */
static bool read_rank(const char *value, char follows, uint64_t *rank_p, const char **rest_p)
{
    char *end = NULL;
    const unsigned long rank = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != follows || rank >= TG_SIM_WORLD_MAX)
        return false;
    *rank_p = rank;
    *rest_p = end + 1;
    return true;
}

/* "2.5x", "2.5x@100-200" */
static bool read_slow(const char *text, train_slow *s)
{
    char *end = NULL;
    s->times = strtod(text, &end);
    if (*text < '0' || *text > '9' || *end != 'x' || !(s->times > 0 && s->times <= 1e6))
        return false;
    s->from = 1;
    s->to = UINT64_MAX;
    if (*++end == '\0')
        return true;
    if (*end != '@' || end[1] < '0' || end[1] > '9')
        return false;
    s->from = strtoull(end + 1, &end, 10);
    if (*end != '-' || end[1] < '0' || end[1] > '9')
        return false;
    s->to = strtoull(end + 1, &end, 10);
    return *end == '\0' && s->from >= 1 && s->from <= s->to;
}

tg_status clock_options_slow(struct run_options *o, const char *value)
{
    train_slow s;
    uint64_t rank;
    const char *rest;
    if (!read_rank(value, ':', &rank, &rest) || !read_slow(rest, &s))
        return tg_fail(TG_E_SPEC,
                       "--slow \"%.64s\": allowed: RANK:TIMESx, or in some steps "
                       "RANK:TIMESx@FROM-TO, e.g. 3:2.5x@100-200",
                       value);
    if (o->slow_count == OPT_MAX_SLOW)
        return tg_fail(TG_E_SPEC, "--slow \"%.64s\": allowed: %d of them", value, OPT_MAX_SLOW);
    s.rank = (int)rank;
    o->slow[o->slow_count++] = s;
    return TG_OK;
}

tg_status clock_options_link_of(struct run_options *o, const char *value)
{
    struct run_link_of one;
    tg_link link;
    if (!read_rank(value, '=', &one.rank, &one.link))
        return tg_fail(TG_E_SPEC, "--link-of \"%.64s\": allowed: RANK=LINK, e.g. 2=5mbit,80ms",
                       value);
    if (strcmp(one.link, "none") == 0)
        one.link = NULL;
    else
        TG_TRY(tg_link_parse(one.link, &link));
    if (o->links_of_count == OPT_MAX_LINKS)
        return tg_fail(TG_E_SPEC, "--link-of \"%.64s\": allowed: %d of them", value, OPT_MAX_LINKS);
    o->links_of[o->links_of_count++] = one;
    return TG_OK;
}

/* What needs gradients, weights or ranks that there are not. */
static tg_status check_sim_only(const struct run_options *o)
{
    static const char *const no[] = {"save",           "resume", "init",  "trace",
                                     "dump-gradients", "fault",  "nodes", "dry-run"};
    if (!o->sim_only)
        return o->workers <= 4096
                   ? TG_OK
                   : tg_fail(TG_E_SPEC,
                             "--workers %" PRIu64 ": allowed: 1 <= workers <= 4096, or with "
                             "--clock virtual --sim-only 1 to %d",
                             o->workers, TG_SIM_WORLD_MAX);
    if (!o->virtual_clock || !options_given(o, "tau"))
        return tg_fail(TG_E_SPEC, "--sim-only: allowed: with --clock virtual and --tau measured, "
                                  "TIME or FILE");
    if (o->fusion == OPT_FUSION_AUTO)
        return tg_fail(TG_E_SPEC, "--sim-only with --fusion auto, which is measured between ranks: "
                                  "allowed: BYTES");
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (options_given(o, no[i]))
            return tg_fail(TG_E_SPEC,
                           "--sim-only with --%s: nothing is computed or sent: allowed: "
                           "one of the two",
                           no[i]);
    return TG_OK;
}

/* Simulated time, and what only has a meaning with it. */
tg_status clock_options_check(const struct run_options *o, bool mpi)
{
    static const char *const own[] = {"tau", "slow", "jitter"};
    TG_TRY(check_sim_only(o));
    if (o->virtual_clock && mpi)
        return tg_fail(TG_E_SPEC, "--clock virtual under mpirun: its workers are threads of one "
                                  "process: allowed: --workers N without mpirun");
    for (size_t i = 0; !o->virtual_clock && i < sizeof own / sizeof own[0]; i++)
        if (options_given(o, own[i]))
            return tg_fail(TG_E_SPEC, "--%s without --clock virtual: allowed: with it", own[i]);
    for (size_t i = 0; i < o->slow_count; i++)
        if ((uint64_t)o->slow[i].rank >= o->workers)
            return tg_fail(TG_E_SPEC, "--slow %d:...: allowed: ranks 0 to %" PRIu64,
                           o->slow[i].rank, o->workers - 1);
    for (size_t i = 0; !mpi && i < o->links_of_count; i++)
        if (o->links_of[i].rank >= o->workers)
            return tg_fail(TG_E_SPEC, "--link-of %" PRIu64 "=...: allowed: ranks 0 to %" PRIu64,
                           o->links_of[i].rank, o->workers - 1);
    return TG_OK;
}
