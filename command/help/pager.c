#include "command/help/pager.h"
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The shell command that shows its standard input page by page; NULL: none. */
static const char *pager_command(void)
{
    const char *own = getenv("PAGER"), *terminal = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || !terminal || strcmp(terminal, "dumb") == 0)
        return NULL;
    if (own)
        return *own && strcmp(own, "cat") != 0 ? own : NULL;
    return "if command -v less >/dev/null; then exec less; else exec cat; fi";
}

/* Start the command with `in` as its standard input. Returns its process; 0: it failed. */
static pid_t start(const char *command, int in, int other)
{
    pid_t process = 0;
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return 0;
    /* quit if all fits on the screen, show colours, and leave the text on the screen */
    (void)setenv("LESS", "FRX", 0);
    char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)command, NULL};
    if (posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO) != 0 ||
        posix_spawn_file_actions_addclose(&actions, other) != 0 ||
        posix_spawn(&process, "/bin/sh", &actions, NULL, argv, environ) != 0)
        process = 0;
    posix_spawn_file_actions_destroy(&actions);
    return process;
}

help_pager help_pager_begin(void)
{
    help_pager p = {.process = 0};
    const char *command = pager_command();
    int end[2];
    if (!command || fflush(stdout) != 0 || pipe(end) != 0)
        return p;
    p.out = dup(STDOUT_FILENO);
    p.process = p.out >= 0 ? start(command, end[0], end[1]) : 0;
    if (p.process > 0) {
        p.broken = signal(SIGPIPE, SIG_IGN); /* the user may leave before the end of the text */
        p.interrupt = signal(SIGINT, SIG_IGN);
        (void)dup2(end[1], STDOUT_FILENO);
    } else if (p.out >= 0) {
        close(p.out);
    }
    close(end[0]);
    close(end[1]);
    return p;
}

void help_pager_end(help_pager *p)
{
    if (p->process == 0)
        return;
    (void)fflush(stdout);
    __fpurge(stdout); /* what a pager that has ended did not take is no error */
    clearerr(stdout);
    (void)dup2(p->out, STDOUT_FILENO); /* closes the pipe: the pager sees the end */
    close(p->out);
    while (waitpid(p->process, NULL, 0) < 0 && errno == EINTR)
        ;
    (void)signal(SIGPIPE, p->broken);
    (void)signal(SIGINT, p->interrupt);
    p->process = 0;
}
