/* The telegrad command. */
#include "command/help/help_text.h"
#include "command/help/pager.h"
#include "command/help_option.h"
#include "command/output/cli.h"
#include "telegrad/tools.h"
#include "command/output/console.h"
#include "command/job/launch.h"
#include "command/output/output.h"
#include "command/version.h"
#include <stdio.h>
#include <string.h>

static const struct cli_command *const commands[] = {
#ifdef HAVE_TRAIN
    &command_train,
    &command_compare,
    &command_tune,
    &command_eval,
#endif
    &command_methods,
    &command_strategies,
    &command_exchanges,
    &command_codecs,
    &command_feedbacks,
    &command_optimizers,
    &command_lr_schedules,
#ifdef HAVE_TRAIN
    &command_models,
    &command_data,
#endif
    &command_bench,
#ifdef HAVE_TRAIN
    &command_advise,
#endif
    &command_report,
#ifdef HAVE_NET
    &command_serve,
    &command_doctor,
    &command_key,
#endif
    NULL};

#ifdef HAVE_TRAIN
#define EXAMPLE "telegrad train --workers 4 --method dgc:density=0.001 --link 20mbit,10ms"
static bool is_left_out(const char *name)
{
    (void)name;
    return false;
}
#else
#define EXAMPLE "telegrad methods topk"
/* Whether a command with the trainer has this subcommand. */
static bool is_left_out(const char *name)
{
    static const char *const others[] = {"train",  "compare", "tune",  "eval",
                                         "models", "data",    "advise"};
    for (size_t i = 0; name && i < TG_COUNT(others); i++)
        if (strcmp(name, others[i]) == 0)
            return true;
    return false;
}
#endif

/* If the name is that of a method or a strategy, write where it belongs. */
static bool registry_hint(const char *name, char *hint, size_t room)
{
    static const tg_kind kinds[] = {TG_KIND_METHOD, TG_KIND_STRATEGY};
    static const char *const lists[] = {"methods", "strategies"};
    for (size_t i = 0; i < TG_COUNT(kinds); i++) {
        tg_spec *spec;
        if (tg_registry_parse(kinds[i], name, &spec) != TG_OK)
            continue;
        const char *kind = tg_kind_name(kinds[i]);
        char train[80] = "";
        if (!is_left_out("train"))
            snprintf(train, sizeof train, "train --%s %.40s trains with it, ", kind, name);
        snprintf(hint, room, "it is a %s: %s%s %s describes it", kind, train, lists[i],
                 tg_spec_name(spec));
        tg_spec_free(spec);
        return true;
    }
    return false;
}

/* The command of that name. NULL: there is none, which has been printed. */
static const struct cli_command *find(const char *name)
{
    char list[256] = "", hint[200];
    tg_nearest near;
    tg_nearest_begin(&near, name ? name : "");
    for (size_t i = 0; commands[i]; i++) {
        if (name && strcmp(name, commands[i]->name) == 0)
            return commands[i];
        tg_nearest_offer(&near, commands[i]->name, strlen(commands[i]->name));
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "",
                 commands[i]->name);
    }
    static const char *const others[] = {"help", "--help", "--version"};
    for (size_t i = 0; i < TG_COUNT(others); i++)
        tg_nearest_offer(&near, others[i], strlen(others[i]));
    if (is_left_out(name))
        console_error("this telegrad was built without a trainer, which needs oneDNN: it has no "
                      "\"%s\"; allowed: %s",
                      name, list);
    else if (name && name[0] == '-' && !near.word[0])
        console_error("\"%.64s\" stands before the command: write telegrad COMMAND [OPTION]..., or "
                      "telegrad -h or --version; see telegrad --help",
                      name);
    else if (!name)
        console_error("no command: allowed: %s; see telegrad --help", list);
    else if (name[0] == '-')
        console_error("unknown option \"%.64s\": %ssee telegrad --help", name,
                      tg_nearest_hint(&near));
    else if (!near.word[0] && registry_hint(name, hint, sizeof hint))
        console_error("unknown command \"%.64s\": %s; see telegrad --help", name, hint);
    else
        console_error("unknown command \"%.64s\": %sallowed: %s; see telegrad --help", name,
                      tg_nearest_hint(&near), list);
    return NULL;
}

static const char *const helps[] = {"-h", "--help", "--usage", NULL};

static bool is_any(const char *text, const char *const *of)
{
    while (*of && strcmp(text, *of) != 0)
        of++;
    return *of != NULL;
}

/* "help --man" and the like print what an installation needs; "help COMMAND..." is "COMMAND...
 * --help". argv[0] is "help". follows: another rank prints. */
static int help(int argc, char **argv, bool follows)
{
    static char option[] = "--help";
    if (argc < 2 || strcmp(argv[1], "help") == 0 || is_any(argv[1], helps))
        return follows ? CLI_OK : help_text_main(commands, EXAMPLE);
    if (help_option_is(argv[1]))
        return follows ? CLI_OK : help_option(commands, argc - 1, argv + 1);
    const struct cli_command *command = find(argv[1]);
    if (!command)
        return CLI_USAGE;
    const int words = command->parts ? 3 : 2; /* "help bench codec", "help train" */
    if (argc > words) {
        console_error("\"%.64s\": help takes a command and nothing else: telegrad help %s",
                      argv[words], command->name);
        return CLI_USAGE;
    }
    memmove(argv, argv + 1, (size_t)(argc - 1) * sizeof *argv);
    argv[argc - 1] = option;
    return command->run(argc, argv);
}

static int run(int argc, char **argv)
{
    static const char *const versions[] = {"--version", "-V", NULL};
    int rank, size;
    const bool launched = launch_under_mpi(&rank, &size), follows = launched && rank > 0;
    if (launched)
        help_pager_disable();
    if (follows) {
        console_quiet();
        console_errors_wait(true);
    }
    if (argc > 1 && is_any(argv[1], helps))
        return follows ? CLI_OK : help_text_main(commands, EXAMPLE);
    if (argc > 1 && is_any(argv[1], versions)) {
        if (argc > 2) {
            console_error("%s takes no argument, but has \"%.64s\"", argv[1], argv[2]);
            return CLI_USAGE;
        }
        if (!follows)
            version_print();
        return CLI_OK;
    }
    if (argc > 1 && strcmp(argv[1], "help") == 0)
        return help(argc - 1, argv + 1, follows);
    const struct cli_command *command = find(argc > 1 ? argv[1] : NULL);
    if (!command)
        return CLI_USAGE;
    return follows && command->lists ? CLI_OK : command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    output_open();
    console_take_log();
    return output_end(run(argc, argv));
}
