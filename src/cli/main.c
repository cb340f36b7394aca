/* telegrad: the command. */
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/launch.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"train", cmd_train},     {"compare", cmd_compare}, {"eval", cmd_eval},
                {"methods", cmd_methods}, {"models", cmd_models},   {"data", cmd_data},
                {"bench", cmd_bench},     {"advise", cmd_advise},   {"report", cmd_report}};

int cli_exit_status(tg_status status)
{
    switch (status) {
    case TG_OK:
        return CLI_OK;
    case TG_E_SPEC:
    case TG_E_ARG:
    case TG_E_UNSUPPORTED:
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}

static int print(const char *text)
{
    return fputs(text, stdout) < 0 || fflush(stdout) != 0 ? CLI_FAILED : CLI_OK;
}

int main(int argc, char **argv)
{
    int rank;
    console_take_log();
    if (launch_under_mpi(&rank) && rank > 0) {
        console_quiet();
        console_errors_wait(true);
    }
    if (argc < 2) {
        console_error("no command: allowed: train, compare, eval, methods, models, data, bench, "
                      "advise, report; see telegrad --help");
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return print(help_main);
    if (strcmp(argv[1], "--version") == 0) {
        char text[64];
        snprintf(text, sizeof text, "telegrad %s\n", tg_version());
        return print(text);
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    console_error("unknown command \"%.64s\": allowed: train, compare, eval, methods, models, "
                  "data, bench, advise, report; see telegrad --help",
                  argv[1]);
    return CLI_USAGE;
}
