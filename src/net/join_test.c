/* Joining: who gets which rank, who is refused and why, and strangers at the port. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_ranks.h"
#include "transport_suite.h"
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* Leave when all have joined: who leaves before makes the others fail. */
static void leave(net_rank *r)
{
    suite s = {r->t, r->error};
    char said[sizeof r->error];
    memcpy(said, r->error, sizeof said);
    r->ok = suite_barrier(&s, -1);
    if (r->ok)
        memcpy(r->error, said, sizeof said);
    tg_transport_destroy(r->t);
}

static void *join(void *arg)
{
    net_rank *r = arg;
    if (net_rank_join(r))
        leave(r);
    return NULL;
}

static void *join_and_look(void *arg)
{
    net_rank *r = arg;
    int nodes[NET_RANKS_MAX];
    if (!net_rank_join(r))
        return NULL;
    tg_net_nodes(r->net, nodes);
    snprintf(r->error, sizeof r->error, "rank %d of %d, nodes %d %d %d", tg_net_rank(r->net),
             tg_net_size(r->net), nodes[0], nodes[1], nodes[2]);
    leave(r);
    return NULL;
}

/* As base.h says of structures that grow: a newer program's gets zeros where nothing is known. */
static void structures_of_other_versions(void **state)
{
    (void)state;
    net_job job;
    union {
        tg_net_peer_info info;
        uint8_t bytes[4097];
    } u;
    net_job_begin(&job, 1, true);
    assert_true(net_rank_join(&job.rank[0]));
    memset(&u, 7, sizeof u);
    u.info.struct_size = 4096;
    assert_int_equal(tg_net_peer(job.rank[0].net, 0, &u.info), TG_OK);
    assert_int_equal(u.info.struct_size, 4096);
    for (size_t i = sizeof u.info; i < 4096; i++)
        assert_int_equal(u.bytes[i], 0);
    assert_int_equal(u.bytes[4096], 7);
    const size_t refused[] = {0, sizeof u.info - 1, 4097};
    for (size_t i = 0; i < 3; i++) {
        u.info.struct_size = refused[i];
        assert_int_equal(tg_net_peer(job.rank[0].net, 0, &u.info), TG_E_ARG);
    }
    tg_transport_destroy(job.rank[0].t);
    net_job_end(&job);
}

/* Ranks follow the list of keys, whoever comes first; wishes come first. */
static void ranks_are_given(void **state)
{
    (void)state;
    net_job job;
    net_job_begin(&job, 4, false);
    for (int r = 1; r < 4; r++) {
        job.rank[r].config.rank = r == 3 ? 1 : 0;
        job.rank[r].config.size = 0;
    }
    net_job_run(&job, join_and_look);
    net_job_check(&job);
    assert_string_equal(job.rank[0].error, "rank 0 of 4, nodes 0 0 0");
    assert_string_equal(job.rank[1].error, "rank 2 of 4, nodes 0 0 0");
    assert_string_equal(job.rank[2].error, "rank 3 of 4, nodes 0 0 0");
    assert_string_equal(job.rank[3].error, "rank 1 of 4, nodes 0 0 0");
    net_job_end(&job);
}

static void one_rank_alone(void **state)
{
    (void)state;
    net_job job;
    net_job_begin(&job, 1, true);
    net_job_run(&job, join);
    net_job_check(&job);
    net_job_end(&job);
}

/* The meeting point and one other rank, whose settings `change` spoils. */
static void refused(void (*change)(net_job *job), tg_status status, const char *part,
                    const char *host_part)
{
    net_job job;
    net_job_begin(&job, 2, false);
    job.rank[0].config.timeout_s = 1.5;
    job.rank[1].config.timeout_s = 10;
    change(&job);
    net_job_run(&job, join);
    net_expect(&job.rank[1], status, part);
    net_expect(&job.rank[0], TG_E_PEER, host_part);
    net_job_end(&job);
}

static void with_unknown_key(net_job *job)
{
    tg_key_destroy(job->key[1]);
    assert_int_equal(tg_key_create(&job->key[1]), TG_OK);
    job->rank[1].config.key = job->key[1];
}

static void with_wrong_peer_key(net_job *job)
{
    static char text[TG_KEY_TEXT];
    tg_key_text(job->key[1], text);
    job->rank[1].config.peer_key = text;
}

static void with_other_job(net_job *job)
{
    job->rank[1].config.job = "bert";
}

