/* p = compensate(g); S = k elements, the same on all ranks; exchange p[S] densely; aggregate =
 * mean(p[S]) on S, 0 elsewhere; sent(S, p[S]).
 *
 * Random-k: all ranks draw the same S for this step, so no indices are sent. Without memory of the
 * rest, the aggregate is multiplied by n/k. CLT-k: S is the top-k of the leader, rank `step mod P`,
 * which sends its indices to all in a first round (as a frame of top-k with 1-bit values; the
 * others' frames are zero). With a low-pass filter the memory is not p, so p waits for S in a
 * vector of its own.
 *
 * k changes during the warm-up; the exchange is then created again. */
#include "method/shared_support_program.h"
#include "base/mem.h"
#include "codec/sparse/topk_select.h"
#include "kernel/kernel.h"
#include "method/support.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"

#include <stdlib.h>
#include <string.h>

typedef struct lane {
    tg__exchange *coded, *dense; /* of k elements; of all elements */
    tg__exchange *chosen;        /* CLT-k: the leader's indices */
    bool choosing;               /* CLT-k: that exchange is in flight */
    size_t k, count;             /* k: room; count: elements of the support, fewer if the leader has
                                    fewer that are not 0 */
    uint32_t *idx;               /* (k) the support */
    float *val;                  /* (k) */
    /* (k) removed from the memory: own values as decoded, times the filter's beta */
    float *sent;
    float *aggregate; /* (n) 0 outside the support, unless `full` */
    bool full, was_coded, was_nonfinite;
} lane;

typedef struct program {
    tg_codec *codec, *f32;
    tg_codec *indices; /* CLT-k: codec of the leader's choice; else NULL */
    tg__density_schedule density;
    uint64_t *bits;
    float *filtered;   /* (n) p, kept apart from the memory; NULL: the memory is p */
    const float *sums; /* p of the step in flight, for rounds that look values up */
    lane *lanes;
} program;

/* With more ranks than this, the leader's indices are sent via the blocks' owners: this takes one
 * more delay, but no rank sends them to all. */
enum { CHOICE_DIRECT_RANKS = 8 };

static size_t count_at(const tg__method *m, uint64_t step)
{
    const program *p = m->impl;
    return tg__topk_count(tg__density_at(&p->density, step), m->n);
}

/* Allocate buffers and an exchange for k elements. */
static tg_status size_lane(tg__method *m, lane *l, size_t k)
{
    const program *p = m->impl;
    tg__exchange_destroy(l->coded);
    free(l->idx);
    free(l->val);
    free(l->sent);
    l->coded = NULL;
    l->idx = NULL;
    l->val = l->sent = NULL;
    l->k = k;
    TG_TRY(tg_alloc(k, sizeof *l->idx, &l->idx));
    TG_TRY(tg_alloc(k, sizeof *l->val, &l->val));
    TG_TRY(tg_alloc(k, sizeof *l->sent, &l->sent));
    TG_TRY(tg__exchange_create(tg__method_exchange(m), m->setup.rank, m->setup.size, k, p->codec,
                               &tg__combine_mean, &l->coded));
    l->coded->pool = m->setup.pool;
    return TG_OK;
}

static tg_status make_lane(tg__method *m, lane *l)
{
    const program *p = m->impl;
    const bool apart = strcmp(tg_spec_word(m->spec, "exchange"), "none") == 0;
    const char *choice = apart                                  ? "none"
                         : m->setup.size <= CHOICE_DIRECT_RANKS ? "allgather"
                                                                : "reducescatter";
    TG_TRY(tg_alloc(m->n, sizeof *l->aggregate, &l->aggregate));
    TG_TRY(size_lane(m, l, count_at(m, 0)));
    if (p->indices != NULL) {
        TG_TRY(tg__exchange_create(tg__exchange_find(choice), m->setup.rank, m->setup.size, m->n,
                                   p->indices, &tg__combine_mean, &l->chosen));
        l->chosen->pool = m->setup.pool;
    }
    if (!m->setup.may_bypass)
        return TG_OK;
    TG_TRY(tg__exchange_create(tg__exchange_find(apart ? "none" : "direct"), m->setup.rank,
                               m->setup.size, m->n, p->f32, &tg__combine_mean, &l->dense));
    l->dense->pool = m->setup.pool;
    return TG_OK;
}

static tg_status init_lanes(tg__method *m)
{
    program *p = m->impl;
    TG_TRY(tg_codec_create(tg_spec_word(m->spec, "values"), &p->codec));
    TG_TRY(tg_codec_create("f32", &p->f32));
    TG_TRY(tg__density_init(&p->density, tg_spec_real(m->spec, "density"),
                            tg_spec_duration(m->spec, "warmup"), tg__method_epochs(&m->setup)));
    TG_TRY(tg_alloc(TG__SUPPORT_WORDS(m->n), sizeof *p->bits, &p->bits));
    TG_TRY(tg_alloc(m->setup.lanes, sizeof *p->lanes, &p->lanes));
    for (size_t i = 0; i < m->setup.lanes; i++)
        TG_TRY(make_lane(m, &p->lanes[i]));
    return TG_OK;
}

