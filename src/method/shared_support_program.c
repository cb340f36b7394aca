/* p = compensate(g); S = k elements that all ranks draw alike for this step; exchange p[S] densely;
 * aggregate = 0 but mean(p[S]) on S, times n/k where nothing remembers the rest; sent(S, p[S]).
 *
 * No index travels. k changes with the warm-up: an exchange is made anew then. */
#include "method/shared_support_program.h"
#include "base/mem.h"
#include "codec/topk_select.h"
#include "kernel/kernel.h"
#include "method/support.h"

#include <stdlib.h>
#include <string.h>

typedef struct lane {
    tg__exchange *coded, *dense; /* of k elements; of all */
    size_t k;
    uint32_t *idx;    /* (k) the support */
    float *val;       /* (k) */
    float *sent;      /* (k) own values as decoded, which an exchange may overwrite in its parts */
    float *aggregate; /* (n) 0 outside the support, unless `full` */
    bool full, was_coded, was_nonfinite;
} lane;

typedef struct program {
    tg_codec *codec, *f32;
    tg__density_schedule density;
    uint64_t *bits;
    lane *lanes;
} program;

static size_t count_at(const tg__method *m, uint64_t step)
{
    const program *p = m->impl;
    return tg__topk_count(tg__density_at(&p->density, step), m->n);
}

/* Room and an exchange for k elements. */
static tg_status size_lane(tg__method *m, lane *l, size_t k)
{
    const program *p = m->impl;
    const char *name = tg_spec_word(m->spec, "exchange");
    if (strcmp(name, "auto") == 0)
        name = m->def->exchange;
    tg__exchange_destroy(l->coded);
    free(l->idx);
    free(l->val);
    free(l->sent);
    l->coded = NULL;
    l->idx = NULL;
    l->val = l->sent = NULL;
    l->k = k;
    TG_TRY(tg__alloc(k, sizeof *l->idx, &l->idx));
    TG_TRY(tg__alloc(k, sizeof *l->val, &l->val));
    TG_TRY(tg__alloc(k, sizeof *l->sent, &l->sent));
    TG_TRY(tg__exchange_create(tg__exchange_find(name), m->setup.rank, m->setup.size, k, p->codec,
                               &tg__combine_mean, &l->coded));
    l->coded->pool = m->setup.pool;
    return TG_OK;
}

static tg_status make_lane(tg__method *m, lane *l)
{
    const program *p = m->impl;
    const bool apart = strcmp(tg_spec_word(m->spec, "exchange"), "none") == 0;
    TG_TRY(tg__alloc(m->n, sizeof *l->aggregate, &l->aggregate));
    TG_TRY(size_lane(m, l, count_at(m, 0)));
    if (!m->setup.may_bypass)
        return TG_OK;
    TG_TRY(tg__exchange_create(tg__exchange_find(apart ? "none" : "direct"), m->setup.rank,
                               m->setup.size, m->n, p->f32, &tg__combine_mean, &l->dense));
    l->dense->pool = m->setup.pool;
    return TG_OK;
}

static tg_status init(tg__method *m)
{
    program *p;
    TG_TRY(tg__alloc(1, sizeof *p, &p));
    m->impl = p;
    TG_TRY(tg_codec_create(tg_spec_word(m->spec, "values"), &p->codec));
    TG_TRY(tg_codec_create("f32", &p->f32));
    TG_TRY(tg__density_init(&p->density, tg_spec_real(m->spec, "density"),
                            tg_spec_duration(m->spec, "warmup"), m->setup.steps_per_epoch));
    TG_TRY(tg__alloc(TG__SUPPORT_WORDS(m->n), sizeof *p->bits, &p->bits));
    TG_TRY(tg__alloc(m->setup.lanes, sizeof *p->lanes, &p->lanes));
    for (size_t i = 0; i < m->setup.lanes; i++)
        TG_TRY(make_lane(m, &p->lanes[i]));
    return TG_OK;
}

