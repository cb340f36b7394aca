#include "command/help_option.h"
#include "command/catalog/entry.h"
#include "command/help/help_completion.h"
#include "command/help/help_man.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "telegrad/tools.h"
#include "trainer/data/data.h"
#include <stdio.h>
#include <string.h>

bool help_option_is(const char *word)
{
    return strncmp(word, "--", 2) == 0;
}

static int completion(const struct cli_command *const *commands, const char *shell)
{
    if (shell && strcmp(shell, "bash") == 0) {
        help_completion_bash(commands);
        return CLI_OK;
    }
    if (shell && strcmp(shell, "zsh") == 0) {
        help_completion_zsh(commands);
        return CLI_OK;
    }
    console_error("help --completion%s%.64s: allowed: bash, zsh", shell ? " " : "",
                  shell ? shell : "");
    return CLI_USAGE;
}

static void print_data_names(void)
{
#ifdef HAVE_TRAIN
    size_t count;
    const data_set *const *sets = data_sets(&count);
    for (size_t i = 0; i < count; i++)
        puts(sets[i]->entry->name);
#endif
}

static int names(const char *kinds)
{
    size_t count;
    if (kinds && strcmp(kinds, "data") == 0) {
        print_data_names();
        return CLI_OK;
    }
    for (int kind = 0; kinds && kind < KINDS; kind++)
        if (strcmp(entry_kinds(kind), kinds) == 0) {
            const tg_entry *const *entries = entries_of(kind, &count);
            for (size_t i = 0; i < count; i++)
                puts(entries[i]->name);
            return CLI_OK;
        }
    console_error("help --names%s%.64s: allowed: methods, strategies, exchanges, codecs, "
                  "feedbacks, optimizers, lr-schedules, models, data",
                  kinds ? " " : "", kinds ? kinds : "");
    return CLI_USAGE;
}

int help_option(const struct cli_command *const *commands, int argc, char **argv)
{
    const char *value = argc > 1 ? argv[1] : NULL;
    const bool man = strcmp(argv[0], "--man") == 0;
    if (argc > (man ? 1 : 2)) {
        console_error("help %.64s takes nothing after it: \"%.64s\"", argv[0], argv[man ? 1 : 2]);
        return CLI_USAGE;
    }
    if (man) {
        help_man(commands);
        return CLI_OK;
    }
    if (strcmp(argv[0], "--completion") == 0)
        return completion(commands, value);
    if (strcmp(argv[0], "--names") == 0)
        return names(value);
    tg_nearest near;
    tg_nearest_begin(&near, argv[0]);
    tg_nearest_offer_list(&near, "--completion|--man|--names");
    console_error("help %.64s: %sallowed: a command, --completion bash|zsh, --man, --names KIND",
                  argv[0], tg_nearest_hint(&near));
    return CLI_USAGE;
}