static tg_status random_init(tg__method *m)
{
    program *p;
    TG_TRY(tg_alloc(1, sizeof *p, &p));
    m->impl = p;
    return init_lanes(m);
}

static tg_status leader_init(tg__method *m)
{
    program *p;
    TG_TRY(tg_alloc(1, sizeof *p, &p));
    m->impl = p;
    TG_TRY(tg_codec_create("topk:values=1bit", &p->indices));
    p->indices->pool = m->setup.pool;
    if (tg__feedback_filters(m->feedback))
        TG_TRY(tg_alloc(m->n, sizeof *p->filtered, &p->filtered));
    return init_lanes(m);
}

static void fini(tg__method *m)
{
    program *p = m->impl;
    for (size_t i = 0; p->lanes != NULL && i < m->setup.lanes; i++) {
        tg__exchange_destroy(p->lanes[i].coded);
        tg__exchange_destroy(p->lanes[i].dense);
        tg__exchange_destroy(p->lanes[i].chosen);
        free(p->lanes[i].idx);
        free(p->lanes[i].val);
        free(p->lanes[i].sent);
        free(p->lanes[i].aggregate);
    }
    free(p->lanes);
    free(p->bits);
    free(p->filtered);
    tg_codec_destroy(p->codec);
    tg_codec_destroy(p->f32);
    tg_codec_destroy(p->indices);
    free(p);
    m->impl = NULL;
}

static tg_rng_key key_of(const tg__method *m, uint64_t step, tg_purpose purpose, int rank)
{
    return (tg_rng_key){.seed = m->setup.seed,
                        .purpose = purpose,
                        .rank = (uint32_t)rank,
                        .step = step,
                        .tensor = m->setup.bucket};
}

/* Return a lane for this step's k, with a zero aggregate. */
static tg_status prepare(tg__method *m, lane *l, uint64_t step)
{
    const size_t k = count_at(m, step);
    if (l->full)
        memset(l->aggregate, 0, m->n * sizeof *l->aggregate);
    for (size_t i = 0; !l->full && i < l->count; i++)
        l->aggregate[l->idx[i]] = 0;
    l->full = false;
    l->count = 0;
    if (k != l->k)
        TG_TRY(size_lane(m, l, k));
    const tg_encode_context ctx = {
        .struct_size = sizeof ctx,
        .rng = key_of(m, step, TG_PURPOSE_OWNER, m->setup.rank),
    };
    l->coded->context = ctx;
    return TG_OK;
}

/* Encode the values p[S]; p NULL: this rank has none. */
static tg_status encode_values(tg__method *m, tg__task *task, lane *l, const float *p)
{
    tg__feedback *f = m->feedback;
    tg__view view;
    if (p == NULL) {
        tg__put_zeros(l->coded);
    } else {
        for (size_t i = 0; i < l->k; i++)
            l->val[i] = i < l->count ? p[l->idx[i]] : 0;
        TG_TRY(tg__codec_encode(((program *)m->impl)->codec, NULL, l->val, l->k, l->coded->parts,
                                l->coded->nparts, &view));
        memcpy(l->sent, view.dense, l->k * sizeof *l->sent);
        f->ops->sent(f, p, m->n, l->idx, l->sent, l->count);
        tg__kernel()->scale(l->sent, tg__feedback_share(f), l->k);
    }
    tg__task_count(task, l->coded, NULL);
    return TG_OK;
}

static void begin_task(tg__method *m, tg__task *task, lane *l)
{
    const program *p = m->impl;
    l->was_coded = task->coded;
    l->was_nonfinite = task->nonfinite;
    task->density = task->coded ? tg__density_at(&p->density, task->step) : 1;
    task->coded_bytes = task->kept = 0;
    task->fell_back = false;
}

static tg_status begin_dense(tg__method *m, tg__task *task, lane *l)
{
    const program *p = m->impl;
    const float *sent;
    if (task->nonfinite) {
        tg__put_zeros(l->dense);
    } else {
        m->feedback->ops->bypass(m->feedback, task->g, m->n, NULL, &sent);
        TG_TRY(tg__codec_encode(p->f32, NULL, sent, m->n, l->dense->parts, l->dense->nparts, NULL));
    }
    tg__task_count(task, l->dense, NULL);
    return TG_OK;
}

/* p of this rank's gradient; NULL if it or the memory is not finite: then all memory is reset, and
 * all ranks are informed. */
static const float *compensated(tg__method *m, tg__task *task, lane *l)
{
    const float *p = NULL;
    if (task->nonfinite)
        return NULL;
    if (m->feedback->ops->compensate(m->feedback, task->g, m->n, ((program *)m->impl)->filtered,
                                     &p))
        return p;
    (void)tg__method_heal(m, true);
    task->overflow = TG__FORGOT;
    l->was_nonfinite = true;
    return NULL;
}

