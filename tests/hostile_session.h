/* The ranks of a session, one of them hostile: the handshake, then some steps over two tensors.
 * Include it after cmocka.h. */
#ifndef TG_HOSTILE_SESSION_H
#define TG_HOSTILE_SESSION_H

#include "hostile_ranks.h"
#include "telegrad/telegrad.h"

#include <stdio.h>

enum { HOSTILE_N = 96, HOSTILE_FIRST = 64, HOSTILE_STEPS = 3 };

typedef struct hostile_scene {
    const char *method, *strategy;
    const int *nodes;
    tg_driver driver;
    int world, hostile;
} hostile_scene;

typedef struct hostile_rank {
    const hostile_scene *s;
    tg_transport *t;
    int64_t timeout_ms;
    tg_status status;
    char error[512];
    float w[HOSTILE_N], g[HOSTILE_N];
} hostile_rank;

static hostile_rank hostile_ranks[HOSTILE_RANKS_MAX];

static inline tg_status hostile_train(hostile_rank *r, tg_session *s)
{
    uint32_t id[2];
    const size_t shape[2][2] = {{8, 8}, {HOSTILE_N - HOSTILE_FIRST, 1}};
    for (int i = 0; i < 2; i++) {
        const size_t at = i == 0 ? 0 : HOSTILE_FIRST;
        const size_t n = i == 0 ? HOSTILE_FIRST : HOSTILE_N - HOSTILE_FIRST;
        const tg_tensor tensor = {.struct_size = sizeof tensor,
                                  .name = i == 0 ? "a" : "b",
                                  .shape = shape[i],
                                  .ndim = 2,
                                  .param = tg_array_f32(r->w + at, n),
                                  .grad = tg_array_f32(r->g + at, n)};
        TG_TRY(tg_session_add(s, &tensor, &id[i]));
    }
    TG_TRY(tg_session_begin(s));
    for (int step = 0; step < HOSTILE_STEPS; step++) {
        for (int i = 1; i >= 0; i--)
            TG_TRY(tg_session_grad_wait(s, id[i]));
        for (int i = 0; i < HOSTILE_N; i++)
            r->g[i] = (float)((i * 37 + step * 11 + r->t->rank * 5) % 23 - 11) / 16;
        for (int i = 1; i >= 0; i--)
            TG_TRY(tg_session_grad_ready(s, id[i]));
        TG_TRY(tg_session_step(s, NULL));
    }
    return tg_session_finish(s);
}

static inline void *hostile_run_rank(void *arg)
{
    hostile_rank *r = arg;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = r->s->method,
                                      .strategy = r->s->strategy,
                                      .nodes = r->s->nodes,
                                      .driver = r->s->driver,
                                      .steps_per_epoch = 2,
                                      .timeout_ms = r->timeout_ms};
    tg_session *s = NULL;
    r->status = tg_session_create(&config, r->t, &s);
    if (r->status == TG_OK)
        r->status = hostile_train(r, s);
    if (r->status != TG_OK)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_session_destroy(s);
    if (r->status != TG_OK) /* so that the others do not wait for it */
        (void)r->t->ops->shut(r->t);
    return NULL;
}

/* The outcome for each rank is in hostile_ranks. Returns the number of messages that the hostile
 * rank sent. */
static inline uint64_t hostile_sessions(const hostile_scene *s, int64_t timeout_ms,
                                        hostile_change *change, void *arg)
{
    tg_transport *t[HOSTILE_RANKS_MAX];
    hostile_connect(s->world, s->hostile, change, arg, t);
    memset(hostile_ranks, 0, sizeof hostile_ranks);
    for (int r = 0; r < s->world; r++)
        hostile_ranks[r] = (hostile_rank){.s = s, .t = t[r], .timeout_ms = timeout_ms};
    return hostile_run(s->world, s->hostile, t, hostile_run_rank, hostile_ranks,
                       sizeof *hostile_ranks);
}

#endif
