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
#include "method/method.h"
#include "base/mem.h"
#include "codec/sparse/topk_select.h"
#include "kernel/kernel.h"
#include "method/support.h"
#include "telegrad/spec.h"
#include "telegrad/tools.h"

#include <stdio.h>
#include <string.h>

typedef struct lane {
    tg__exchange *chosen; /* CLT-k: the leader's indices */
    size_t k, count;      /* k: room; count: elements of the support, fewer if the leader has
                             fewer that are not 0 */
    uint32_t *idx;        /* (k) the support */
    float *val;           /* (k) */
    float *sent; /* (k) removed from the memory: own values as decoded, times the filter's beta */
} lane;

typedef struct program {
    tg_codec *codec;
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

/* Make room for k elements, and an exchange for them. */
static tg_status size_lane(tg__method *m, tg__lane *l, lane *own, size_t k)
{
    const program *p = m->impl;
    tg__owned_drop(&m->owned, l->coded);
    l->coded = NULL;
    own->k = k;
    TG_TRY(tg__owned_room(&m->owned, &own->idx, k, sizeof *own->idx));
    TG_TRY(tg__owned_room(&m->owned, &own->val, k, sizeof *own->val));
    TG_TRY(tg__owned_room(&m->owned, &own->sent, k, sizeof *own->sent));
    return tg__method_join(m, tg__method_exchange(m), k, p->codec, NULL, &l->coded);
}

static tg_status init_lanes(tg__method *m)
{
    program *p = m->impl;
    const tg__exchange_ops *values = tg__method_exchange(m);
    const char *choice = m->setup.size <= CHOICE_DIRECT_RANKS ? "allgather" : "reducescatter";
    TG_TRY(tg__method_codec(m, tg_spec_word(m->spec, "values"), &p->codec));
    TG_TRY(tg__density_init(&p->density, tg_spec_real(m->spec, "density"),
                            tg_spec_duration(m->spec, "warmup"), tg__method_epochs(&m->setup)));
    TG_TRY(tg__method_alloc(m, TG__SUPPORT_WORDS(m->n), sizeof *p->bits, &p->bits));
    TG_TRY(tg__lanes_make(m, m->setup.may_bypass ? tg__dense_exchange(m) : NULL));
    TG_TRY(tg__method_alloc(m, m->setup.lanes, sizeof *p->lanes, &p->lanes));
    for (size_t i = 0; i < m->setup.lanes; i++) {
        TG_TRY(size_lane(m, &m->lane[i], &p->lanes[i], count_at(m, 0)));
        if (p->indices != NULL)
            TG_TRY(tg__method_join(m, values->apart ? values : tg__exchange_find(choice), m->n,
                                   p->indices, NULL, &p->lanes[i].chosen));
    }
    return TG_OK;
}

static tg_status leader_init(tg__method *m)
{
    program *p = m->impl;
    char spec[64], ahead[TG_REAL_TEXT];
    tg_real_text(tg_spec_real(m->spec, "lookahead"), ahead);
    snprintf(spec, sizeof spec, "topk:values=1bit,lookahead=%s", ahead);
    TG_TRY(tg__method_codec(m, spec, &p->indices));
    if (tg__feedback_filters(m->feedback))
        TG_TRY(tg__method_alloc(m, m->n, sizeof *p->filtered, &p->filtered));
    return init_lanes(m);
}

/* Make the lane fit for this step's k, with a zero aggregate. */
static tg_status prepare(tg__method *m, tg__task *task, tg__lane *l, lane *own)
{
    const program *p = m->impl;
    const size_t k = count_at(m, task->step);
    if (l->full)
        memset(l->aggregate, 0, m->n * sizeof *l->aggregate);
    for (size_t i = 0; !l->full && i < own->count; i++)
        l->aggregate[own->idx[i]] = 0;
    l->full = false;
    own->count = 0;
    if (k != own->k)
        TG_TRY(size_lane(m, l, own, k));
    l->coded->context = (tg_encode_context){.struct_size = sizeof l->coded->context,
                                            .rng = tg__method_key(m, task->step, TG_PURPOSE_OWNER)};
    task->density = tg__density_at(&p->density, task->step);
    return TG_OK;
}

/* Encode the values p[S]; p NULL: this rank has none. */
static tg_status encode_values(tg__method *m, tg__task *task, tg__lane *l, const float *p)
{
    tg__feedback *f = m->feedback;
    lane *own = &((program *)m->impl)->lanes[task->lane];
    tg__exchange *x = l->running = l->coded;
    tg__view view;
    if (p == NULL) {
        tg__put_zeros(x);
    } else {
        for (size_t i = 0; i < own->k; i++)
            own->val[i] = i < own->count ? p[own->idx[i]] : 0;
        TG_TRY(tg__codec_encode(x->codec, NULL, own->val, own->k, x->parts, x->nparts, &view));
        memcpy(own->sent, view.dense, own->k * sizeof *own->sent);
        if (f->ops->sent != NULL)
            f->ops->sent(f, p, m->n, own->idx, own->sent, own->count);
        tg__kernel()->scale(own->sent, tg__feedback_share(f), own->k);
    }
    tg__task_count(task, x, NULL);
    return TG_OK;
}

/* p of this rank's gradient; NULL if it or the memory is not finite. */
static const float *compensated(tg__method *m, tg__task *task)
{
    const float *p = NULL;
    if (task->nonfinite)
        return NULL;
    if (m->feedback->ops->compensate(m->feedback, task->g, m->n, ((program *)m->impl)->filtered,
                                     &p))
        return p;
    tg__forget(m, task);
    return NULL;
}

static tg_status encode_random(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    lane *own = &p->lanes[task->lane];
    tg_rng_key key = tg__method_key(m, task->step, TG_PURPOSE_CODEC);
    key.rank = 0; /* the same on all ranks */
    TG_TRY(prepare(m, task, l, own));
    own->count = own->k;
    tg__support_draw(&key, m->n, own->k, p->bits, own->idx);
    return encode_values(m, task, l, compensated(m, task));
}

/* ---- CLT-k ----------------------------------------------------------------------------------- */

/* Encode the leader's choice, from its own p. */
static tg_status choose(tg__method *m, const tg__task *task, tg__exchange *x, const float *p)
{
    const bool leads = task->step % (uint64_t)m->setup.size == (uint64_t)m->setup.rank;
    const tg_encode_context ctx = {
        .struct_size = sizeof ctx,
        .rng = tg__method_key(m, task->step, TG_PURPOSE_CODEC),
        .density = task->density,
        .gradient = tg__feedback_last(m->feedback, task->g),
    };
    x->context = (tg_encode_context){.struct_size = sizeof ctx, .rng = ctx.rng};
    x->context.density = 1; /* owners forward all that the leader chose */
    if (p == NULL || !(leads || x->ops->apart)) {
        tg__put_zeros(x);
        return TG_OK;
    }
    return tg__codec_encode(x->codec, &ctx, p, m->n, x->parts, x->nparts, NULL);
}

static tg_status encode_choice(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    lane *own = &p->lanes[task->lane];
    TG_TRY(prepare(m, task, l, own));
    p->sums = compensated(m, task);
    l->running = own->chosen;
    TG_TRY(choose(m, task, own->chosen, p->sums));
    tg__task_count(task, own->chosen, NULL);
    task->kept = 0; /* the values are counted in the next round */
    return TG_OK;
}

/* The support is where the leader's vector is not 0. The aggregate serves as scratch. */
static void read_choice(const tg__method *m, tg__lane *l, lane *own)
{
    own->chosen->ops->result(own->chosen, l->aggregate);
    for (size_t i = 0; i < m->n; i++) {
        if (l->aggregate[i] == 0)
            continue;
        l->aggregate[i] = 0;
        /* more elements would be an error of the leader, but all ranks see the same */
        if (own->count < own->k)
            own->idx[own->count++] = (uint32_t)i;
    }
}

/* ---- both programs --------------------------------------------------------------------------- */

static tg_status advance(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    lane *own = &p->lanes[task->lane];
    if (l->running != l->coded) {
        read_choice(m, l, own);
        return encode_values(m, task, l, p->sums);
    }
    l->running = NULL;
    l->coded->ops->result(l->coded, own->val);
    if (tg__feedback_pending(m->feedback) == NULL) /* unbiased: what is not sent is lost */
        tg__kernel()->scale(own->val, (float)((double)m->n / (double)own->k), own->k);
    if (!tg__kernel()->all_finite(own->val, own->k))
        task->overflow = "the sum over ranks";
    for (size_t i = 0; i < own->count; i++)
        l->aggregate[own->idx[i]] = own->val[i];
    return TG_OK;
}

/* Return the own values to the memory, as they left it. */
static tg_status undo(tg__method *m, const tg__task *task)
{
    const tg__lane *l = &m->lane[task->lane];
    const lane *own = &((program *)m->impl)->lanes[task->lane];
    float *pending = tg__feedback_pending(m->feedback);
    if (l->was_coded && !l->was_nonfinite && pending != NULL)
        tg__kernel()->scatter_add(pending, own->idx, own->sent, own->count);
    return TG_OK;
}

/* Return what was lost by rounding the sums of values, as if it had not been sent. */
static void absorb(tg__method *m, const tg__task *task)
{
    const tg__lane *l = &m->lane[task->lane];
    lane *own = &((program *)m->impl)->lanes[task->lane];
    float *pending = tg__feedback_pending(m->feedback);
    if (!l->was_coded || pending == NULL || l->coded->ops->leftover == NULL)
        return;
    memset(own->val, 0, own->k * sizeof *own->val);
    l->coded->ops->leftover(l->coded, tg__feedback_share(m->feedback), own->val);
    tg__kernel()->scatter_add(pending, own->idx, own->val, own->count);
}

/* One round: all ranks draw the same elements. */
const tg__program_ops tg__shared_support_program = {
    .rounds = 1,
    .impl_bytes = sizeof(program),
    .init = init_lanes,
    .encode = encode_random,
    .advance = advance,
    TG__IN_LANES,
    .undo = undo,
    .absorb = absorb,
};

/* Two rounds: a different rank chooses in each step. Needs feedback residual. */
const tg__program_ops tg__leader_support_program = {
    .rounds = 2,
    .max_lanes = 1, /* the values are looked up at the end of the first round */
    .impl_bytes = sizeof(program),
    .init = leader_init,
    .encode = encode_choice,
    .advance = advance,
    TG__IN_LANES,
    .undo = undo,
    .absorb = absorb,
};
