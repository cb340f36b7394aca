/* Plays a strategy on plain arrays in tests, as the session would: P ranks in a loop. An exchange
 * is the mean of their gradients, or a push from one to another. Two buckets, three tensors. */
#ifndef TG_STRATEGY_PLAY_H
#define TG_STRATEGY_PLAY_H

#include "base/mem.h"
#include "strategy/strategy.h"
#include "telegrad/spec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLAY_RANKS = 5,
    PLAY_N = 70,
    PLAY_TENSORS = 3,
    PLAY_BUCKETS = 2,
    PLAY_EVENTS = 64,
    PLAY_SLOTS = 16,
    PLAY_LANES = 8,
    PLAY_ACTIONS = PLAY_BUCKETS * PLAY_LANES
};

typedef struct play_rank {
    tg__strategy *s;
    tg__wtensor tensor[PLAY_TENSORS];
    float w[PLAY_N], g[PLAY_N];
    float slot[PLAY_SLOTS][PLAY_N];
    uint64_t updates[TG__MEMORIES][PLAY_TENSORS];
} play_rank;

typedef struct play_exchange {
    uint32_t bucket, tag;
    uint64_t of_step, due;
    double lr;
    bool flagged;
    float sum[PLAY_N];
    int hop; /* 0: all ranks get the mean; else each rank gets what the rank this far behind sent */
    bool bad[PLAY_RANKS];
    float sent[PLAY_RANKS][PLAY_N];
} play_exchange;

typedef struct play {
    int ranks;
    tg_optimizer *optimizer;
    play_rank rank[PLAY_RANKS];
    play_exchange flight[PLAY_ACTIONS];
    size_t flights;
    uint64_t t;
    double lr;
    bool apart;   /* results come without the turn: step() makes its whole part */
    int bad_rank; /* the rank whose next gradient is not finite; -1: none */
    /* The events: "x0c" exchange of bucket 0 coded, "x0d" dense, "r0" result, "r0-" nothing to
     * apply, "s" step */
    char events[PLAY_EVENTS][4];
    size_t nevents;
} play;

/* Tensor 0: elements 0..29, alone in bucket 1. Tensors 1 and 2: 30..32, 33..69 in bucket 0. */
static const size_t play_begin[] = {0, 30, 33, PLAY_N};
static const size_t play_bucket_begin[] = {30, 0}, play_bucket_len[] = {40, 30};

/* Where element 5 is, which is not finite if p->bad_rank says so. */
enum { play_bad_bucket = 1 };

static void play_note(play *p, const char *event)
{
    if (p->nevents < PLAY_EVENTS)
        strcpy(p->events[p->nevents++], event);
}

static void play_create(play *p, const char *strategy, const char *optimizer, int ranks)
{
    static const uint32_t bucket[] = {1, 0, 0};
    static const size_t offset[] = {0, 0, 3};
    *p = (play){.ranks = ranks, .bad_rank = -1};
    if (tg_optimizer_create(optimizer, &p->optimizer) != TG_OK)
        fail_msg("%s", tg_error());
    p->lr = tg_spec_real(tg_optimizer_spec(p->optimizer), "lr");
    for (int j = 0; j < ranks; j++) {
        play_rank *r = &p->rank[j];
        for (size_t i = 0; i < PLAY_TENSORS; i++)
            r->tensor[i] = (tg__wtensor){.w = r->w + play_begin[i],
                                         .g = r->g + play_begin[i],
                                         .n = play_begin[i + 1] - play_begin[i],
                                         .offset = offset[i],
                                         .ndim = i == 1 ? 1 : 2,
                                         .bucket = bucket[i]};
        for (size_t e = 0; e < PLAY_N; e++)
            r->w[e] = cosf((float)e);
        const tg__strategy setup = {.optimizer = p->optimizer,
                                    .steps_per_epoch = 10,
                                    .rank = j,
                                    .size = ranks,
                                    .tensor = r->tensor,
                                    .ntensors = PLAY_TENSORS,
                                    .nbuckets = PLAY_BUCKETS};
        if (tg__strategy_create(strategy, &setup, &r->s) != TG_OK)
            fail_msg("%s", tg_error());
        assert_true(r->s->nslots <= PLAY_SLOTS && r->s->in_flight <= PLAY_LANES);
        for (size_t m = 0; m < r->s->nmemories; m++)
            r->s->memory[m].updates = r->s->memory[m].counts ? r->updates[m] : NULL;
        for (size_t k = 0; k < r->s->nslots; k++)
            for (size_t i = 0; i < PLAY_TENSORS; i++)
                r->s->slot[k][i] = r->slot[k] + play_begin[i];
    }
}

