/* Strangers at a port, where ranks join and where ranks connect with each other; and ranks that are
 * not what they should be. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include <errno.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

/* The ranks that have not started yet do, and the job is whole. */
static void goes_on(net_job *job, int from)
{
    for (int r = from; r < job->size; r++)
        net_rank_start(&job->rank[r], net_rank_visits);
    for (int r = 0; r < job->size; r++)
        pthread_join(job->rank[r].thread, NULL);
    net_job_check(job);
    net_job_end(job);
}

/* ---- another TLS ----------------------------------------------------------------------------- */

static int accept_any(X509_STORE_CTX *ctx, void *arg)
{
    (void)arg;
    X509_STORE_CTX_set_error(ctx, X509_V_OK);
    return 1;
}

/* Everything as here, but an older version. */
static SSL_CTX *old_tls(const tg_key_pair *key)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    X509 *x = X509_new();
    assert_true(ctx && x);
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -100);
    X509_gmtime_adj(X509_getm_notAfter(x), 10000);
    X509_set_pubkey(x, key->pair);
    assert_true(X509_sign(x, key->pair, NULL) > 0);
    assert_true(SSL_CTX_use_certificate(ctx, x) && SSL_CTX_use_PrivateKey(ctx, key->pair));
    X509_free(x);
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_cert_verify_callback(ctx, accept_any, NULL);
    return ctx;
}

/* The right key does not help. */
static void tls_1_2_is_refused(void **state)
{
    (void)state;
    net_job job;
    net_job_begin(&job, 2, false);
    net_rank_start(&job.rank[0], net_rank_visits);
    SSL_CTX *ctx = old_tls(job.key[1]);
    SSL *ssl = SSL_new(ctx);
    const int fd = net_connect(job.address[0]);
    SSL_set_fd(ssl, fd);
    assert_true(SSL_connect(ssl) <= 0);
    assert_true(hand_is_closed(fd, 2));
    SSL_free(ssl);
    close(fd);
    goes_on(&job, 1);

    /* Whoever calls finds such a meeting point out at once. */
    net_job_begin(&job, 2, false);
    int listener, port, at;
    char address[48];
    assert_true(hand_listen("127.0.0.1", &listener, &port));
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
    job.rank[1].config.join = address;
    SSL_CTX *old = old_tls(job.key[0]);
    ssl = SSL_new(old);
    const double before = hand_seconds();
    net_rank_start(&job.rank[1], net_rank_visits);
    struct pollfd p = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 5000), 1);
    at = accept(listener, NULL, NULL);
    SSL_set_fd(ssl, at);
    assert_true(SSL_accept(ssl) <= 0);
    pthread_join(job.rank[1].thread, NULL);
    net_expect(&job.rank[1], TG_E_PEER, "protocol version");
    assert_true(hand_seconds() - before < 10);
    SSL_free(ssl);
    SSL_CTX_free(old);
    SSL_CTX_free(ctx);
    close(at);
    close(listener);
    net_job_end(&job);
}

/* ---- many and slow --------------------------------------------------------------------------- */

/* They cost little memory, and the job begins all the same. */
static void thousand_idle_connections(void **state)
{
    (void)state;
    enum { IDLE = 1000 };
    static int fd[IDLE];
    if (!net_may_open(4096) && !net_may_open(2048))
        skip();
    net_job job;
    net_job_begin(&job, 3, false);
    const double before = hand_memory();
    net_rank_start(&job.rank[0], net_rank_visits);
    for (int i = 0; i < IDLE; i++)
        assert_true((fd[i] = net_connect(job.address[0])) >= 0);
    const double grown = hand_memory() - before;
    print_message("1,000 idle connections: %.1f MiB\n", grown);
    assert_true(!HAND_MEMORY_COUNTS || grown < 32);
    goes_on(&job, 1);
    for (int i = 0; i < IDLE; i++)
        close(fd[i]);
}

/* 64 that have begun a handshake, or a message, and one that sends a byte a second: each is closed
 * after the time that the first message may take, and a rank that joins beside them is not held up.
 * With keys, and without. */
