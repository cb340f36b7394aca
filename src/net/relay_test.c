/* Ranks that cannot reach each other: they say that they are reached where nobody answers, and the
 * meeting point connects them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include "telegrad/tools.h"
#include "transport_suite.h"
#include "transport_tools.h"
#include <stdatomic.h>

#define REFUSES "tcp://127.0.0.1:1" /* nobody listens there */

static void hide(net_job *job, int first, const char *address)
{
    for (int r = first; r < job->size; r++)
        job->rank[r].config.advertise = address;
}

static int way_to(const net_rank *r, int peer)
{
    tg_net_peer_info info = {.struct_size = sizeof info};
    return tg_net_peer(r->net, peer, &info) == TG_OK ? info.way : -1;
}

static void leave(net_rank *r)
{
    suite s = {r->t, r->error};
    r->ok = r->ok && suite_barrier(&s, -1);
    tg_transport_destroy(r->t);
}

/* ---- all that a transport must do ------------------------------------------------------------ */

static void *run_suite(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    bool right = true;
    for (int peer = 0; peer < r->t->size; peer++) {
        const int rank = r->t->rank, way = way_to(r, peer);
        right &= way == (peer == rank             ? TG_NET_SELF
                         : peer == 0 || rank == 0 ? TG_NET_DIRECT
                                                  : TG_NET_RELAYED);
        /* The other end of a relayed connection has proved its own key. */
        if (r->config.key && peer != rank)
            right &= tg__key_equal(&r->net->stream[peer]->peer, &r->net->member[peer].key);
    }
    r->ok = suite_run(r->t, r->error);
    if (!right)
        snprintf(r->error, sizeof r->error, "a rank is not connected as it should be");
    r->ok &= right;
    tg_transport_destroy(r->t);
    return NULL;
}

static void hidden_ranks_are_relayed(void **state)
{
    (void)state;
    for (int insecure = 0; insecure < 2; insecure++) {
        net_job job;
        net_job_begin(&job, 4, insecure);
        hide(&job, 1, REFUSES);
        net_job_run(&job, run_suite);
        net_job_check(&job);
        net_job_end(&job);
    }
}

/* ---- one way, and no answer ------------------------------------------------------------------ */

typedef struct ways {
    int to[NET_RANKS_MAX];
    double seconds;
} ways;
static ways seen[NET_RANKS_MAX];

static void *look_at_ways(void *arg)
{
    net_rank *r = arg;
    const double start = hand_seconds();
    if (!net_rank_join(r))
        return NULL;
    ways *w = &seen[r->t->rank];
    w->seconds = hand_seconds() - start;
    for (int peer = 0; peer < r->t->size; peer++)
        w->to[peer] = way_to(r, peer);
    r->ok = true;
    leave(r);
    return NULL;
}

/* Rank 1 cannot be reached, but reaches the others: it calls back. */
static void the_lower_rank_calls_back(void **state)
{
    (void)state;
    for (int insecure = 0; insecure < 2; insecure++) {
        net_job job;
        net_job_begin(&job, 4, insecure);
        job.rank[1].config.advertise = REFUSES;
        net_job_run(&job, look_at_ways);
        net_job_check(&job);
        for (int r = 1; r < 4; r++)
            for (int peer = 0; peer < 4; peer++)
                assert_int_equal(seen[r].to[peer], r == peer ? TG_NET_SELF : TG_NET_DIRECT);
        net_job_end(&job);
    }
}

/* A port whose queue is full gives no answer, as a firewall that drops packets. Another one is
 * somebody else's, who says nothing. */
static void unanswered_calls_end(void **state)
{
    (void)state;
    int full, silent, port, other, fill[8];
    char dropped[48], mute[48];
    net_job job;
    net_job_begin(&job, 4, false);
    assert_true(hand_listen("127.0.0.1", &full, &port));
    assert_int_equal(listen(full, 0), 0);
    snprintf(dropped, sizeof dropped, "tcp://127.0.0.1:%d", port);
    assert_true((fill[0] = net_connect(dropped)) >= 0);
    for (int i = 1; i < 8; i++) { /* until no more are answered */
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                 .sin_port = htons((uint16_t)port)};
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fill[i], (struct sockaddr *)&in, sizeof in);
    }
    assert_true(hand_listen("127.0.0.1", &silent, &other));
    snprintf(mute, sizeof mute, "tcp://127.0.0.1:%d", other);
    hide(&job, 1, dropped);
    job.rank[3].config.advertise = mute; /* rank 1 and 2 call it back */
    net_job_run(&job, look_at_ways);
    net_job_check(&job);
    for (int r = 1; r < 4; r++) {
        for (int peer = 1; peer < 4; peer++)
            assert_int_equal(seen[r].to[peer], r == peer ? TG_NET_SELF : TG_NET_RELAYED);
        print_message("rank %d: joined after %.1f s\n", r, seen[r].seconds);
        assert_true(seen[r].seconds < 15);
    }
    for (int i = 0; i < 8; i++)
        close(fill[i]);
    close(full);
    close(silent);
    net_job_end(&job);
}

