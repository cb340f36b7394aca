/* How the calls in arguments.py are tried: each in a process of its own. */
#ifndef TG_TESTS_ARGUMENTS_TRY_H
#define TG_TESTS_ARGUMENTS_TRY_H

#include "arguments.h"

#include <signal.h>
#include <sys/wait.h>

enum { ARG_SECONDS = 60 }; /* time limit of a call */

typedef struct arg_call {
    const char *text; /* "tg_reducer_mean(g = NULL)" */
    int (*run)(void); /* 0: passed */
} arg_call;

/* The status must be `want`. If it is TG_E_ARG, the message must name `argument` (unless NULL). */
static inline int arg_expect(tg_status status, tg_status want, const char *function,
                             const char *argument)
{
    char text[256];
    snprintf(text, sizeof text, "%s: %s is NULL", function, argument ? argument : "");
    if (status == want && (!argument || strcmp(tg_error(), text) == 0))
        return 0;
    printf("it returned %s, \"%s\": should be %s%s%s\n", tg_status_name(status),
           status == TG_OK ? "" : tg_error(), tg_status_name(want), argument ? ", " : "",
           argument ? text : "");
    return 1;
}

/* The call must have been refused: its arguments make no sense. */
static inline int arg_refused(tg_status status)
{
    if (status != TG_OK)
        return 0;
    printf("it returned TG_OK\n");
    return 1;
}

static inline int arg_value(bool right)
{
    if (!right)
        printf("it returned another value than 0, NULL, false, \"\"\n");
    return !right;
}

static inline bool arg_try(const arg_call *call)
{
    int ended;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(ARG_SECONDS);
        const int bad = call->run();
        fflush(stdout);
        _exit(bad);
    }
    if (child < 0 || waitpid(child, &ended, 0) != child) {
        perror("fork");
        exit(3);
    }
    if (WIFSIGNALED(ended))
        printf("%s: killed by signal %d: %s\n", call->text, WTERMSIG(ended),
               strsignal(WTERMSIG(ended)));
    else if (WEXITSTATUS(ended) != 0)
        printf("%s: exit status %d\n", call->text, WEXITSTATUS(ended));
    return ended == 0;
}

/* Write the checkpoint that calls may read. This runs in a process of its own, so that the calls
 * tried later inherit no threads. */
static inline int arg_save(void)
{
    arg_need(tg_session_save(arg_session(), arg_dir, NULL, 0));
    return 0;
}

static inline int arg_try_all(const arg_call *calls, size_t count)
{
    const arg_call save = {"making a checkpoint", arg_save};
    char command[sizeof arg_dir + 16];
    size_t failed = 0;
    if (!mkdtemp(arg_dir)) {
        perror(arg_dir);
        return 3;
    }
    if (!arg_try(&save))
        return 3;
    for (size_t i = 0; i < count; i++)
        failed += !arg_try(&calls[i]);
    snprintf(command, sizeof command, "rm -rf %s", arg_dir);
    if (system(command) != 0)
        failed++;
    printf("%zu calls, %zu failed\n", count, failed);
    return failed != 0;
}

#endif
