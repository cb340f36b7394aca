#include "bench/torch/torch_peer.h"
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { ARGUMENTS_MAX = 12 };

/* Read one line, without its newline; NULL at the end of its output. */
static char *listen_to(torch_peer *p, char *line, size_t room)
{
    if (!fgets(line, (int)room, p->in))
        return NULL;
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static tg_status spawn(torch_peer *p, const char *python, const char *const *argument)
{
    const char *argv[ARGUMENTS_MAX + 3] = {python, "-c"};
    int fds[2];
    posix_spawn_file_actions_t actions;
    for (size_t i = 0; argument[i]; i++) {
        if (i == ARGUMENTS_MAX)
            return tg_fail(TG_E_ARG, "more than %d arguments for %s", ARGUMENTS_MAX, python);
        argv[i + 2] = argument[i];
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return tg_fail(TG_E_IO, "cannot make a socket pair: %s", strerror(errno));
    p->fd = fds[0];
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    int error = posix_spawnp(&p->pid, python, &actions, NULL, (char **)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    if (error) {
        p->pid = 0;
        return tg_fail(TG_E_IO,
                       "cannot run %s: %s: install it (Debian: python3 python3-torch), or name "
                       "another by --python",
                       python, strerror(error));
    }
    p->in = fdopen(p->fd, "r");
    return p->in ? TG_OK : tg_fail(TG_E_IO, "cannot read from %s: %s", python, strerror(errno));
}

tg_status torch_peer_open(torch_peer *p, const char *python, const char *const *argument)
{
    char line[256];
    *p = (torch_peer){.fd = -1};
    TG_TRY(spawn(p, python, argument));
    const char *said = listen_to(p, line, sizeof line);
    if (said && strncmp(said, "ready ", 6) == 0)
        return TG_OK;
    return tg_fail(TG_E_IO,
                   "%s has no PyTorch (%s): install it (Debian: python3-torch), or name another "
                   "by --python",
                   python,
                   !said                               ? "it ended without a word"
                   : strncmp(said, "missing ", 8) == 0 ? said + 8
                                                       : said);
}

tg_status torch_peer_ask(torch_peer *p, const char *question, char *answer, size_t room)
{
    const size_t len = strlen(question);
    if (send(p->fd, question, len, MSG_NOSIGNAL | MSG_MORE) != (ssize_t)len ||
        send(p->fd, "\n", 1, MSG_NOSIGNAL) != 1 || !listen_to(p, answer, room))
        return tg_fail(TG_E_STATE, "PyTorch failed in \"%s\"", question);
    if (strncmp(answer, "failed ", 7) == 0)
        return tg_fail(TG_E_STATE, "PyTorch: %s", answer + 7);
    return TG_OK;
}

void torch_peer_close(torch_peer *p)
{
    if (p->in)
        fclose(p->in);
    else if (p->fd >= 0)
        close(p->fd);
    if (p->pid > 0)
        waitpid(p->pid, NULL, 0); /* it ends when its input is closed */
}
