/* Members that are slow, deaf or flood: others go on, in bounded memory, and no wait passes its
 * deadline. Rank 0, and where there are three rank 1, are real; the last one is played by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net/tcp_impl.h"
#include "net_ranks.h"
#include "transport_suite.h"
#include <errno.h>

/* Rank 0 with rank 1 by hand; rank 0's transport is used by the test's own thread. */
typedef struct pair {
    net_job job;
    hand h;
    tg_transport *t;
} pair;

static void begin(pair *p, bool insecure)
{
    net_job_begin(&p->job, 2, insecure);
    net_rank_start(&p->job.rank[0], net_rank_stays);
    hand_call(&p->h, p->job.address[0], p->job.key[1]);
    assert_true(hand_join(&p->h, 1, "", 9));
    pthread_join(p->job.rank[0].thread, NULL);
    assert_true(p->job.rank[0].ok);
    p->t = p->job.rank[0].t;
}

static void end(pair *p)
{
    tg_transport_destroy(p->t);
    hand_end(&p->h);
    net_job_end(&p->job);
}

/* Let rank 0 work for so long. No call may take noticeably longer than it was allowed. Returns true
 * once the request fails, with TG_E_PEER. */
static bool works(pair *p, tg_request *req, double seconds)
{
    tg_status status = TG_OK;
    for (const double until = hand_seconds() + seconds; hand_seconds() < until;) {
        bool done = false;
        size_t len;
        const double before = hand_seconds();
        assert_int_equal(p->t->ops->poll(p->t, tg_now_ns(p->t->clock) + 2000000), TG_OK);
        const double took = hand_seconds() - before;
        if (took > 3)
            fail_msg("poll was to take 0.002 s, and took %.1f s", took);
        status = req ? p->t->ops->test(p->t, req, &done, &len) : TG_OK;
        if (status != TG_OK) {
            assert_int_equal(status, TG_E_PEER);
            return true;
        }
    }
    return false;
}

/* Post a receive of this tag. */
static void expects(pair *p, uint32_t tag, tg_request *req)
{
    static char bytes[64];
    assert_int_equal(p->t->ops->post_recv(p->t, 1, tag, bytes, sizeof bytes, req), TG_OK);
}

/* ---- deaf ------------------------------------------------------------------------------------ */

/* Messages for a rank that reads nothing wait in the caller's memory only; leaving it takes as long
 * as a rank waits for what is on its way. */
static void one_that_never_reads(void **state)
{
    (void)state;
    enum { MANY = 400, LEN = 1 << 20 };
    tg_request *reqs = calloc(MANY, sizeof *reqs);
    uint8_t *bytes = malloc(LEN);
    memset(bytes, 7, LEN);
    pair p;
    begin(&p, false);
    const double before = hand_memory();
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(p.t->ops->post_send(p.t, 1, i, bytes, LEN, &reqs[i]), TG_OK);
    assert_false(works(&p, &reqs[MANY - 1], 1));
    const double grown = hand_memory() - before, begun = hand_seconds();
    end(&p);
    const double took = hand_seconds() - begun;
    print_message("400 messages of 1 MiB to a deaf rank: %.1f MiB more, left after %.1f s\n", grown,
                  took);
    assert_true(!HAND_MEMORY_COUNTS || grown < 8);
    assert_true(took < 8);
    free(reqs);
    free(bytes);
}

/* ---- slow ------------------------------------------------------------------------------------ */

static void *destroy(void *t)
{
    tg_transport_destroy(t);
    return NULL;
}

/* Read until the end, 10 s at most. Returns how many messages of so many bytes came before BYE; -1:
 * something else came, or no BYE. */
static int read_to_bye(hand *h, size_t len)
{
    uint8_t frame[16 + 1024];
    int count = 0;
    size_t have = 0;
    for (const double until = hand_seconds() + 10; hand_seconds() < until;) {
        const size_t want = have < 16 || frame[3] >> 4 == TG__FRAME_BYE ? 16 : 16 + len;
        if (have == want && want == 16)
            return frame[3] >> 4 == TG__FRAME_BYE ? count : -1;
        struct pollfd p = {.fd = h->c.stream->fd, .events = POLLIN};
        const ptrdiff_t n = tg__stream_read(h->c.stream, frame + have, want - have);
        if (n < 0)
            return -1;
        if (n == 0)
            (void)poll(&p, 1, 50);
        have += (size_t)n;
        if (have == 16 + len) {
            count++;
            have = 0;
        }
    }
    return -1;
}

