/* A subcommand and its options, each written down once. The parser, the messages, --help,
 * completion and the manual page all read these tables. */
#ifndef TG_CLI_COMMAND_H
#define TG_CLI_COMMAND_H

#include "telegrad/base.h"
#include <stdbool.h>
#include <stddef.h>

/* An option. If name is NULL it is the heading of the options that follow. */
struct cli_option {
    const char *name; /* without "--"; NULL: `help` is a heading, or ends the list if NULL too */
    int key;          /* key of the parser; a character is also the short option */
    const char *arg;  /* "SPEC", "fp32|bf16", "FILE"; NULL: takes no value */
    const char *standard; /* default value, as --help shows it; NULL: none */
    const char *names; /* values to complete: a kind of `telegrad help --names`, or "iid|label" */
    const char *help;  /* what it does */
};

/* Arguments that are no options. */
struct cli_words {
    char **word; /* (count) */
    size_t count;
};

struct net_options;
struct run_options;
struct cli_command {
    const char *name;     /* "train", "bench codec" */
    const char *summary;  /* its line in the list of commands */
    const char *usage;    /* what follows the name, one form per line: "[OPTION]..." */
    const char *about;    /* paragraphs, wrapped when printed; '\n' starts a new line */
    const char *notes;    /* printed after the options, wrapped likewise; NULL: none */
    const char *examples; /* lines printed as they are, without "telegrad"; NULL: none */
    const char *operands; /* what its arguments are: a kind of names, "FILE"; NULL: none */
    const struct cli_option *options;         /* its own; NULL: none */
    const struct cli_option *(*shared)(void); /* the options it shares with others; NULL: none */
    /* Sets one of those by its key. Errors as those of set */
    tg_status (*set_shared)(struct run_options *o, int key, const char *arg);
    const struct cli_option *net; /* the options to meet over a network; NULL: none */
    /* Where its input keeps those, see net_options.h. */
    struct net_options *(*net_of)(void *input);
    /* Sets one of its own options, by its key, in its input. NULL: it has none.
     * Errors  those of cli_exit_status that are mistakes of the user's; printed by the parser */
    tg_status (*set)(void *input, int key, char *arg);
    /* Where its input keeps its arguments. NULL: it takes none */
    struct cli_words *(*words_of)(void *input);
    /* Where its input keeps the shared options. NULL: its input is what they are kept in */
    struct run_options *(*shared_of)(void *input);
    const struct cli_command *const *parts; /* the commands of bench, then NULL; else NULL */
    int (*run)(int argc, char **argv);
    bool lists; /* prints a list: under mpirun only rank 0 does */
};

/* The options that every command has. */
enum { CLI_HELP = 'h', CLI_QUIET = 'q', CLI_VERBOSE = 'v', CLI_USAGE_KEY = 0x200 };
extern const struct cli_option cli_common[];

/* Call each() for all options of a command, headings included. A heading with no options after it
 * is left out. */
void cli_each_option(const struct cli_command *command,
                     void (*each)(void *arg, const struct cli_option *option), void *arg);

/* The letter of a short option, 'h' for "-h, --help"; 0: none. */
int cli_letter(const struct cli_option *option);

/* Whether the option may be given several times: its help says "repeatable". */
bool cli_repeatable(const struct cli_option *option);

/* How to complete an option's value. */
struct cli_values {
    const char *kind; /* names of this kind; NULL: none */
    char words[160];  /* "fp32 bf16" */
    bool files, folders;
};
struct cli_values cli_values_of(const struct cli_option *option);

/* The same for the command's arguments. */
struct cli_values cli_operands_of(const struct cli_command *command);

/* Whether the command lists the names of the kind after which it is called, which `help --names`
 * also prints. */
bool cli_lists_names(const struct cli_command *command);

#endif
