#include "command/job/parts.h"
#include "command/help/help_text.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <string.h>

/* "codec" of "bench codec" */
static const char *short_name(const struct cli_command *part)
{
    return strchr(part->name, ' ') + 1;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "--usage") == 0;
}

int parts_run(const struct cli_command *command, int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    char list[256] = "";
    tg_nearest near;
    if (asks_for_help(what))
        return help_text(command);
    tg_nearest_begin(&near, what);
    for (size_t i = 0; command->parts[i]; i++) {
        const struct cli_command *part = command->parts[i];
        if (strcmp(what, short_name(part)) == 0)
            return part->run(argc - 1, argv + 1);
        tg_nearest_offer(&near, short_name(part), strlen(short_name(part)));
        snprintf(list + strlen(list), sizeof list - strlen(list), "%stelegrad %s", i ? ", " : "",
                 part->name);
    }
    if (argc < 2)
        console_error("%s: no subcommand: allowed: %s; see telegrad %s --help", command->name, list,
                      command->name);
    else
        console_error("%s %.64s: %sallowed: %s; see telegrad %s --help", command->name, what,
                      tg_nearest_hint(&near), list, command->name);
    return CLI_USAGE;
}
