/* The command's parts: what main dispatches to, and the exit statuses. */
#ifndef TG_CLI_H
#define TG_CLI_H

#include "telegrad/base.h"

enum {
    CLI_OK = 0,
    CLI_FAILED = 1, /* something went wrong while working */
    CLI_USAGE = 2   /* the command was asked for something that does not exist; + 128: signals */
};

/* Each takes the arguments after `telegrad` (argv[0] is the subcommand) and returns an exit status.
 */
int cmd_train(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_methods(int argc, char **argv); /* of all kinds but models: argv[0] says which */
int cmd_models(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_advise(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_bench_train(int argc, char **argv);    /* of cmd_bench: argv[0] is "train" */
int cmd_bench_exchange(int argc, char **argv); /* likewise, "exchange" */
int cmd_bench_strategy(int argc, char **argv); /* likewise, "strategy" */
extern const char help_advise[], help_kinds[];
extern const char help_bench_train[], help_bench_exchange[], help_bench_strategy[];

/* The screens of --help; each fits 24 rows of 80 columns and ends with an example. */
extern const char help_main[], help_train[], help_compare[], help_eval[], help_methods[],
    help_models[], help_data[], help_bench[], help_report[];

/* CLI_USAGE for statuses that blame the settings, CLI_FAILED for all others. */
int cli_exit_status(tg_status status);

#endif
