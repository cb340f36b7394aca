#include "net/lookup.h"
#include "base/thread.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct tg__lookup {
    tg__address address;
    struct addrinfo hints;
    pthread_mutex_t mutex; /* of done and forgotten */
    bool done, forgotten;
    int fd; /* -1: no thread was needed */
    int error, system_error;
    struct addrinfo *found;
};

static void release(tg__lookup *l)
{
    if (l->found)
        freeaddrinfo(l->found);
    if (l->fd >= 0)
        close(l->fd);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

static void resolve(tg__lookup *l, int flags)
{
    char port[8];
    struct addrinfo hints = l->hints;
    hints.ai_flags |= flags;
    snprintf(port, sizeof port, "%d", l->address.port);
    l->error = getaddrinfo(*l->address.host ? l->address.host : NULL, port, &hints, &l->found);
    l->system_error = errno;
    if (l->error != 0)
        l->found = NULL;
}

static void *run(void *arg)
{
    tg__lookup *l = arg;
    const uint64_t one = 1;
    resolve(l, 0);
    pthread_mutex_lock(&l->mutex);
    const bool forgotten = l->forgotten;
    l->done = true;
    if (!forgotten)
        (void)!write(l->fd, &one, sizeof one);
    pthread_mutex_unlock(&l->mutex);
    if (forgotten)
        release(l);
    return NULL;
}

static int start_thread(tg__lookup *l)
{
    pthread_t thread;
    pthread_attr_t attributes;
    const sigset_t blocked = tg__thread_signals();
    sigset_t before;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, (size_t)512 << 10);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    error = pthread_create(&thread, &attributes, run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

tg_status tg__lookup_begin(const tg__address *a, bool passive, tg__lookup **l_p)
{
    tg__lookup *l = calloc(1, sizeof *l);
    if (!l)
        return tg_fail(TG_E_NOMEM, "out of memory: host name");
    l->address = *a;
    l->fd = -1;
    pthread_mutex_init(&l->mutex, NULL);
    l->hints = (struct addrinfo){.ai_family = AF_UNSPEC,
                                 .ai_socktype = SOCK_STREAM,
                                 .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
    resolve(l, AI_NUMERICHOST);
    l->done = l->error == 0;
    if (!l->done) {
        l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        const int error = l->fd < 0 ? errno : start_thread(l);
        if (error != 0) {
            release(l);
            return tg_fail(TG_E_NOMEM, "looking up %s: %s", a->host, strerror(error));
        }
    }
    *l_p = l;
    return TG_OK;
}

int tg__lookup_fd(const tg__lookup *l)
{
    return l->fd;
}

bool tg__lookup_is_done(tg__lookup *l)
{
    pthread_mutex_lock(&l->mutex);
    const bool done = l->done;
    pthread_mutex_unlock(&l->mutex);
    return done;
}

tg_status tg__lookup_found(const tg__lookup *l, const struct addrinfo **found_p)
{
    char text[TG__ADDRESS_MAX];
    tg__address_text(&l->address, text);
    if (l->error == 0) {
        *found_p = l->found;
        return TG_OK;
    }
    return tg_fail(l->error == EAI_AGAIN ? TG_E_PEER : TG_E_IO, "%s: %s", text,
                   l->error == EAI_SYSTEM ? strerror(l->system_error) : gai_strerror(l->error));
}

void tg__lookup_end(tg__lookup *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->mutex);
    const bool done = l->done;
    l->forgotten = true;
    pthread_mutex_unlock(&l->mutex);
    if (done)
        release(l);
}
