#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/help/help_text.h"
#include "command/job/launch.h"
#include "command/job/net_options.h"
#include "command/job/option_scan.h"
#include "command/job/options.h"
#include <errno.h>

/* The options that the subcommand shares with others. */
struct shared {
    const struct cli_command *command;
    struct run_options *options;
};

/* The subcommand's own options and arguments. */
struct own {
    const struct cli_command *command;
    void *input;
    struct shared shared;
};

/* Parses the options that every command has, before the subcommand's own parser. */
struct outer {
    struct own own;
    struct net_options *net; /* NULL: it has none of those options */
    bool helped, quiet, verbose;
    const struct argp *parser;
    const char *command;
};

static error_t parse_outer(int key, char *arg, struct argp_state *state)
{
    struct outer *outer = state->input;
    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &outer->own;
        state->child_inputs[1] = outer->net;
        state->child_inputs[2] = outer;
        return 0;
    case CLI_QUIET:
        outer->quiet = true;
        console_silent();
        break;
    case CLI_VERBOSE:
        outer->verbose = true;
        console_verbose();
        break;
    case CLI_HELP:
    case CLI_USAGE_KEY:
        outer->helped = true;
        state->next = state->argc; /* ignore the remaining arguments */
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return outer->quiet && outer->verbose
               ? cli_parsed(tg_fail(TG_E_SPEC, "--quiet and --verbose cannot be combined"))
               : 0;
}

static bool has_key(const struct cli_option *list, int key)
{
    while (list && (list->name || list->help) && !(list->name && list->key == key))
        list++;
    return list && list->name;
}

static error_t parse_own(int key, char *arg, struct argp_state *state)
{
    struct own *own = state->input;
    const struct cli_command *command = own->command;
    if (key == ARGP_KEY_INIT && command->shared) {
        own->shared.command = command;
        own->shared.options = command->shared_of ? command->shared_of(own->input) : own->input;
        state->child_inputs[0] = &own->shared;
    }
    if (key == ARGP_KEY_ARGS && command->words_of) {
        *command->words_of(own->input) = (struct cli_words){
            .word = state->argv + state->next, .count = (size_t)(state->argc - state->next)};
        state->next = state->argc;
        return 0;
    }
    return has_key(command->options, key) ? cli_parsed(command->set(own->input, key, arg))
                                          : ARGP_ERR_UNKNOWN;
}

static error_t parse_shared(int key, char *arg, struct argp_state *state)
{
    const struct shared *shared = state->input;
    return key >= OPTIONS_KEY && key < ARGP_KEY_END
               ? cli_parsed(shared->command->set_shared(shared->options, key, arg))
               : ARGP_ERR_UNKNOWN;
}

static error_t parse_net(int key, char *arg, struct argp_state *state)
{
    return has_key(net_options_list, key) ? cli_parsed(net_options_set(state->input, key, arg))
                                          : ARGP_ERR_UNKNOWN;
}

/* Runs after the subcommand's parser, for arguments that it did not take. */
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

enum { OWN_MAX = 32, SHARED_MAX = 65 };

/* Convert the options that have names for argp; the list ends with an empty entry. */
static void for_argp(const struct cli_option *from, struct argp_option *list, size_t room)
{
    size_t n = 0;
    for (; from && (from->name || from->help); from++)
        if (from->name && n + 1 < room)
            list[n++] =
                (struct argp_option){.name = from->name,
                                     .key = from->key,
                                     .arg = from->arg,
                                     .group = cli_repeatable(from) ? OPTION_SCAN_REPEATABLE : 0};
    list[n] = (struct argp_option){0};
}

int options_parse(const struct cli_command *command, int argc, char **argv, void *input)
{
    static const struct argp surplus = {.parser = parse_surplus};
    struct argp_option own[OWN_MAX], shared[SHARED_MAX], common[OWN_MAX], net[OWN_MAX];
    for_argp(command->options, own, OWN_MAX);
    for_argp(command->shared ? command->shared() : NULL, shared, SHARED_MAX);
    for_argp(command->net, net, OWN_MAX);
    const struct argp sharing = {.options = shared, .parser = parse_shared};
    const struct argp_child shares[] = {{.argp = &sharing}, {0}};
    const struct argp parser = {
        .options = own, .parser = parse_own, .children = command->shared ? shares : NULL};
    const struct argp joining = {.options = net, .parser = command->net ? parse_net : NULL};
    const struct argp_child children[] = {
        {.argp = &parser}, {.argp = &joining}, {.argp = &surplus}, {0}};
    const struct argp outer_parser = {
        .options = common, .parser = parse_outer, .children = children};
    struct outer outer = {.own = {.command = command, .input = input},
                          .net = command->net ? command->net_of(input) : NULL,
                          .parser = &outer_parser,
                          .command = command->name};
    char name[64];
    for_argp(cli_common, common, OWN_MAX);
    if (option_scan(&outer_parser, command->name, argc, argv) != TG_OK) {
        console_error("%s", tg_error());
        return CLI_USAGE;
    }
    snprintf(name, sizeof name, "telegrad %s", command->name);
    argv[0] = name;
    argp_err_exit_status = CLI_USAGE;
    error_t error =
        argp_parse(&outer_parser, argc, argv, ARGP_NO_HELP | ARGP_NO_ERRS, NULL, &outer);
    argv[0] = (char *)"telegrad"; /* `name` is out of scope from here on */
    int rank, size;
    if (outer.helped && launch_under_mpi(&rank, &size) && rank > 0) /* rank 0 prints the help */
        return CLI_OK;
    if (outer.helped)
        return help_text(command);
    if (error && !console_has_spoken())
        console_error("wrong arguments; see telegrad %s --help", command->name);
    return error ? CLI_USAGE : -1;
}
