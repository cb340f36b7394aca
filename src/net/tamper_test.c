/* Somebody on the way who keeps, repeats, changes or drops bytes: nothing of it is taken for a
 * member's, and both ends learn that the other one is gone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include "transport_suite.h"
#include <stdatomic.h>

enum { KEPT_MAX = 1 << 20, CHUNK = 1 << 16 };

typedef enum deed { PASS, REPEAT, CHANGE, DROP, INSERT, CUT } deed;

/* Between rank 1 and rank 0. */
typedef struct way {
    int listener, port;
    const char *to;
    atomic_int deed; /* done to the next bytes that go to rank 0 */
    atomic_bool ends;
    uint8_t kept[KEPT_MAX]; /* bytes that went to rank 0 */
    atomic_size_t kept_len;
    pthread_t thread;
} way;

/* Forward what there is. Returns false at the end. */
static bool forward(way *w, int from, int to, bool to_zero)
{
    static uint8_t bytes[CHUNK]; /* one way at a time */
    const ssize_t n = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0)
        return true;
    if (n == 0)
        return false;
    const int what = to_zero ? atomic_exchange(&w->deed, PASS) : PASS;
    const size_t kept = atomic_load(&w->kept_len);
    if (to_zero && kept + (size_t)n <= sizeof w->kept) {
        memcpy(w->kept + kept, bytes, (size_t)n);
        atomic_store(&w->kept_len, kept + (size_t)n);
    }
    if (what == CUT || what == DROP)
        return what == DROP;
    if (what == CHANGE)
        bytes[n / 2] ^= 1;
    if (what == INSERT) /* an empty record of application data */
        (void)!send(to, "\x17\3\3\0\x11................", 22, MSG_NOSIGNAL);
    for (int i = 0; i < (what == REPEAT ? 2 : 1); i++)
        if (send(to, bytes, (size_t)n, MSG_NOSIGNAL) != n)
            return false;
    return true;
}

static void *stand_between(void *arg)
{
    way *w = arg;
    struct pollfd p[2] = {{.fd = w->listener, .events = POLLIN}, {.fd = -1}};
    while (!atomic_load(&w->ends) && poll(p, 1, 20) <= 0)
        ;
    p[0].fd = accept(w->listener, NULL, NULL);
    p[1] = (struct pollfd){.fd = net_connect(w->to), .events = POLLIN};
    while (!atomic_load(&w->ends)) {
        (void)poll(p, 2, 20);
        if (!forward(w, p[0].fd, p[1].fd, true) || !forward(w, p[1].fd, p[0].fd, false))
            break;
    }
    close(p[0].fd);
    close(p[1].fd);
    return NULL;
}

/* Messages to and fro, until one fails. */
static void *play(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    const int other = 1 - r->t->rank;
    tg_status status = TG_OK;
    r->ok = true;
    for (uint32_t i = 0; status == TG_OK && i < 200000; i++) {
        uint8_t out[300], in[300] = {0};
        tg_request sends, receives;
        suite_fill(out, sizeof out, 0, 0, i);
        status = suite_recv(&s, other, i, in, sizeof in, &receives);
        if (status == TG_OK)
            status = suite_send(&s, other, i, out, sizeof out, &sends);
        if (status == TG_OK)
            status = suite_wait(&s, &sends, NULL);
        if (status == TG_OK)
            status = suite_wait(&s, &receives, NULL);
        if (status == TG_OK && memcmp(in, out, sizeof in) != 0) {
            snprintf(r->error, sizeof r->error, "message %u was changed", i);
            r->ok = false;
            break;
        }
        if (status == TG_OK)
            usleep(200);
    }
    if (status != TG_OK)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    r->status = status;
    tg_transport_destroy(r->t);
    return NULL;
}

static void begin(way *w, net_job *job)
{
    static char address[48];
    assert_true(hand_listen("127.0.0.1", &w->listener, &w->port));
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", w->port);
    w->to = job->address[0];
    job->rank[1].config.join = address;
    for (int r = 0; r < 2; r++)
        net_rank_start(&job->rank[r], play);
    assert_int_equal(pthread_create(&w->thread, NULL, stand_between, w), 0);
}

/* The handshakes are over, and messages pass; 20 s at most. */
static void wait_for_messages(way *w)
{
    for (int tries = 0; tries < 20000 && atomic_load(&w->kept_len) <= 4000; tries++)
        usleep(1000);
    assert_true(atomic_load(&w->kept_len) > 4000);
}

static void end(way *w, net_job *job)
{
    for (int r = 0; r < 2; r++)
        pthread_join(job->rank[r].thread, NULL);
    atomic_store(&w->ends, true);
    pthread_join(w->thread, NULL);
    close(w->listener);
}

static void bytes_on_the_way(void **state)
{
    (void)state;
    static const struct {
        deed deed;
        const char *name, *part; /* what rank 0 says */
    } deeds[] = {
        {REPEAT, "repeated", "record mac"}, {CHANGE, "changed", "record mac"},
        {DROP, "dropped", "record mac"},    {INSERT, "inserted", "record mac"},
        {CUT, "cut", "its connection: "},
    };
    for (size_t i = 0; i < sizeof deeds / sizeof deeds[0]; i++) {
        way *w = calloc(1, sizeof *w);
        net_job job;
        net_job_begin(&job, 2, false);
        begin(w, &job);
        wait_for_messages(w);
        const double begun = hand_seconds();
        atomic_store(&w->deed, deeds[i].deed);
        end(w, &job);
        const double took = hand_seconds() - begun;
        for (int r = 0; r < 2; r++)
            if (!job.rank[r].ok || job.rank[r].status != TG_E_PEER || took > 5)
                fail_msg("%s: rank %d: %s: %s, after %.1f s", deeds[i].name, r,
                         tg_status_name(job.rank[r].status), job.rank[r].error, took);
        if (!strstr(job.rank[0].error, deeds[i].part))
            fail_msg("%s: %s", deeds[i].name, job.rank[0].error);
        print_message("%s: \"%s\", \"%s\", %.2f s\n", deeds[i].name, job.rank[0].error,
                      job.rank[1].error, took);
        net_job_end(&job);
        free(w);
    }
}

/* All that rank 1 ever sent is of no use to somebody who says it again: to the same keys. */
static void a_connection_played_again(void **state)
{
    (void)state;
    way *w = calloc(1, sizeof *w);
    net_job job;
    net_job_begin(&job, 2, false);
    begin(w, &job);
    wait_for_messages(w);
    atomic_store(&w->deed, CUT);
    end(w, &job);
    const size_t len = atomic_load(&w->kept_len);
    net_rank_start(&job.rank[0], net_rank_visits);
    for (int whole = 0; whole < 2; whole++) {
        const int fd = net_connect(job.address[0]);
        /* All at once; and the handshake first, then the rest. */
        const size_t first = whole ? len : 300;
        (void)!send(fd, w->kept, first, MSG_NOSIGNAL);
        usleep(50000);
        (void)!send(fd, w->kept + first, len - first, MSG_NOSIGNAL);
        assert_true(hand_is_closed(fd, 6));
        close(fd);
    }
    job.rank[1].config.join = job.address[0];
    net_rank_start(&job.rank[1], net_rank_visits);
    for (int r = 0; r < 2; r++)
        pthread_join(job.rank[r].thread, NULL);
    net_job_check(&job); /* the place was free for the real one */
    net_job_end(&job);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_on_the_way),
        cmocka_unit_test(a_connection_played_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
