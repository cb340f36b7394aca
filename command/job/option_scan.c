#include "command/job/option_scan.h"
#include "command/job/option_table.h"
#include "telegrad/registry.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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
    int letter;                      /* of a short option; 0: search for a long one */
    const struct argp_option *found; /* the last option with this abbreviation */
    size_t matches;                  /* how many there are; 1 if one of them is the name itself */
    char all[200];                   /* their names, "'--a', '--b'" */
    const char *stem;                /* the longest option that the name begins with */
    tg_nearest near;
};

/* Add the option found to those with this abbreviation. */
static void note_match(struct search *s)
{
    const size_t used = strlen(s->all);
    const char *text = s->matches++ > 0 ? ", " : "";
    if (used + strlen(text) + strlen(s->found->name) + sizeof "'--', ..." < sizeof s->all)
        snprintf(s->all + used, sizeof s->all - used, "%s'--%s'", text, s->found->name);
    else if (used < 3 || strcmp(s->all + used - 3, "...") != 0)
        snprintf(s->all + used, sizeof s->all - used, ", ...");
}

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
    const size_t len = strlen(option->name);
    tg_nearest_offer(&s->near, option->name, len);
    if (strncmp(option->name, s->name, len) == 0 && (!s->stem || len > strlen(s->stem)))
        s->stem = option->name;
    if (strncmp(option->name, s->name, s->len) != 0)
        return true;
    s->found = option;
    if (option->name[s->len] == '\0') { /* an exact match ends the search */
        s->matches = 1;
        return false;
    }
    note_match(s);
    return true;
}

static bool has_option(const struct argp *parser, const char *name, size_t len)
{
    struct search s = {.name = name, .len = len};
    tg_nearest_begin(&s.near, "");
    (void)for_all(parser, is_it, &s);
    return s.found && strlen(s.found->name) == len;
}

#define RANKS "use mpirun, or --listen at rank 0 and --join at the others; "

/* Words that other programs have for an option, as mpirun has -n, and the value that says as much.
 * The first whose option the command has counts; option NULL: there is none, which `value` says. */
static const struct {
    const char *word, *option, *value;
} synonyms[] = {{"n", "elements", ""},
                {"n", "workers", ""},
                {"np", "workers", ""},
                {"nprocs", "workers", ""},
                {"ranks", "workers", ""},
                {"gpus", "workers", ""},
                {"world-size", "workers", ""},
                {"num-workers", "workers", ""},
                {"nproc-per-node", "workers", ""},
                {"learning-rate", "lr", ""},
                {"momentum", "optimizer", " sgd:momentum=M"},
                {"weight-decay", "optimizer", " sgd:weight_decay=W"},
                {"warmup", "lr-schedule", " constant:warmup=STEPS"},
                {"scheduler", "lr-schedule", ""},
                {"compression", "method", ""},
                {"compressor", "method", ""},
                {"density", "method", " topk:density=D"},
                {"iterations", "steps", ""},
                {"iters", "steps", ""},
                {"max-steps", "steps", ""},
                {"backend", "transport", ""},
                {"bandwidth", "link", ""},
                {"latency", "link", ""},
                {"delay", "link", ""},
                {"dtype", "precision", ""},
                {"amp", "precision", " bf16"},
                {"fp16", "precision", " bf16"},
                {"bucket-size", "fusion", ""},
                {"bucket-cap-mb", "fusion", ""},
                {"checkpoint", "save", ""},
                {"checkpoint", "resume", ""},
                {"compress", "method", ""},
                {"connect", "join", " tcp://HOST:PORT"},
                {"server", "join", " tcp://HOST:PORT"},
                {"coordinator", "join", " tcp://HOST:PORT"},
                {"master-addr", "join", " tcp://HOST:PORT"},
                {"master-port", "join", " tcp://HOST:PORT"},
                {"rdzv-endpoint", "join", " tcp://HOST:PORT"},
                {"init-method", "join", " tcp://HOST:PORT"},
                {"bind", "listen", " tcp://HOST:PORT"},
                {"port", "listen", " tcp://HOST:PORT"},
                {"rank", NULL, "the rank with --listen is rank 0, and numbers the others; "},
                {"device", NULL, "telegrad trains on CPUs; "},
                {"gpu", NULL, "telegrad trains on CPUs; "},
                {"cuda", NULL, "telegrad trains on CPUs; "},
                {"o", "out", ""},
                {"output", "out", ""},
                {"log", "out", " FILE' or '--log-every N"},
                {"rate", "link", ""},
                {"arch", "model", ""},
                {"network", "model", ""},
                {"dataset", "data", ""},
                {"codec", "method", ""},
                {"b", "batch", ""},
                {"e", "epochs", ""},
                {"nproc", "workers", ""},
                {"threads", "codec-threads", " N' (for compression) or '--workers N"},
                {"threads", "workers", ""},
                {"hosts", NULL, "start each rank on its machine: " RANKS},
                {"host", NULL, "start each rank on its machine: " RANKS},
                {"hostfile", NULL, "start each rank on its machine: " RANKS},
                {"local-rank", NULL, "torchrun does not connect the ranks: " RANKS},
                {"samples", NULL, "telegrad eval has it; "},
                {"logits", NULL, "telegrad eval has it; "},
                {"timeline", NULL, "telegrad report has it; "},
                {"vary", NULL, "telegrad tune has it; "},
                {"run", NULL, "telegrad compare has it; "},
                {"journal", NULL, "telegrad serve has it; "},
                {"min", NULL, "telegrad serve has it; "},
                {"version", NULL, "telegrad --version prints it; "}};