static void with_other_size(net_job *job)
{
    job->rank[1].config.size = 5;
}

static void with_high_rank(net_job *job)
{
    job->rank[1].config.size = 0;
    job->rank[1].config.rank = 7;
}

static void some_are_refused(void **state)
{
    (void)state;
    refused(with_unknown_key, TG_E_PEER, "does not accept this rank's key",
            "rank-1 has not joined");
    refused(with_wrong_peer_key, TG_E_PEER, "but the expected one (peer_key) is",
            "does not accept this rank's key");
    refused(with_other_job, TG_E_MISMATCH, "job \"bert\"", "rank-1 has not joined");
    refused(with_other_size, TG_E_MISMATCH, "a job of 5 ranks", "rank-1 has not joined");
    refused(with_high_rank, TG_E_MISMATCH, "rank 7: allowed: 1 to 1", "rank-1 has not joined");
}

static void a_rank_is_taken(void **state)
{
    (void)state;
    net_job job;
    net_job_begin(&job, 4, false);
    for (int r = 0; r < 4; r++)
        job.rank[r].config.timeout_s = r == 0 ? 2 : 4;
    job.rank[2].config.rank = 1; /* as rank[1] */
    net_job_run(&job, join);
    const int loser = job.rank[1].status == TG_E_MISMATCH ? 1 : 2;
    net_expect(&job.rank[loser], TG_E_MISMATCH, "rank 1 is taken");
    net_expect(&job.rank[0], TG_E_PEER,
               loser == 1 ? "rank-1 has not joined" : "rank-2 has not joined");
    net_job_end(&job);
}

static void bad_settings(void **state)
{
    (void)state;
    net_job job;
    char port[FREE_PORTS_MAX][32], taken[48];
    net_job_begin(&job, 2, false);
    tg_net_config good = job.rank[0].config, c;
#define REFUSES(status, part)              \
    do {                                   \
        net_refuses(&c, (status), (part)); \
        c = good;                          \
    } while (0)
    c = good;
    c.struct_size = 3;
    REFUSES(TG_E_ARG, "struct_size=3");
    c.size = 0;
    REFUSES(TG_E_ARG, "size=0");
    c.size = 5000;
    REFUSES(TG_E_ARG, "size=5000");
    c.rank = 1;
    REFUSES(TG_E_ARG, "rank=1");
    c.listen = NULL;
    REFUSES(TG_E_ARG, "listen");
    c.key = NULL;
    REFUSES(TG_E_ARG, "key is NULL");
    c.allow = NULL;
    REFUSES(TG_E_ARG, "allow is NULL");
    c.insecure = true;
    REFUSES(TG_E_ARG, "must be NULL with insecure");
    c.timeout_s = -1;
    REFUSES(TG_E_ARG, "timeout_s=-1");
    static const char *const addresses[] = {"localhost:80",  "tcp://localhost", "tcp://:0",
                                            "tcp://a:70000", "udp://a:1",       "tcp://[::1:4",
                                            "tcp://::1:4",   "tcp://a b:1",     ""};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        c.listen = addresses[i];
        REFUSES(TG_E_SPEC, addresses[i]);
    }
    c.listen = "tcp://no..where:4242"; /* no name, also to machines without a network */
    REFUSES(TG_E_IO, "no..where");

    /* A port that somebody has. */
    find_ports(1, port);
    snprintf(taken, sizeof taken, "tcp://%s", port[0]);
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)atoi(strrchr(port[0], ':') + 1))};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(fd, 1), 0);
    c.listen = taken;
    REFUSES(TG_E_IO, "in use");
    close(fd);

    good = job.rank[1].config;
    c = good;
    c.peer_key = "tgk1:short";
    REFUSES(TG_E_SPEC, "tgk1:short");
    c.join = "tcp://host";
    REFUSES(TG_E_SPEC, "tcp://host");
    c.advertise = "host:1";
    REFUSES(TG_E_SPEC, "host:1");
    c.advertise = "tcp://:1";
    REFUSES(TG_E_SPEC, "advertise \"tcp://:1\": it has no host");
    c.join = "tcp://no..where:4242";
    REFUSES(TG_E_IO, "no..where");
    c.timeout_s = 0.5; /* nobody listens there */
    REFUSES(TG_E_PEER, "Connection refused");
    net_job_end(&job);
}

