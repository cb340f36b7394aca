#include "command/job/option_scan.h"
#include "telegrad/tools.h"
#include <string.h>

/* Call each() for every option, until it returns false. */
static bool for_all(const struct argp *parser,
                    bool (*each)(void *arg, const struct argp_option *option), void *arg)
{
    for (const struct argp_option *o = parser->options; o && (o->name || o->key); o++)
        if (!each(arg, o))
            return false;
    for (const struct argp_child *c = parser->children; c && c->argp; c++)
        if (!for_all(c->argp, each, arg))
            return false;
    return true;
}

struct search {
    const char *name; /* of a long option, possibly abbreviated */
    size_t len;
    int letter;                             /* of a short option; 0: search for a long one */
    const struct argp_option *found, *also; /* also: a second option with this abbreviation */
    tg_nearest near;
};

static bool is_it(void *arg, const struct argp_option *option)
{
    struct search *s = arg;
    if (s->letter) {
        if (option->key == s->letter)
            s->found = option;
        return option->key != s->letter;
    }
    if (!option->name)
        return true;
    tg_nearest_offer(&s->near, option->name, strlen(option->name));
    if (strncmp(option->name, s->name, s->len) != 0)
        return true;
    s->also = s->found;
    s->found = option;
    if (option->name[s->len] == '\0') /* an exact match ends the search */
        s->also = NULL;
    return option->name[s->len] != '\0';
}

static tg_status unknown(const char *shown, const char *hint, const char *command)
{
    return tg_fail(TG_E_SPEC, "unrecognized option '%.64s': %ssee telegrad %s --help", shown, hint,
                   command);
}

/* Check that a long option has the value it needs, or none. last: no argument follows. */
static tg_status check_long(const struct search *s, const char *command, bool last)
{
    const bool has_value = s->name[s->len] == '=';
    if (s->also)
        return tg_fail(TG_E_SPEC,
                       "option '--%.*s' may be '--%s' or '--%s': allowed: more of its name; see "
                       "telegrad %s --help",
                       (int)s->len, s->name, s->also->name, s->found->name, command);
    if (s->found->arg && !has_value && last)
        return tg_fail(TG_E_SPEC,
                       "option '--%s' has no value: allowed: --%s %s; see telegrad %s "
                       "--help",
                       s->found->name, s->found->name, s->found->arg, command);
    if (!s->found->arg && has_value)
        return tg_fail(TG_E_SPEC, "option '--%s' takes no value, but has \"%.64s\"", s->found->name,
                       s->name + s->len + 1);
    return TG_OK;
}

/* Scan a long option; *takes_p says whether it takes the next argument as its value. Errors
 * TG_E_SPEC */
static tg_status scan_long(const struct argp *parser, const char *command, const char *word,
                           bool last, bool *takes_p, bool *help_p)
{
    char name[64];
    struct search s = {.name = word + 2, .len = strcspn(word + 2, "=")};
    snprintf(name, sizeof name, "%.*s", (int)(s.len < 63 ? s.len : 63), s.name);
    tg_nearest_begin(&s.near, name);
    (void)for_all(parser, is_it, &s);
    if (!s.found && s.near.word[0]) {
        char hint[96];
        snprintf(hint, sizeof hint, "did you mean '--%s'? ", s.near.word);
        return unknown(word, hint, command);
    }
    if (!s.found)
        return unknown(word, "", command);
    TG_TRY(check_long(&s, command, last));
    *takes_p = s.found->arg && word[2 + s.len] != '=';
    *help_p = strcmp(s.found->name, "help") == 0 || strcmp(s.found->name, "usage") == 0;
    return TG_OK;
}

/* Scan short options: "-q", or several as in "-qh". The text after an option that takes a value is
 * its value. */
static tg_status scan_short(const struct argp *parser, const char *command, const char *word,
                            bool last, bool *takes_p, bool *help_p)
{
    for (const char *p = word + 1; *p; p++) {
        struct search s = {.letter = *p};
        tg_nearest_begin(&s.near, "");
        (void)for_all(parser, is_it, &s);
        if (!s.found) {
            const char shown[] = {'-', *p, '\0'};
            return unknown(shown, "", command);
        }
        *takes_p = s.found->arg && p[1] == '\0';
        if (*takes_p && last)
            return tg_fail(TG_E_SPEC,
                           "option '-%c' has no value: allowed: -%c %s; see telegrad %s "
                           "--help",
                           *p, *p, s.found->arg, command);
        *help_p = *help_p || *p == 'h';
        if (s.found->arg)
            break;
    }
    return TG_OK;
}

tg_status option_scan(const struct argp *parser, const char *command, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool takes = false, help = false;
        if (argv[i][0] != '-' || argv[i][1] == '\0')
            continue;
        TG_TRY((argv[i][1] == '-' ? scan_long : scan_short)(parser, command, argv[i], i + 1 == argc,
                                                            &takes, &help));
        if (help)
            break;
        i += takes;
    }
    return TG_OK;
}

tg_status option_scan_surplus(const struct argp *parser, const char *command, const char *word)
{
    char hint[96] = "";
    struct search s = {.name = word, .len = strcspn(word, "=")};
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(s.len < 63 ? s.len : 63), s.name);
    tg_nearest_begin(&s.near, name);
    (void)for_all(parser, is_it, &s);
    if (s.near.word[0])
        snprintf(hint, sizeof hint, "did you mean '--%s'? ", s.near.word);
    return tg_fail(TG_E_SPEC,
                   "\"%.64s\" is no option: %sallowed: options only; see telegrad %s "
                   "--help",
                   word, hint, command);
}
