#include "command/help/help_text.h"
#include "command/help/pager.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include <stdio.h>
#include <string.h>

enum { WIDTH_MIN = 40, WIDTH_USUAL = 80, WIDTH_MAX = 100, NARROW = 60, UNBROKEN = 30 };
enum { OPTION_TEXT_AT = 26, COMMAND_TEXT_AT = 18 };

struct page {
    int width;
    int at;     /* column of the next character */
    int indent; /* indent of continuation lines */
};

static struct page page_open(void)
{
    int width = console_out_columns();
    width = width == 0 ? WIDTH_USUAL : width < WIDTH_MIN ? WIDTH_MIN : width;
    return (struct page){.width = width > WIDTH_MAX ? WIDTH_MAX : width};
}

static void new_line(struct page *p)
{
    putchar('\n');
    p->at = 0;
}

static void put_word(struct page *p, const char *word, int len)
{
    if (p->at > p->indent && p->at + 1 + len > p->width)
        new_line(p);
    if (p->at < p->indent)
        printf("%*s", p->indent - p->at, "");
    else if (p->at > p->indent)
        putchar(' ');
    p->at = (p->at < p->indent ? p->indent : p->at + (p->at > p->indent)) + len;
    printf("%.*s", len, word);
}

/* Print the words of a text, as many per line as fit; '\n' starts a new line. */
static void put_text(struct page *p, const char *text)
{
    while (*text) {
        const size_t len = strcspn(text, " \n");
        if (len > 0)
            put_word(p, text, (int)len);
        text += len;
        if (*text == '\n')
            new_line(p);
        text += *text != '\0';
    }
}

static void put_paragraphs(struct page *p, const char *text)
{
    p->indent = 0;
    put_text(p, text);
    new_line(p);
}

/* Print "  name   text", with the text from column text_at on; on a narrow page below the name. */
static void put_item(struct page *p, const char *name, int text_at)
{
    p->indent = p->width < NARROW ? 6 : text_at;
    p->at = printf("  %s", name);
    if (p->at + 2 > p->indent)
        new_line(p);
    else
        p->at += printf("%*s", p->indent - p->at, "");
}

static void put_option(void *arg, const struct cli_option *o)
{
    struct page *p = arg;
    char name[128], standard[160];
    if (!o->name) {
        printf("\n%s:\n", o->help);
        return;
    }
    const int letter = cli_letter(o);
    snprintf(name, sizeof name, "%.*s--%s%s%s", letter ? 4 : 0,
             (const char[]){'-', (char)letter, ',', ' ', '\0'}, o->name, o->arg ? " " : "",
             o->arg ? o->arg : "");
    put_item(p, name, OPTION_TEXT_AT);
    put_text(p, o->help);
    snprintf(standard, sizeof standard, "(default: %s)", o->standard ? o->standard : "");
    if (o->standard && strlen(standard) <= UNBROKEN)
        put_word(p, standard, (int)strlen(standard));
    else if (o->standard)
        put_text(p, standard);
    new_line(p);
}

/* Print the usage, one line per form: "Usage: telegrad train [OPTION]...". */
static void put_usage(const struct cli_command *command)
{
    const char *line = command->usage;
    for (const char *before = "Usage: ";; before = "       ") {
        const int len = (int)strcspn(line, "\n");
        /* a form with "mpirun" is a line of its own that names the command itself */
        if (strncmp(line, "mpirun", 6) == 0)
            printf("%s%.*s\n", before, len, line);
        else
            printf("%stelegrad %s %.*s\n", before, command->name, len, line);
        line += len;
        if (!*line++)
            return;
    }
}

static void put_examples(const char *examples)
{
    printf("\n%s:\n", strstr(examples, "\ntelegrad") ? "Examples" : "Example");
    while (*examples) {
        const int len = (int)strcspn(examples, "\n");
        printf("  %.*s\n", len, examples);
        examples += len + (examples[len] == '\n');
    }
}

static void put_command(struct page *p, const struct cli_command *command, const char *name)
{
    put_item(p, name, COMMAND_TEXT_AT);
    put_text(p, command->summary);
    new_line(p);
}

int help_text(const struct cli_command *command)
{
    struct page p = page_open();
    help_pager pager = help_pager_begin();
    put_usage(command);
    new_line(&p);
    put_paragraphs(&p, command->about);
    for (size_t i = 0; command->parts && command->parts[i]; i++) {
        if (i == 0)
            printf("\nCommands:\n");
        put_command(&p, command->parts[i], strchr(command->parts[i]->name, ' ') + 1);
    }
    cli_each_option(command, put_option, &p);
    if (command->notes) {
        new_line(&p);
        put_paragraphs(&p, command->notes);
    }
    if (command->examples)
        put_examples(command->examples);
    help_pager_end(&pager);
    return ferror(stdout) ? CLI_FAILED : CLI_OK;
}

int help_text_main(const struct cli_command *const *commands, const char *example)
{
    struct page p = page_open();
    help_pager pager = help_pager_begin();
    printf("Usage: telegrad COMMAND [OPTION]...\n\n");
    put_paragraphs(&p, "Train one network on many workers over links that are too slow for it, by "
                       "exchanging compressed gradients.");
    printf("\nCommands:\n");
    for (; *commands; commands++)
        put_command(&p, *commands, (*commands)->name);
    printf("\nOptions:\n");
    put_item(&p, "-V, --version", COMMAND_TEXT_AT);
    put_text(&p, "print the version, the CPU level and the libraries in use");
    new_line(&p);
    put_item(&p, "-h, --help", COMMAND_TEXT_AT);
    put_text(&p, "print this and exit");
    new_line(&p);
    new_line(&p);
    put_paragraphs(
        &p, "telegrad help COMMAND or telegrad COMMAND --help explains a command. telegrad help "
            "--completion bash or zsh prints a completion script, telegrad help --man the manual "
            "page.\n\nExit status: 0 done, 1 failed, 2 wrong usage, 129, 130 or 143 interrupted.");
    put_examples(example);
    help_pager_end(&pager);
    return ferror(stdout) ? CLI_FAILED : CLI_OK;
}
