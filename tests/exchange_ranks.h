/* Ranks as threads of one test, over the in-process transport. Include it after cmocka.h. */
#ifndef TG_EXCHANGE_RANKS_H
#define TG_EXCHANGE_RANKS_H

#include "base/thread.h"
#include "exchange_fixture.h"

enum { MAX_RANKS = 8 };
static const int64_t ms = 1000000;

typedef struct job job;
struct job {
    tg_transport *t;
    const void *arg;
    tg_status (*run)(job *j);
    tg_status status;
    char error[1024];
    int rank;
    uint32_t flags;
    pthread_t thread;
};

static inline void *job_main(void *arg)
{
    job *j = arg;
    j->status = j->run(j);
    if (j->status != TG_OK)
        snprintf(j->error, sizeof j->error, "%s", tg_error());
    return NULL;
}

/* Run on `size` ranks. The transport of faulty_rank (-1: none) has the faults in `fault`. Without a
 * faulty rank, `fault` is a link for the transports of all ranks. */
static inline void run_ranks(int size, tg_status (*run)(job *), const void *arg, int faulty_rank,
                             const char *fault, job *jobs)
{
    tg_transport *t[MAX_RANKS];
    assert_int_equal(tg_transport_inproc(size, t), TG_OK);
    if (faulty_rank >= 0)
        assert_int_equal(tg_transport_faulty(t[faulty_rank], fault, &t[faulty_rank]), TG_OK);
    for (int r = 0; r < size && faulty_rank < 0 && fault; r++) {
        tg_link link = {.struct_size = sizeof link};
        assert_int_equal(tg_link_parse(fault, &link), TG_OK);
        assert_int_equal(tg_transport_shaped(t[r], &link, &t[r]), TG_OK);
    }
    for (int r = 0; r < size; r++) {
        jobs[r] = (job){.t = t[r], .rank = r, .arg = arg, .run = run};
        assert_int_equal(tg__thread_start("rank", job_main, &jobs[r], &jobs[r].thread), TG_OK);
    }
    for (int r = 0; r < size; r++)
        assert_int_equal(pthread_join(jobs[r].thread, NULL), 0);
    for (int r = 0; r < size; r++)
        tg_transport_destroy(t[r]);
}

static inline void all_ok(const job *jobs, int size)
{
    for (int r = 0; r < size; r++)
        if (jobs[r].status != TG_OK)
            fail_msg("rank %d of %d: %s: %s", r, size, tg_status_name(jobs[r].status),
                     jobs[r].error);
}

static inline void expect_text(const job *j, const char *text)
{
    if (!strstr(j->error, text))
        fail_msg("rank %d: \"%s\" lacks \"%s\"", j->rank, j->error, text);
}

#endif
