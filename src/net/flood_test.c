/* Floods of connections at a rank that joins, and many ranks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include "telegrad/tools.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>

/* ---- strangers ------------------------------------------------------------------------------- */

typedef enum words { NOTHING, GARBAGE, HALF_A_HELLO, WHOLE_HELLO } words;

typedef struct flood {
    const char *from, *to; /* addresses; to: "tcp://127.0.0.1:PORT" */
    words says;
    int rate; /* connections a second, at most */
    atomic_bool ends;
    atomic_long count;
    pthread_t thread;
} flood;

/* A whole greeting of TLS 1.3: X25519, Ed25519. */
static const uint8_t whole_hello[181] = {
    0x16, 0x03, 0x01, 0x00, 0xb0, 0x01, 0x00, 0x00, 0xac, 0x03, 0x03, 0x97, 0x8c, 0xd3, 0x1c, 0xab,
    0xa8, 0xc8, 0xe2, 0x1e, 0x85, 0xda, 0x6d, 0xcb, 0x9e, 0xde, 0x36, 0x12, 0x9b, 0x67, 0x83, 0xf0,
    0x05, 0x96, 0x1e, 0x83, 0x5c, 0xbe, 0x39, 0xe2, 0xe3, 0xd9, 0xec, 0x20, 0x51, 0x7d, 0xb4, 0x50,
    0x3a, 0xe1, 0xd5, 0x89, 0x96, 0xc2, 0x53, 0x42, 0x48, 0x5d, 0x7c, 0x32, 0x52, 0xad, 0x27, 0xb3,
    0x8e, 0xc5, 0xd3, 0x5e, 0x2e, 0x09, 0x02, 0x51, 0x2c, 0x05, 0x6d, 0x1e, 0x00, 0x08, 0x13, 0x02,
    0x13, 0x03, 0x13, 0x01, 0x00, 0xff, 0x01, 0x00, 0x00, 0x5b, 0x00, 0x0b, 0x00, 0x04, 0x03, 0x00,
    0x01, 0x02, 0x00, 0x0a, 0x00, 0x04, 0x00, 0x02, 0x00, 0x1d, 0x00, 0x23, 0x00, 0x00, 0x00, 0x16,
    0x00, 0x00, 0x00, 0x17, 0x00, 0x00, 0x00, 0x0d, 0x00, 0x04, 0x00, 0x02, 0x08, 0x07, 0x00, 0x2b,
    0x00, 0x03, 0x02, 0x03, 0x04, 0x00, 0x2d, 0x00, 0x02, 0x01, 0x01, 0x00, 0x33, 0x00, 0x26, 0x00,
    0x24, 0x00, 0x1d, 0x00, 0x20, 0x97, 0x2f, 0xd1, 0x7e, 0x89, 0x57, 0xee, 0x91, 0x6f, 0x4f, 0x89,
    0x3b, 0xd1, 0x9c, 0xdf, 0x9a, 0xdb, 0x20, 0xed, 0x55, 0x86, 0x04, 0xfa, 0xa7, 0xad, 0xfe, 0x93,
    0x15, 0xe5, 0xde, 0x52, 0x46};

