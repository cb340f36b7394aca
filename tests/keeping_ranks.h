/* Ranks and servers of a job that saves, or resumes, for the tests of checkpoints with servers. */
#ifndef TESTS_KEEPING_RANKS_H
#define TESTS_KEEPING_RANKS_H

#include "served_ranks.h"
#include "telegrad/telegrad.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4, STEPS = 8, SAVE = 4 };
enum { ROWS = 40, COLS = 50, REST = 3001, LONG = 24568, LAST = 2500 };
enum { TENSORS = 3, N = ROWS * COLS + LONG + LAST };

typedef struct job {
    const char *method, *strategy, *optimizer, *mode, *servers_optimizer;
    int ranks, servers;
    int nan_step;  /* of rank 1; 0: none */
    int huge_step; /* ... its update spoils the memory of adam in the last bucket; 0: none */
    int rates;     /* which learning rates it has; 0: always the same */
    tg_overlap overlap;
    const int *nodes;
    int64_t deadline_ms;
    const char *save_dir, *load_dir; /* NULL: neither */
    bool in_memory;                  /* instead of the folder */
    bool slices;                     /* a tensor is so long that its gradient goes in slices */
    bool again;                      /* it only saves again, in memory, what it has loaded */
    bool spends;                     /* tokens: gradients that are 1 in one element each */
} job;

typedef struct member {
    const job *job;
    tg_status status;
    char error[600], anew[256];
    uint64_t hash, skipped;
    float w[N], g[N];
} member;

static struct image {
    void *bytes;
    size_t len;
} image[MOST];
static member members[MOST];

/* ---- a rank ---------------------------------------------------------------------------------- */

static inline size_t elements(const job *j)
{
    return ROWS * COLS + LAST + (j->slices ? LONG : REST);
}

static inline void draw(member *m, int rank, int step)
{
    const size_t n = elements(m->job);
    const tg_rng_key key = {
        .seed = 9, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)rank, .step = (uint64_t)step};
    if (m->job->spends) {
        memset(m->g, 0, sizeof m->g);
        m->g[rank * STEPS + step] = 1;
        if (rank == 1) /* a straggler */
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        return;
    }
    for (size_t i = 0; i < n; i++)
        m->g[i] = (float)(tg_rng_uniform(&key, i) - 0.5);
    if (rank == 1 && m->job->nan_step > 0 && step == m->job->nan_step)
        m->g[7] = NAN; /* in the bucket that closes the step: the others are answered before */
    if (rank == 1 && m->job->huge_step > 0 && step == m->job->huge_step)
        m->g[n - 7] = 1e25f;
}

static inline tg_status add(member *m, tg_session *s, uint32_t id[TENSORS])
{
    const size_t shape[TENSORS][2] = {{ROWS, COLS}, {m->job->slices ? LONG : REST, 1}, {LAST, 1}};
    static const char *const name[TENSORS] = {"matrix", "rest", "last"};
    size_t at = 0;
    for (int i = 0; i < TENSORS; i++) {
        const size_t n = shape[i][0] * shape[i][1];
        const tg_tensor tensor = {.struct_size = sizeof tensor,
                                  .name = name[i],
                                  .shape = shape[i],
                                  .ndim = 2,
                                  .param = tg_array_f32(m->w + at, n),
                                  .grad = tg_array_f32(m->g + at, n)};
        TG_TRY(tg_session_add(s, &tensor, &id[i]));
        at += n;
    }
    return TG_OK;
}

static inline tg_status begin(member *m, tg_session *s, int rank)
{
    const job *j = m->job;
    const void *extra;
    size_t len;
    if (j->load_dir == NULL)
        return tg_session_begin(s);
    if (j->in_memory)
        TG_TRY(tg_session_load_memory(s, image[rank].bytes, image[rank].len));
    else
        TG_TRY(tg_session_load(s, j->load_dir, &extra, &len));
    tg_resumed resumed = {.struct_size = sizeof resumed};
    TG_TRY(tg_session_resumed(s, &resumed));
    snprintf(m->anew, sizeof m->anew, "%s", resumed.anew);
    return TG_OK;
}

