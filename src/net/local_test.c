/* Shared memory between two ranks of one machine: the rings; memory that is not what it is said to
 * be; a member that lies in it, or dies; too few descriptors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include "net/tcp_impl.h"
#include "telegrad/tools.h"
#include <fcntl.h>
#include <stdatomic.h>
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

/* A process of another user, forked by root. It opens nothing of this one's, nor this one of its. */
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

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Rank 0 with rank 1 by hand, which offers memory; rank 0 is driven by the test's own thread. */
typedef struct pair {
    net_job job;
    hand h;
    tg_transport *t;
    tg__local *l;
} pair;

static void pair_begin(pair *p, bool insecure)
{
    *p = (pair){.l = NULL};
    net_job_begin(&p->job, 2, insecure);
    net_rank_start(&p->job.rank[0], net_rank_stays);
    hand_call(&p->h, p->job.address[0], p->job.key[1]);
    assert_true(hand_join(&p->h, 1, "", 9));
    pthread_join(p->job.rank[0].thread, NULL);
    assert_true(p->job.rank[0].ok);
    p->t = p->job.rank[0].t;
}

static void pair_end(pair *p)
{
    tg_transport_destroy(p->t);
    tg__local_close(p->l);
    hand_end(&p->h);
    net_job_end(&p->job);
}

static void say(pair *p, int kind, uint32_t tag, size_t len, uint64_t number)
{
    uint8_t frame[TG__HEAD];
    hand_frame(frame, kind, tag, len, number);
    assert_true(hand_write(&p->h, frame, sizeof frame, 5));
}

static void offer(pair *p)
{
    tg__local_offer o;
    p->l = tg__local_make(p->h.c.stream->fd, RING, &o);
    assert_non_null(p->l);
    say(p, TG__FRAME_OFFER, o.pid, o.fd, o.number);
}

/* Rank 0's answer to the offer, by the connection: the number of LOCAL. */
static int answer(pair *p)
{
    uint8_t frame[TG__HEAD];
    size_t got = 0;
    for (const double until = hand_seconds() + 10; got < sizeof frame && hand_seconds() < until;) {
        assert_int_equal(p->t->ops->poll(p->t, tg_now_ns(p->t->clock) + 1000000), TG_OK);
        const ptrdiff_t n = tg__stream_read(p->h.c.stream, frame + got, sizeof frame - got);
        assert_true(n >= 0);
        got += (size_t)n;
    }
    assert_int_equal(got, sizeof frame);
    assert_int_equal(frame[3] >> 4, TG__FRAME_LOCAL);
    return frame[8];
}

/* Rank 0 waits for a request. Returns its status; TG_E_STATE: it is still under way. */
static tg_status wait_for(pair *p, tg_request *req, size_t *len_p)
{
    for (const double until = hand_seconds() + 10; hand_seconds() < until;) {
        bool done = false;
        const tg_status status = p->t->ops->test(p->t, req, &done, len_p);
        if (status != TG_OK || done)
            return status;
        assert_int_equal(p->t->ops->poll(p->t, tg_now_ns(p->t->clock) + 1000000), TG_OK);
    }
    return TG_E_STATE;
}

static void receive(pair *p, uint32_t tag, uint8_t *bytes, size_t len, tg_request *req)
{
    assert_int_equal(p->t->ops->post_recv(p->t, 1, tag, bytes, len, req), TG_OK);
}

static int way(const pair *p)
{
    tg_net_peer_info info = {.struct_size = sizeof info};
    assert_int_equal(tg_net_peer(p->job.rank[0].net, 1, &info), TG_OK);
    return info.way;
}

/* A message that is begun on the connection ends in memory; then the peer dies in the middle of
 * another. What it wrote before counts, and its death is noticed at once. */
