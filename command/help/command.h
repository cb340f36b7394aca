/* A subcommand and its options, each written down once: the parser, messages, --help, completion and
 * the manual page all read these. */
#ifndef TG_CLI_COMMAND_H
#define TG_CLI_COMMAND_H

#include <argp.h>
#include <stdbool.h>

/* An option; or, without a name, the heading of those that follow. */
struct cli_option {
    const char *name; /* without "--"; NULL: `help` is a heading, or ends the list if NULL too */
    int key;          /* for the parser; a character is also the short option */
    const char *arg;  /* "SPEC", "fp32|bf16", "FILE"; NULL: takes no value */
    const char *standard; /* the default, as --help shows it; NULL: none */
    const char
        *names; /* values to complete: a kind that `telegrad help --names` knows, or "iid|label" */
    const char *help; /* what it does */
};

struct cli_command {
    const char *name;     /* "train", "bench codec" */
    const char *summary;  /* a line in the list of commands */
    const char *usage;    /* what follows the name; a line each: "[OPTION]..." */
    const char *about;    /* paragraphs, broken where they are printed; '\n' breaks a line */
    const char *notes;    /* after the options, likewise; NULL: none */
    const char *examples; /* lines as they stand, without "telegrad"; NULL: none */
    const char *operands; /* what arguments are: a kind of names, "FILE"; NULL: none */
    const struct cli_option *options;         /* its own; NULL: none */
    const struct cli_option *(*shared)(void); /* those it shares; NULL: none */
    argp_parser_t parse;                      /* takes its own options; NULL: has none */
    argp_parser_t shared_parse;               /* takes those it shares */
    const struct cli_command *const *parts;   /* bench: its commands, then NULL; else NULL */
    int (*run)(int argc, char **argv);
    bool lists; /* prints what there is, which under mpirun rank 0 does alone */
};

/* The options that every command has. */
enum { CLI_HELP = 'h', CLI_QUIET = 'q', CLI_VERBOSE = 'v', CLI_USAGE_KEY = 0x200 };
extern const struct cli_option cli_common[];

/* Call each for all options of a command, headings included. A heading without options after it is
 * left out. */
void cli_each_option(const struct cli_command *command,
                     void (*each)(void *arg, const struct cli_option *option), void *arg);

/* 'h' of "-h, --help"; 0: no short option. */
int cli_letter(const struct cli_option *option);

/* What completes an option's value. */
struct cli_values {
    const char *kind; /* names of this kind; NULL: none */
    char words[160];  /* "fp32 bf16" */
    bool files, folders;
};
struct cli_values cli_values_of(const struct cli_option *option);

/* The same for arguments that are no options. */
struct cli_values cli_operands_of(const struct cli_command *command);

/* Whether it lists the names of the kind that it is called after: `help --names` knows it. */
bool cli_lists_names(const struct cli_command *command);

#endif