enum { HINT = 160 };

/* Whether it has a meaning of its own elsewhere, though it begins an option: --rank and --ranks. A
 * letter is not one: it begins many. */
static bool is_foreign(const struct argp *parser, const char *word, size_t len)
{
    for (size_t i = 0; i < TG_COUNT(synonyms) && len > 1; i++) {
        const char *option = synonyms[i].option;
        if (strlen(synonyms[i].word) == len && strncmp(word, synonyms[i].word, len) == 0 &&
            (!option || has_option(parser, option, strlen(option))))
            return true;
    }
    return false;
}

/* Write which option the word probably means, to follow the error; "": none. */
static void suggest(const struct argp *parser, const char *word, char hint[HINT])
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (char *p = name; *p; p++)
        *p = *p == '_' ? '-' : *p;
    for (size_t i = 0; i < TG_COUNT(synonyms); i++) {
        const char *option = synonyms[i].option;
        if (strcmp(name, synonyms[i].word) != 0 ||
            (option && !has_option(parser, option, strlen(option))))
            continue;
        if (option)
            snprintf(hint, HINT, "did you mean '--%s%s'? ", option, synonyms[i].value);
        else
            snprintf(hint, HINT, "%s", synonyms[i].value);
        return;
    }
    struct search s = {.name = name, .len = strlen(name)};
    tg_nearest_begin(&s.near, name);
    (void)for_all(parser, is_it, &s);
    const char *meant = s.near.word[0] ? s.near.word : s.stem;
    hint[0] = '\0';
    if (meant)
        snprintf(hint, HINT, "did you mean '--%s'? ", meant);
}

/* Whether the text up to "=" names an option in one of these places (OPT_TRAIN, ...). */
static bool is_in(const char *text, int where)
{
    const size_t len = strcspn(text, "=");
    for (size_t i = 0; i < option_table_count; i++) {
        const struct option_def *option = &option_table[i];
        if (option->where & where && option->o.name && strlen(option->o.name) == len &&
            strncmp(option->o.name, text, len) == 0)
            return true;
    }
    return false;
}

static tg_status unknown(const struct argp *parser, const char *shown, const char *command)
{
    char hint[HINT];
    const bool trains = strncmp(shown, "--", 2) == 0 && is_in(shown + 2, OPT_TRAIN);
    if (trains)
        return tg_fail(
            TG_E_SPEC,
            "unrecognized option '%.64s': train has it, and %s does not; see telegrad %s "
            "--help",
            shown, command, command);
    suggest(parser, shown + strspn(shown, "-"), hint);
    return tg_fail(TG_E_SPEC, "unrecognized option '%.64s': %ssee telegrad %s --help", shown, hint,
                   command);
}

