#include "net/relay.h"
#include "base/thread.h"
#include "net/forked.h"
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER ((size_t)64 << 10)
#define TURN ((size_t)256 << 10) /* bytes of one direction before others have their turn */
#define EVENTS 64

typedef struct bridge bridge;

/* One of the two sockets, and the bytes that were read from it. */
typedef struct side {
    bridge *of;
    int fd;
    uint32_t watched; /* events */
    bool ended;       /* nothing more comes from it */
    bool told;        /* the other side was told so */
    bool deaf;        /* it takes nothing any more: what is for it is thrown away */
    size_t at, len;
    uint8_t buf[BUFFER];
} side;

struct bridge {
    bridge *next;
    uint64_t pair;
    bool over;
    side side[2];
};

struct tg__relay {
    pthread_t thread;
    int epoll, wake;
    bridge *first;         /* the thread's */
    pthread_mutex_t mutex; /* of what follows */
    bool stops;
    size_t count;    /* all that are not over */
    bridge *arrived; /* the thread has not seen them yet; the oldest first */
};

static side *other(side *s)
{
    return s == &s->of->side[0] ? &s->of->side[1] : &s->of->side[0];
}

/* Take bytes from a socket. Returns false if there are none now. */
static bool take(side *s)
{
    const ssize_t n = recv(s->fd, s->buf, BUFFER, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    s->at = 0;
    s->len = n > 0 ? (size_t)n : 0;
    s->ended = n <= 0;
    return true;
}

/* Give bytes to the other socket. Returns false if it takes none now. */
static bool give(side *s)
{
    side *to = other(s);
    const ssize_t n = to->deaf ? (ssize_t)(s->len - s->at)
                               : send(to->fd, s->buf + s->at, s->len - s->at, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    if (n < 0) /* it is gone; its own direction will end, too */
        to->deaf = true;
    else
        s->at += (size_t)n;
    return true;
}

/* Move what comes from one side. */
static void move(side *s)
{
    size_t moved = 0;
    while (moved < TURN) {
        if (s->at < s->len) {
            const size_t before = s->at;
            if (!give(s))
                return;
            moved += s->at - before;
        } else if (s->ended || !take(s))
            break;
    }
    if (s->ended && s->at == s->len && !s->told) {
        (void)shutdown(other(s)->fd, SHUT_WR);
        s->told = true;
    }
}

static void watch(tg__relay *r, side *s)
{
    side *from = other(s);
    const uint32_t in = !s->ended && s->at == s->len ? (uint32_t)EPOLLIN : 0;
    const uint32_t out = from->at < from->len ? (uint32_t)EPOLLOUT : 0;
    if ((in | out) == s->watched)
        return;
    struct epoll_event e = {.events = in | out, .data.ptr = s};
    /* A socket with nothing to wait for is taken off: an error would be reported again and again.*/
    const int op = s->watched == 0 ? EPOLL_CTL_ADD : e.events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    if (epoll_ctl(r->epoll, op, s->fd, &e) != 0)
        s->of->over = true;
    s->watched = e.events;
}

static void step(tg__relay *r, bridge *b)
{
    for (int i = 0; i < 2; i++)
        move(&b->side[i]);
    for (int i = 0; i < 2; i++)
        watch(r, &b->side[i]);
    b->over |= b->side[0].told && b->side[1].told;
}

static void end(tg__relay *r, bridge *b)
{
    for (int i = 0; i < 2; i++) {
        /* Closing alone does not take it off while a process that was forked has it, too. */
        (void)epoll_ctl(r->epoll, EPOLL_CTL_DEL, b->side[i].fd, NULL);
        tg__fd_close(b->side[i].fd);
    }
    free(b);
}

/* Take on what has arrived, and release what is over. Returns true if the thread is to stop. */
static bool sweep(tg__relay *r)
{
    pthread_mutex_lock(&r->mutex);
    bridge *arrived = r->arrived;
    r->arrived = NULL;
    const bool stops = r->stops;
    pthread_mutex_unlock(&r->mutex);
    while (arrived) {
        bridge *b = arrived;
        arrived = b->next;
        for (bridge *old = r->first; old; old = old->next)
            old->over |= old->pair == b->pair;
        b->next = r->first;
        r->first = b;
        step(r, b);
    }
    size_t ended = 0;
    for (bridge **link = &r->first; *link;) {
        bridge *b = *link;
        if (!b->over && !stops) {
            link = &b->next;
            continue;
        }
        *link = b->next;
        ended++;
        end(r, b);
    }
    if (ended > 0) {
        pthread_mutex_lock(&r->mutex);
        r->count -= ended;
        pthread_mutex_unlock(&r->mutex);
    }
    return stops;
}

static void *run(void *arg)
{
    tg__relay *r = arg;
    struct epoll_event events[EVENTS];
    while (!sweep(r)) {
        const int count = epoll_wait(r->epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            side *s = events[i].data.ptr;
            uint64_t ticks;
            if (!s)
                (void)!read(r->wake, &ticks, sizeof ticks);
            else if (!s->of->over)
                step(r, s->of);
        }
    }
    return NULL;
}

static void wake(tg__relay *r)
{
    const uint64_t one = 1;
    (void)!write(r->wake, &one, sizeof one);
}

static int start_thread(tg__relay *r)
{
    const sigset_t blocked = tg__thread_signals();
    sigset_t before;
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int error = pthread_create(&r->thread, NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

tg_status tg__relay_create(tg__relay **r_p)
{
    tg__relay *r = calloc(1, sizeof *r);
    if (!r)
        return tg_fail(TG_E_NOMEM, "out of memory: relay");
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    tg__fd_lock();
    r->epoll = tg__fd_keep(epoll_create1(EPOLL_CLOEXEC));
    tg__fd_lock();
    r->wake = tg__fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    int error = 0;
    if (r->epoll < 0 || r->wake < 0 || epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->wake, &e) != 0)
        error = errno;
    pthread_mutex_init(&r->mutex, NULL);
    if (error == 0)
        error = start_thread(r);
    if (error == 0) {
        *r_p = r;
        return TG_OK;
    }
    if (r->epoll >= 0)
        tg__fd_close(r->epoll);
    if (r->wake >= 0)
        tg__fd_close(r->wake);
    pthread_mutex_destroy(&r->mutex);
    free(r);
    return tg_fail(TG_E_IO, "relay: %s", strerror(error));
}

tg_status tg__relay_add(tg__relay *r, int a, int b, uint64_t pair)
{
    bridge *made = malloc(sizeof *made);
    tg__fd_lock();
    (void)tg__fd_keep(a);
    tg__fd_lock();
    (void)tg__fd_keep(b);
    if (!made) {
        tg__fd_close(a);
        tg__fd_close(b);
        return tg_fail(TG_E_NOMEM, "out of memory: relay");
    }
    made->over = false;
    made->pair = pair;
    for (int i = 0; i < 2; i++) {
        side *s = &made->side[i];
        s->of = made;
        s->fd = i == 0 ? a : b;
        s->watched = 0;
        s->ended = s->told = s->deaf = false;
        s->at = s->len = 0;
    }
    made->next = NULL;
    pthread_mutex_lock(&r->mutex);
    bridge **end_of = &r->arrived;
    while (*end_of)
        end_of = &(*end_of)->next;
    *end_of = made;
    r->count++;
    pthread_mutex_unlock(&r->mutex);
    wake(r);
    return TG_OK;
}

bool tg__relay_is_idle(tg__relay *r)
{
    pthread_mutex_lock(&r->mutex);
    const bool idle = r->count == 0;
    pthread_mutex_unlock(&r->mutex);
    return idle;
}

void tg__relay_destroy(tg__relay *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->mutex);
    r->stops = true;
    pthread_mutex_unlock(&r->mutex);
    wake(r);
    pthread_join(r->thread, NULL);
    tg__fd_close(r->epoll);
    tg__fd_close(r->wake);
    pthread_mutex_destroy(&r->mutex);
    free(r);
}
