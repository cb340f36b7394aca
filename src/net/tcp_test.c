/* The TCP transport: the common suite, with keys and without, over connections and in shared
 * memory; what only it does. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "telegrad/tools.h"
#include "net_ranks.h"
#include "net/local.h"
#include "transport_suite.h"
#include "transport_tools.h"

static void *run_suite(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    r->ok = suite_run(r->t, r->error);
    for (int peer = 0; peer < r->t->size; peer++) {
        tg_net_peer_info info = {.struct_size = sizeof info};
        if (peer == r->t->rank || tg_net_peer(r->net, peer, &info) != TG_OK)
            continue;
        r->ok &= info.way == (tg__local_off ? TG_NET_DIRECT : TG_NET_LOCAL);
    }
    tg_transport_destroy(r->t);
    return NULL;
}

static void suite_of(int size, bool insecure)
{
    for (int over = 0; over < 2; over++) {
        net_job job;
        tg__local_off = over == 0;
        net_job_begin(&job, size, insecure);
        net_job_run(&job, run_suite);
        net_job_check(&job);
        net_job_end(&job);
    }
}

static void suite_with_keys(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++)
        suite_of(size, false);
}

static void suite_without_keys(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++)
        suite_of(size, true);
}

/* ---- windows --------------------------------------------------------------------------------- */

enum { BIG = 20 << 20, MANY = 6, BLOCK = 4096 };

/* Block i of a message. (Byte by byte, TSan would take most of this test's time.) */
static void fill_block(uint8_t *block, size_t i, int number)
{
    const uint64_t head[2] = {i, (uint64_t)number};
    memset(block, (int)(i + (size_t)number) & 0xff, BLOCK);
    memcpy(block, head, sizeof head);
}

static bool is_message(const uint8_t *bytes, int number)
{
    uint8_t block[BLOCK];
    for (size_t i = 0; i < BIG / BLOCK; i++) {
        fill_block(block, i, number);
        if (memcmp(bytes + i * BLOCK, block, BLOCK) != 0)
            return false;
    }
    return true;
}

/* Rank 0 sends more than the window holds, with one tag each, and rank 1 asks for the last one
 * first: the ones before must not hold it up. */
static void *overfill(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    uint8_t *bytes = malloc((size_t)BIG * MANY);
    tg_request reqs[MANY];
    suite s = {r->t, r->error};
    r->ok = bytes != NULL;
    for (int i = 0; i < MANY && r->ok && r->t->rank == 0; i++) {
        for (size_t k = 0; k < BIG / BLOCK; k++)
            fill_block(bytes + (size_t)i * BIG + k * BLOCK, k, i);
        r->ok = suite_send(&s, 1, (uint32_t)i, bytes + (size_t)i * BIG, BIG, &reqs[i]) == TG_OK;
    }
    for (int n = 0; n < MANY && r->ok; n++) {
        const int i = r->t->rank == 0 ? n : MANY - 1 - n;
        uint8_t *to = bytes + (size_t)i * BIG;
        size_t len = 0;
        if (r->t->rank == 1)
            r->ok = suite_recv(&s, 0, (uint32_t)i, to, BIG, &reqs[i]) == TG_OK;
        r->ok = r->ok && suite_wait(&s, &reqs[i], &len) == TG_OK && len == BIG;
        r->ok = r->ok && (r->t->rank == 0 || is_message(to, i));
    }
    if (!r->ok)
        snprintf(r->error, sizeof r->error, "rank %d: %s", r->t->rank, tg_error());
    tg_transport_destroy(r->t);
    free(bytes);
    return NULL;
}

static void messages_beyond_the_window(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        net_job job;
        tg__local_off = way > 0;
        net_job_begin(&job, 2, way == 1);
        net_job_run(&job, overfill);
        net_job_check(&job);
        net_job_end(&job);
    }
}

/* ---- a member that breaks the rules ---------------------------------------------------------- */