/* ---- the meeting point computes -------------------------------------------------------------- */

enum { ROUNDS = 200 };
static atomic_int finished; /* ranks that have done what another one waits for */

/* At most a minute. */
static void wait_until_done(int count)
{
    for (int tries = 0; tries < 60000 && atomic_load(&finished) < count; tries++)
        usleep(1000);
}

/* Ranks 1 and 2 go on while rank 0 does nothing for the transport. */
static void *exchange_alone(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    const double start = hand_seconds();
    r->ok = true;
    if (r->t->rank == 0)
        wait_until_done(2);
    for (uint32_t i = 0; i < ROUNDS && r->ok && r->t->rank > 0; i++) {
        static _Thread_local uint8_t out[100000], in[100000];
        const int peer = 3 - r->t->rank;
        tg_request reqs[2];
        suite_fill(out, sizeof out, r->t->rank, peer, i);
        r->ok = suite_recv(&s, peer, 4, in, sizeof in, &reqs[0]) == TG_OK &&
                suite_send(&s, peer, 4, out, sizeof out, &reqs[1]) == TG_OK &&
                suite_wait_all(&s, reqs, 2) && suite_is_filled(in, sizeof in, peer, r->t->rank, i);
    }
    seen[r->t->rank].seconds = hand_seconds() - start;
    if (r->t->rank > 0)
        atomic_fetch_add(&finished, 1);
    leave(r);
    return NULL;
}

static void relayed_ranks_do_not_wait_for_rank_0(void **state)
{
    (void)state;
    net_job job;
    net_job_begin(&job, 3, false);
    hide(&job, 1, REFUSES);
    atomic_store(&finished, 0);
    net_job_run(&job, exchange_alone);
    net_job_check(&job);
    assert_true(seen[0].seconds < 60); /* it has not waited in vain */
    print_message("%d rounds in %.2f s\n", ROUNDS, seen[1].seconds);
    net_job_end(&job);
}

/* ---- a receiver that does not read ----------------------------------------------------------- */

enum { BIG = 48 << 20 };

/* Rank 1 sends rank 2 much that it does not read for a while; rank 3's messages pass all
 * the same. */
static void *hold_up(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    const int rank = r->t->rank;
    uint8_t *big = malloc(BIG);
    tg_request req;
    r->ok = big != NULL;
    if (rank == 1 && r->ok) {
        suite_fill(big, BIG, 1, 2, 0);
        r->ok = suite_send(&s, 2, 1, big, BIG, &req) == TG_OK;
    }
    const double start = hand_seconds();
    if (rank == 2)
        wait_until_done(2);
    for (uint32_t i = 0; i < 20 && r->ok && (rank == 1 || rank == 3); i++) {
        uint8_t out[500], in[500];
        tg_request pair[2];
        suite_fill(out, sizeof out, rank, 4 - rank, i);
        r->ok = suite_recv(&s, 4 - rank, 7, in, sizeof in, &pair[0]) == TG_OK &&
                suite_send(&s, 4 - rank, 7, out, sizeof out, &pair[1]) == TG_OK &&
                suite_wait_all(&s, pair, 2) && suite_is_filled(in, sizeof in, 4 - rank, rank, i);
    }
    seen[rank].seconds = hand_seconds() - start;
    if (rank == 1 || rank == 3)
        atomic_fetch_add(&finished, 1);
    if (rank == 2 && r->ok)
        r->ok = suite_recv(&s, 1, 1, big, BIG, &req) == TG_OK &&
                suite_wait(&s, &req, NULL) == TG_OK && suite_is_filled(big, BIG, 1, 2, 0);
    if (rank == 1 && r->ok)
        r->ok = suite_wait(&s, &req, NULL) == TG_OK;
    leave(r);
    free(big);
    return NULL;
}

