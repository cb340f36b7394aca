/* Ranks that leave their connection for shared memory: a message that is on its way meanwhile, a
 * peer that dies, lies, or offers what cannot be opened. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include "net/tcp_impl.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { RING = 64 << 10 };

/* Of the memory, as local.c has it: where the position of the first ring's writer is. */
enum { WRITTEN = 64, MEMORY = 4096 + 2 * RING };

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
        void *at = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, (int)o.fd, 0);
        assert_true(at != MAP_FAILED);
        say(&p, TG__FRAME_OFFER, o.pid, o.fd, o.number);
        receive(&p, 3, bytes, 64, &req);
        assert_int_equal(answer(&p), 1);
        if (lie != AGAIN)
            say(&p, TG__FRAME_LOCAL, 0, 0, 1);
        memset(garbage, 0xee, sizeof garbage);
        if (lie == POSITION || lie == FOREIGN)
            assert_int_equal(tg__local_write(p.l, garbage, sizeof garbage), sizeof garbage);
        if (lie == POSITION)
            memcpy((uint8_t *)at + WRITTEN, &far, 8);
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

/* Rank 0 leaves while the memory is full of what a dead peer will never read. */
static void leaves_a_dead_peer(void **state)
{
    (void)state;
    enum { MESSAGES = 8, LEN = 16 << 10 };
    static const uint8_t bytes[LEN];
    tg_request req[MESSAGES];
    pair p;
    pair_begin(&p, false);
    offer(&p);
    assert_int_equal(answer(&p), 1);
    say(&p, TG__FRAME_LOCAL, 0, 0, 1);
    for (uint32_t m = 0; m < MESSAGES; m++)
        assert_int_equal(p.t->ops->post_send(p.t, 1, m, bytes, LEN, &req[m]), TG_OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(p.t->ops->poll(p.t, tg_now_ns(p.t->clock) + 1000000), TG_OK);
    assert_int_equal(way(&p), TG_NET_LOCAL);
    hand_end(&p.h);
    const double start = hand_seconds();
    pair_end(&p);
    assert_true(hand_seconds() - start < 3);
}

/* A send is done once the system has its bytes: nobody need poll any more then. */
static void done_is_sent(void **state)
{
    (void)state;
    enum { MESSAGES = 40, LEN = 16 << 10, SMALL = 4096 };
    static const uint8_t bytes[LEN];
    static uint8_t waste[LEN];
    tg__local_off = true;
    for (int insecure = 0; insecure < 2; insecure++) {
        tg_request req[MESSAGES];
        bool done = true;
        size_t len = 0;
        uint32_t m = 0;
        pair p;
        pair_begin(&p, insecure);
        tg__stream *s = ((tg__tcp *)p.t)->peer[1].stream;
        const int fd = p.h.c.stream->fd;
        assert_int_equal(setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &(int){SMALL}, sizeof(int)), 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){SMALL}, sizeof(int)), 0);
        for (; done && m < MESSAGES; m++) {
            assert_int_equal(p.t->ops->post_send(p.t, 1, m, bytes, LEN, &req[m]), TG_OK);
            assert_int_equal(p.t->ops->test(p.t, &req[m], &done, &len), TG_OK);
            assert_true(!done || !tg__stream_is_full(s));
        }
        assert_false(done);
        assert_true(tg__stream_is_full(s));
        for (const double until = hand_seconds() + 10; !done && hand_seconds() < until;) {
            (void)!recv(fd, waste, sizeof waste, MSG_DONTWAIT);
            assert_int_equal(p.t->ops->poll(p.t, tg_now_ns(p.t->clock) + 1000000), TG_OK);
            assert_int_equal(p.t->ops->test(p.t, &req[m - 1], &done, &len), TG_OK);
            assert_true(!done || !tg__stream_is_full(s));
        }
        assert_true(done);
        assert_int_equal(len, LEN);
        hand_end(&p.h);
        pair_end(&p);
    }
    tg__local_off = false;
}

static int open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 1000; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Rank 2 cannot watch its connection with rank 1, after it has made memory to share with rank 0. It
 * creates its transport again. */
static void *creates_again(void *rank)
{
    net_rank *r = rank;
    suite s = {NULL, r->error};
    r->status = tg_net_join(&r->config, &r->net);
    if (r->status == TG_OK && r->config.rank == 2) {
        tg__stream *stream = r->net->stream[1];
        const int fd = stream->fd;
        stream->fd = -1;
        assert_int_equal(tg_transport_tcp(r->net, &r->t), TG_E_IO);
        stream->fd = fd;
    }
    if (r->status != TG_OK || tg_transport_tcp(r->net, &r->t) != TG_OK)
        return NULL;
    s.t = r->t;
    r->ok = suite_barrier(&s, -1);
    tg_transport_destroy(r->t);
    return NULL;
}

static void created_again(void **state)
{
    (void)state;
    net_job job;
    const int before = open_files();
    net_job_begin(&job, 3, false);
    net_job_run(&job, creates_again);
    net_job_check(&job);
    net_job_end(&job);
    assert_int_equal(open_files(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dies_in_the_middle), cmocka_unit_test(lies),
        cmocka_unit_test(an_offer_declined),  cmocka_unit_test(leaves_a_dead_peer),
        cmocka_unit_test(done_is_sent),       cmocka_unit_test(created_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
