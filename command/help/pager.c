#include "command/help/pager.h"
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool disabled;

void help_pager_disable(void)
{
    disabled = true;
}

/* The shell command that shows its standard input page by page; NULL: none. */
static const char *pager_command(void)
{
    const char *own = getenv("PAGER"), *terminal = getenv("TERM");
    if (disabled || !isatty(STDOUT_FILENO) || !terminal || strcmp(terminal, "dumb") == 0)
        return NULL;
    if (own)
        return *own && strcmp(own, "cat") != 0 ? own : NULL;
    return "if command -v less >/dev/null; then exec less; else exec cat; fi";
}

/* Run the command with `in` as its standard input. Returns its exit status; NOT_STARTED: it failed,
 * or a shell could not find or execute it. */
#define NOT_STARTED 127
#define NOT_EXECUTABLE 126
static int show(const char *command, int in)
{
    pid_t process = 0;
    int status = 0;
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return NOT_STARTED;
    /* quit if all fits on the screen, show colours, and leave the text on the screen */
    (void)setenv("LESS", "FRX", 0);
    char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)command, NULL};
    const bool started = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO) == 0 &&
                         posix_spawn(&process, "/bin/sh", &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    if (!started)
        return NOT_STARTED;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

help_pager help_pager_begin(void)
{
    help_pager p = {.command = pager_command()};
    if (!p.command || fflush(stdout) != 0 || !(p.text = tmpfile()))
        return p;
    p.out = dup(STDOUT_FILENO);
    if (p.out >= 0 && dup2(fileno(p.text), STDOUT_FILENO) >= 0)
        return p;
    if (p.out >= 0)
        close(p.out);
    fclose(p.text);
    p.text = NULL;
    return p;
}

/* Print the text without a pager. */
static void print(FILE *text)
{
    char part[4096];
    rewind(text);
    for (size_t n; (n = fread(part, 1, sizeof part, text)) > 0;)
        fwrite(part, 1, n, stdout);
}

void help_pager_end(help_pager *p)
{
    if (!p->text)
        return;
    (void)fflush(stdout);
    (void)dup2(p->out, STDOUT_FILENO);
    close(p->out);
    rewind(p->text);
    void (*const interrupt)(int) = signal(SIGINT, SIG_IGN); /* it is the pager's */
    const int status = show(p->command, fileno(p->text));
    (void)signal(SIGINT, interrupt);
    if (status == NOT_STARTED || status == NOT_EXECUTABLE)
        print(p->text);
    fclose(p->text);
    p->text = NULL;
}
