/* Somebody on the way who keeps, repeats, changes or drops bytes: nothing of it is taken for a
 * member's, and both ends learn that the other one is gone. Rank 0 when it relays is on the way,
 * too, so this goes for what passes through it. */
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

enum { KEPT_MAX = 1 << 20, CHUNK = 1 << 16, LEGS_MAX = 4, MESSAGE = 300 };

typedef enum deed { PASS, REPEAT, CHANGE, DROP, INSERT, CUT } deed;

/* One connection. */
typedef struct leg {
    int from, to;
    uint8_t kept[KEPT_MAX]; /* bytes that went to rank 0 */
    atomic_size_t kept_len;
} leg;

/* Between rank 1 and rank 0. If rank 0 relays, the newest connection is the relayed one. */
typedef struct way {
    int listener, port;
    const char *to;
    atomic_int deed; /* done to the next bytes of the newest connection that go to rank 0 */
    atomic_bool ends;
    leg leg[LEGS_MAX];
    atomic_int legs;
    pthread_t thread;
} way;

static leg *newest(way *w)
{
    return &w->leg[atomic_load(&w->legs) - 1];
}

/* Forward what there is. Returns false at the end. */
static bool forward(way *w, leg *l, bool to_zero)
{
    const int from = to_zero ? l->from : l->to, to = to_zero ? l->to : l->from;
    static uint8_t bytes[CHUNK]; /* one way at a time */
    const ssize_t n = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0)
        return true;
    if (n == 0)
        return false;
    int what = to_zero && l == newest(w) ? atomic_exchange(&w->deed, PASS) : PASS;
    if (what == DROP && n >= 2 * MESSAGE) { /* two messages: rank 1 would have no more to send */
        atomic_store(&w->deed, DROP);
        what = PASS;
    }
    const size_t kept = atomic_load(&l->kept_len);
    if (to_zero && kept + (size_t)n <= sizeof l->kept) {
        memcpy(l->kept + kept, bytes, (size_t)n);
        atomic_store(&l->kept_len, kept + (size_t)n);
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
    struct pollfd p[1 + 2 * LEGS_MAX] = {{.fd = w->listener, .events = POLLIN}};
    while (!atomic_load(&w->ends)) {
        int legs = atomic_load(&w->legs);
        (void)poll(p, 1 + 2 * (nfds_t)legs, 20);
        if (p[0].revents && legs < LEGS_MAX) {
            leg *l = &w->leg[legs++];
            l->from = accept(w->listener, NULL, NULL);
            l->to = net_connect(w->to);
            p[2 * legs - 1] = (struct pollfd){.fd = l->from, .events = POLLIN};
            p[2 * legs] = (struct pollfd){.fd = l->to, .events = POLLIN};
            atomic_store(&w->legs, legs);
        }
        for (int i = 0; i < legs; i++)
            if (p[1 + 2 * i].fd >= 0 &&
                (!forward(w, &w->leg[i], true) || !forward(w, &w->leg[i], false))) {
                close(w->leg[i].from);
                close(w->leg[i].to);
                p[1 + 2 * i].fd = p[2 + 2 * i].fd = -1;
            }
    }
    for (int i = 1; i <= 2 * atomic_load(&w->legs); i++)
        if (p[i].fd >= 0)
            close(p[i].fd);
    return NULL;
}

static atomic_int finished; /* ranks 1 and 2, for which rank 0 relays */

/* A minute at most. */
static void relay_until_finished(void)
{
    for (int tries = 0; tries < 60000 && atomic_load(&finished) < 2; tries++)
        usleep(1000);
}

