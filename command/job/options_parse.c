#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/job/option_scan.h"
#include "command/job/launch.h"
#include "command/job/options.h"
#include <errno.h>

/* Around a subcommand's parser: what every command has. The screens of help are laid out by hand,
 * argp's would not fit one. */
struct outer {
    void *input;
    bool helped;
    const struct argp *parser;
    const char *command;
};

enum { HELP = 'h', QUIET = 'q', VERBOSE = 'v', USAGE = 0x200 };

static error_t parse_outer(int key, char *arg, struct argp_state *state)
{
    struct outer *outer = state->input;
    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = outer->input;
        state->child_inputs[1] = outer;
        return 0;
    case QUIET:
        console_silent();
        return 0;
    case VERBOSE:
        console_verbose();
        return 0;
    case HELP:
    case USAGE:
        outer->helped = true;
        state->next = state->argc; /* what follows does not matter */
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

/* Behind the subcommand's parser, for arguments that it did not take. */
static error_t parse_surplus(int key, char *arg, struct argp_state *state)
{
    const struct outer *outer = state->input;
    (void)arg;
    if (key != ARGP_KEY_ARGS || outer->helped)
        return ARGP_ERR_UNKNOWN;
    if (option_scan_surplus(outer->parser, outer->command, state->argv[state->next]) != TG_OK)
        console_error("%s", tg_error());
    return EINVAL;
}

int options_parse(const struct argp *parser, const char *command, const char *help, int argc,
                  char **argv, void *input)
{
    static const struct argp_option common[] = {{.name = "help", .key = HELP},
                                                {.name = "usage", .key = USAGE},
                                                {.name = "quiet", .key = QUIET},
                                                {.name = "verbose", .key = VERBOSE},
                                                {0}};
    static const struct argp surplus = {.parser = parse_surplus};
    const struct argp_child children[] = {{.argp = parser}, {.argp = &surplus}, {0}};
    const struct argp outer_parser = {
        .options = common, .parser = parse_outer, .children = children};
    struct outer outer = {input, false, &outer_parser, command};
    char name[64];
    if (option_scan(&outer_parser, command, argc, argv) != TG_OK) {
        console_error("%s", tg_error());
        return CLI_USAGE;
    }
    snprintf(name, sizeof name, "telegrad %s", command);
    argv[0] = name;
    argp_err_exit_status = CLI_USAGE;
    error_t error =
        argp_parse(&outer_parser, argc, argv, ARGP_NO_HELP | ARGP_NO_ERRS, NULL, &outer);
    argv[0] = (char *)"telegrad"; /* `name` ends here */
    int rank;
    if (outer.helped && launch_under_mpi(&rank) && rank > 0) /* rank 0 prints it */
        return CLI_OK;
    if (outer.helped)
        return fputs(help, stdout) < 0 ? CLI_FAILED : CLI_OK;
    if (error && !console_has_spoken())
        console_error("wrong arguments; see telegrad %s --help", command);
    return error ? CLI_USAGE : -1;
}
