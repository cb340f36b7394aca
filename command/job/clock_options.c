#include "command/job/clock_options.h"
#include "telegrad/tools.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A value that starts like a number names a file only if that file exists. */
static bool names_file(const char *value)
{
    const bool number = (value[0] >= '0' && value[0] <= '9') || strchr("+-", value[0]) ||
                        (value[0] == '.' && value[1] >= '0' && value[1] <= '9') ||
                        strcasecmp(value, "nan") == 0 || strcasecmp(value, "inf") == 0 ||
                        strcasecmp(value, "infinity") == 0;
    return !number || access(value, F_OK) == 0;
}

/* A time has the syntax of a link's delay. */
tg_status clock_options_tau(struct run_options *o, const char *value)
{
    tg_link time;
    char text[64];
    const int len = snprintf(text, sizeof text, "delay=%s", value);
    o->tau = strcmp(value, "measured") == 0 ? NULL : value;
    o->tau_ns = 0;
    const bool is_time =
        !strchr(value, ',') && len < (int)sizeof text && tg_link_parse(text, &time) == TG_OK;
    if (o->tau == NULL || (!is_time && names_file(value)))
        return TG_OK;
    if (!is_time || time.delay_ns < 1)
        return tg_fail(TG_E_SPEC, "--tau \"%.64s\": allowed: " CLOCK_OPTIONS_TAU, value);
    o->tau_ns = time.delay_ns;
    return TG_OK;
}

/* Read a number >= 0 that ends at the character `follows`; *rest_p is the text after that. */
static bool read_real(const char *value, char follows, double *v_p, const char **rest_p)
{
    char text[64];
    const char *end = strchr(value, follows);
    const size_t len = end ? (size_t)(end - value) : sizeof text;
    if (len >= sizeof text)
        return false;
    memcpy(text, value, len);
    text[len] = '\0';
    *rest_p = end + 1;
    return *value != '-' && tg_real_parse(text, v_p);
}

tg_status clock_options_jitter(struct run_options *o, const char *value)
{
    double percent;
    const char *rest;
    if (!read_real(value, '%', &percent, &rest) || *rest || percent > 1000)
        return tg_fail(TG_E_SPEC, "--jitter \"%.64s\": allowed: 0%% to 1000%%", value);
    o->jitter = percent / 100;
    return TG_OK;
}

/* Read the rank in "3=..." or "3:..."; *rest_p is the text after it. */
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

/* Read "2.5x" or "2.5x@100-200". */
static bool read_slow(const char *text, train_slow *s)
{
    const char *rest;
    if (!read_real(text, 'x', &s->times, &rest) || !(s->times > 0 && s->times <= 1e6))
        return false;
    s->from = 1;
    s->to = UINT64_MAX;
    if (*rest == '\0')
        return true;
    if (*rest != '@' || rest[1] < '0' || rest[1] > '9')
        return false;
    char *end = NULL;
    s->from = strtoull(rest + 1, &end, 10);
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
                       "--slow \"%.64s\": allowed: RANK:TIMESx, TIMES above 0 and up to 1e6, or "
                       "for some steps RANK:TIMESx@FROM-TO, e.g. 3:2.5x@100-200",
                       value);
    if (o->slow_count == OPT_MAX_SLOW)
        return tg_fail(TG_E_SPEC, "--slow \"%.64s\": the option is allowed at most %d times", value,
                       OPT_MAX_SLOW);
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
    else if (tg_link_parse(one.link, &link) != TG_OK)
        return tg_fail(TG_E_SPEC, "--link-of %" PRIu64 "=...: %s", one.rank, tg_error());
    for (size_t i = 0; i < o->links_of_count; i++)
        if (o->links_of[i].rank == one.rank)
            return tg_fail(TG_E_SPEC, "--link-of \"%.64s\": rank %" PRIu64 " has a link already",
                           value, one.rank);
    if (o->links_of_count == OPT_MAX_LINKS)
        return tg_fail(TG_E_SPEC, "--link-of \"%.64s\": the option is allowed at most %d times",
                       value, OPT_MAX_LINKS);
    o->links_of[o->links_of_count++] = one;
    return TG_OK;
}

void clock_options_tell_links(const struct run_options *o, char command[JOB_COMMAND])
{
    if (o->link)
        job_command_add(command, " over --link %s", o->link);
    else if (o->links_of_count > 0)
        job_command_add(command, " over --link none");
    for (size_t i = 0; i < o->links_of_count; i++)
        job_command_add(command, " --link-of %" PRIu64 "=%s", o->links_of[i].rank,
                        o->links_of[i].link ? o->links_of[i].link : "none");
}