static void half_open_ones_are_closed(void **state)
{
    (void)state;
    enum { HALF = TG__HALF_OPEN };
    static const uint8_t hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    static const uint8_t head[] = "tgnet\1\1";
    static int fd[2][HALF];
    if (!net_may_open(1024))
        skip();
    bool closed[2][HALF] = {{false}};
    net_job job[2];
    for (int k = 0; k < 2; k++) {
        net_job_begin(&job[k], 3, k == 1);
        net_rank_start(&job[k].rank[0], net_rank_visits);
        for (int i = 0; i < HALF; i++) {
            assert_true((fd[k][i] = net_connect(job[k].address[0])) >= 0);
            const size_t len = i == 0 ? 1 : k == 0 ? sizeof hello : sizeof head;
            assert_true(send(fd[k][i], k == 0 ? hello : head, len, MSG_NOSIGNAL) > 0);
        }
    }
    const double begun = hand_seconds();
    int left = 2 * HALF;
    size_t sent = 1;
    for (int tick = 0; left > 0 && tick < 100; tick++) {
        if (tick % 10 == 9) {
            for (int k = 0; k < 2; k++)
                (void)!send(fd[k][0], (k == 0 ? hello : head) + sent, 1, MSG_NOSIGNAL);
            sent++;
        }
        if (tick == 10) /* one comes, and the other one later */
            for (int k = 0; k < 2; k++)
                net_rank_start(&job[k].rank[1], net_rank_visits);
        usleep(100000);
        for (int i = 0; i < 2 * HALF; i++) {
            char waste[64];
            bool *c = &closed[i / HALF][i % HALF];
            const ssize_t n = recv(fd[i / HALF][i % HALF], waste, sizeof waste, MSG_DONTWAIT);
            const bool ends = !*c && (n == 0 || (n < 0 && errno != EAGAIN));
            *c |= ends;
            left -= ends;
        }
    }
    const double lasted = hand_seconds() - begun;
    print_message("all closed after %.1f s\n", lasted);
    if (left > 0)
        fail_msg("%d are open after %.1f s", left, lasted);
    for (int k = 0; k < 2; k++) {
        net_rank_start(&job[k].rank[2], net_rank_visits);
        for (int r = 0; r < 3; r++)
            pthread_join(job[k].rank[r].thread, NULL);
        net_job_check(&job[k]);
        net_job_end(&job[k]);
        for (int i = 0; i < HALF; i++)
            close(fd[k][i]);
    }
}

/* ---- the first message ----------------------------------------------------------------------- */

/* Whoever says this instead of JOIN is turned away, and the job begins all the same. */
static void other_first_messages(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *answer; /* NULL: closed without one */
    } said[] = {
        {"GET / HTTP/1.0\r\n\r\n", 18, NULL},
        {"tgnet\1\1\0\xff\xff\xff\xff", 12, NULL},                 /* 4 GiB follow */
        {"tgnet\1\1\0\1\4\0\0", 12, NULL},                         /* one byte more than allowed */
        {"tgnet\1\1\0\0\0\0\0", 12, "malformed"},                  /* nothing follows */
        {"tgnet\1\4\0\3\0\0\0abc", 15, "malformed"},               /* HELLO */
        {"tgnet\1\15\0\3\0\0\0abc", 15, "not a parameter server"}, /* ENTER */
        {"tgnet\1\xff\xff\3\0\0\0abc", 15, "malformed"},           /* no kind */
        {"tgnet\2\1\0\3\0\0\0abc", 15, NULL},                      /* another version */
    };
    net_job job;
    net_job_begin(&job, 2, true);
    net_rank_start(&job.rank[0], net_rank_visits);
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        char answer[512] = "";
        const int fd = net_connect(job.address[0]);
        assert_int_equal(send(fd, said[i].bytes, said[i].len, MSG_NOSIGNAL), said[i].len);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 3000), 1);
        const ssize_t n = recv(fd, answer, sizeof answer - 1, 0);
        for (ssize_t k = 0; k < n; k++)
            answer[k] = answer[k] ? answer[k] : ' ';
        if (said[i].answer ? !strstr(answer, said[i].answer) : n > 12)
            fail_msg("message %zu: answer \"%s\"", i, answer);
        assert_true(hand_is_closed(fd, 2));
        close(fd);
    }
    goes_on(&job, 1);
}

