/* A message that takes longer than the timeout, over a slow link: while its bytes move, its sender
 * is not silent. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_house.h"
#include "net_ranks.h"

enum {
    N = 300000,
    FEW = 30000,
    BYTES_PER_TICK = 16384,
    TICK_US = 120000,
    TIMEOUT_MS = 3000, /* a busy machine may stop the link for a while */
    LONG_MS = 90000
};

/* ---- the slow link --------------------------------------------------------------------------- */

typedef struct road {
    int from, to;
    atomic_int tick_us; /* for BYTES_PER_TICK bytes */
    atomic_llong bytes;
    atomic_bool blocked;
    pthread_t thread;
} road;

/* It takes one connection, and passes on what comes: up, to the address; and down. */
typedef struct slow_link {
    char address[48];
    int listener, target;
    road up, down;
    pthread_t thread;
} slow_link;

static void *pass_on(void *arg)
{
    road *r = arg;
    static _Thread_local char bytes[BYTES_PER_TICK];
    ssize_t n;
    while ((n = recv(r->from, bytes, sizeof bytes, 0)) > 0) {
        while (atomic_load(&r->blocked))
            usleep(1000);
        for (ssize_t at = 0, sent; at < n; at += sent)
            if ((sent = send(r->to, bytes + at, (size_t)(n - at), MSG_NOSIGNAL)) <= 0)
                n = sent = 0;
        atomic_fetch_add(&r->bytes, n);
        usleep((useconds_t)(atomic_load(&r->tick_us) * n / BYTES_PER_TICK));
    }
    (void)shutdown(r->from, SHUT_RDWR);
    (void)shutdown(r->to, SHUT_RDWR);
    return NULL;
}

static struct sockaddr_in local(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)port)};
}

static int small_socket(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0), bytes = BYTES_PER_TICK;
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    return fd;
}

static void *be_link(void *arg)
{
    slow_link *l = arg;
    const struct sockaddr_in to = local(l->target);
    const int caller = accept(l->listener, NULL, NULL), called = small_socket();
    if (caller < 0)
        return NULL;
    for (int tries = 0; connect(called, (const struct sockaddr *)&to, sizeof to) != 0; tries++) {
        assert_true(tries < 5000);
        usleep(1000);
    }
    l->up.from = l->down.to = caller;
    l->up.to = l->down.from = called;
    assert_int_equal(pthread_create(&l->up.thread, NULL, pass_on, &l->up), 0);
    assert_int_equal(pthread_create(&l->down.thread, NULL, pass_on, &l->down), 0);
    pthread_join(l->up.thread, NULL);
    pthread_join(l->down.thread, NULL);
    close(caller);
    close(called);
    return NULL;
}

static void link_begin(slow_link *l, const char *to)
{
    char port[FREE_PORTS_MAX][32];
    *l = (slow_link){.listener = small_socket(), .target = atoi(strrchr(to, ':') + 1)};
    find_ports(1, port);
    snprintf(l->address, sizeof l->address, "tcp://%s", port[0]);
    const struct sockaddr_in at = local(atoi(strrchr(l->address, ':') + 1));
    assert_int_equal(bind(l->listener, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(l->listener, 1), 0);
    assert_int_equal(pthread_create(&l->thread, NULL, be_link, l), 0);
}

static void link_end(slow_link *l)
{
    pthread_join(l->thread, NULL);
    close(l->listener);
}

/* ---- workers --------------------------------------------------------------------------------- */

typedef struct player {
    tg_transport *t;
    tg_session *s;
    const char *method, *strategy;
    size_t n;
    int64_t timeout_ms;
    uint32_t id;
    float *w, *g;
    tg_status status;
    char error[400];
    pthread_t thread;
} player;

/* Methods that send a vector as one message. */
static player *player_create(tg_transport *t, bool served, int64_t timeout_ms)
{
    player *p = calloc(1, sizeof *p);
    assert_non_null(p);
    *p = (player){.t = t,
                  .method = served ? "fp16:exchange=star"
                                   : "topk:density=0.5,values=f32,exchange=allgather",
                  .strategy = served ? "server" : "ssgd",
                  .n = served ? N : FEW,
                  .timeout_ms = timeout_ms,
                  .w = calloc(N, sizeof *p->w),
                  .g = calloc(N, sizeof *p->g)};
    assert_true(p->w && p->g);
    return p;
}

static tg_status begin(player *p)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = p->method,
                                      .strategy = p->strategy,
                                      .optimizer = "sgd:lr=1,momentum=0",
                                      .bucket_bytes = N * sizeof(float),
                                      .timeout_ms = p->timeout_ms};
    TG_TRY(tg_session_create(&config, p->t, &p->s));
    return one_tensor_begin(p->s, p->w, p->g, p->n, &p->id);
}

static player *arrive(tg_transport *t, int64_t timeout_ms)
{
    player *p = player_create(t, true, timeout_ms);
    if (begin(p) != TG_OK)
        fail_msg("%s", tg_error());
    return p;
}

static tg_status make_step(player *p)
{
    if (p->s == NULL)
        TG_TRY(begin(p));
    TG_TRY(tg_session_grad_wait(p->s, p->id));
    for (size_t i = 0; i < p->n; i++)
        p->g[i] = (float)(i % 7);
    TG_TRY(tg_session_grad_ready(p->s, p->id));
    TG_TRY(tg_session_step(p->s, NULL));
    return tg_session_finish(p->s);
}