static void *pour(void *arg)
{
    flood *f = arg;
    enum { OPEN = 3000 };
    static const uint8_t hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    static int fd[OPEN];
    const struct linger at_once = {.l_onoff = 1};
    struct sockaddr_in from = {.sin_family = AF_INET}, to = from;
    inet_pton(AF_INET, f->from, &from.sin_addr);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(strrchr(f->to, ':') + 1));
    const double begun = hand_seconds();
    memset(fd, 0, sizeof fd);
    for (long i = 0; !atomic_load(&f->ends); i++) {
        int *at = &fd[i % OPEN];
        if (*at > 0) { /* no port stays in use */
            (void)setsockopt(*at, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            close(*at);
        }
        *at = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (*at < 0 || bind(*at, (struct sockaddr *)&from, sizeof from) != 0)
            continue;
        (void)connect(*at, (struct sockaddr *)&to, sizeof to);
        if (f->says == GARBAGE)
            (void)!send(*at, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
        if (f->says == HALF_A_HELLO)
            (void)!send(*at, hello, sizeof hello, MSG_NOSIGNAL);
        if (f->says == WHOLE_HELLO)
            (void)!send(*at, whole_hello, sizeof whole_hello, MSG_NOSIGNAL);
        atomic_fetch_add(&f->count, 1);
        while (!atomic_load(&f->ends) && (double)i > (hand_seconds() - begun) * f->rate)
            usleep(200);
    }
    for (int i = 0; i < OPEN; i++)
        if (fd[i] > 0)
            close(fd[i]);
    return NULL;
}

static void begin_flood(flood *f, const char *from, const char *to, words says)
{
    *f = (flood){.from = from, .to = to, .says = says, .rate = says == WHOLE_HELLO ? 8000 : 20000};
    assert_int_equal(pthread_create(&f->thread, NULL, pour, f), 0);
}

static double end_flood(flood *f, double since)
{
    const double rate = (double)atomic_load(&f->count) / (hand_seconds() - since);
    atomic_store(&f->ends, true);
    pthread_join(f->thread, NULL);
    return rate;
}

static const char *const said[] = {"nothing", "garbage", "half a greeting", "a greeting"};

/* A member far away, whose messages take 100 ms each, keeps its place while strangers at another
 * address connect 20,000 times a second. Those who send whole greetings connect 8,000 times a
 * second, and it calls several times. */
static bool shakes_hands(hand *h, const net_job *job)
{
    hand_call(h, job->address[0], job->key[1]);
    while (h->c.state != TG__CALLER_TALKS) {
        usleep(100000);
        if (!tg__caller_step(&h->c))
            return false;
    }
    return true;
}

/* Returns false if the member lost its place. */
static bool keeps_its_place(words what)
{
    net_job job;
    hand h;
    flood f;
    net_job_begin(&job, 2, false);
    net_rank_start(&job.rank[0], net_rank_visits);
    close(net_connect(job.address[0]));
    const double begun = hand_seconds();
    begin_flood(&f, "127.0.0.2", job.address[0], what);
    usleep(500000);
    bool kept = true;
    for (int calls = what == WHOLE_HELLO ? 4 : 1; calls > 0 && kept; calls--) {
        kept = shakes_hands(&h, &job);
        if (!kept)
            print_message("%s: %s\n", said[what], h.c.why);
        if (calls > 1 || !kept)
            hand_end(&h);
    }
    if (kept) {
        usleep(100000);
        assert_true(hand_join(&h, 1, "", 9));
    }
    print_message("strangers say %s: %.0f connections a second\n", said[what],
                  end_flood(&f, begun));
    if (!kept)
        assert_true(shakes_hands(&h, &job) && hand_join(&h, 1, "", 9));
    assert_int_equal(tg__caller_kind(&h.c), TG__SAID_ROSTER);
    hand_end(&h);
    pthread_join(job.rank[0].thread, NULL);
    net_job_end(&job);
    return kept;
}

/* With a probability of 1/256 the two addresses are of one class to the door, as if they were
 * one. */
static void a_distant_member_keeps_its_place(void **state)
{
    (void)state;
    for (words what = NOTHING; what <= WHOLE_HELLO; what++)
        assert_true(keeps_its_place(what) || keeps_its_place(what));
}

/* Where members and strangers share an address, members join all the same, after a while. */
static void members_at_the_same_address_join(void **state)
{
    (void)state;
    for (words what = NOTHING; what <= HALF_A_HELLO; what++) {
        net_job job;
        flood f;
        net_job_begin(&job, 3, false);
        job.rank[0].config.timeout_s = 60;
        net_rank_start(&job.rank[0], net_rank_visits);
        close(net_connect(job.address[0]));
        const double begun = hand_seconds();
        begin_flood(&f, "127.0.0.1", job.address[0], what);
        usleep(500000);
        const double from = hand_seconds();
        for (int r = 1; r < 3; r++) {
            job.rank[r].config.timeout_s = 60;
            net_rank_start(&job.rank[r], net_rank_visits);
        }
        for (int r = 0; r < 3; r++)
            pthread_join(job.rank[r].thread, NULL);
        const double took = hand_seconds() - from;
        print_message("strangers say %s: %.0f connections a second, joined in %.2f s\n", said[what],
                      end_flood(&f, begun), took);
        net_job_check(&job);
        net_job_end(&job);
    }
}

/* ---- many ranks ------------------------------------------------------------------------------ */

enum { CROWD = 120 };

static void many_ranks(void **state)
{
    (void)state;
    struct rlimit limit;
    static net_rank rank[CROWD];
    char port[FREE_PORTS_MAX][32], address[48];
    pthread_attr_t small;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < CROWD * CROWD + 6 * CROWD)
        skip(); /* not enough descriptors for all in one process */
    find_ports(1, port);
    snprintf(address, sizeof address, "tcp://%s", port[0]);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 512 << 10), 0);
    const double begun = hand_seconds();
    for (int r = 0; r < CROWD; r++) {
        rank[r] = (net_rank){.config = {.struct_size = sizeof rank[r].config,
                                        .listen = r == 0 ? address : NULL,
                                        .join = r == 0 ? NULL : address,
                                        .size = CROWD,
                                        .insecure = true,
                                        .timeout_s = 60}};
        assert_int_equal(pthread_create(&rank[r].thread, &small, net_rank_visits, &rank[r]), 0);
    }
    for (int r = 0; r < CROWD; r++)
        pthread_join(rank[r].thread, NULL);
    print_message("%d ranks joined and left in %.1f s\n", CROWD, hand_seconds() - begun);
    for (int r = 0; r < CROWD; r++)
        if (!rank[r].ok)
            fail_msg("rank %d: %s", r, rank[r].error);
    pthread_attr_destroy(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_distant_member_keeps_its_place),
        cmocka_unit_test(members_at_the_same_address_join),
        cmocka_unit_test(many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