static tg_status random_begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    lane *l = &p->lanes[task->lane];
    begin_task(m, task, l);
    if (task->coded) {
        /* the same on all ranks */
        const tg_rng_key key = key_of(m, task->step, TG_PURPOSE_CODEC, 0);
        TG_TRY(prepare(m, l, task->step));
        l->count = l->k;
        tg__support_draw(&key, m->n, l->k, p->bits, l->idx);
        TG_TRY(encode_values(m, task, l, compensated(m, task, l)));
    } else {
        TG_TRY(begin_dense(m, task, l));
    }
    *x_p = task->coded ? l->coded : l->dense;
    return TG_OK;
}

/* ---- CLT-k ----------------------------------------------------------------------------------- */

/* Encode the leader's choice, from its own p. */
static tg_status choose(tg__method *m, const tg__task *task, lane *l, const float *p)
{
    tg__exchange *x = l->chosen;
    const bool leads = task->step % (uint64_t)m->setup.size == (uint64_t)m->setup.rank;
    tg_encode_context ctx = {
        .struct_size = sizeof ctx,
        .rng = key_of(m, task->step, TG_PURPOSE_CODEC, m->setup.rank),
        .density = task->density,
    };
    x->context = ctx;
    x->context.density = 1; /* owners forward all that the leader chose */
    if (p == NULL || !(leads || strcmp(x->ops->entry.name, "none") == 0)) {
        tg__put_zeros(x);
        return TG_OK;
    }
    return tg__codec_encode(x->codec, &ctx, p, m->n, x->parts, x->nparts, NULL);
}

static tg_status leader_begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    lane *l = &p->lanes[task->lane];
    begin_task(m, task, l);
    l->choosing = task->coded;
    if (task->coded) {
        TG_TRY(prepare(m, l, task->step));
        p->sums = compensated(m, task, l);
        TG_TRY(choose(m, task, l, p->sums));
        for (size_t i = 0; i < l->chosen->nparts; i++)
            task->coded_bytes += l->chosen->parts[i].len;
    } else {
        TG_TRY(begin_dense(m, task, l));
    }
    *x_p = task->coded ? l->chosen : l->dense;
    return TG_OK;
}

/* The support is where the leader's vector is not 0. The aggregate serves as scratch. */
static void read_choice(const tg__method *m, lane *l)
{
    l->chosen->ops->result(l->chosen, l->aggregate);
    for (size_t i = 0; i < m->n; i++) {
        if (l->aggregate[i] == 0)
            continue;
        l->aggregate[i] = 0;
        /* more elements would be an error of the leader, but all ranks see the same */
        if (l->count < l->k)
            l->idx[l->count++] = (uint32_t)i;
    }
}

/* ---- both programs --------------------------------------------------------------------------- */

static tg_status next(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    lane *l = &p->lanes[task->lane];
    *x_p = NULL;
    if (!task->coded) {
        l->dense->ops->result(l->dense, l->aggregate);
        l->full = true;
        return TG_OK;
    }
    if (l->choosing) {
        l->choosing = false;
        read_choice(m, l);
        *x_p = l->coded;
        return encode_values(m, task, l, p->sums);
    }
    l->coded->ops->result(l->coded, l->val);
    if (tg__feedback_pending(m->feedback) == NULL) /* unbiased: what is not sent is lost */
        tg__kernel()->scale(l->val, (float)((double)m->n / (double)l->k), l->k);
    if (!tg__kernel()->all_finite(l->val, l->k))
        task->overflow = "the sum over ranks";
    for (size_t i = 0; i < l->count; i++)
        l->aggregate[l->idx[i]] = l->val[i];
    return TG_OK;
}

static const float *aggregate(tg__method *m, const tg__task *task)
{
    return ((program *)m->impl)->lanes[task->lane].aggregate;
}

/* Return the own values to the memory, as they left it. */
static tg_status undo(tg__method *m, const tg__task *task)
{
    const lane *l = &((program *)m->impl)->lanes[task->lane];
    float *pending = tg__feedback_pending(m->feedback);
    if (l->was_coded && !l->was_nonfinite && pending != NULL)
        tg__kernel()->scatter_add(pending, l->idx, l->sent, l->count);
    return TG_OK;
}

/* Return what was lost by rounding the sums of values, as if it had not been sent. */
static void absorb(tg__method *m, const tg__task *task)
{
    lane *l = &((program *)m->impl)->lanes[task->lane];
    float *pending = tg__feedback_pending(m->feedback);
    if (!l->was_coded || pending == NULL || l->coded->ops->leftover == NULL)
        return;
    memset(l->val, 0, l->k * sizeof *l->val);
    l->coded->ops->leftover(l->coded, tg__feedback_share(m->feedback), l->val);
    tg__kernel()->scatter_add(pending, l->idx, l->val, l->count);
}

const tg__program_ops tg__shared_support_program = {
    .rounds = 1,
    .init = random_init,
    .fini = fini,
    .begin = random_begin,
    .next = next,
    .aggregate = aggregate,
    .undo = undo,
    .absorb = absorb,
};

const tg__program_ops tg__leader_support_program = {
    .rounds = 2,
    .max_lanes = 1, /* the values are looked up at the end of the first round */
    .init = leader_init,
    .fini = fini,
    .begin = leader_begin,
    .next = next,
    .aggregate = aggregate,
    .undo = undo,
    .absorb = absorb,
};
