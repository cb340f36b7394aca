/* For tests: a rank that trains two_tensors.h with gradients drawn for each rank and step. Include
 * it after cmocka.h. */
#ifndef TESTS_DRAWN_MEMBER_H
#define TESTS_DRAWN_MEMBER_H

#include "two_tensors.h"
#include <stdio.h>

enum {
    MEMBER_ROWS = 40,
    MEMBER_COLS = 50,
    MEMBER_REST = 3001,
    MEMBER_N = MEMBER_ROWS * MEMBER_COLS + MEMBER_REST
};

typedef struct member {
    const struct job *job;                     /* what the test defines */
    void (*spoil)(struct member *m, int step); /* changes a step's gradient; NULL: nothing */
    tg_session *session;                       /* while it trains */
    const int *nodes;                          /* of the job; NULL: one level */
    int rank;
    uint64_t hash, skipped;
    tg_status status;
    char error[400];
    float w[MEMBER_N], g[MEMBER_N];
} member;

static inline void member_draw(void *arg, int step)
{
    member *m = arg;
    const tg_rng_key key = {
        .seed = 9, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)m->rank, .step = (uint64_t)step};
    for (size_t i = 0; i < MEMBER_N; i++)
        m->g[i] = (float)(tg_rng_uniform(&key, i) - 0.5);
    if (m->spoil != NULL)
        m->spoil(m, step);
}

/* Sets hash and skipped, or status and error. */
static inline void member_train(member *m, tg_transport *t, int steps, const char *method,
                                const char *strategy, const char *optimizer)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = method,
                                      .strategy = strategy,
                                      .optimizer = optimizer,
                                      .nodes = m->nodes,
                                      .steps_per_epoch = 2,
                                      .bucket_bytes = 8000};
    const two_tensors two = {MEMBER_ROWS, MEMBER_COLS, MEMBER_REST, steps,
                             m->w,        m->g,        member_draw, m};
    tg_session *s;
    m->rank = t->rank;
    m->status = tg_session_create(&config, t, &s);
    if (m->status == TG_OK) {
        m->session = s;
        m->status = two_tensors_try(&two, s, &m->hash);
        m->skipped = tg_session_skipped(s);
        tg_session_destroy(s);
    }
    if (m->status != TG_OK)
        snprintf(m->error, sizeof m->error, "%s", tg_error());
}

/* Whether all of them could, or none; then they agree on the hash. `what` they did is for the
 * message. */
static inline bool members_agree(const member *m, int count, const char *what)
{
    if (m->status == TG_E_SPEC || m->status == TG_E_UNSUPPORTED)
        return false;
    for (int r = 0; r < count; r++)
        if (m[r].status != TG_OK || m[r].hash != m[0].hash)
            fail_msg("%s, rank %d: %s", what, r, m[r].status == TG_OK ? "other bits" : m[r].error);
    return true;
}

#endif