static void fini(tg__method *m)
{
    program *p = m->impl;
    for (size_t i = 0; p->lanes != NULL && i < m->setup.lanes; i++) {
        tg__exchange_destroy(p->lanes[i].coded);
        tg__exchange_destroy(p->lanes[i].dense);
        free(p->lanes[i].idx);
        free(p->lanes[i].val);
        free(p->lanes[i].sent);
        free(p->lanes[i].aggregate);
    }
    free(p->lanes);
    free(p->bits);
    tg_codec_destroy(p->codec);
    tg_codec_destroy(p->f32);
    free(p);
    m->impl = NULL;
}

static void clear_aggregate(const tg__method *m, lane *l)
{
    if (l->full)
        memset(l->aggregate, 0, m->n * sizeof *l->aggregate);
    for (size_t i = 0; !l->full && i < l->k; i++)
        l->aggregate[l->idx[i]] = 0;
    l->full = false;
}

/* The support of this step in the lane. */
static tg_status draw_support(tg__method *m, lane *l, uint64_t step)
{
    program *p = m->impl;
    const size_t k = count_at(m, step);
    const tg_rng_key key = {.seed = m->setup.seed,
                            .purpose = TG_PURPOSE_CODEC,
                            .rank = 0, /* all ranks alike */
                            .step = step,
                            .tensor = m->setup.bucket};
    clear_aggregate(m, l);
    if (k != l->k)
        TG_TRY(size_lane(m, l, k));
    tg__support_draw(&key, m->n, k, p->bits, l->idx);
    return TG_OK;
}

static tg_status encode_support(tg__method *m, lane *l, const float *g)
{
    program *p = m->impl;
    tg__feedback *f = m->feedback;
    const float *sent;
    tg__view view;
    f->ops->compensate(f, g, m->n, NULL, &sent);
    for (size_t i = 0; i < l->k; i++)
        l->val[i] = sent[l->idx[i]];
    TG_TRY(
        tg__codec_encode(p->codec, NULL, l->val, l->k, l->coded->parts, l->coded->nparts, &view));
    memcpy(l->sent, view.dense, l->k * sizeof *l->sent);
    f->ops->sent(f, sent, m->n, l->idx, l->sent, l->k);
    return TG_OK;
}

static tg_status begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    lane *l = &p->lanes[task->lane];
    l->was_coded = task->coded;
    l->was_nonfinite = task->nonfinite;
    task->density = 1;
    task->coded_bytes = task->kept = 0;
    task->fell_back = false;
    if (task->coded) {
        task->density = tg__density_at(&p->density, task->step);
        TG_TRY(draw_support(m, l, task->step));
    }
    tg__exchange *x = task->coded ? l->coded : l->dense;
    if (task->nonfinite) {
        for (size_t i = 0; i < x->nparts; i++)
            tg__part_zero(&x->parts[i], x->codec->ops->wire_id);
    } else if (task->coded) {
        TG_TRY(encode_support(m, l, task->g));
    } else {
        const float *sent;
        m->feedback->ops->bypass(m->feedback, task->g, m->n, NULL, &sent);
        TG_TRY(tg__codec_encode(p->f32, NULL, sent, m->n, x->parts, x->nparts, NULL));
    }
    tg__task_count(task, x, NULL);
    *x_p = x;
    return TG_OK;
}

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
    l->coded->ops->result(l->coded, l->val);
    if (tg__feedback_pending(m->feedback) == NULL) /* unbiased: what is not sent is lost */
        tg__kernel()->scale(l->val, (float)((double)m->n / (double)l->k), l->k);
    for (size_t i = 0; i < l->k; i++)
        l->aggregate[l->idx[i]] = l->val[i];
    return TG_OK;
}

static const float *aggregate(tg__method *m, const tg__task *task)
{
    return ((program *)m->impl)->lanes[task->lane].aggregate;
}

/* The own values, as sent, go back. */
static tg_status undo(tg__method *m, const tg__task *task)
{
    const lane *l = &((program *)m->impl)->lanes[task->lane];
    float *pending = tg__feedback_pending(m->feedback);
    if (l->was_coded && !l->was_nonfinite && pending != NULL)
        tg__kernel()->scatter_add(pending, l->idx, l->sent, l->k);
    return TG_OK;
}

const tg__program_ops tg__shared_support_program = {
    .rounds = 1,
    .init = init,
    .fini = fini,
    .begin = begin,
    .next = next,
    .aggregate = aggregate,
    .undo = undo,
};
