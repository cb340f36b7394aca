/* What a meeting point says of the ranks is checked as far as a rank can know it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"

/* With a list on rank 1, no other rank may have rank 0's key: it would be rank 0 in its place. */
static void nobody_has_the_key_of_rank_0(void **state)
{
    (void)state;
    net_job job;
    tg_keys *all;
    char lines[3 * TG_KEY_TEXT] = "";
    net_job_begin(&job, 3, false);
    for (int r = 0; r < 3; r++) {
        tg_key_text(job.key[r], lines + strlen(lines));
        strcat(lines, "\n");
    }
    assert_int_equal(tg_keys_parse(lines, &all), TG_OK);
    job.rank[0].config.allow = job.rank[1].config.allow = all;
    job.rank[2].config.key = job.key[0];
    for (int r = 0; r < 3; r++)
        job.rank[r].config.timeout_s = 5;
    net_job_run(&job, net_rank_passes);
    net_expect(&job.rank[1], TG_E_MISMATCH, "rank 2 has the key of rank 0");
    tg_keys_destroy(all);
    net_job_end(&job);
}

/* A meeting point that says something false of itself or of the rank that it speaks to. */
static void false_rosters(void **state)
{
    (void)state;
    static const struct {
        int rank, of_0, of_1; /* whose keys it shows for ranks 0 and 1 */
        const char *says;
    } lies[] = {{1, 2, 1, "another key than it has proved"},
                {1, 0, 2, "this rank (1) has another key than it has"},
                {2, 0, 1, "this rank asked to be rank 1: the meeting point calls it 2"}};
    const uint8_t nonce[TG__NONCE_BYTES] = {1};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        net_job job;
        tg__tls *tls;
        tg__caller c;
        int listener, port, fd;
        uint8_t body[512];
        net_job_begin(&job, 3, false);
        assert_true(hand_listen("127.0.0.1", &listener, &port));
        snprintf(job.address[0], sizeof job.address[0], "tcp://127.0.0.1:%d", port);
        assert_int_equal(tg__tls_create(job.key[0], &tls), TG_OK);
        net_rank_start(&job.rank[1], net_rank_passes);
        while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) < 0)
            usleep(1000);
        assert_int_equal(tg__caller_accept(&c, fd, tls, 1024, hand_accepts, NULL), TG_OK);
        while (!c.arrived && tg__caller_step(&c))
            usleep(500);
        tg__pack p = {.at = body, .end = body + sizeof body};
        tg__pack_bytes(&p, nonce, sizeof nonce);
        tg__pack_number(&p, 4, 3);
        tg__pack_number(&p, 4, (uint64_t)lies[i].rank);
        for (int r = 0; r < 3; r++) {
            const int of = r == 0 ? lies[i].of_0 : r == 1 ? lies[i].of_1 : 2;
            tg__pack_bytes(&p, job.key[of]->public_key.bytes, TG__KEY_BYTES);
            tg__pack_number(&p, 8, (uint64_t)r);
            tg__pack_text(&p, "127.0.0.1");
            tg__pack_number(&p, 2, (uint64_t)port);
        }
        tg__caller_next(&c);
        assert_int_equal(tg__caller_say(&c, TG__SAID_ROSTER, body, (size_t)(p.at - body)), TG_OK);
        while (!tg__caller_has_said(&c) && tg__caller_step(&c))
            usleep(500);
        pthread_join(job.rank[1].thread, NULL);
        net_expect(&job.rank[1], TG_E_MISMATCH, lies[i].says);
        tg__caller_end(&c);
        tg__tls_destroy(tls);
        close(listener);
        net_job_end(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_has_the_key_of_rank_0),
                                       cmocka_unit_test(false_rosters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
