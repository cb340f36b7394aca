/* Servers that keep the parameters of ranks that stay, with a deadline: a rank that is late leaves
 * out steps, and is in all else where the others are. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "served_ranks.h"
#include "session/session_impl.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 96, TENSORS = 2, PROMPT = 2, STEPS = 30 };

typedef struct job {
    const char *method;
    tg_overlap overlap;
    int late_every;  /* of the last rank: every so many own steps are late; 0: none */
    int stops_at;    /* the own step after which the last rank asks to stop; 0: it does not */
    bool saves;      /* the last rank tries to, alone: it is refused at once */
    atomic_int done; /* steps of rank 0 */
    struct member {
        float w[TENSORS][N], g[TENSORS][N], residual[TENSORS][N];
        uint64_t late, end;
        int own;
        double sum;
        char error[400];
    } member[PROMPT + 1];
} job;

static tg_status add(tg_session *s, struct member *m, uint32_t id[TENSORS])
{
    const size_t shape = N;
    for (int i = 0; i < TENSORS; i++) {
        const tg_tensor one = {.struct_size = sizeof one,
                               .name = i == 0 ? "a" : "b",
                               .shape = &shape,
                               .ndim = 1,
                               .param = tg_array_f32(m->w[i], N),
                               .grad = tg_array_f32(m->g[i], N)};
        TG_TRY(tg_session_add(s, &one, &id[i]));
    }
    return tg_session_begin(s);
}

static void await_rank_0(job *j, uint64_t step)
{
    for (int ms = 0; ms < 20000 && atomic_load(&j->done) < (int)step; ms++)
        usleep(1000);
}

static tg_status step(job *j, struct member *m, tg_session *s, int rank, const uint32_t *id,
                      bool *stop_p)
{
    const uint64_t at = tg_session_steps(s);
    tg_step_info info = {.struct_size = sizeof info};
    const bool last = j->late_every > 0 && rank == PROMPT;
    for (int i = 0; i < TENSORS; i++)
        TG_TRY(tg_session_param_wait(s, id[i]));
    if (last && j->stops_at > 0 && m->own == j->stops_at)
        tg_session_request_stop(s);
    if (last && m->own % j->late_every == 0)
        await_rank_0(j, at + 1);
    for (int i = TENSORS - 1; i >= 0; i--) {
        TG_TRY(tg_session_grad_wait(s, id[i]));
        memset(m->g[i], 0, sizeof m->g[i]);
        m->g[i][rank * STEPS + m->own] = 1;
        TG_TRY(tg_session_grad_ready(s, id[i]));
    }
    TG_TRY(tg_session_step(s, &info));
    m->own++;
    m->late += info.late;
    *stop_p = info.stop;
    for (int i = 0; rank == 0 && i < TENSORS; i++) /* so that all of the step is over */
        TG_TRY(tg_session_param_wait(s, id[i]));
    if (rank == 0)
        atomic_store(&j->done, (int)tg_session_steps(s));
    return TG_OK;
}

static void save(tg_session *s)
{
    const void *bytes;
    size_t len;
    assert_int_equal(tg_session_save(s, "/tmp/no-checkpoint", NULL, 0), TG_E_UNSUPPORTED);
    assert_non_null(strstr(tg_error(), "tg_session_save: servers with a deadline cannot be saved"));
    assert_non_null(strstr(tg_error(), "deadline_ms=0, or tg_session_save_weights"));
    assert_int_equal(tg_session_save_memory(s, &bytes, &len), TG_E_UNSUPPORTED);
    assert_non_null(strstr(tg_error(), "tg_session_save_memory: servers with a deadline"));
}

static tg_status work(job *j, struct member *m, tg_transport *t, tg_session *s)
{
    uint32_t id[TENSORS];
    bool stop = false;
    TG_TRY(add(s, m, id));
    while (tg_session_steps(s) < STEPS && !stop) {
        if (j->saves && t->rank == PROMPT)
            save(s);
        TG_TRY(step(j, m, s, t->rank, id, &stop));
    }
    TG_TRY(tg_session_finish(s));
    m->end = tg_session_steps(s);
    m->sum = t->rank + 1;
    TG_TRY(tg_session_sum(s, &m->sum, 1)); /* among ranks, after different numbers of exchanges */
    for (int i = 0; i < TENSORS; i++) {
        const float *left = tg__feedback_pending(s->bucket[i].method->feedback);
        if (left != NULL)
            memcpy(m->residual[i], left, sizeof m->residual[i]);
    }
    return TG_OK;
}

static void be_rank(tg_transport *t, void *arg)
{
    job *j = arg;
    struct member *m = &j->member[t->rank];
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = j->method,
                                      .strategy = "server",
                                      .optimizer = "sgd:lr=1,momentum=0",
                                      .bucket_bytes = N * sizeof(float),
                                      .overlap = j->overlap,
                                      .timeout_ms = 20000};
    tg_session *s = NULL;
    if (tg_session_create(&config, t, &s) != TG_OK || work(j, m, t, s) != TG_OK)
        snprintf(m->error, sizeof m->error, "%s", tg_error());
    tg_session_destroy(s);
}