/* Rank 0 posts three receives; each must fail when the other rank is found out, and what is posted
 * afterwards, too. */
static void *be_wronged(void *arg)
{
    net_rank *r = arg;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    tg_request *reqs = calloc(4, sizeof *reqs);
    char bytes[3][8];
    r->ok = reqs != NULL;
    for (uint32_t i = 0; r->ok && i < 3; i++)
        r->ok = suite_recv(&s, 1, i, bytes[i], sizeof bytes[i], &reqs[i]) == TG_OK;
    for (int i = 2; r->ok && i >= 0; i--)
        r->ok = suite_wait(&s, &reqs[i], NULL) == TG_E_PEER;
    r->ok = r->ok && strstr(tg_error(), "not telegrad's") != NULL;
    if (!r->ok)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    free(reqs); /* nothing may look at them any more */
    tg_request late;
    tg_status status = suite_recv(&s, 1, 9, bytes[0], sizeof bytes[0], &late);
    r->ok = r->ok && (status == TG_OK ? suite_wait(&s, &late, NULL) : status) == TG_E_PEER;
    tg_transport_destroy(r->t);
    return NULL;
}

static void put(uint8_t *at, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

/* Join without keys by hand, then send a frame's head and 64 bytes. */
static void break_the_rules(const char *address, uint32_t word, uint32_t len, uint64_t number)
{
    uint8_t join[12 + 22] = "tgnet", roster[4096], frame[16 + 64] = {0};
    const int fd = net_connect(address);
    assert_true(fd >= 0);
    put(join + 5, 1, 1); /* version, JOIN, length of the body */
    put(join + 6, 1, 2);
    put(join + 8, 22, 4);
    put(join + 12 + 8, 1, 2); /* port */
    assert_int_equal(send(fd, join, sizeof join, MSG_NOSIGNAL), sizeof join);
    assert_true(recv(fd, roster, sizeof roster, 0) > 0);
    put(frame, word, 4);
    put(frame + 4, len, 4);
    put(frame + 8, number, 8);
    (void)!send(fd, frame, sizeof frame, MSG_NOSIGNAL);
    while (recv(fd, roster, sizeof roster, 0) > 0)
        ;
    close(fd);
}

static void rules_are_kept(void **state)
{
    (void)state;
    static const struct {
        uint32_t word, len;
        uint64_t number;
    } frames[] = {
        {1U << 28 | 2, 65536, UINT64_C(1) << 40}, /* FIRST beyond the window */
        {1U << 28 | 2, 4, 8},                     /* a segment shorter than it must be */
        {2U << 28 | 2, 8, 8},                     /* GRANTED, without a grant */
        {3U << 28 | 2, 8, 0},                     /* MORE of nothing */
        {4U << 28, 0, 1},                         /* CREDIT for nothing */
        {5U << 28 | 7, 0, UINT64_MAX},            /* WANT of too much */
        {6U << 28 | 2, 0, 0},                     /* GRANT of nothing */
        {7U << 28, 0, 100},                       /* BYE that blames nobody's rank */
        {9U << 28, 0, 0},                         /* LOCAL without memory */
        {9U << 28, 0, 1},
        {10U << 28, 0, 0},          /* no kind */
        {1U << 28 | 1 << 27, 8, 8}, /* no tag */
    };
    for (size_t i = 0; i < TG_COUNT(frames); i++) {
        net_job job;
        net_job_begin(&job, 2, true);
        net_rank_start(&job.rank[0], be_wronged);
        break_the_rules(job.address[0], frames[i].word, frames[i].len, frames[i].number);
        pthread_join(job.rank[0].thread, NULL);
        if (!job.rank[0].ok)
            fail_msg("frame %zu: %s", i, job.rank[0].error);
        net_job_end(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suite_with_keys),
        cmocka_unit_test(suite_without_keys),
        cmocka_unit_test(messages_beyond_the_window),
        cmocka_unit_test(rules_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