/* Check that a long option has the value it needs, or none. last: no argument follows. */
static tg_status check_long(const struct search *s, const char *command, bool last)
{
    const bool has_value = s->name[s->len] == '=';
    if (s->matches > 1)
        return tg_fail(TG_E_SPEC,
                       "option '--%.*s' is ambiguous: it may be one of %s; see telegrad %s --help",
                       (int)s->len, s->name, s->all, command);
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

/* The options with values so far. */
struct seen {
    size_t count;
    struct {
        const struct argp_option *option;
        const char *value;
    } given[64];
};

/* Errors TG_E_SPEC (the option was given before) */
static tg_status once(struct seen *seen, const struct argp_option *option, const char *value)
{
    if (option->group == OPTION_SCAN_REPEATABLE)
        return TG_OK;
    for (size_t i = 0; i < seen->count; i++)
        if (seen->given[i].option == option)
            return tg_fail(TG_E_SPEC, "--%s is given twice: %.64s and %.64s", option->name,
                           seen->given[i].value, value);
    if (seen->count < sizeof seen->given / sizeof *seen->given) {
        seen->given[seen->count].option = option;
        seen->given[seen->count++].value = value;
    }
    return TG_OK;
}

/* Scan a long option. next: the argument after it, NULL: none. *takes_p: whether that is its value.
 * Errors TG_E_SPEC */
static tg_status scan_long(const struct argp *parser, const char *command, const char *word,
                           const char *next, struct seen *seen, bool *takes_p, bool *help_p)
{
    struct search s = {.name = word + 2, .len = strcspn(word + 2, "=")};
    tg_nearest_begin(&s.near, "");
    (void)for_all(parser, is_it, &s);
    if (!s.found || (strlen(s.found->name) != s.len && is_foreign(parser, s.name, s.len)))
        return unknown(parser, word, command);
    /* An option in the place of its value is the next one: no value looks like that. */
    const bool follows =
        next && strncmp(next, "--", 2) == 0 && has_option(parser, next + 2, strcspn(next + 2, "="));
    TG_TRY(check_long(&s, command, !next || follows));
    *takes_p = s.found->arg && word[2 + s.len] != '=';
    if (s.found->arg)
        TG_TRY(once(seen, s.found, *takes_p ? next : word + 3 + s.len));
    *help_p = strcmp(s.found->name, "help") == 0 || strcmp(s.found->name, "usage") == 0;
    return TG_OK;
}

/* Scan short options: "-q", or several as in "-qh". The text after an option that takes a value is
 * its value. */
static tg_status scan_short(const struct argp *parser, const char *command, const char *word,
                            const char *next, struct seen *seen, bool *takes_p, bool *help_p)
{
    for (const char *p = word + 1; *p; p++) {
        struct search s = {.letter = *p};
        tg_nearest_begin(&s.near, "");
        (void)for_all(parser, is_it, &s);
        if (!s.found) {
            const char shown[] = {'-', *p, '\0'};
            return unknown(parser, shown, command);
        }
        *takes_p = s.found->arg && p[1] == '\0';
        if (*takes_p && !next)
            return tg_fail(TG_E_SPEC,
                           "option '-%c' has no value: allowed: -%c %s; see telegrad %s "
                           "--help",
                           *p, *p, s.found->arg, command);
        *help_p = *help_p || *p == 'h';
        if (s.found->arg)
            return once(seen, s.found, *takes_p ? next : p + 1);
    }
    return TG_OK;
}

tg_status option_scan(const struct argp *parser, const char *command, int argc, char **argv)
{
    struct seen seen = {.count = 0};
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool takes = false, help = false;
        if (argv[i][0] != '-' || argv[i][1] == '\0')
            continue;
        TG_TRY((argv[i][1] == '-' ? scan_long : scan_short)(
            parser, command, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &seen, &takes, &help));
        if (help)
            break;
        i += takes;
    }
    return TG_OK;
}

tg_status option_scan_surplus(const struct argp *parser, const char *command, const char *word)
{
    char hint[HINT];
    struct stat info;
    tg_spec *spec = NULL;
    const bool compares = strcmp(command, "compare") == 0;
    if ((compares || strcmp(command, "train") == 0) &&
        tg_registry_parse(TG_KIND_METHOD, word, &spec) == TG_OK)
        snprintf(hint, sizeof hint, "did you mean '--%s%.48s'? ",
                 compares ? "run method=" : "method ", word);
    else if (compares && strchr(word, '=') && is_in(word, OPT_RUN))
        snprintf(hint, sizeof hint, "did you mean '--run %.48s'? ", word);
    else
        suggest(parser, word, hint);
    tg_spec_free(spec);
    if (!hint[0] && strcmp(command, "eval") == 0 && stat(word, &info) == 0)
        snprintf(hint, sizeof hint, "did you mean '--%s %.48s'? ",
                 S_ISDIR(info.st_mode) ? "resume" : "weights", word);
    return tg_fail(
        TG_E_SPEC,
        "\"%.64s\" is not an option: %sonly options are allowed here; see telegrad %s --help", word,
        hint, command);
}