static uint64_t run(job *j, int ranks, int servers, int64_t deadline_ms, int min_workers)
{
    served_job served = {.ranks = ranks,
                         .servers = servers,
                         .mode = "sync",
                         .optimizer = "sgd:lr=1,momentum=0",
                         .timeout_ms = 15000,
                         .deadline_ms = deadline_ms,
                         .min_workers = min_workers,
                         .be_rank = be_rank,
                         .arg = j};
    served_run(&served);
    for (int i = 0; i < ranks; i++)
        assert_string_equal(j->member[i].error, "");
    for (int q = 0; q < servers; q++)
        assert_string_equal(served.server[q].error, "");
    for (int i = 0; i < ranks; i++) {
        assert_int_equal(j->member[i].end, j->member[0].end);
        assert_int_equal((int)j->member[i].sum, ranks * (ranks + 1) / 2);
    }
    return served.server[0].stats.late;
}

static const char *const methods[] = {"topk:density=0.25,exchange=star", "dense:exchange=star",
                                      "fp16:feedback=residual,exchange=star"};

static job *new_job(int k, int late_every)
{
    job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->method = methods[k % 3];
    j->overlap = (tg_overlap)(k % 3);
    j->late_every = late_every;
    return j;
}

/* A rank that is always late: the others have the bits of a job without it, and it keeps all that
 * it has, or has been told what is lost. */
static void test_always_late(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        job *without = new_job(k, 0), *with = new_job(k, 1);
        run(without, PROMPT, 1 + k % 2, 0, 0);
        uint64_t late = run(with, PROMPT + 1, 1 + k % 2, 15, PROMPT);
        /* On a busy machine the others may be late, too. */
        for (int64_t ms = 60; with->member[0].late + with->member[1].late > 0 && ms < 2000;
             ms *= 4) {
            free(with);
            with = new_job(k, 1);
            late = run(with, PROMPT + 1, 1 + k % 2, ms, PROMPT);
        }
        const struct member *last = &with->member[PROMPT];
        for (int i = 0; i < PROMPT; i++) /* the last one's buckets may be of the step before */
            assert_memory_equal(with->member[i].w, without->member[0].w, sizeof last->w);
        assert_int_equal(late, TENSORS * last->own);
        assert_in_range(last->own, 1, STEPS);
        assert_true(last->late <= late && last->late + TENSORS > late); /* some when it was over */
        for (int i = 0; i < TENSORS; i++)
            for (int e = 0; e < N; e++) {
                const bool own = e >= PROMPT * STEPS && e < PROMPT * STEPS + last->own;
                const float left = own && k % 3 != 1 ? 1 : 0;
                assert_float_equal(last->residual[i][e], left, 0);
            }
        assert_int_equal(with->member[0].late + with->member[1].late, 0);
        free(without);
        free(with);
    }
}

/* A rank that is late now and then: its tokens are applied once, or wait in the residual. */
static void test_tokens(void **state)
{
    (void)state;
    job *j = new_job(0, 3);
    run(j, PROMPT + 1, 2, 60, PROMPT);
    const struct member *last = &j->member[PROMPT];
    assert_true(last->late > 0);
    for (int i = 0; i < TENSORS; i++)
        for (int k = 0; k < last->own; k++) {
            const float w = j->member[0].w[i][PROMPT * STEPS + k],
                        left = last->residual[i][PROMPT * STEPS + k];
            const bool applied = w < 0 && !(left > 0) && !(w < -0.5F), waits = !(w < 0) && left > 0;
            if (!applied && !waits)
                fail_msg("tensor %d, token %d: %g, %g left", i, k, (double)w, (double)left);
        }
    free(j);
}

/* A deadline that nobody misses changes no bit, nor does a rank that tries to save. */
static void test_in_time(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        job *without = new_job(k, 0), *with = new_job(k, 0);
        run(without, PROMPT + 1, 1 + k % 2, 0, 0);
        with->saves = true;
        assert_int_equal(run(with, PROMPT + 1, 1 + k % 2, 10000, 0), 0);
        assert_memory_equal(with->member[0].w, without->member[0].w, sizeof with->member->w);
        free(without);
        free(with);
    }
}

/* The last rank asks to stop while it is late: all stop after the same step, some times before the
 * end. */
static void test_stop(void **state)
{
    (void)state;
    uint64_t least = STEPS;
    for (int k = 0; k < 6; k++) {
        job *j = new_job(k, 1 + k % 2);
        j->stops_at = 1;
        run(j, PROMPT + 1, 1 + k % 2, 15, PROMPT);
        assert_in_range(j->member[0].end, 2, STEPS);
        least = j->member[0].end < least ? j->member[0].end : least;
        free(j);
    }
    assert_true(least < STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_always_late),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_in_time),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
