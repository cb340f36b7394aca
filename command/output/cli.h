/* The subcommands that main calls, and the exit statuses. */
#ifndef TG_CLI_H
#define TG_CLI_H

#include "telegrad/base.h"

enum {
    CLI_OK = 0,
    CLI_FAILED = 1, /* an error while working */
    CLI_USAGE = 2   /* wrong usage. 128 + a signal: ended by it */
};

/* Each is defined in the file that runs it. */
struct cli_command;
extern const struct cli_command command_train, command_compare, command_tune, command_eval,
    command_methods, command_strategies, command_exchanges, command_codecs, command_feedbacks,
    command_optimizers, command_lr_schedules, command_models, command_data, command_bench,
    command_advise, command_report;
/* Only with libtelegrad-net. */
extern const struct cli_command command_key, command_doctor, command_serve;
/* Parts of command_bench. */
extern const struct cli_command command_bench_codec, command_bench_train, command_bench_exchange,
    command_bench_server, command_bench_strategy;
/* Parts of command_key. */
extern const struct cli_command command_key_new, command_key_show, command_key_fingerprint;

/* CLI_USAGE for statuses that blame the settings, CLI_FAILED for all others. */
int cli_exit_status(tg_status status);
/* The same, after printing tg_error() unless it is TG_OK. */
int cli_end(tg_status status);
/* For parsers of options: 0, or EINVAL after printing tg_error(). */
int cli_parsed(tg_status status);

#endif
