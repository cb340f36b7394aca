#include "telegrad/tools.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The reason why such a file is refused; NULL: it is accepted. */
static const char *refusal(mode_t mode, tg_readable what)
{
    if (S_ISREG(mode) || (what == TG_READ_STREAM && (S_ISFIFO(mode) || S_ISCHR(mode))))
        return NULL;
    return S_ISDIR(mode)    ? "it is a directory, not a file"
           : S_ISFIFO(mode) ? "it is a FIFO, not a regular file"
           : S_ISSOCK(mode) ? "it is a socket, not a regular file"
                            : "it is a device, not a regular file";
}

static int give_up(int fd, int error, const char *why, const char **why_p)
{
    if (fd >= 0)
        close(fd);
    *why_p = why ? why : strerror(error);
    return -1;
}

/* As far as possible, check before opening, because opening a device can have effects. Check again
 * after opening, because the name may refer to another file by then. */
int tg_readfile_open(const char *path, tg_readable what, uint64_t *size_p, const char **why_p)
{
    struct stat info;
    const char *why;
    if (!path || !why_p)
        return -1;
    if (stat(path, &info) != 0)
        return give_up(-1, errno, NULL, why_p);
    if ((why = refusal(info.st_mode, what)) != NULL)
        return give_up(-1, 0, why, why_p);
    const int wait = what == TG_READ_STREAM && !S_ISREG(info.st_mode) ? 0 : O_NONBLOCK;
    int fd;
    do /* a signal may interrupt the wait for somebody who writes to a FIFO */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | wait);
    while (fd < 0 && errno == EINTR);
    if (fd < 0 || fstat(fd, &info) != 0)
        return give_up(fd, errno, NULL, why_p);
    if ((why = refusal(info.st_mode, what)) != NULL)
        return give_up(fd, 0, why, why_p);
    if (size_p)
        *size_p = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    return fd;
}
