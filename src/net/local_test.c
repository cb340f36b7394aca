/* Shared memory between two processes of one machine: the rings; memory that is not what it is said
 * to be; too few descriptors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include "net/local.h"
#include "telegrad/tools.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { RING = 64 << 10 };

/* Of the memory, as local.c has it: where the rings' positions are, and the ports. */
enum { PORTS = 16, WRITTEN = 64, TAKEN = 128, NEXT_RING = 128, MEMORY = 4096 + 2 * RING };

/* Two ends of a connection within this machine, and the memory that the first offers. */
typedef struct ends {
    int fd[2];
    tg__local_offer offer;
    tg__local *l[2];
} ends;

static void connect_ends(int fd[2])
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&in, &len), 0);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd[0], (struct sockaddr *)&in, sizeof in), 0);
    fd[1] = accept(listener, NULL, NULL);
    assert_true(fd[1] >= 0);
    close(listener);
}

static void begin(ends *e)
{
    *e = (ends){.fd = {-1, -1}};
    connect_ends(e->fd);
    e->l[0] = tg__local_make(e->fd[0], RING, &e->offer);
    assert_non_null(e->l[0]);
}

static void open_it(ends *e)
{
    e->l[1] = tg__local_open(e->fd[1], &e->offer);
    assert_non_null(e->l[1]);
}

static void end(ends *e)
{
    for (int i = 0; i < 2; i++) {
        tg__local_close(e->l[i]);
        close(e->fd[i]);
    }
}

