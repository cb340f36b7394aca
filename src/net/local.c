#include "net/local.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD ((size_t)4096) /* bytes before the rings */
#define RING_MOST ((size_t)16 << 20)
#define CHUNK ((size_t)64 << 10) /* copied before the other end is told: it works meanwhile */
#define MARK UINT64_C(0x316c61636f6c6774)
#define LINE 64 /* of the cache: each has one end that writes it all the time */

enum { OFFERS, OPENS }; /* the ends */

/* In the memory. */
typedef struct ring {
    _Alignas(LINE) _Atomic uint64_t written; /* bytes so far */
    _Atomic uint32_t reader_waits;
    _Alignas(LINE) _Atomic uint64_t taken; /* bytes so far */
    _Atomic uint32_t writer_waits;
} ring;

typedef struct head {
    uint64_t mark, number;
    uint16_t port[2]; /* of the connection's ends */
    int32_t bell[2];  /* descriptors of the end that offers */
    ring ring[2];     /* which an end writes */
} head;
_Static_assert(sizeof(head) <= HEAD, "the head fits");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "no lock in one process");

struct tg__local {
    head *at;
    size_t bytes; /* of each ring */
    int end;      /* this one */
    int memory;   /* -1: nobody needs it any more */
    int bell[2];  /* that wakes an end */
    uint64_t written, taken;
    bool over; /* the other end is gone: what it had written then counts, and no more */
    uint64_t last;
};

bool tg__local_off;

/* ---- the connection -------------------------------------------------------------------------- */

static bool is_loopback(const struct in6_addr *a)
{
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

/* The address of a socket's end, an IPv4 one as IPv6 has it. */
static bool address_of(const struct sockaddr_storage *s, struct in6_addr *a, uint16_t *port)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)s;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)s;
    const bool old = s->ss_family == AF_INET;
    *a = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    if (old)
        memcpy(a->s6_addr + 12, &four->sin_addr, 4);
    else
        *a = six->sin6_addr;
    *port = ntohs(old ? four->sin_port : six->sin6_port);
    return old || s->ss_family == AF_INET6;
}

/* The ports of this end and the other. Returns false if a connection leaves the machine. */
static bool is_inside(int fd, uint16_t port[2])
{
    struct sockaddr_storage own, other;
    socklen_t own_len = sizeof own, other_len = sizeof other;
    struct in6_addr a, b;
    return !tg__local_off && getsockname(fd, (struct sockaddr *)&own, &own_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_len) == 0 &&
           address_of(&own, &a, &port[0]) && address_of(&other, &b, &port[1]) &&
           (IN6_ARE_ADDR_EQUAL(&a, &b) || (is_loopback(&a) && is_loopback(&b)));
}

/* ---- making and opening ---------------------------------------------------------------------- */

/* Programs need descriptors, too: half of them are left alone. */
static bool is_spare(int fd)
{
    struct rlimit most;
    return fd >= 0 && getrlimit(RLIMIT_NOFILE, &most) == 0 && (rlim_t)fd < most.rlim_cur / 2;
}

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static tg__local *begin(int end)
{
    tg__local *l = malloc(sizeof *l);
    if (l)
        *l = (tg__local){.at = MAP_FAILED, .end = end, .memory = -1, .bell = {-1, -1}};
    return l;
}

void tg__local_close(tg__local *l)
{
    if (!l)
        return;
    if (l->at != MAP_FAILED)
        (void)munmap(l->at, HEAD + 2 * l->bytes);
    shut(&l->memory);
    shut(&l->bell[0]);
    shut(&l->bell[1]);
    free(l);
}

static bool map(tg__local *l)
{
    l->at = mmap(NULL, HEAD + 2 * l->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                 l->memory, 0);
    return l->at != MAP_FAILED;
}

#define MEMORY "telegrad"

/* Whether a descriptor that was opened only to look is memory of telegrad's, or a pipe: opening any
 * other file, and closing it, could break leases and locks of this process. */