static void a_slow_receiver_holds_up_nobody_else(void **state)
{
    (void)state;
    net_job job;
    net_job_begin(&job, 4, true);
    hide(&job, 1, REFUSES);
    atomic_store(&finished, 0);
    net_job_run(&job, hold_up);
    net_job_check(&job);
    assert_true(seen[2].seconds < 60);
    net_job_end(&job);
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* Rank `leaver` leaves, in order or not; rank 1 waits for rank 2. */
static int leaver;
static bool in_order;

static void *be_left(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    char byte;
    tg_request req;
    r->ok = true;
    if (r->t->rank == leaver) {
        usleep(300000);
        if (in_order)
            r->t->ops->blame(r->t, r->t->rank);
        else /* as if the process died */
            for (int peer = 0; peer < r->t->size; peer++)
                if (r->net->stream[peer])
                    shutdown(r->net->stream[peer]->fd, SHUT_RDWR);
        if (!in_order && leaver == 0)
            tg__relay_destroy(r->net->relay), r->net->relay = NULL;
    } else if (r->t->rank == 1) {
        const double start = hand_seconds();
        r->ok = suite_recv(&s, 2, 5, &byte, 1, &req) == TG_OK &&
                suite_wait(&s, &req, NULL) == TG_E_PEER;
        snprintf(r->error, sizeof r->error, "%s", tg_error());
        seen[1].seconds = hand_seconds() - start;
        seen[1].to[2] = r->t->ops->blamed(r->t, 2);
    } else
        usleep(1000000);
    tg_transport_destroy(r->t);
    return NULL;
}

static void leaving_is_told(void **state)
{
    (void)state;
    static const struct {
        int leaver;
        bool in_order;
        int blamed;
        const char *says;
    } cases[] = {
        {2, true, 2, "rank 2 has left"},
        {2, false, TG_BLAMED_NOBODY,
         "rank 2 has left: its connection, relayed by rank 0: it closed"},
        {0, false, 0, "rank 0, which relayed messages to rank 2, has left"},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++)
        for (int insecure = 0; insecure < 2; insecure++) {
            net_job job;
            leaver = cases[i].leaver;
            in_order = cases[i].in_order;
            net_job_begin(&job, 3, insecure);
            hide(&job, 1, REFUSES);
            net_job_run(&job, be_left);
            net_job_check(&job);
            if (!strstr(job.rank[1].error, cases[i].says))
                fail_msg("%s; expected %s", job.rank[1].error, cases[i].says);
            assert_int_equal(seen[1].to[2], cases[i].blamed);
            assert_true(seen[1].seconds < 2);
            net_job_end(&job);
        }
}

/* ---- who may use it -------------------------------------------------------------------------- */

static void *join_only(void *arg)
{
    net_rank *r = arg;
    if (net_rank_join(r)) {
        r->ok = true;
        leave(r);
    }
    return NULL;
}

/* While ranks ask to be relayed, strangers, and members with another job's nonce or another rank's
 * number, are turned away. */
static void only_members_are_relayed(void **state)
{
    (void)state;
    net_job job;
    tg_key_pair *stranger;
    hand two, h;
    uint8_t nonce[TG__NONCE_BYTES];
    char address[TG__ADDRESS_MAX];
    assert_int_equal(tg_key_create(&stranger), TG_OK);
    net_job_begin(&job, 3, false);
    job.rank[1].config.advertise = REFUSES;
    for (int r = 0; r < 2; r++)
        net_rank_start(&job.rank[r], join_only);
    hand_call(&two, job.address[0], job.key[2]); /* rank 2 is played by hand */
    assert_true(hand_join(&two, 2, "", 1));
    hand_roster(&two, 1, nonce, address);
    const struct {
        const tg_key_pair *key;
        int from, to;
        bool other_nonce, welcome;
    } asks[] = {
        {stranger, 2, 1, false, false},   {job.key[1], 2, 1, false, false},
        {job.key[2], 2, 1, true, false},  {job.key[2], 2, 0, false, false},
        {job.key[2], 2, 2, false, false}, {job.key[2], 2, 1, false, true},
    };
    for (size_t i = 0; i < TG_COUNT(asks); i++) {
        uint8_t body[TG__PAIR_BYTES];
        tg__pack p = {.at = body, .end = body + sizeof body};
        tg__pack_bytes(&p, asks[i].other_nonce ? (const uint8_t *)"0123456789abcdef" : nonce, 16);
        tg__pack_number(&p, 4, (uint64_t)asks[i].from);
        tg__pack_number(&p, 4, (uint64_t)asks[i].to);
        hand_call(&h, job.address[0], asks[i].key);
        const bool answered = hand_ask(&h, TG__SAID_RELAY, body, sizeof body);
        const bool welcome = answered && tg__caller_kind(&h.c) == TG__SAID_BRIDGED;
        if (welcome != asks[i].welcome)
            fail_msg("ask %zu: %d", i, welcome);
        hand_end(&h);
    }
    hand_end(&two);
    for (int r = 0; r < 2; r++)
        pthread_join(job.rank[r].thread, NULL);
    assert_int_equal(job.rank[0].status, TG_E_PEER);
    assert_non_null(strstr(job.rank[0].error, "rank 2 has left while ranks connected"));
    assert_int_equal(job.rank[1].status, TG_E_PEER);
    assert_non_null(strstr(job.rank[1].error, "the meeting point has left"));
    tg_key_destroy(stranger);
    net_job_end(&job);
}

/* ---- the relay alone ------------------------------------------------------------------------- */

static void pair_of(int fd[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
}

/* Its memory is bounded: who sends to one that does not read is held up. Ends pass one by one. */
static void relays_are_bounded(void **state)
{
    (void)state;
    enum { MANY = 64 };
    static uint8_t bytes[1 << 16];
    tg__relay *r;
    int a[MANY][2], b[MANY][2];
    if (!net_may_open(1024))
        skip();
    size_t taken = 0;
    assert_int_equal(tg__relay_create(&r), TG_OK);
    for (int i = 0; i < MANY; i++) {
        pair_of(a[i]);
        pair_of(b[i]);
        assert_int_equal(tg__relay_add(r, a[i][1], b[i][0], (uint64_t)i), TG_OK);
    }
    for (int idle = 0; idle < 50;) {
        const ssize_t n = send(a[0][0], bytes, sizeof bytes, MSG_NOSIGNAL);
        taken += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        usleep(n > 0 ? 0 : 2000);
    }
    assert_true(taken < 4 << 20);
    for (int i = 1; i < MANY; i++) { /* the others are not held up */
        char byte = 0;
        struct pollfd p = {.fd = b[i][1], .events = POLLIN};
        assert_int_equal(send(a[i][0], &i, 1, 0), 1);
        assert_int_equal(poll(&p, 1, 2000), 1);
        assert_int_equal(recv(b[i][1], &byte, 1, 0), 1);
        assert_int_equal(byte, i);
    }
    /* One end says that it is done; what it sent before arrives, and the other still answers. */
    assert_int_equal(shutdown(a[0][0], SHUT_WR), 0);
    size_t got = 0;
    for (;;) {
        struct pollfd p = {.fd = b[0][1], .events = POLLIN};
        assert_int_equal(poll(&p, 1, 2000), 1);
        const ssize_t n = recv(b[0][1], bytes, sizeof bytes, 0);
        assert_true(n >= 0);
        if (n == 0)
            break;
        got += (size_t)n;
    }
    assert_int_equal(got, taken);
    assert_int_equal(send(b[0][1], "bye", 3, 0), 3);
    struct pollfd p = {.fd = a[0][0], .events = POLLIN};
    assert_int_equal(poll(&p, 1, 2000), 1);
    assert_int_equal(recv(a[0][0], bytes, sizeof bytes, 0), 3);
    for (int i = 0; i < MANY; i++) {
        close(b[i][1]);
        assert_true(hand_is_closed(a[i][0], 2));
        assert_false(tg__relay_is_idle(r));
        close(a[i][0]);
    }
    for (int tries = 0; tries < 1000 && !tg__relay_is_idle(r); tries++)
        usleep(2000);
    assert_true(tg__relay_is_idle(r));
    tg__relay_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relays_are_bounded),
        cmocka_unit_test(hidden_ranks_are_relayed),
        cmocka_unit_test(the_lower_rank_calls_back),
        cmocka_unit_test(unanswered_calls_end),
        cmocka_unit_test(relayed_ranks_do_not_wait_for_rank_0),
        cmocka_unit_test(a_slow_receiver_holds_up_nobody_else),
        cmocka_unit_test(leaving_is_told),
        cmocka_unit_test(only_members_are_relayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
