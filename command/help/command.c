#include "command/help/command.h"
#include <stdio.h>
#include <string.h>

const struct cli_option cli_common[] = {
    {.help = "Every command"},
    {"help", CLI_HELP, NULL, NULL, NULL, "print this and exit"},
    {"usage", CLI_USAGE_KEY, NULL, NULL, NULL, "the same as --help"},
    {"quiet", CLI_QUIET, NULL, NULL, NULL, "print no messages except errors"},
    {"verbose", CLI_VERBOSE, NULL, NULL, NULL,
     "print remarks even if standard error is not a terminal"},
    {0}};

struct walk {
    void (*each)(void *arg, const struct cli_option *option);
    void *arg;
    const struct cli_option *heading; /* not passed on yet; NULL: none */
};

static void walk_list(struct walk *w, const struct cli_option *o)
{
    for (; o && (o->name || o->help); o++) {
        if (!o->name) {
            w->heading = o;
            continue;
        }
        if (w->heading)
            w->each(w->arg, w->heading);
        w->heading = NULL;
        w->each(w->arg, o);
    }
}

void cli_each_option(const struct cli_command *command,
                     void (*each)(void *arg, const struct cli_option *option), void *arg)
{
    struct walk w = {each, arg, NULL};
    if (command->parts)
        return;
    walk_list(&w, command->options);
    walk_list(&w, command->shared ? command->shared() : NULL);
    walk_list(&w, command->net);
    walk_list(&w, cli_common);
}

int cli_letter(const struct cli_option *option)
{
    return option->key > ' ' && option->key < 0x7f ? option->key : 0;
}

/* Complete `auto` for "auto|N", and also file names for "measured|TIME|FILE". */
static void add_alternative(struct cli_values *v, const char *text, size_t len)
{
    const size_t used = strlen(v->words);
    if (len >= 4 && (strncmp(text, "FILE", 4) == 0 || strncmp(text, "PATH", 4) == 0))
        v->files = true;
    else if (len >= 3 && strncmp(text, "DIR", 3) == 0)
        v->folders = true;
    else if (text[0] >= 'a' && text[0] <= 'z' && used + len + 2 <= sizeof v->words)
        snprintf(v->words + used, sizeof v->words - used, "%s%.*s", used ? " " : "", (int)len,
                 text);
}

static void add_alternatives(struct cli_values *v, const char *text)
{
    for (;; text++) {
        const size_t len = strcspn(text, "|");
        add_alternative(v, text, len);
        text += len;
        if (!*text)
            return;
    }
}

bool cli_repeatable(const struct cli_option *option)
{
    return option->help && strstr(option->help, "repeatable");
}

struct cli_values cli_values_of(const struct cli_option *option)
{
    struct cli_values v = {.kind = NULL};
    if (!option->names)
        add_alternatives(&v, option->arg);
    else if (strchr(option->names, '|'))
        add_alternatives(&v, option->names);
    else
        v.kind = option->names;
    return v;
}

struct cli_values cli_operands_of(const struct cli_command *command)
{
    struct cli_values v = {.kind = NULL};
    if (command->operands && strcmp(command->operands, "FILE") == 0)
        v.files = true;
    else
        v.kind = command->operands;
    for (size_t i = 0; command->parts && command->parts[i]; i++) {
        const char *name = strchr(command->parts[i]->name, ' ') + 1;
        snprintf(v.words + strlen(v.words), sizeof v.words - strlen(v.words), "%s%s", i ? " " : "",
                 name);
    }
    return v;
}

bool cli_lists_names(const struct cli_command *command)
{
    return command->operands && strcmp(command->operands, command->name) == 0;
}
