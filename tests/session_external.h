/* Trains as session_fixture.h does, but the caller takes the steps, with an optimizer of the
 * library on its own arrays. */
#ifndef TESTS_SESSION_EXTERNAL_H
#define TESTS_SESSION_EXTERNAL_H

#include "session_fixture.h"
#include "telegrad/external.h"

/* The caller's optimizer. */
typedef struct outside {
    tg_optimizer *o;
    float slot[2][FIXTURE_N];
    uint64_t number;
} outside;

static inline void outside_forget(outside *x)
{
    memset(x->slot, 0, sizeof x->slot);
    x->number = 0;
}

static inline tg_status outside_step(outside *x, double lr, float *w, const float *g)
{
    size_t at = 0;
    x->number++;
    for (int i = 0; i < FIXTURE_TENSORS; i++) {
        const size_t n = fixture_shape[i][0] * fixture_shape[i][1];
        float *slot[] = {x->slot[0] + at, x->slot[1] + at};
        const tg_update u = {.struct_size = sizeof u,
                             .lr = lr,
                             .number = x->number,
                             .ndim = fixture_shape[i][1] == 1 ? 1 : 2};
        TG_TRY(tg_optimizer_step(x->o, &u, w + at, g + at, n, slot));
        at += n;
    }
    return TG_OK;
}

static inline bool outside_finite(const float *g)
{
    for (size_t i = 0; i < FIXTURE_N; i++)
        if (!isfinite(g[i]))
            return false;
    return true;
}

/* The caller's parameters, and the session's: the same memory, or a copy, which is nonsense while
 * the session has no use for it. */
typedef struct outside_params {
    float *w, *copy;
} outside_params;

/* Before a call, or after it (`back`). touches: (FIXTURE_TENSORS) of this step; NULL: all */
static inline void outside_carry(outside_params *p, const uint32_t *touches, tg_touches call,
                                 bool back)
{
    size_t at = 0;
    for (int i = 0; p->copy != p->w && i < FIXTURE_TENSORS; i++) {
        const size_t n = fixture_shape[i][0] * fixture_shape[i][1], bytes = n * sizeof *p->w;
        const bool touched = touches == NULL || touches[i] & call;
        if (touched)
            memcpy((back ? p->w : p->copy) + at, (back ? p->copy : p->w) + at, bytes);
        if (!touched || back)
            memset(p->copy + at, 0xff, bytes); /* NaN */
        at += n;
    }
}

/* One step of the session. g (FIXTURE_N): the own gradient */
static inline tg_status outside_turn(tg_session *s, const uint32_t *id, outside *x,
                                     outside_params *p, float *g, tg_step_info *info)
{
    uint32_t touches[FIXTURE_TENSORS];
    tg_turn turn = {.struct_size = sizeof turn};
    for (int i = 0; i < FIXTURE_TENSORS; i++)
        touches[i] = tg_session_touches(s, id[i]);
    float *at = g;
    bool sends = false;
    for (int i = 0; i < FIXTURE_TENSORS; i++) {
        const size_t n = fixture_shape[i][0] * fixture_shape[i][1];
        float *to = tg_session_gradient(s, id[i]);
        sends = to != NULL;
        if (sends) {
            memcpy(to, at, n * sizeof *to);
            TG_TRY(tg_session_grad_ready(s, id[i]));
        }
        at += n;
    }
    outside_carry(p, touches, TG_TOUCHES_IN_DELIVER, false);
    TG_TRY(tg_session_deliver(s, &turn));
    outside_carry(p, touches, TG_TOUCHES_IN_DELIVER, true);
    at = g;
    for (int i = 0; sends && i < FIXTURE_TENSORS; i++) {
        const size_t n = fixture_shape[i][0] * fixture_shape[i][1];
        memcpy(at, tg_session_gradient(s, id[i]), n * sizeof *at);
        at += n;
    }
    if (turn.resets)
        outside_forget(x);
    if (turn.moves && outside_finite(g)) /* as a loss scaler would */
        TG_TRY(outside_step(x, tg_spec_real(tg_optimizer_spec(x->o), "lr"), p->w, g));
    outside_carry(p, touches, TG_TOUCHES_IN_STEP, false);
    TG_TRY(tg_session_step(s, info));
    outside_carry(p, touches, TG_TOUCHES_IN_STEP, true);
    return TG_OK;
}

