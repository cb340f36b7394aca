#include "net/forked.h"
#include "net/membership.h"
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

/* Descriptors from here on are not on the list: a child keeps them open. Linux allows no more by
 * default. */
#define FDS (1 << 20)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static uint64_t kept[FDS / 64];
static int end; /* none from here on is on the list */
static int forks;

static uint64_t bit(int fd)
{
    return UINT64_C(1) << (fd % 64);
}

static void lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

/* Only close(2): the connections are the parent's, who goes on with them. */
static void forget(void)
{
    forks++;
    for (int fd = 0; fd < end; fd++)
        if (kept[fd / 64] & bit(fd)) {
            kept[fd / 64] &= ~bit(fd);
            (void)close(fd);
        }
    end = 0;
    unlock();
}

/* When the library is loaded: handlers that the program registers later run before `lock`, and a
 * thread that holds the program's locks may want this one. */
__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(lock, unlock, forget);
}

void tg__fd_lock(void)
{
    lock();
}

int tg__fd_keep(int fd)
{
    if (fd >= 0 && fd < FDS) {
        kept[fd / 64] |= bit(fd);
        if (fd >= end)
            end = fd + 1;
    }
    unlock();
    return fd;
}

void tg__fd_close(int fd)
{
    const int saved = errno;
    lock();
    const bool listed = fd >= 0 && fd < FDS && (kept[fd / 64] & bit(fd));
    if (listed)
        kept[fd / 64] &= ~bit(fd);
    if (listed || fd >= FDS)
        (void)close(fd);
    unlock();
    errno = saved;
}

int tg__forks(void)
{
    return forks;
}

bool tg__net_is_foreign(const tg_net *n)
{
    return n->forks != forks;
}

tg_status tg__net_check_own(const tg_net *n, const char *call)
{
    if (!tg__net_is_foreign(n))
        return TG_OK;
    return tg_fail(TG_E_STATE,
                   "%s: this process was forked from the one that has joined: only that one can "
                   "use its connections",
                   call);
}