/* A worker that takes rank 0 for a server is told so at once. With keys, and without. */
static void a_worker_of_servers(void **state)
{
    (void)state;
    for (int insecure = 0; insecure < 2; insecure++) {
        net_job job;
        net_job_begin(&job, 2, insecure == 1);
        char key[TG_KEY_TEXT] = "";
        const char *const servers[] = {job.address[0]}, *const keys[] = {key};
        tg_net *net;
        if (!insecure)
            tg_key_text(job.key[0], key);
        const tg_net_attach_config config = {.struct_size = sizeof config,
                                             .count = 1,
                                             .servers = servers,
                                             .server_keys = insecure ? NULL : keys,
                                             .key = insecure ? NULL : job.key[1],
                                             .insecure = insecure == 1,
                                             .timeout_s = 60};
        net_rank_start(&job.rank[0], net_rank_visits);
        const double before = hand_seconds();
        assert_int_equal(tg_net_attach(&config, &net), TG_E_MISMATCH);
        assert_true(hand_seconds() - before < 30);
        assert_non_null(strstr(tg_error(), "refuses: this is rank 0 of a job with a fixed group, "
                                           "not a parameter server"));
        goes_on(&job, 1);
    }
}

/* Ranks of two versions both say so, and at once. */
static void another_version_is_named(void **state)
{
    (void)state;
    static const char newer[] = "tgnet\7\2\0\0\0\0\0";
    net_job job;
    net_job_begin(&job, 2, true);
    net_rank_start(&job.rank[0], net_rank_visits);
    char answer[12];
    int fd = net_connect(job.address[0]);
    assert_int_equal(send(fd, newer, 12, MSG_NOSIGNAL), 12);
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), 12); /* its version is in it */
    assert_memory_equal(answer, "tgnet\1", 6);
    assert_true(hand_is_closed(fd, 2));
    close(fd);
    goes_on(&job, 1);

    net_job_begin(&job, 2, true);
    char address[48];
    int listener, port;
    assert_true(hand_listen("127.0.0.1", &listener, &port));
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
    job.rank[1].config.join = address;
    net_rank_start(&job.rank[1], net_rank_visits);
    struct pollfd p = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 5000), 1);
    fd = accept(listener, NULL, NULL);
    assert_int_equal(send(fd, newer, 12, MSG_NOSIGNAL), 12);
    pthread_join(job.rank[1].thread, NULL);
    net_expect(&job.rank[1], TG_E_PEER, "speaks version 7 of the protocol, and this rank 1");
    close(fd);
    close(listener);
    net_job_end(&job);
}

/* A key that is on the list here, in another job; and a rank that somebody has. */
static void other_jobs_and_twins(void **state)
{
    (void)state;
    net_job job;
    hand h;
    net_job_begin(&job, 3, false);
    net_rank_start(&job.rank[0], net_rank_visits);
    hand_call(&h, job.address[0], job.key[1]);
    assert_true(hand_join(&h, 1, "another", 9));
    assert_int_equal(tg__caller_kind(&h.c), TG__SAID_REFUSED);
    hand_end(&h);
    hand_call(&h, job.address[0], job.key[1]); /* a terminal would obey it */
    assert_true(hand_join(&h, 1, "\033[2Jred", 9));
    assert_int_equal(tg__caller_kind(&h.c), TG__SAID_REFUSED);
    assert_non_null(memmem(h.c.body, h.c.body_len, "malformed", 9));
    hand_end(&h);
    hand_call(&h, job.address[0], job.key[1]);
    assert_true(hand_join(&h, 1,
                          "\xc2\x9b"
                          "2J",
                          9));
    assert_non_null(memmem(h.c.body, h.c.body_len, "malformed", 9));
    hand_end(&h);
    net_rank_start(&job.rank[1], net_rank_visits);
    usleep(300000);
    hand_call(&h, job.address[0], job.key[2]);
    assert_true(hand_join(&h, 1, "", 9));
    assert_int_equal(tg__caller_kind(&h.c), TG__SAID_REFUSED);
    assert_non_null(memmem(h.c.body, h.c.body_len, "rank 1 is taken", 15));
    hand_end(&h);
    goes_on(&job, 2);
}