static void play_begin_run(play *p)
{
    for (int j = 0; j < p->ranks; j++)
        tg__strategy_begin(p->rank[j].s);
}

static void play_destroy(play *p)
{
    for (int j = 0; j < p->ranks; j++)
        tg__strategy_destroy(p->rank[j].s);
    tg_optimizer_destroy(p->optimizer);
}

/* The gradient of rank j at w in step t: some nonlinear function. */
static void play_gradient(float *g, const float *w, int j, uint64_t t)
{
    for (size_t e = 0; e < PLAY_N; e++)
        g[e] = sinf(3 * w[e] + (float)j) + 0.25f * cosf((float)(e + t));
}

/* What rank j contributes; NULL: nothing. */
static const float *play_payload(const play *p, int j, const tg__action *a)
{
    if (a->absent)
        return NULL;
    return a->buffer != NULL ? a->buffer : p->rank[j].g + play_bucket_begin[a->bucket];
}

/* Check that all ranks have returned the same actions. The exchange adds in rank order. */
static void play_take(play *p, tg__action list[][PLAY_ACTIONS], const size_t *count)
{
    for (size_t a = 0; a < count[0]; a++) {
        const tg__action *first = &list[0][a];
        play_exchange *x = &p->flight[p->flights++];
        assert_true(p->flights <= TG_COUNT(p->flight));
        *x = (play_exchange){.bucket = first->bucket,
                             .tag = first->tag,
                             .of_step = p->t,
                             .due = first->due,
                             .lr = p->lr,
                             .hop = first->hop,
                             .flagged = p->bad_rank >= 0 &&
                                        (first->buffer == NULL || p->rank[0].s->sends_directions)};
        for (int j = 0; j < p->ranks; j++) {
            assert_int_equal(count[j], count[0]);
            const tg__action *own = &list[j][a];
            assert_true(own->bucket == first->bucket && own->coded == first->coded &&
                        own->due == first->due && own->priority == first->priority &&
                        own->tag == first->tag && own->hop == first->hop);
            assert_true((own->buffer == NULL) == (first->buffer == NULL));
            const float *g = play_payload(p, j, own);
            for (size_t e = 0; e < play_bucket_len[first->bucket]; e++) {
                const float value = g == NULL ? 0 : g[e];
                x->flagged = x->flagged || !isfinite(value);
                x->bad[j] = x->bad[j] || !isfinite(value);
                x->sent[j][e] = value;
                x->sum[e] = j == 0 ? value : x->sum[e] + value;
            }
        }
        char event[4] = {'x', (char)('0' + first->bucket), first->coded ? 'c' : 'd', 0};
        play_note(p, event);
    }
}

/* steps: called before a step of all ranks. No bucket has two results at a time. */
static void play_deliver(play *p, uint64_t due, bool steps)
{
    size_t kept = 0;
    for (size_t f = 0; f < p->flights; f++) {
        play_exchange *x = &p->flight[f];
        if (x->due > due) {
            p->flight[kept++] = *x;
            continue;
        }
        for (size_t e = 0; e < PLAY_N; e++)
            x->sum[e] *= 1.0f / (float)p->ranks;
        tg__result r = {.of_step = x->of_step,
                        .bucket = x->bucket,
                        .tag = x->tag,
                        .agg = x->flagged ? NULL : x->sum,
                        .lr = x->lr};
        for (int j = 0; j < p->ranks; j++) {
            const tg__turn turn = {p->t, j != p->bad_rank, p->lr};
            r.turn = steps && !p->apart ? &turn : NULL;
            const int from = (j - x->hop + p->ranks) % p->ranks;
            if (x->hop != 0)
                r.agg = x->bad[from] || x->bad[j] ? NULL : x->sent[from];
            tg__strategy_result(p->rank[j].s, &r);
        }
        char event[4] = {'r', (char)('0' + x->bucket), x->flagged ? '-' : 0, 0};
        play_note(p, event);
    }
    p->flights = kept;
}

