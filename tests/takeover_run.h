/* For tests of resuming with another number of ranks: runs a job in threads that saves or loads,
 * and keeps what each rank has right after that. */
#ifndef TESTS_TAKEOVER_RUN_H
#define TESTS_TAKEOVER_RUN_H

#include "session/session_impl.h"
#include "session_fixture.h"
#include "state/slots.h"

enum { RANKS = 8, SLOTS = 256, N = FIXTURE_N };

/* What one rank has, right after a save or a load. */
typedef struct part {
    char key[160];
    tg__role role;
    size_t n, at;
    float *value;
} part;

typedef struct had {
    tg_status status;
    char error[512];
    uint64_t hash, first, end_hash; /* first: the step it begins at */
    int64_t epoch_shift;
    char anew[256];
    float w[N], global[N], end[N];
    part part[SLOTS];
    size_t parts;
} had;

typedef struct job {
    fixture_job f;
    uint64_t steps_per_epoch;
    bool dyadic;
    bool look_at_load; /* else at the save */
    int from_memory;   /* ranks whose images are loaded, instead of load_dir; 0: none */
} job;

typedef struct rank {
    const job *job;
    tg_transport *transport;
    had *out;
} rank;

static had saved[RANKS], loaded[RANKS];
static void *image[RANKS]; /* what the ranks saved in memory, when they saved to save_dir */
static size_t image_len[RANKS];

/* ---- looking at a session -------------------------------------------------------------------- */

static inline void keep(had *h, const char *key, tg__role role, const float *value, size_t n,
                        size_t at)
{
    assert_true(h->parts < SLOTS);
    part *p = &h->part[h->parts++];
    snprintf(p->key, sizeof p->key, "%s", key);
    p->role = role;
    p->n = n;
    p->at = at;
    p->value = malloc((n > 0 ? n : 1) * sizeof *value);
    assert_non_null(p->value);
    if (n > 0)
        memcpy(p->value, value, n * sizeof *value);
}

static inline void keep_slots(had *h, const tg_session *s)
{
    for (size_t i = 0; i < s->state->count; i++) {
        const tg__slot *slot = &s->state->slot[i];
        const bool owner = slot->role == TG__ROLE_OWNER;
        if (slot->role == TG__ROLE_REPLICATED || (!owner && slot->rescale == TG__RESCALE_COPY))
            continue;
        /* without the role, which nodes change */
        keep(h, strchr(slot->key + 5, ':'), slot->role, slot->data, slot->len / sizeof(float),
             slot->at);
    }
}

/* Of exchanges under way: what the memory is owed, and what is on its way from rank to rank. */
static inline void keep_lanes(had *h, tg_session *s, float *whole)
{
    for (size_t b = 0; b < s->nbuckets; b++)
        for (size_t l = 0; l < s->lanes; l++) {
            const lane_op *o = &s->bucket[b].lane[l];
            char key[64];
            if (!o->waiting)
                continue;
            snprintf(key, sizeof key, "owed %zu %zu", b, l);
            if (s->lanes > 1 && o->owed != NULL && (s->nodes == NULL || s->nodes->index == 0))
                keep(h, key, TG__ROLE_RANK, o->owed, s->bucket[b].n, 0);
            const float *push = tg__session_aggregate(s, o);
            size_t at = 0;
            for (size_t i = 0; tg__session_was_pushed(s, o) && i < s->ntrained; i++) {
                const tensor *t = &s->tensor[s->trained[i]];
                for (size_t e = 0; t->bucket == b && e < t->n; e++)
                    whole[at + e] += push[t->offset + e];
                at += t->n;
            }
        }
}

static inline const float *slot_of(const tg_session *s, const char *name, size_t i)
{
    for (size_t r = 0; r < s->strategy->nslots; r++)
        if (strcmp(s->strategy->request[r].name, name) == 0)
            return s->strategy->slot[r][i];
    return NULL;
}

static inline void look(had *h, tg_session *s, const float *w)
{
    float whole[N];
    memcpy(h->w, w, sizeof h->w);
    memcpy(whole, w, sizeof whole);
    for (size_t i = 0, at = 0; i < s->ntrained; at += s->wtensor[i++].n) {
        memcpy(h->global + at, tg__strategy_global(s->strategy, i), s->wtensor[i].n * sizeof *w);
        if (s->strategy->pushes && slot_of(s, "mass", i) != NULL)
            memcpy(whole + at, slot_of(s, "mass", i), s->wtensor[i].n * sizeof *w);
    }
    keep_lanes(h, s, whole);
    if (s->strategy->pushes)
        keep(h, "whole", TG__ROLE_RANK, whole, N, 0);
    else
        keep(h, "w", TG__ROLE_RANK, w, N, 0);
    if (!s->strategy->pushes) /* masses are in `whole` */
        keep_slots(h, s);
}

/* ---- running --------------------------------------------------------------------------------- */