static bool is_ours(int look, mode_t type)
{
    static const char memory[] = "/memfd:" MEMORY, pipe[] = "pipe:";
    const char *expected = type == S_IFREG ? memory : pipe;
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/thread-self/fd/%d", look);
    return readlink(path, name, sizeof name - 1) > 0 &&
           strncmp(name, expected, strlen(expected)) == 0;
}

/* Open a descriptor of a process once more, if it is of this type and user. To look at it first has
 * no effect on whatever it is. pid 0: this process. -1: it is not. */
static int open_of(uint32_t pid, uint32_t fd, mode_t type)
{
    char path[64];
    struct stat is;
    snprintf(path, sizeof path, "/proc/%u/fd/%u", pid, fd);
    if (pid == 0)
        snprintf(path, sizeof path, "/proc/thread-self/fd/%u", fd);
    int look = open(path, O_PATH | O_CLOEXEC), opened = -1;
    if (look >= 0 && fstat(look, &is) == 0 && (is.st_mode & S_IFMT) == type &&
        is.st_uid == geteuid() && is_ours(look, type)) {
        snprintf(path, sizeof path, "/proc/thread-self/fd/%d", look);
        opened = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    }
    shut(&look);
    if (!is_spare(opened))
        shut(&opened);
    return opened;
}

/* A pipe, open in both directions: nobody gets a signal when the other end is gone. */
static int make_bell(void)
{
    int ends[2];
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0)
        return -1;
    (void)fcntl(ends[0], F_SETPIPE_SZ, 4096); /* a user's pages for pipes are limited */
    const int bell = open_of(0, (uint32_t)ends[0], S_IFIFO);
    close(ends[0]);
    close(ends[1]);
    return bell;
}

static bool make(tg__local *l, size_t bytes, const uint16_t port[2], tg__local_offer *offer)
{
    struct rlimit most;
    l->bytes = bytes;
    if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur < HEAD + 2 * bytes)
        return false; /* a signal would end the program */
    l->memory = memfd_create(MEMORY, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    *offer = (tg__local_offer){.pid = (uint32_t)getpid(), .fd = (uint32_t)l->memory};
    if (!is_spare(l->memory) || RAND_bytes((uint8_t *)&offer->number, sizeof offer->number) != 1 ||
        posix_fallocate(l->memory, 0, (off_t)(HEAD + 2 * bytes)) != 0 ||
        fcntl(l->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 || !map(l))
        return false;
    l->bell[OFFERS] = make_bell();
    l->bell[OPENS] = make_bell();
    head *h = l->at;
    h->mark = MARK;
    h->number = offer->number;
    memcpy(h->port, port, sizeof h->port);
    for (int end = 0; end < 2; end++) {
        h->bell[end] = l->bell[end];
        atomic_store(&h->ring[end].reader_waits, 1);
    }
    return l->bell[OFFERS] >= 0 && l->bell[OPENS] >= 0;
}

tg__local *tg__local_make(int fd, size_t bytes, tg__local_offer *offer)
{
    uint16_t port[2];
    tg__local *l = is_inside(fd, port) ? begin(OFFERS) : NULL;
    if (l && !make(l, bytes, port, offer)) {
        tg__local_close(l);
        return NULL;
    }
    return l;
}

void tg__local_settle(tg__local *l)
{
    shut(&l->memory);
}

static bool open_all(tg__local *l, const uint16_t port[2], const tg__local_offer *offer)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat is;
    l->memory = offer->pid == 0 ? -1 : open_of(offer->pid, offer->fd, S_IFREG);
    const int sealed = l->memory < 0 ? -1 : fcntl(l->memory, F_GET_SEALS);
    if (sealed < 0 || (sealed & seals) != seals || fstat(l->memory, &is) != 0)
        return false;
    const size_t size = (size_t)is.st_size;
    l->bytes = (size - HEAD) / 2;
    if (size <= HEAD || l->bytes > RING_MOST || (l->bytes & (l->bytes - 1)) != 0 ||
        size != HEAD + 2 * l->bytes || !map(l))
        return false;
    const head *h = l->at;
    if (h->mark != MARK || h->number != offer->number || h->port[OFFERS] != port[1] ||
        h->port[OPENS] != port[0])
        return false;
    for (int end = 0; end < 2; end++)
        l->bell[end] = open_of(offer->pid, (uint32_t)h->bell[end], S_IFIFO);
    shut(&l->memory);
    return l->bell[OFFERS] >= 0 && l->bell[OPENS] >= 0;
}