/* Put another session in the place of *s_p: with what the first one saves in memory, at an address
 * that is not aligned on every rank. */
static inline tg_status outside_renew(const tg_session_config *config, fixture_rank *r,
                                      tg_session **s_p, outside_params *p, uint32_t *id)
{
    const void *bytes;
    size_t len;
    outside_carry(p, NULL, TG_TOUCHES_IN_STEP, false);
    TG_TRY(tg_session_save_memory(*s_p, &bytes, &len));
    char *copy = malloc(len + 8);
    memcpy(copy + r->rank % 2, bytes, len);
    tg_session_destroy(*s_p);
    *s_p = NULL;
    memset(p->copy, 0, FIXTURE_N * sizeof *p->copy);
    tg_status status = tg_session_create(config, r->transport, s_p);
    if (status == TG_OK)
        status = fixture_add_tensors(*s_p, p->copy, NULL, NULL, id);
    if (status == TG_OK)
        status = tg_session_load_memory(*s_p, copy + r->rank % 2, len);
    free(copy);
    outside_carry(p, NULL, TG_TOUCHES_IN_STEP, true);
    return status;
}

static inline tg_status outside_finish(tg_session *s, outside_params *p)
{
    outside_carry(p, NULL, TG_TOUCHES_IN_STEP, false);
    const tg_status status = tg_session_finish(s);
    outside_carry(p, NULL, TG_TOUCHES_IN_STEP, true);
    return status;
}

static inline tg_status outside_train(const tg_session_config *config, fixture_rank *r,
                                      tg_session **s_p, outside *x, float *w)
{
    const fixture_job *job = r->job;
    uint32_t id[FIXTURE_TENSORS];
    float g[FIXTURE_N], copy[FIXTURE_N];
    outside_params params = {.w = w, .copy = job->apart ? copy : w}, *p = &params;
    tg_session *s = *s_p;
    TG_TRY(fixture_add_tensors(s, p->copy, NULL, NULL, id));
    outside_carry(p, NULL, TG_TOUCHES_IN_STEP, false);
    TG_TRY(tg_session_begin(s));
    outside_carry(p, NULL, TG_TOUCHES_IN_STEP, true);
    for (uint64_t t = 0; t < job->steps; t++) {
        if (job->save_at != 0 && t == job->save_at)
            TG_TRY(outside_renew(config, r, s_p, p, id));
        s = *s_p;
        if (job->finish_at != 0 && t == job->finish_at)
            TG_TRY(outside_finish(s, p));
        tg_step_info info = {.struct_size = sizeof info};
        fixture_gradient(job, r->rank, t, w, g);
        TG_TRY(outside_turn(s, id, x, p, g, &info));
        memcpy(r->out->trail[t], w, sizeof r->out->trail[t]);
        r->out->info[t] = info;
        r->out->steps = t + 1;
    }
    TG_TRY(outside_finish(s, p));
    outside_carry(p, NULL, TG_TOUCHES_IN_STEP, false);
    TG_TRY(tg_session_params_hash(s, &r->out->hash));
    r->out->skipped = tg_session_skipped(s);
    memcpy(r->out->w, w, FIXTURE_N * sizeof *w);
    return TG_OK;
}

static inline tg_status outside_session(fixture_rank *r)
{
    const fixture_job *job = r->job;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = job->method,
                                      .strategy = job->strategy,
                                      .optimizer = "external",
                                      .seed = 11,
                                      .steps_per_epoch = 4,
                                      .timeout_ms = job->timeout_ms,
                                      .driver = job->driver,
                                      .bucket_bytes = job->bucket_bytes,
                                      .hash_every = job->hash_every,
                                      .on_nonfinite = job->on_nonfinite,
                                      .samples = job->samples ? (uint64_t)r->rank + 1 : 0};
    static _Thread_local float w[FIXTURE_N];
    static _Thread_local outside x;
    tg_session *s = NULL;
    outside_forget(&x);
    memset(w, 0, sizeof w);
    if (r->rank == 0)
        fixture_initial(w);
    TG_TRY(tg_optimizer_create(job->optimizer, &x.o));
    tg_status status = tg_session_create(&config, r->transport, &s);
    if (status == TG_OK) {
        status = outside_train(&config, r, &s, &x, w);
        tg_session_destroy(s);
    }
    tg_optimizer_destroy(x.o);
    return status;
}

#endif