static inline tg_status step_once(const job *j, tg_session *s, int r, const uint32_t *id, float *w,
                                  float *g)
{
    static const size_t apart[FIXTURE_TENSORS] = {0, 512, 544, 896};
    float flat[N];
    fixture_gradient(&j->f, r, tg_session_steps(s), w, flat);
    for (int i = FIXTURE_TENSORS - 1, at = N; i >= 0; i--) {
        const size_t n = fixture_shape[i][0] * fixture_shape[i][1];
        at -= (int)n;
        TG_TRY(tg_session_grad_wait(s, id[i]));
        memcpy(g + apart[i], flat + at, n * sizeof *g);
        if (!tg_session_idle(s))
            TG_TRY(tg_session_grad_ready(s, id[i]));
    }
    return tg_session_step(s, NULL);
}

static inline tg_status keep_image(tg_session *s, int r)
{
    const void *bytes;
    free(image[r]);
    image[r] = NULL;
    TG_TRY(tg_session_save_memory(s, &bytes, &image_len[r]));
    image[r] = malloc(image_len[r]);
    assert_non_null(image[r]);
    memcpy(image[r], bytes, image_len[r]);
    return TG_OK;
}

static inline tg_status train(const rank *r, tg_session *s, float *w, float *g)
{
    static const size_t apart[FIXTURE_TENSORS] = {0, 512, 544, 896};
    const job *j = r->job;
    uint32_t id[FIXTURE_TENSORS];
    const void *extra;
    size_t len;
    TG_TRY(fixture_add_tensors(s, w, g, apart, id));
    if (j->f.load_dir == NULL)
        TG_TRY(tg_session_begin(s));
    else if (j->from_memory == 0)
        TG_TRY(tg_session_load(s, j->f.load_dir, &extra, &len));
    else
        TG_TRY(tg_session_take_memory(s, (const void *const *)image, image_len,
                                      (size_t)j->from_memory));
    r->out->first = tg_session_steps(s);
    r->out->epoch_shift = s->epoch_shift;
    snprintf(r->out->anew, sizeof r->out->anew, "%s", s->from.anew);
    if (j->look_at_load) {
        look(r->out, s, w);
        TG_TRY(tg_session_params_hash(s, &r->out->hash));
    }
    while (tg_session_steps(s) < j->f.steps) {
        TG_TRY(step_once(j, s, r->transport->rank, id, w, g));
        if (j->f.save_dir == NULL || tg_session_steps(s) != j->f.save_at)
            continue;
        TG_TRY(tg_session_save(s, j->f.save_dir, "extra", 6));
        TG_TRY(keep_image(s, r->transport->rank));
        if (!j->look_at_load) {
            look(r->out, s, w);
            TG_TRY(tg_session_params_hash(s, &r->out->hash));
        }
    }
    TG_TRY(tg_session_finish(s));
    memcpy(r->out->end, w, sizeof r->out->end);
    return tg_session_params_hash(s, &r->out->end_hash);
}

static inline tg_status run_session(const rank *r)
{
    const job *j = r->job;
    tg_session *s;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = j->f.method,
                                      .strategy = j->f.strategy,
                                      .optimizer = j->f.optimizer,
                                      .seed = 11,
                                      .steps_per_epoch = j->steps_per_epoch,
                                      .timeout_ms = 20000,
                                      .driver = TG_DRIVER_INLINE,
                                      .bucket_bytes = j->f.bucket_bytes,
                                      .nodes = j->f.nodes};
    TG_TRY(tg_session_create(&config, r->transport, &s));
    float *w = calloc(N, sizeof *w), *g = calloc(1024, sizeof *g);
    fixture_initial(w);
    const tg_status status = train(r, s, w, g);
    tg_session_destroy(s);
    free(w);
    free(g);
    return status;
}

static inline void *run_rank(void *arg)
{
    const rank *r = arg;
    r->out->status = run_session(r);
    snprintf(r->out->error, sizeof r->out->error, "%s", r->out->status == TG_OK ? "" : tg_error());
    if (r->out->status != TG_OK)
        r->transport->ops->shut(r->transport);
    return NULL;
}

static inline void forget(had *h)
{
    for (int r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < h[r].parts; i++)
            free(h[r].part[i].value);
        h[r].parts = 0;
    }
}

static inline void run(const job *j, had *out)
{
    tg_transport *transport[RANKS];
    pthread_t thread[RANKS];
    rank ranks[RANKS];
    forget(out);
    memset(out, 0, RANKS * sizeof *out);
    assert_int_equal(tg_transport_inproc(j->f.world, transport), TG_OK);
    for (int r = 0; r < j->f.world; r++) {
        ranks[r] = (rank){j, transport[r], &out[r]};
        assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < j->f.world; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < j->f.world; r++)
        tg_transport_destroy(transport[r]);
}

static inline void run_well(const job *j, had *out)
{
    run(j, out);
    for (int r = 0; r < j->f.world; r++) {
        if (out[r].status != TG_OK)
            fail_msg("%s, %s, rank %d of %d: %s", j->f.method, j->f.strategy, r, j->f.world,
                     out[r].error);
        if (out[r].end_hash != out[0].end_hash)
            fail_msg("%s, %s: rank %d of %d ends elsewhere", j->f.method, j->f.strategy, r,
                     j->f.world);
        for (size_t i = 0; i < N; i++)
            assert_true(isfinite(out[r].end[i]));
    }
}

#endif