tg__local *tg__local_open(int fd, const tg__local_offer *offer)
{
    uint16_t port[2];
    tg__local *l = is_inside(fd, port) ? begin(OPENS) : NULL;
    if (l && !open_all(l, port, offer)) {
        tg__local_close(l);
        return NULL;
    }
    return l;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

int tg__local_bell(const tg__local *l)
{
    return l->bell[l->end];
}

void tg__local_silence(tg__local *l)
{
    uint8_t waste[4096];
    (void)!read(l->bell[l->end], waste, sizeof waste);
}

/* Wake the other end, if it waits. A full pipe has rung already. */
static void ring_if(tg__local *l, _Atomic uint32_t *waits)
{
    if (atomic_load(waits) && atomic_exchange(waits, 0))
        (void)!write(l->bell[!l->end], "", 1);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many of the bytes from a position on lie in one piece. */
static size_t piece(const tg__local *l, uint64_t position, size_t len)
{
    return least(len, l->bytes - (size_t)(position & (l->bytes - 1)));
}

static uint8_t *byte_at(const tg__local *l, int end, uint64_t position)
{
    return (uint8_t *)l->at + HEAD + (size_t)end * l->bytes + (position & (l->bytes - 1));
}

/* Each end first says that it waits, and then looks once more; the other end first moves on, and
 * then looks who waits. In the one order that all of this has, one of them sees the other. */
ptrdiff_t tg__local_write(tg__local *l, const void *bytes, size_t len)
{
    ring *r = &l->at->ring[l->end];
    size_t at = 0;
    while (at < len) {
        uint64_t kept = l->written - atomic_load(&r->taken);
        if (kept == l->bytes) {
            ring_if(l, &r->reader_waits);
            atomic_store(&r->writer_waits, 1);
            kept = l->written - atomic_load(&r->taken);
        }
        if (kept > l->bytes)
            return -1;
        const size_t n =
            least(piece(l, l->written, len - at), least(l->bytes - (size_t)kept, CHUNK));
        if (n == 0)
            break;
        memcpy(byte_at(l, l->end, l->written), (const uint8_t *)bytes + at, n);
        l->written += n;
        at += n;
        atomic_store(&r->written, l->written);
    }
    if (at > 0)
        ring_if(l, &r->reader_waits);
    return (ptrdiff_t)at;
}

static uint64_t end_of(const tg__local *l, ring *r)
{
    return l->over ? l->last : atomic_load(&r->written);
}

void tg__local_end(tg__local *l)
{
    if (!l->over)
        l->last = atomic_load(&l->at->ring[!l->end].written);
    l->over = true;
}

ptrdiff_t tg__local_read(tg__local *l, void *bytes, size_t len)
{
    ring *r = &l->at->ring[!l->end];
    size_t at = 0;
    while (at < len) {
        uint64_t kept = end_of(l, r) - l->taken;
        if (kept == 0 && at == 0) {
            atomic_store(&r->reader_waits, 1);
            kept = end_of(l, r) - l->taken;
        }
        if (kept > l->bytes)
            return -1;
        const size_t n = least(piece(l, l->taken, len - at), least((size_t)kept, CHUNK));
        if (n == 0)
            break;
        memcpy((uint8_t *)bytes + at, byte_at(l, !l->end, l->taken), n);
        l->taken += n;
        at += n;
        atomic_store(&r->taken, l->taken);
        if (kept - n <= l->bytes / 2) /* half of the ring is free: worth waking for */
            ring_if(l, &r->writer_waits);
    }
    return (ptrdiff_t)at;
}

void tg__local_forget(tg__local *l)
{
    ring *r = &l->at->ring[!l->end];
    l->taken = atomic_load(&r->written);
    atomic_store(&r->taken, l->taken);
    ring_if(l, &r->writer_waits);
}