/* ---- stopping -------------------------------------------------------------------------------- */

typedef struct asked {
    int64_t until_ns;
    char heard[256];
} asked;

static bool stops(void *arg)
{
    return tg_now_ns(tg_clock_monotonic()) > ((asked *)arg)->until_ns;
}

static void hears(void *arg, const char *text)
{
    asked *a = arg;
    snprintf(a->heard, sizeof a->heard, "%s", text);
}

static void joining_can_be_stopped(void **state)
{
    (void)state;
    for (int r = 0; r < 2; r++) {
        net_job job;
        tg_net *net = NULL;
        net_job_begin(&job, 3, false);
        const int64_t start = tg_now_ns(tg_clock_monotonic());
        asked a = {.until_ns = start + 1500000000};
        tg_net_config *c = &job.rank[r].config;
        c->timeout_s = 60;
        c->stop = stops;
        c->on_wait = hears;
        c->stop_arg = c->on_wait_arg = &a;
        assert_int_equal(tg_net_join(c, &net), TG_E_STOPPED);
        assert_true(tg_now_ns(tg_clock_monotonic()) - start < INT64_C(20000000000));
        assert_non_null(strstr(a.heard, r == 0 ? "2 of 2 other ranks (not here: rank-1, rank-2)"
                                               : "the meeting point"));
        net_job_end(&job);
    }
}

/* ---- strangers ------------------------------------------------------------------------------- */

/* Silent connections, more than are kept; garbage; and half a greeting: the job begins all the
 * same. */
static void strangers_do_not_disturb(void **state)
{
    (void)state;
    enum { SILENT = 200 };
    static const char http[] = "GET / HTTP/1.0\r\n\r\n";
    static const char hello[] = {0x16, 3, 1, 2, 0, 1}; /* the start of a TLS handshake */
    static int fd[SILENT];
    if (!net_may_open(1024))
        skip();
    for (int insecure = 0; insecure < 2; insecure++) {
        net_job job;
        net_job_begin(&job, 3, insecure);
        net_rank_start(&job.rank[0], join);
        for (int i = 0; i < SILENT; i++) {
            fd[i] = net_connect(job.address[0]);
            assert_true(fd[i] >= 0);
            if (i % 3 == 1)
                (void)!send(fd[i], http, sizeof http - 1, MSG_NOSIGNAL);
            if (i % 3 == 2)
                (void)!send(fd[i], hello, sizeof hello, MSG_NOSIGNAL);
        }
        for (int r = 1; r < 3; r++)
            net_rank_start(&job.rank[r], join);
        for (int r = 0; r < 3; r++)
            pthread_join(job.rank[r].thread, NULL);
        for (int i = 0; i < SILENT; i++)
            close(fd[i]);
        net_job_check(&job);
        net_job_end(&job);
    }
}

/* The process may open no file any more, as from the first look on, and somebody calls. */
typedef struct scarcity {
    int caller;
    struct sockaddr_in to;
    bool begun;
} scarcity;

static bool take_files(void *arg)
{
    scarcity *s = arg;
    struct rlimit limit;
    if (s->begun)
        return false;
    s->begun = true;
    const int next = dup(s->caller);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(connect(s->caller, (struct sockaddr *)&s->to, sizeof s->to), 0);
    return false;
}

static void too_few_files(void **state)
{
    (void)state;
    net_job job;
    struct rlimit before;
    net_job_begin(&job, 2, true);
    scarcity s = {.caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                  .to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    s.to.sin_port = htons((uint16_t)atoi(strrchr(job.address[0], ':') + 1));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    net_rank *r = &job.rank[0];
    r->config.timeout_s = 0.5;
    r->config.stop = take_files;
    r->config.stop_arg = &s;
    (void)net_rank_join(r);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    net_expect(r, TG_E_PEER, "not joined within 0.5 s; this process may open only ");
    net_expect(r, TG_E_PEER, " files: ulimit -n");
    close(s.caller);
    net_job_end(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structures_of_other_versions),
        cmocka_unit_test(ranks_are_given),
        cmocka_unit_test(one_rank_alone),
        cmocka_unit_test(some_are_refused),
        cmocka_unit_test(a_rank_is_taken),
        cmocka_unit_test(bad_settings),
        cmocka_unit_test(joining_can_be_stopped),
        cmocka_unit_test(strangers_do_not_disturb),
        cmocka_unit_test(too_few_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