static inline tg_status save(const member *m, tg_session *s, int rank)
{
    const void *bytes;
    size_t len;
    if (!m->job->in_memory && m->job->save_dir != NULL)
        return tg_session_save(s, m->job->save_dir, NULL, 0);
    TG_TRY(tg_session_save_memory(s, &bytes, &len));
    free(image[rank].bytes);
    image[rank] = (struct image){malloc(len), len};
    assert_non_null(image[rank].bytes);
    memcpy(image[rank].bytes, bytes, len);
    return TG_OK;
}

static inline tg_status train(member *m, tg_session *s, int rank)
{
    static const double rate[2][STEPS] = {{0.01, 0.01, 0.02, 0.02, 0, 0.005, 0.01, 0.01},
                                          {0.01, 0.01, 0.02, 0, 0.01, 0.005, 0.01, 0.01}};
    const job *j = m->job;
    uint32_t id[TENSORS];
    TG_TRY(add(m, s, id));
    TG_TRY(begin(m, s, rank));
    if (j->again)
        return save(m, s, rank);
    for (int step = (int)tg_session_steps(s); step < STEPS; step++) {
        if (j->rates > 0)
            TG_TRY(tg_session_set_lr(s, rate[j->rates - 1][step]));
        for (int i = 0; i < TENSORS; i++)
            TG_TRY(tg_session_param_wait(s, id[i]));
        for (int i = TENSORS; i-- > 0;)
            TG_TRY(tg_session_grad_wait(s, id[i]));
        draw(m, rank, step);
        for (int i = TENSORS; i-- > 0;)
            TG_TRY(tg_session_grad_ready(s, id[i]));
        TG_TRY(tg_session_step(s, NULL));
        if (j->save_dir != NULL && step + 1 == SAVE)
            TG_TRY(save(m, s, rank));
        if (j->spends && step + 1 == (j->save_dir != NULL ? SAVE : STEPS)) /* where all meet */
            return j->save_dir != NULL ? TG_OK : save(m, s, rank);
    }
    TG_TRY(tg_session_finish(s));
    m->skipped = tg_session_skipped(s);
    return tg_session_params_hash(s, &m->hash);
}

static inline void be_rank(tg_transport *t, void *arg)
{
    member *m = (member *)arg + t->rank;
    const job *j = m->job;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = j->method,
                                      .strategy = j->strategy,
                                      .optimizer = j->optimizer,
                                      .nodes = j->nodes,
                                      .overlap = j->overlap,
                                      .steps_per_epoch = 2,
                                      .bucket_bytes = 8000};
    tg_session *s = NULL;
    memset(m->w, 0, sizeof m->w);
    m->status = tg_session_create(&config, t, &s);
    if (m->status == TG_OK)
        m->status = train(m, s, t->rank);
    if (m->status != TG_OK)
        snprintf(m->error, sizeof m->error, "%s", tg_error());
    tg_session_destroy(s);
}

static served_job served;

static inline void run(const job *j)
{
    const bool keeps = strcmp(j->strategy, "server") == 0;
    const char *optimizer = j->servers_optimizer != NULL ? j->servers_optimizer : j->optimizer;
    served = (served_job){.ranks = j->ranks,
                          .servers = j->servers,
                          .mode = j->mode,
                          .optimizer = keeps ? optimizer : NULL,
                          .nodes = j->nodes,
                          .deadline_ms = j->deadline_ms,
                          .be_rank = be_rank,
                          .arg = members};
    memset(members, 0, sizeof members);
    for (int r = 0; r < j->ranks; r++)
        members[r].job = j;
    served_run(&served);
}

static inline uint64_t hash_of(const job *j)
{
    run(j);
    for (int r = 0; r < j->ranks; r++)
        if (members[r].status != TG_OK || members[r].hash != members[0].hash)
            fail_msg("%s, %s, %s, %d servers, rank %d: %s", j->method, j->strategy, j->mode,
                     j->servers, r, members[r].status == TG_OK ? "other bits" : members[r].error);
    return members[0].hash;
}

#endif