/* The memory once more, for a test that writes into it what it likes. */
static uint8_t *lay_open(const ends *e)
{
    void *at = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, (int)e->offer.fd, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

static bool rings(const tg__local *l)
{
    struct pollfd p = {.fd = tg__local_bell(l), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* ---- rings ----------------------------------------------------------------------------------- */

static void bells_ring_when_awaited(void **state)
{
    (void)state;
    static uint8_t bytes[RING + 1], back[RING];
    ends e;
    begin(&e);
    open_it(&e);
    for (int from = 0; from < 2; from++) {
        tg__local *out = e.l[from], *in = e.l[!from];
        assert_int_equal(tg__local_read(in, back, 1), 0);
        assert_false(rings(in));
        assert_int_equal(tg__local_write(out, bytes, 3), 3);
        assert_true(rings(in));
        tg__local_silence(in);
        assert_int_equal(tg__local_write(out, bytes, 5), 5);
        assert_false(rings(in)); /* it is awake */
        assert_int_equal(tg__local_write(out, bytes, sizeof bytes), RING - 8);
        assert_int_equal(tg__local_write(out, bytes, 1), 0);
        assert_int_equal(tg__local_read(in, back, RING / 2 - 1), RING / 2 - 1);
        assert_false(rings(out)); /* not for a little room */
        assert_int_equal(tg__local_read(in, back, RING), RING / 2 + 1);
        assert_true(rings(out));
        tg__local_silence(out);
        assert_int_equal(tg__local_write(out, bytes, 9), 9);
        tg__local_forget(in);
        assert_int_equal(tg__local_read(in, back, 1), 0);
        tg__local_silence(in);
    }
    end(&e);
}

enum { TOTAL = 20 << 20 };

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

static void sleep_until_it_rings(tg__local *l)
{
    struct pollfd p = {.fd = tg__local_bell(l), .events = POLLIN};
    if (poll(&p, 1, 20000) == 1)
        tg__local_silence(l);
}

static void *write_all(void *arg)
{
    tg__local *l = arg;
    uint8_t bytes[3000];
    for (size_t at = 0; at < TOTAL;) {
        const size_t len = 1 + at * 7 % sizeof bytes;
        for (size_t i = 0; i < len; i++)
            bytes[i] = pattern(at + i);
        const ptrdiff_t n = tg__local_write(l, bytes, len < TOTAL - at ? len : TOTAL - at);
        if (n == 0)
            sleep_until_it_rings(l);
        at += (size_t)n;
    }
    return NULL;
}

/* No ring is missed, and no byte lost. */
static void two_threads(void **state)
{
    (void)state;
    ends e;
    uint8_t bytes[5000];
    pthread_t writer;
    begin(&e);
    open_it(&e);
    assert_int_equal(pthread_create(&writer, NULL, write_all, e.l[0]), 0);
    for (size_t at = 0; at < TOTAL;) {
        const ptrdiff_t n = tg__local_read(e.l[1], bytes, 1 + at * 13 % sizeof bytes);
        assert_true(n >= 0);
        if (n == 0)
            sleep_until_it_rings(e.l[1]);
        for (size_t i = 0; i < (size_t)n; i++, at++)
            if (bytes[i] != pattern(at))
                fail_msg("byte %zu is wrong", at);
    }
    pthread_join(writer, NULL);
    end(&e);
}

static void positions_that_cannot_be(void **state)
{
    (void)state;
    static const uint64_t wrong[] = {RING + 1, UINT64_C(1) << 63, UINT64_C(1) << 32,
                                     UINT64_MAX - RING};
    uint8_t bytes[100] = {0};
    for (size_t i = 0; i < TG_COUNT(wrong); i++) {
        ends e;
        begin(&e);
        uint8_t *at = lay_open(&e);
        open_it(&e);
        memcpy(at + WRITTEN + NEXT_RING, &wrong[i], 8); /* of what comes */
        assert_int_equal(tg__local_read(e.l[0], bytes, sizeof bytes), -1);
        memcpy(at + TAKEN, &wrong[i], 8); /* of what goes */
        assert_int_equal(tg__local_write(e.l[0], bytes, sizeof bytes), -1);
        munmap(at, MEMORY);
        end(&e);
    }
}

/* ---- what is not shared ---------------------------------------------------------------------- */

static void refuses(const ends *e)
{
    assert_null(tg__local_open(e->fd[1], &e->offer));
}

/* Offer another descriptor, with what the memory began with. */
static void refuses_memory(ends *e, int fd)
{
    uint8_t *at = lay_open(e);
    const tg__local_offer was = e->offer;
    assert_true(pwrite(fd, at, 4096, 0) == 4096);
    munmap(at, MEMORY);
    e->offer.fd = (uint32_t)fd;
    refuses(e);
    e->offer = was;
    close(fd);
}

static int memory(off_t size, int seals)
{
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0 && ftruncate(fd, size) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void offers_that_are_wrong(void **state)
{
    (void)state;
    char path[] = "/tmp/tg-local-XXXXXX";
    const int both = F_SEAL_SHRINK | F_SEAL_GROW;
    ends e, other;
    begin(&e);
    begin(&other);
    e.offer.number++;
    refuses(&e);
    e.offer.number--;
    e.offer.pid = (uint32_t)getppid();
    refuses(&e);
    e.offer.pid = UINT32_MAX;
    refuses(&e);
    e.offer.pid = (uint32_t)getpid();
    assert_null(tg__local_open(other.fd[1], &e.offer)); /* memory of another connection */
    assert_null(tg__local_open(e.fd[0], &e.offer));     /* of this end */
    refuses_memory(&e, memory(MEMORY, F_SEAL_GROW));
    refuses_memory(&e, memory(MEMORY, F_SEAL_SHRINK));
    refuses_memory(&e, memory(MEMORY - 2, both));
    refuses_memory(&e, memory(4096 + 2 * (RING + 1), both));
    refuses_memory(&e, memory(4096, both));
    refuses_memory(&e, memory((off_t)1 << 40, both));
    refuses_memory(&e, mkstemp(path));
    unlink(path);
    uint8_t *at = lay_open(&e);
    const int32_t no_bell = (int32_t)e.offer.fd;
    memcpy(at + PORTS + 4, &no_bell, 4);
    refuses(&e);
    munmap(at, MEMORY);
    end(&e);
    open_it(&other); /* nothing of this was in its way */
    end(&other);
}

static void connections_that_leave_the_machine(void **state)
{
    (void)state;
    int fd[2];
    tg__local_offer offer;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0); /* they have no addresses */
    assert_null(tg__local_make(fd[0], RING, &offer));
    close(fd[0]);
    assert_null(tg__local_make(fd[0], RING, &offer));
    close(fd[1]);
}

/* A process of another user, forked by root. Neither opens what the other offers. */
static void another_user(void **state)
{
    (void)state;
    ends e;
    int status, tell[2];
    if (geteuid() != 0)
        skip();
    begin(&e);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, tell), 0);
    const pid_t child = fork();
    if (child == 0) {
        tg__local_offer own = {.pid = 0};
        close(tell[0]);
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(2);
        tg__local *l = tg__local_open(e.fd[1], &e.offer);
        tg__local *made = tg__local_make(e.fd[0], RING, &own);
        const bool told = write(tell[1], &own, sizeof own) == sizeof own;
        (void)!read(tell[1], &own, 1); /* until the other end is closed */
        _exit(l || !made || !told ? 1 : 0);
    }
    close(tell[1]);
    assert_int_equal(read(tell[0], &e.offer, sizeof e.offer), sizeof e.offer);
    refuses(&e);
    close(tell[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    end(&e);
}

/* Half of a process's descriptors are left to its program: the others go on over connections. */
static void few_descriptors(void **state)
{
    (void)state;
    struct rlimit was, few;
    int taken[50];
    ends e;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    begin(&e);
    for (size_t i = 0; i < TG_COUNT(taken); i++)
        taken[i] = dup(e.fd[0]);
    few = was;
    few.rlim_cur = 2 * (rlim_t)taken[TG_COUNT(taken) - 1];
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    refuses(&e);
    tg__local_offer none;
    assert_null(tg__local_make(e.fd[1], RING, &none));
    net_job job;
    net_job_begin(&job, 3, false);
    net_job_run(&job, net_rank_visits);
    net_job_check(&job);
    net_job_end(&job);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    for (size_t i = 0; i < TG_COUNT(taken); i++)
        close(taken[i]);
    open_it(&e);
    end(&e);
}

/* The connection has ended: what is written later does not count, however long it goes on. */
static void what_is_written_after_the_end(void **state)
{
    (void)state;
    uint8_t bytes[100] = {1}, back[100];
    ends e;
    begin(&e);
    open_it(&e);
    assert_int_equal(tg__local_write(e.l[0], bytes, 60), 60);
    assert_int_equal(tg__local_read(e.l[1], back, 20), 20);
    tg__local_end(e.l[1]);
    assert_int_equal(tg__local_write(e.l[0], bytes, 100), 100);
    tg__local_end(e.l[1]);
    assert_int_equal(tg__local_read(e.l[1], back, 100), 40);
    assert_int_equal(tg__local_read(e.l[1], back, 100), 0);
    end(&e);
}

/* An offer names a file of the process that it is for: that is not opened, which would break the
 * process's locks when it is closed. */
static void a_file_that_is_no_memory(void **state)
{
    (void)state;
    char path[] = "/tmp/tg-local-XXXXXX";
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    ends e;
    int status = 0;
    const int file = mkstemp(path);
    assert_true(file >= 0 && fcntl(file, F_SETLK, &lock) == 0);
    begin(&e);
    const tg__local_offer wrong = {(uint32_t)getpid(), (uint32_t)file, e.offer.number};
    assert_null(tg__local_open(e.fd[1], &wrong));
    const pid_t child = fork();
    if (child == 0) /* the lock is still there */
        _exit(fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    end(&e);
    close(file);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bells_ring_when_awaited),
        cmocka_unit_test(two_threads),
        cmocka_unit_test(positions_that_cannot_be),
        cmocka_unit_test(offers_that_are_wrong),
        cmocka_unit_test(connections_that_leave_the_machine),
        cmocka_unit_test(another_user),
        cmocka_unit_test(few_descriptors),
        cmocka_unit_test(what_is_written_after_the_end),
        cmocka_unit_test(a_file_that_is_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
