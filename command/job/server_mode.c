#include "command/job/server_mode.h"
#include "command/job/spec_words.h"
#include "telegrad/server.h"
#include "telegrad/tools.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *server_mode_own(const char *text)
{
    static const char before[] = "dist_";
    const char *name = text + sizeof before - 1;
    if (strncmp(text, before, sizeof before - 1) != 0)
        return text;
    return spec_same_name(name, "sync") || spec_same_name(name, "async") ? name : text;
}

tg_status server_mode_check(const char *option, const char *text, const char *names)
{
    const size_t len = strcspn(text, ":");
    char list[64] = "", name[TG_NEAREST_WORD];
    tg_nearest near;
    snprintf(name, sizeof name, "%.*s", (int)len, text);
    tg_nearest_begin(&near, name);
    tg_nearest_offer_list(&near, names);
    for (const char *word = names; *word;) {
        const size_t n = strcspn(word, "|");
        if (n == len && strncmp(word, text, n) == 0)
            return TG_OK;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%.*s", used ? ", " : "", (int)n, word);
        word += n + (word[n] == '|');
    }
    return tg_fail(TG_E_SPEC, "--%s \"%.64s\": %sallowed: %s", option, text, tg_nearest_hint(&near),
                   list);
}

void server_mode_tell(char *text, size_t room, const char *optimizer, const char *mode,
                      double deadline_s)
{
    char deadline[40] = "";
    if (deadline_s > 0)
        snprintf(deadline, sizeof deadline, " --deadline %gs", deadline_s);
    snprintf(text, room, "%s --mode %s%s", optimizer, mode, deadline);
}

size_t server_mode_optimizer(const char *told)
{
    const char *mode = strstr(told, " --mode ");
    return mode ? (size_t)(mode - told) : strlen(told);
}

tg_status server_mode_expect(int server, const char *told, const char *expected)
{
    static const char option[] = " --mode ";
    const char *mode = strstr(told, option);
    if (!mode)
        return tg_fail(TG_E_MISMATCH,
                       "server %d does not say its mode, expected %.64s: leave out --server-mode",
                       server, expected);
    mode += sizeof option - 1;
    char theirs[SERVER_MODE_TEXT], normal[SERVER_MODE_TEXT], wanted[SERVER_MODE_TEXT];
    snprintf(theirs, sizeof theirs, "%.*s", (int)strcspn(mode, " "), mode);
    TG_TRY(tg_server_mode_normal(expected, wanted, sizeof wanted));
    if (tg_server_mode_normal(theirs, normal, sizeof normal) == TG_OK &&
        strcmp(normal, wanted) == 0)
        return TG_OK;
    return tg_fail(TG_E_MISMATCH,
                   "server %d has --mode %s, expected %.64s: give --server-mode as the server's "
                   "--mode, or leave it out",
                   server, theirs, expected);
}
