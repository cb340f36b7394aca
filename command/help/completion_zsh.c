#include "command/help/help_completion.h"
#include <stdio.h>
#include <string.h>

static const char head[] =
    "#compdef telegrad\n"
    "# Completion of telegrad for zsh, printed by: telegrad help --completion zsh\n"
    "_telegrad_names()\n"
    "{\n"
    "    local -a names=(${(f)\"$(${(Q)tool} help --names $1 2>/dev/null)\"})\n"
    "    compadd -- $names\n"
    "}\n"
    "\n"
    "_telegrad()\n"
    "{\n"
    "    local tool=$words[1] command=$words[2]\n";

/* Quote text inside '...' and [...]: brackets and colons are escaped; a quote ends the string. */
static void put_quoted(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void put_action(const struct cli_values *v)
{
    if (v->kind)
        printf("{_telegrad_names %s}", v->kind);
    else if (v->words[0] && v->files)
        printf("{compadd %s; _files}", v->words);
    else if (v->words[0])
        printf("(%s)", v->words);
    else if (v->files)
        printf("_files");
    else if (v->folders)
        printf("_files -/");
    else
        putchar(' '); /* the value has no completion */
}

static void put_spec(const struct cli_option *o, const char *dashes, const char *name,
                     const char *equals)
{
    printf(" \\\n            '*%s%s%s[", dashes, name, o->arg ? equals : "");
    put_quoted(o->help);
    putchar(']');
    if (o->arg) {
        const struct cli_values v = cli_values_of(o);
        putchar(':');
        put_quoted(o->arg);
        putchar(':');
        put_action(&v);
    }
    putchar('\'');
}

static void put_option(void *arg, const struct cli_option *o)
{
    const char letter[2] = {(char)cli_letter(o), '\0'};
    (void)arg;
    if (!o->name)
        return;
    put_spec(o, "--", o->name, "=");
    if (letter[0])
        put_spec(o, "-", letter, "+");
}

static void put_described(const struct cli_command *const *commands, const char *end)
{
    for (; *commands; commands++) {
        const char *space = strchr((*commands)->name, ' ');
        fputs(" '", stdout);
        put_quoted(space ? space + 1 : (*commands)->name);
        putchar(':');
        put_quoted((*commands)->summary);
        putchar('\'');
    }
    fputs(end, stdout);
}

/* _arguments expects words[1] to be the last word of the command's name. */
static void put_command(const struct cli_command *c)
{
    const struct cli_values operands = cli_operands_of(c);
    if (c->parts) {
        for (size_t i = 0; c->parts[i]; i++)
            put_command(c->parts[i]);
        return;
    }
    printf("    '%s')\n        _arguments -s -S :", c->name);
    cli_each_option(c, put_option, NULL);
    if (operands.kind || operands.files) {
        printf(" \\\n            '*:%s:", operands.kind ? operands.kind : "file");
        put_action(&operands);
        putchar('\'');
    }
    printf("\n        ;;\n");
}

/* For a command with parts, the second word also belongs to the command's name. */
static void put_parts(const struct cli_command *c)
{
    printf("    if [[ $command == %s ]]; then\n"
           "        if (( CURRENT == 2 )); then\n"
           "            local -a parts=(",
           c->name);
    put_described(c->parts, ")\n");
    printf("            _describe command parts\n"
           "            return\n"
           "        fi\n"
           "        command=\"$command $words[2]\"\n"
           "        shift words\n"
           "        (( CURRENT-- ))\n"
           "    fi\n");
}

void help_completion_zsh(const struct cli_command *const *commands)
{
    fputs(head, stdout);
    printf("    local -a commands=(");
    put_described(commands, " 'help:explain a command')\n");
    printf("    if (( CURRENT == 2 )); then\n"
           "        _describe command commands\n"
           "        compadd -- -h --help --usage -V --version\n"
           "        return\n"
           "    fi\n"
           "    shift words\n"
           "    (( CURRENT-- ))\n");
    for (size_t i = 0; commands[i]; i++)
        if (commands[i]->parts)
            put_parts(commands[i]);
    printf("    case $command in\n");
    for (size_t i = 0; commands[i]; i++)
        put_command(commands[i]);
    printf("    help)\n"
           "        if (( CURRENT == 2 )); then\n"
           "            _describe command commands\n"
           "            compadd -- --completion --man --names\n"
           "        elif [[ $words[2] == --completion ]]; then\n"
           "            compadd bash zsh\n"
           "        elif [[ $words[2] == --names ]]; then\n"
           "            compadd");
    for (size_t i = 0; commands[i]; i++)
        if (cli_lists_names(commands[i]))
            printf(" %s", commands[i]->name);
    printf("\n");
    for (size_t i = 0; commands[i]; i++)
        if (commands[i]->parts)
            printf("        elif [[ $words[2] == %s ]]; then\n            compadd %s\n",
                   commands[i]->name, cli_operands_of(commands[i]).words);
    printf("        fi\n"
           "        ;;\n"
           "    esac\n"
           "}\n"
           "\n"
           "_telegrad \"$@\"\n");
}