static size_t waiting(const tg__peer *p)
{
    return p->stream->out_len - p->stream->out_at;
}

/* Rank 1 pauses while rank 0's last messages are on their way, and rank 0 leaves: they arrive all
 * the same, and so does its goodbye. */
static void one_that_pauses(void **state)
{
    (void)state;
    enum { MANY = 20000, LEN = 1000 };
    static uint8_t bytes[LEN];
    static tg_request reqs[MANY];
    for (int insecure = 0; insecure < 2; insecure++) {
        pair p;
        pthread_t leaves;
        begin(&p, insecure);
        const tg__peer *one = &((tg__tcp *)p.t)->peer[1];
        uint32_t sent = 0;
        while (waiting(one) < TG__STREAM_OUT / 2) {
            for (; sent < MANY && waiting(one) < TG__STREAM_OUT / 2; sent++) {
                bool done = false;
                size_t len;
                assert_int_equal(p.t->ops->post_send(p.t, 1, sent, bytes, LEN, &reqs[sent]), TG_OK);
                assert_int_equal(p.t->ops->test(p.t, &reqs[sent], &done, &len), TG_OK);
                assert_true(done || waiting(one) > 0); /* the stream has it */
            }
            assert_true(sent < MANY);
            assert_false(works(&p, NULL, 0.05)); /* the system may take more yet */
        }
        const double begun = hand_seconds();
        assert_int_equal(pthread_create(&leaves, NULL, destroy, p.t), 0);
        usleep(700000);
        assert_int_equal(read_to_bye(&p.h, LEN), sent);
        pthread_join(leaves, NULL);
        assert_true(hand_seconds() - begun < 4);
        hand_end(&p.h);
        net_job_end(&p.job);
    }
}

static void *play(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    const int other = 1 - r->t->rank;
    r->ok = true;
    for (uint32_t i = 0; i < 300 && r->ok; i++) {
        char out[1000] = {0}, in[1000];
        tg_request sends, receives;
        r->ok = suite_recv(&s, other, i, in, sizeof in, &receives) == TG_OK &&
                suite_send(&s, other, i, out, sizeof out, &sends) == TG_OK &&
                suite_wait(&s, &sends, NULL) == TG_OK && suite_wait(&s, &receives, NULL) == TG_OK;
    }
    /* A rank that waits for the slow one is told when it has waited long enough. */
    tg_request late;
    char in[8];
    bool done = true;
    size_t len;
    r->ok = r->ok && suite_recv(&s, 2, 1, in, sizeof in, &late) == TG_OK &&
            r->t->ops->poll(r->t, tg_now_ns(r->t->clock) + 100000000) == TG_OK &&
            r->t->ops->test(r->t, &late, &done, &len) == TG_OK && !done;
    if (!r->ok)
        snprintf(r->error, sizeof r->error, "rank %d: %s", r->t->rank, tg_error());
    tg_transport_destroy(r->t);
    return NULL;
}