static void dies_in_the_middle(void **state)
{
    (void)state;
    for (int insecure = 0; insecure < 2; insecure++) {
        uint8_t bytes[2][64] = {{0}}, frame[TG__HEAD];
        size_t len = 0;
        tg_request req[2];
        pair p;
        pair_begin(&p, insecure);
        receive(&p, 3, bytes[0], 64, &req[0]);
        receive(&p, 4, bytes[1], 64, &req[1]);
        say(&p, TG__FRAME_FIRST, 3, 32, 64);
        assert_true(hand_write(&p.h, "0123456789abcdef0123456789ABCDEF", 32, 5));
        offer(&p);
        assert_int_equal(answer(&p), 1);
        assert_int_equal(way(&p), TG_NET_DIRECT); /* only one direction has moved */
        say(&p, TG__FRAME_LOCAL, 0, 0, 1);
        hand_frame(frame, TG__FRAME_MORE, 3, 32, 0);
        assert_int_equal(tg__local_write(p.l, frame, TG__HEAD), TG__HEAD);
        assert_int_equal(tg__local_write(p.l, "fedcba9876543210FEDCBA9876543210", 32), 32);
        hand_frame(frame, TG__FRAME_FIRST, 4, 64, 64);
        assert_int_equal(tg__local_write(p.l, frame, TG__HEAD), TG__HEAD);
        assert_int_equal(tg__local_write(p.l, "half", 4), 4);
        hand_end(&p.h);
        assert_int_equal(wait_for(&p, &req[0], &len), TG_OK);
        assert_int_equal(len, 64);
        assert_memory_equal(bytes[0], "0123456789abcdef0123456789ABCDEFfedcba9876543210FEDCBA98",
                            56);
        assert_int_equal(way(&p), TG_NET_LOCAL);
        assert_int_equal(wait_for(&p, &req[1], &len), TG_E_PEER);
        pair_end(&p);
    }
}

enum lie { POSITION, FOREIGN, ON_THE_CONNECTION, AGAIN, LIES };

/* What a member does that is not allowed, once it shares memory. Rank 0 notices, and what it waits
 * for fails. */
static void lies(void **state)
{
    (void)state;
    for (int lie = 0; lie < LIES; lie++) {
        static const uint64_t far = RING + 1;
        uint8_t bytes[64], garbage[TG__HEAD];
        size_t len;
        tg_request req;
        pair p;
        tg__local_offer o;
        pair_begin(&p, false);
        p.l = tg__local_make(p.h.c.stream->fd, RING, &o);
        uint8_t *at = lay_open(&(ends){.offer = o});
        say(&p, TG__FRAME_OFFER, o.pid, o.fd, o.number);
        receive(&p, 3, bytes, 64, &req);
        assert_int_equal(answer(&p), 1);
        if (lie != AGAIN)
            say(&p, TG__FRAME_LOCAL, 0, 0, 1);
        memset(garbage, 0xee, sizeof garbage);
        if (lie == POSITION || lie == FOREIGN)
            assert_int_equal(tg__local_write(p.l, garbage, sizeof garbage), sizeof garbage);
        if (lie == POSITION)
            memcpy(at + WRITTEN, &far, 8);
        else if (lie == ON_THE_CONNECTION)
            say(&p, TG__FRAME_WANT, 3, 0, 64);
        else if (lie == AGAIN)
            say(&p, TG__FRAME_OFFER, o.pid, o.fd, o.number);
        assert_int_equal(wait_for(&p, &req, &len), TG_E_PEER);
        assert_non_null(strstr(tg_error(), "telegrad's"));
        munmap(at, MEMORY);
        pair_end(&p);
    }
}

/* Rank 0 cannot open what is offered, says so, and stays on the connection. */
static void an_offer_declined(void **state)
{
    (void)state;
    uint8_t bytes[4];
    size_t len = 0;
    tg_request req;
    pair p;
    pair_begin(&p, false);
    receive(&p, 3, bytes, 4, &req);
    say(&p, TG__FRAME_OFFER, 1, 0, 7);
    assert_int_equal(answer(&p), 0);
    say(&p, TG__FRAME_FIRST, 3, 4, 4);
    assert_true(hand_write(&p.h, "abcd", 4, 5));
    assert_int_equal(wait_for(&p, &req, &len), TG_OK);
    assert_memory_equal(bytes, "abcd", 4);
    assert_int_equal(way(&p), TG_NET_DIRECT);
    pair_end(&p);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bells_ring_when_awaited),
        cmocka_unit_test(two_threads),
        cmocka_unit_test(positions_that_cannot_be),
        cmocka_unit_test(offers_that_are_wrong),
        cmocka_unit_test(connections_that_leave_the_machine),
        cmocka_unit_test(another_user),
        cmocka_unit_test(dies_in_the_middle),
        cmocka_unit_test(lies),
        cmocka_unit_test(an_offer_declined),
        cmocka_unit_test(few_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
