#include "command/help/help_man.h"
#include "telegrad/base.h"
#include <ctype.h>
#include <stdio.h>

/* Print text for roff: a dot or an apostrophe at the start of a line would be a request. */
static void put(const char *text)
{
    for (char before = '\n'; *text; before = *text++) {
        if (before == '\n' && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
    }
}

/* Print text; an empty line starts a paragraph, any other newline breaks the line. */
static void put_paragraphs(const char *text)
{
    char line[1024];
    while (*text) {
        size_t len = 0;
        while (text[len] && text[len] != '\n' && len + 1 < sizeof line)
            len++;
        snprintf(line, sizeof line, "%.*s", (int)len, text);
        put(line);
        text += len;
        if (*text == '\n')
            fputs(text[1] == '\n' ? "\n.PP\n" : "\n.br\n", stdout);
        while (*text == '\n')
            text++;
    }
    putchar('\n');
}

static void put_option(void *arg, const struct cli_option *o)
{
    (void)arg;
    if (!o->name) {
        fputs(".SS ", stdout);
        put(o->help);
        putchar('\n');
        return;
    }
    fputs(".TP\n", stdout);
    if (cli_letter(o))
        printf("\\fB\\-%c\\fR, ", cli_letter(o));
    fputs("\\fB\\-\\-", stdout);
    put(o->name);
    fputs("\\fR", stdout);
    if (o->arg) {
        fputs(" \\fI", stdout);
        put(o->arg);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put(o->help);
    if (o->standard) {
        fputs(" (default: ", stdout);
        put(o->standard);
        putchar(')');
    }
    putchar('\n');
}

static void put_lines(const char *text)
{
    fputs(".PP\n.nf\n", stdout);
    put(text);
    fputs("\n.fi\n", stdout);
}

static void put_usage(const struct cli_command *command)
{
    fputs(".PP\n.nf\n", stdout);
    for (const char *line = command->usage; line;) {
        char text[256];
        const char *end = line;
        while (*end && *end != '\n')
            end++;
        if (*line != 'm') { /* a form with "mpirun" names the command itself */
            printf("telegrad ");
            put(command->name);
            putchar(' ');
        }
        snprintf(text, sizeof text, "%.*s", (int)(end - line), line);
        put(text);
        putchar('\n');
        line = *end ? end + 1 : NULL;
    }
    fputs(".fi\n", stdout);
}

static void put_command(const struct cli_command *command)
{
    fputs(".SH TELEGRAD ", stdout);
    for (const char *p = command->name; *p; p++)
        putchar(*p == '-' ? '-' : toupper((unsigned char)*p));
    putchar('\n');
    put_usage(command);
    fputs(".PP\n", stdout);
    put_paragraphs(command->about);
    cli_each_option(command, put_option, NULL);
    if (command->notes) {
        fputs(".SS Notes\n", stdout);
        put_paragraphs(command->notes);
    }
    if (command->examples) {
        fputs(".SS Examples\n", stdout);
        put_lines(command->examples);
    }
    for (size_t i = 0; command->parts && command->parts[i]; i++)
        put_command(command->parts[i]);
}

void help_man(const struct cli_command *const *commands)
{
    printf(".TH TELEGRAD 1 \"\" \"telegrad %s\" \"User Commands\"\n"
           ".SH NAME\n"
           "telegrad \\- train over slow links, by compressed and delayed gradient exchange\n"
           ".SH SYNOPSIS\n"
           ".B telegrad\n.I COMMAND\n[\\fIOPTION\\fR]...\n"
           ".SH DESCRIPTION\n"
           "Trains one network on many workers over links that are too slow for it, by exchanging\n"
           "compressed gradients. Each command has a section below.\n",
           tg_version());
    for (const struct cli_command *const *c = commands; *c; c++) {
        printf(".TP\n\\fB");
        put((*c)->name);
        printf("\\fR\n");
        put((*c)->summary);
        putchar('\n');
    }
    for (; *commands; commands++)
        put_command(*commands);
    printf(".SH EXIT STATUS\n"
           "0: done. 1: failed. 2: wrong usage. 129, 130, 143: interrupted.\n");
}