/* One byte of a frame at a time: the other two go on meanwhile. */
static void one_that_sends_byte_by_byte(void **state)
{
    (void)state;
    net_job job;
    hand h, to_one;
    uint8_t nonce[TG__NONCE_BYTES] = {0}, frame[16 + 64] = {0};
    char address[TG__ADDRESS_MAX];
    net_job_begin(&job, 3, true);
    for (int r = 0; r < 2; r++)
        net_rank_start(&job.rank[r], play);
    hand_call(&h, job.address[0], NULL);
    assert_true(hand_join(&h, 2, "", 9));
    hand_roster(&h, 1, nonce, address);
    hand_call(&to_one, address, NULL);
    assert_true(hand_hello(&to_one, nonce, 2, 1));
    assert_true(hand_begin(&h));
    hand_frame(frame, TG__FRAME_FIRST, 1, 64, 64);
    for (size_t i = 0; i < sizeof frame; i++) {
        (void)hand_write(&h, &frame[i], 1, 0.1);
        (void)hand_write(&to_one, &frame[i], 1, 0.1);
        usleep(i < 10 ? 100000 : 1000);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(job.rank[r].thread, NULL);
    hand_end(&h);
    hand_end(&to_one);
    for (int r = 0; r < 2; r++)
        if (!job.rank[r].ok)
            fail_msg("%s", job.rank[r].error);
    net_job_end(&job);
}

/* ---- lengths and floods ---------------------------------------------------------------------- */

static void lengths_of_2_63(void **state)
{
    (void)state;
    static const int kinds[] = {TG__FRAME_FIRST,  TG__FRAME_GRANTED, TG__FRAME_MORE,
                                TG__FRAME_CREDIT, TG__FRAME_WANT,    TG__FRAME_BYE};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (int extra = -1; extra <= 1; extra++) {
            pair p;
            tg_request req;
            uint8_t frame[16];
            const bool waits = kinds[i] == TG__FRAME_WANT && extra < 0; /* it may ask: 2^63 - 1 */
            begin(&p, true);
            expects(&p, 1, &req);
            const bool segment = kinds[i] <= TG__FRAME_MORE;
            hand_frame(frame, kinds[i], 2, segment ? TG__SEGMENT : 0,
                       (UINT64_C(1) << 63) + (uint64_t)extra);
            assert_true(hand_write(&p.h, frame, sizeof frame, 2));
            assert_int_equal(works(&p, &req, waits ? 0.1 : 10), !waits);
            assert_true(waits || strstr(tg_error(), "rank 1 has left") != NULL);
            end(&p);
        }
}

/* Messages that nobody asked for take at most the window; then the connection ends. */
static void a_flood_of_messages(void **state)
{
    (void)state;
    static const size_t lens[] = {0, 1, 1000, TG__SEGMENT};
    uint8_t *frame = calloc(1, TG__HEAD + TG__SEGMENT);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        pair p;
        tg_request req;
        uint64_t sent = 0;
        begin(&p, true);
        expects(&p, 1, &req);
        const double before = hand_memory();
        const size_t chunk = 1 + ((size_t)64 << 10) / (lens[i] + TG__HEAD);
        uint8_t *bytes = malloc(chunk * (TG__HEAD + lens[i]));
        hand_frame(frame, TG__FRAME_FIRST, 2, lens[i], lens[i]);
        for (size_t k = 0; k < chunk; k++)
            memcpy(bytes + k * (TG__HEAD + lens[i]), frame, TG__HEAD + lens[i]);
        bool ended = false;
        const double begun = hand_seconds();
        while (!ended && hand_seconds() - begun < 60) {
            ended = !hand_write(&p.h, bytes, chunk * (TG__HEAD + lens[i]), 0.05);
            sent += chunk;
            ended = works(&p, &req, 0.0001) || ended;
        }
        const double grown = hand_memory() - before;
        print_message("messages of %zu bytes: ended after %lu, %.0f MiB more, %.1f s\n", lens[i],
                      (unsigned long)sent, grown, hand_seconds() - begun);
        assert_true(ended);
        assert_true(!HAND_MEMORY_COUNTS || grown < 80);
        free(bytes);
        end(&p);
    }
    free(frame);
}

/* Asking without end takes little memory and little time; then the connection ends. */
static void a_flood_of_questions(void **state)
{
    (void)state;
    enum { MANY = 1 << 20 };
    uint8_t *bytes = malloc((size_t)MANY * TG__HEAD);
    pair p;
    tg_request req;
    for (uint32_t i = 0; i < MANY; i++) /* all tags differ */
        hand_frame(bytes + (size_t)i * TG__HEAD, TG__FRAME_WANT, 2 + i, 0, 1 << 20);
    begin(&p, true);
    expects(&p, 1, &req);
    const double before = hand_memory(), begun = hand_seconds();
    size_t at = 0;
    bool ended = false;
    while (!ended && at < MANY) {
        const size_t n = MANY - at < 4096 ? MANY - at : 4096;
        ended = !hand_write(&p.h, bytes + at * TG__HEAD, n * TG__HEAD, 0.05);
        at += n;
        ended = works(&p, &req, 0.0001) || ended;
    }
    const double grown = hand_memory() - before;
    print_message("questions: ended after %zu, %.0f MiB more, %.1f s\n", at, grown,
                  hand_seconds() - begun);
    assert_true(ended);
    assert_true(!HAND_MEMORY_COUNTS || grown < 16);
    free(bytes);
    end(&p);
}

static void *pour(void *arg)
{
    static const uint8_t bytes[1 << 16];
    const int fd = *(const int *)arg;
    for (const double until = hand_seconds() + 9; hand_seconds() < until;) {
        const ssize_t n = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            break;
    }
    return NULL;
}

/* A rank that leaves does not read for ever what another one sends meanwhile. */
static void a_flood_while_leaving(void **state)
{
    (void)state;
    pair p;
    pthread_t pours;
    begin(&p, true);
    assert_int_equal(pthread_create(&pours, NULL, pour, &p.h.c.stream->fd), 0);
    usleep(100000);
    const double begun = hand_seconds();
    tg_transport_destroy(p.t);
    const double took = hand_seconds() - begun;
    pthread_join(pours, NULL);
    hand_end(&p.h);
    net_job_end(&p.job);
    print_message("left after %.1f s\n", took);
    assert_true(took < 7);
}