static void *play(void *arg)
{
    player *p = arg;
    p->status = make_step(p);
    snprintf(p->error, sizeof p->error, "%s", tg_error());
    return NULL;
}

static void player_start(player *p)
{
    assert_int_equal(pthread_create(&p->thread, NULL, play, p), 0);
}

static void player_join(player *p)
{
    pthread_join(p->thread, NULL);
    if (p->status != TG_OK)
        fail_msg("%s", p->error);
}

static void player_end(player *p)
{
    tg_session_destroy(p->s);
    tg_transport_destroy(p->t);
    free(p->w);
    free(p->g);
    free(p);
}

/* Not by a copy of the house, which its servers are writing to. */
static tg_transport *come_by(house *h, const slow_link *l)
{
    const char *direct = h->addresses[0];
    h->addresses[0] = l->address;
    tg_transport *t = come(h);
    h->addresses[0] = direct;
    return t;
}

/* A worker's gradient takes longer than the timeouts of the server and of the worker itself. */
static void test_up(void **state)
{
    house *h = calloc(1, sizeof *h);
    slow_link l;
    (void)state;
    assert_non_null(h);
    *h = (house){.shards = 1,
                 .mode = "sync",
                 .optimizer = "sgd:lr=1,momentum=0",
                 .timeout_ms = TIMEOUT_MS,
                 .min_workers = 2};
    house_open(h);
    link_begin(&l, h->address[0]);
    player *near = arrive(come(h), LONG_MS);
    player *far = arrive(come_by(h, &l), TIMEOUT_MS);
    atomic_store(&l.up.tick_us, 2 * TICK_US);
    player_start(near);
    player_start(far);
    player_join(near);
    player_join(far);
    assert_memory_equal(near->w, far->w, N * sizeof *near->w);
    player_end(near);
    player_end(far);
    link_end(&l);
    house_close(h);
    free(h);
}

/* The server's answer takes longer than the worker's timeout. */
static void test_down(void **state)
{
    house *h = calloc(1, sizeof *h);
    slow_link l;
    (void)state;
    assert_non_null(h);
    *h = (house){.shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0"};
    house_open(h);
    link_begin(&l, h->address[0]);
    player *far = arrive(come_by(h, &l), TIMEOUT_MS);
    atomic_store(&l.down.tick_us, TICK_US);
    player_start(far);
    player_join(far);
    player_end(far);
    link_end(&l);
    house_close(h);
    free(h);
}

/* The far worker is disconnected with these words; its link stops in the middle of its gradient. */
static void fails(int timeout_ms, int tick_us, bool stops, const char *words)
{
    house *h = calloc(1, sizeof *h);
    slow_link l;
    assert_non_null(h);
    *h = (house){.shards = 1,
                 .mode = "sync",
                 .optimizer = "sgd:lr=1,momentum=0",
                 .timeout_ms = timeout_ms,
                 .min_workers = 2};
    house_open(h);
    link_begin(&l, h->address[0]);
    player *near = arrive(come(h), LONG_MS);
    player *far = arrive(come_by(h, &l), LONG_MS);
    atomic_store(&l.up.tick_us, tick_us);
    const long long before = atomic_load(&l.up.bytes);
    player_start(near);
    player_start(far);
    while (atomic_load(&l.up.bytes) < before + 8 * BYTES_PER_TICK)
        usleep(1000);
    atomic_store(&l.up.blocked, stops);
    await_event(h, words);
    atomic_store(&l.up.blocked, false);
    atomic_store(&l.up.tick_us, 0);
    pthread_join(far->thread, NULL);
    assert_int_equal(far->status, TG_E_PEER);
    house_close(h);
    pthread_join(near->thread, NULL);
    assert_int_equal(near->status, TG_E_PEER);
    player_end(near);
    player_end(far);
    link_end(&l);
    free(h);
}

/* A worker that stops in the middle of its gradient is silent. */
static void test_stops(void **state)
{
    (void)state;
    fails(TIMEOUT_MS, TICK_US, true, "sent nothing for 3.");
}

/* One that goes on for more than ten times the timeout has had its time. */
static void test_too_long(void **state)
{
    (void)state;
    fails(TIMEOUT_MS / 2, 6 * TICK_US, false, "sent nothing that was whole for 15.");
}

/* The ranks of a fixed group. */
static void test_ranks(void **state)
{
    net_job job;
    slow_link l;
    player *p[2];
    (void)state;
    net_job_begin(&job, 2, true);
    link_begin(&l, job.address[0]);
    job.rank[1].config.join = l.address;
    net_job_run(&job, net_rank_stays);
    net_job_check(&job);
    atomic_store(&l.up.tick_us, 15 * TICK_US);
    for (int r = 0; r < 2; r++)
        player_start(p[r] = player_create(job.rank[r].t, false, TIMEOUT_MS));
    for (int r = 0; r < 2; r++)
        player_join(p[r]);
    assert_memory_equal(p[0]->w, p[1]->w, FEW * sizeof *p[0]->w);
    for (int r = 0; r < 2; r++)
        player_end(p[r]);
    link_end(&l);
    net_job_end(&job);
}

static int no_memory(void **state)
{
    (void)state;
    tg__local_off = true;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_up),       cmocka_unit_test(test_down),  cmocka_unit_test(test_stops),
        cmocka_unit_test(test_too_long), cmocka_unit_test(test_ranks),
    };
    return cmocka_run_group_tests(tests, no_memory, NULL);
}