/* One step of all ranks, with the gradients that they have. */
static void play_step_on(play *p)
{
    tg__action list[PLAY_RANKS][PLAY_ACTIONS];
    size_t count[PLAY_RANKS] = {0};
    for (int j = 0; j < p->ranks; j++)
        if (j == p->bad_rank)
            p->rank[j].g[5] = NAN;
    for (uint32_t b = 0; b < PLAY_BUCKETS; b++) {
        for (int j = 0; j < p->ranks; j++) {
            tg__actions out = {.item = list[j], .cap = PLAY_ACTIONS};
            p->rank[j].s->finite = j != p->bad_rank || b != play_bad_bucket;
            tg__strategy_ready(p->rank[j].s, p->t, b, &out);
            assert_int_equal(tg__actions_check(p->rank[j].s, &out), TG_OK);
            count[j] = out.count;
        }
        play_take(p, list, count);
    }
    play_deliver(p, p->t, true);
    for (int j = 0; j < p->ranks; j++) {
        tg__actions out = {.item = list[j], .cap = PLAY_ACTIONS};
        tg__strategy_step(p->rank[j].s, p->t, j != p->bad_rank, p->lr, &out);
        assert_int_equal(tg__actions_check(p->rank[j].s, &out), TG_OK);
        count[j] = out.count;
    }
    play_note(p, "s");
    play_take(p, list, count);
    play_deliver(p, p->t, false); /* deliver what is due at once */
    p->bad_rank = -1;
    p->t++;
}

static void play_step(play *p)
{
    for (int j = 0; j < p->ranks; j++)
        play_gradient(p->rank[j].g, p->rank[j].w, j, p->t);
    play_step_on(p);
}

static void play_drain(play *p)
{
    tg__action list[PLAY_RANKS][PLAY_ACTIONS];
    size_t count[PLAY_RANKS] = {0};
    do {
        play_deliver(p, UINT64_MAX, false);
        for (int j = 0; j < p->ranks; j++) {
            tg__actions out = {.item = list[j], .cap = PLAY_ACTIONS};
            tg__strategy_drained(p->rank[j].s, p->t, &out);
            assert_int_equal(tg__actions_check(p->rank[j].s, &out), TG_OK);
            count[j] = out.count;
        }
        play_take(p, list, count);
    } while (p->flights > 0);
}

/* The global parameters of rank j as one array. */
static const float *play_global(play *p, int j)
{
    static float w[2][PLAY_N];
    static int next;
    float *to = w[next ^= 1];
    for (size_t i = 0; i < PLAY_TENSORS; i++)
        memcpy(to + play_begin[i], tg__strategy_global(p->rank[j].s, i),
               p->rank[j].tensor[i].n * sizeof(float));
    return to;
}

static void assert_same_bits(const float *a, const float *b)
{
    assert_memory_equal(a, b, PLAY_N * sizeof *a);
}

/* All ranks hold the same parameters, and the global weights are those. */
static inline void assert_agreed(play *p)
{
    for (int j = 0; j < p->ranks; j++) {
        assert_same_bits(p->rank[j].w, p->rank[0].w);
        assert_same_bits(play_global(p, j), p->rank[0].w);
    }
}

/* The largest difference; infinite if a value is not finite. */
static inline double play_distance(const float *a, const float *b)
{
    double most = 0;
    for (size_t e = 0; e < PLAY_N; e++) {
        const double d = fabs((double)a[e] - (double)b[e]);
        most = fmax(most, isfinite(d) ? d : INFINITY);
    }
    return most;
}

#endif