/* ---- lies ------------------------------------------------------------------------------------ */

/* Ranks 1 and 2 wait for each other, rank 0 for rank 2. */
static void *wait_in_vain(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    char byte;
    tg_request req;
    r->ok = suite_recv(&s, r->t->rank == 2 ? 1 : 2, 1, &byte, 1, &req) == TG_OK &&
            suite_wait(&s, &req, NULL) == TG_E_PEER;
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_transport_destroy(r->t);
    return NULL;
}

/* A member tells another one that its key was taken off rank 0's list. That one believes it, and
 * the others learn who has said so. */
static void one_that_disconnects_in_the_name_of_rank_0(void **state)
{
    (void)state;
    net_job job;
    hand h, to[3];
    uint8_t nonce[TG__NONCE_BYTES] = {0}, frame[16];
    char address[TG__ADDRESS_MAX];
    net_job_begin(&job, 4, true);
    for (int r = 0; r < 3; r++)
        net_rank_start(&job.rank[r], wait_in_vain);
    hand_call(&h, job.address[0], NULL);
    assert_true(hand_join(&h, 3, "", 9));
    for (int r = 1; r < 3; r++) {
        hand_roster(&h, r, nonce, address);
        hand_call(&to[r], address, NULL);
        assert_true(hand_hello(&to[r], nonce, 3, r));
    }
    assert_true(hand_begin(&h));
    hand_frame(frame, TG__FRAME_BYE, 1, 0, 1 + 2);
    assert_true(hand_write(&to[2], frame, sizeof frame, 2));
    for (int r = 0; r < 3; r++)
        pthread_join(job.rank[r].thread, NULL);
    const char *says[] = {
        "rank 2 has left",
        "rank 0 has disconnected rank 2: its key was removed from the list of "
        "allowed keys, says rank 2, as told by rank 3",
        "rank 0 has disconnected this rank (2): its key was removed from the list "
        "of allowed keys, says rank 3"};
    for (int r = 0; r < 3; r++)
        if (!job.rank[r].ok || !strstr(job.rank[r].error, says[r]))
            fail_msg("rank %d: %s", r, job.rank[r].error);
    hand_end(&h);
    hand_end(&to[1]);
    hand_end(&to[2]);
    net_job_end(&job);
}

/* New keys without end, prepared before, so that they come faster than they can be worked off. */
static void a_flood_of_new_keys(void **state)
{
    (void)state;
    enum { MANY = 400000 };
    pair p;
    tg_request req;
    begin(&p, false);
    expects(&p, 1, &req);
    static const uint8_t update[5] = {SSL3_MT_KEY_UPDATE, 0, 0, 1, SSL_KEY_UPDATE_NOT_REQUESTED};
    const size_t len = MANY * (sizeof update + TG__RECORD_ADDS);
    uint8_t *bytes = malloc(len);
    tg__record_keys *keys = &p.h.c.stream->seals;
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i += sizeof update + TG__RECORD_ADDS) {
        assert_true(tg__record_seal(keys, SSL3_RT_HANDSHAKE, update, sizeof update, bytes + i) > 0);
        assert_true(tg__record_keys_next(keys));
    }
    const int fd = p.h.c.stream->fd;
    const double begun = hand_seconds();
    size_t at = 0;
    bool ended = false;
    while (!ended && at < len) {
        const ssize_t n = send(fd, bytes + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        at += n > 0 ? (size_t)n : 0;
        ended = works(&p, &req, 0.0001);
    }
    print_message("new keys: ended after %zu of %zu bytes, %.1f s\n", at, len,
                  hand_seconds() - begun);
    assert_true(ended);
    assert_non_null(strstr(tg_error(), "new keys"));
    free(bytes);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_never_reads),
        cmocka_unit_test(one_that_pauses),
        cmocka_unit_test(one_that_sends_byte_by_byte),
        cmocka_unit_test(one_that_disconnects_in_the_name_of_rank_0),
        cmocka_unit_test(lengths_of_2_63),
        cmocka_unit_test(a_flood_of_messages),
        cmocka_unit_test(a_flood_of_questions),
        cmocka_unit_test(a_flood_while_leaving),
        cmocka_unit_test(a_flood_of_new_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