/* Messages to and fro, until one fails; among three ranks between 1 and 2. */
static void *play(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    const bool relays = r->t->size == 3 && r->t->rank == 0;
    const int other = r->t->size == 3 ? 3 - r->t->rank : 1 - r->t->rank;
    tg_status status = TG_OK;
    r->ok = true;
    if (relays)
        relay_until_finished();
    for (uint32_t i = 0; !relays && status == TG_OK && i < 200000; i++) {
        uint8_t out[MESSAGE], in[MESSAGE] = {0};
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
    atomic_fetch_add(&finished, 1);
    tg_transport_destroy(r->t);
    return NULL;
}

static void begin(way *w, net_job *job, void *(*work)(void *rank))
{
    static char address[48];
    assert_true(hand_listen("127.0.0.1", &w->listener, &w->port));
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", w->port);
    w->to = job->address[0];
    job->rank[1].config.join = address;
    atomic_store(&finished, 0);
    for (int r = 0; r < job->size; r++) {
        if (job->size == 3 && r > 0)
            job->rank[r].config.advertise = "tcp://127.0.0.1:1"; /* nobody listens there */
        net_rank_start(&job->rank[r], work);
    }
    assert_int_equal(pthread_create(&w->thread, NULL, stand_between, w), 0);
}

/* Until the handshakes of so many connections are over, and so much has passed; 20 s at most. */
static void wait_for_messages(way *w, int legs, size_t bytes)
{
    int tries = 0;
    while (tries++ < 20000 &&
           (atomic_load(&w->legs) < legs || atomic_load(&newest(w)->kept_len) <= bytes))
        usleep(1000);
    assert_true(tries <= 20000);
}

static void end(way *w, net_job *job)
{
    for (int r = 0; r < job->size; r++)
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
        begin(w, &job, play);
        wait_for_messages(w, 1, 4000);
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
    begin(w, &job, play);
    wait_for_messages(w, 1, 4000);
    atomic_store(&w->deed, CUT);
    end(w, &job);
    const size_t len = atomic_load(&newest(w)->kept_len);
    net_rank_start(&job.rank[0], net_rank_visits);
    for (int whole = 0; whole < 2; whole++) {
        const int fd = net_connect(job.address[0]);
        /* All at once; and the handshake first, then the rest. */
        const size_t first = whole ? len : 300;
        (void)!send(fd, newest(w)->kept, first, MSG_NOSIGNAL);
        usleep(50000);
        (void)!send(fd, newest(w)->kept + first, len - first, MSG_NOSIGNAL);
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

/* ---- rank 0 relays --------------------------------------------------------------------------- */

enum { PATTERN = 300000, PIECE = 16 };
static const char secret[PIECE + 1] = "abcdefgh01234567";

static bool is_relayed(const net_rank *r, int peer)
{
    tg_net_peer_info info = {.struct_size = sizeof info};
    return tg_net_peer(r->net, peer, &info) == TG_OK && info.way == TG_NET_RELAYED;
}

/* Rank 1 tells rank 2 the secret, over and over. */
static void *tell_secret(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    static _Thread_local char bytes[PATTERN];
    const int rank = r->t->rank;
    tg_request req;
    if (rank == 1)
        for (size_t i = 0; i < PATTERN; i++)
            bytes[i] = secret[i % PIECE];
    if (rank == 0)
        r->ok = true;
    else if (!is_relayed(r, 3 - rank))
        snprintf(r->error, sizeof r->error, "is not relayed");
    else if (rank == 1)
        r->ok = suite_send(&s, 2, 1, bytes, PATTERN, &req) == TG_OK &&
                suite_wait(&s, &req, NULL) == TG_OK;
    else
        r->ok = suite_recv(&s, 1, 1, bytes, PATTERN, &req) == TG_OK &&
                suite_wait(&s, &req, NULL) == TG_OK;
    for (size_t i = 0; rank == 2 && r->ok && i < PATTERN; i++)
        r->ok = bytes[i] == secret[i % PIECE];
    r->ok = r->ok && suite_barrier(&s, -1);
    tg_transport_destroy(r->t);
    return NULL;
}

/* How many places of what was kept begin 16 bytes of the secret told over and over. */
static size_t pieces_in(const leg *l)
{
    const size_t len = atomic_load(&l->kept_len);
    size_t found = 0;
    for (size_t i = 0; i + PIECE <= len; i++) {
        const char *at = memchr(secret, l->kept[i], PIECE);
        size_t same = 0;
        while (at && same < PIECE &&
               l->kept[i + same] == (uint8_t)secret[((size_t)(at - secret) + same) % PIECE])
            same++;
        found += same == PIECE;
    }
    return found;
}

/* Without keys it is there to be read. */
static void a_relay_cannot_read(void **state)
{
    (void)state;
    for (int insecure = 0; insecure < 2; insecure++) {
        way *w = calloc(1, sizeof *w);
        net_job job;
        net_job_begin(&job, 3, insecure);
        begin(w, &job, tell_secret);
        end(w, &job);
        net_job_check(&job);
        assert_true(atomic_load(&w->legs) >= 2);
        assert_true(atomic_load(&newest(w)->kept_len) > PATTERN);
        const size_t found = pieces_in(newest(w));
        if (insecure ? found < PATTERN / 2 : found > 0)
            fail_msg("%zu pieces, insecure: %d", found, insecure);
        net_job_end(&job);
        free(w);
    }
}

static void a_relay_cannot_change(void **state)
{
    (void)state;
    way *w = calloc(1, sizeof *w);
    net_job job;
    net_job_begin(&job, 3, false);
    begin(w, &job, play);
    wait_for_messages(w, 2, 100000);
    const double begun = hand_seconds();
    atomic_store(&w->deed, CHANGE);
    end(w, &job);
    const double took = hand_seconds() - begun;
    for (int r = 1; r < 3; r++)
        if (!job.rank[r].ok || job.rank[r].status != TG_E_PEER || took > 5)
            fail_msg("rank %d: %s: %s, after %.1f s", r, tg_status_name(job.rank[r].status),
                     job.rank[r].error, took);
    if (!strstr(job.rank[2].error, "record mac"))
        fail_msg("%s", job.rank[2].error);
    print_message("\"%s\", \"%s\", %.2f s\n", job.rank[1].error, job.rank[2].error, took);
    net_job_end(&job);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_on_the_way),
        cmocka_unit_test(a_connection_played_again),
        cmocka_unit_test(a_relay_cannot_read),
        cmocka_unit_test(a_relay_cannot_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
