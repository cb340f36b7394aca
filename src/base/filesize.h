/* Writing where the size of files is limited (RLIMIT_FSIZE). */
#ifndef TG_BASE_FILESIZE_H
#define TG_BASE_FILESIZE_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

/* write(2), but beyond the limit it only fails, with EFBIG: the signal that would end the program
 * (SIGXFSZ) is taken by this thread. One that was there before stays. */
static inline ssize_t tg__write(int fd, const void *bytes, size_t len)
{
    static const struct timespec now = {0, 0};
    sigset_t signals, before, pending;
    sigemptyset(&signals);
    sigaddset(&signals, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    const bool stays = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
    const ssize_t n = write(fd, bytes, len);
    const int error = errno;
    if (n < 0 && error == EFBIG && !stays)
        while (sigtimedwait(&signals, NULL, &now) < 0 && errno == EINTR)
            continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return n;
}

#endif