/* ---- where ranks connect with each other ----------------------------------------------------- */

/* Rank 2 is played by hand. Rank 1 lets nobody in but the one that it was told of, with the nonce
 * of this job, as the right rank, and only once. */
static void ranks_accept_who_is_on_the_roster(void **state)
{
    (void)state;
    net_job job;
    tg_key_pair *stranger;
    hand two, h;
    uint8_t nonce[TG__NONCE_BYTES], other[TG__NONCE_BYTES] = {0};
    char address[TG__ADDRESS_MAX];
    assert_int_equal(tg_key_create(&stranger), TG_OK);
    net_job_begin(&job, 3, false);
    net_rank_start(&job.rank[0], net_rank_visits);
    net_rank_start(&job.rank[1], net_rank_visits);
    hand_call(&two, job.address[0], job.key[2]);
    assert_true(hand_join(&two, 2, "", 9));
    hand_roster(&two, 1, nonce, address);

    const int fd = net_connect(address); /* garbage */
    assert_true(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
    assert_true(hand_is_closed(fd, 2));
    close(fd);
    hand_call(&h, address, stranger); /* the nonce is of no use without a key */
    assert_false(hand_hello(&h, nonce, 2, 1));
    hand_end(&h);
    hand_call(&h, address, job.key[0]); /* rank 0 does not call */
    assert_false(hand_hello(&h, nonce, 2, 1));
    hand_end(&h);
    hand_call(&h, address, job.key[1]); /* nor does rank 1 itself */
    assert_false(hand_hello(&h, nonce, 2, 1));
    hand_end(&h);
    hand_call(&h, address, job.key[2]); /* another job's nonce */
    assert_false(hand_hello(&h, other, 2, 1));
    hand_end(&h);
    hand_call(&h, address, job.key[2]); /* ranks that it is not, or that are not there */
    assert_false(hand_hello(&h, nonce, 1, 1));
    hand_end(&h);
    hand_call(&h, address, job.key[2]);
    assert_false(hand_hello(&h, nonce, 3, 1));
    hand_end(&h);
    hand_call(&h, address, job.key[2]);
    assert_false(hand_hello(&h, nonce, 2, 0));
    hand_end(&h);
    hand_call(&h, address, job.key[2]);
    assert_true(hand_hello(&h, nonce, 2, 1));
    assert_true(hand_begin(&two));
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1))};
    usleep(300000); /* the job is whole: nobody listens any more */
    const int late = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_not_equal(connect(late, (struct sockaddr *)&in, sizeof in), 0);
    close(late);
    hand_end(&two);
    hand_end(&h);
    for (int r = 0; r < 2; r++)
        pthread_join(job.rank[r].thread, NULL);
    assert_int_equal(job.rank[1].status, TG_OK); /* rank 2 left before the barrier, of course */
    tg_key_destroy(stranger);
    net_job_end(&job);
}

/* ---- IPv6 ------------------------------------------------------------------------------------ */

static void ipv6(void **state)
{
    (void)state;
    int fd, port;
    if (!hand_listen("::1", &fd, &port))
        skip();
    close(fd);
    char listens[64];
    snprintf(listens, sizeof listens, "tcp://[::1]:%d", port);
    net_job job;
    net_job_begin(&job, 3, false);
    job.rank[0].config.listen = listens;
    for (int r = 1; r < 3; r++)
        job.rank[r].config.join = listens;
    net_rank_start(&job.rank[0], net_rank_visits);
    goes_on(&job, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tls_1_2_is_refused),
        cmocka_unit_test(thousand_idle_connections),
        cmocka_unit_test(half_open_ones_are_closed),
        cmocka_unit_test(other_first_messages),
        cmocka_unit_test(a_worker_of_servers),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(other_jobs_and_twins),
        cmocka_unit_test(ranks_accept_who_is_on_the_roster),
        cmocka_unit_test(ipv6),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
