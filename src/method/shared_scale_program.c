#include "method/shared_scale_program.h"
#include "base/mem.h"
#include "codec/quant/codec_terngrad.h"
#include "kernel/kernel.h"
#include "method/default_program.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"

#include <stdlib.h>
#include <string.h>

typedef struct lane {
    tg__exchange *scales, *coded, *dense; /* scales NULL: each rank uses its own */
    tg__exchange *running;
    float *clipped;   /* (n) the gradient between the rounds */
    float *scale;     /* (count) own, then agreed */
    float *aggregate; /* (n) */
} lane;

typedef struct program {
    tg_codec *codec, *f32;
    double clip;
    bool shared;
    tg_segment *segments;
    lane *lanes;
} program;

static tg_status make_lane(tg__method *m, program *p, lane *l)
{
    const tg__exchange_ops *coded = tg__method_exchange(m);
    const bool alone = strcmp(coded->entry.name, "none") == 0;
    const tg__exchange_ops *scales = alone ? coded : tg__exchange_find("allgather");
    const tg__exchange_ops *dense = alone ? coded : tg__exchange_find("direct");
    const tg__method_setup *s = &m->setup;
    TG_TRY(tg_alloc(m->n, sizeof(float), &l->aggregate));
    TG_TRY(
        tg__exchange_create(coded, s->rank, s->size, m->n, p->codec, &tg__combine_mean, &l->coded));
    l->coded->pool = s->pool;
    if (s->may_bypass) {
        TG_TRY(tg__exchange_create(dense, s->rank, s->size, m->n, p->f32, &tg__combine_mean,
                                   &l->dense));
        l->dense->pool = s->pool;
    }
    if (!p->shared)
        return TG_OK;
    TG_TRY(tg_alloc(m->n, sizeof(float), &l->clipped));
    TG_TRY(tg_alloc(s->count, sizeof(float), &l->scale));
    return tg__exchange_create(scales, s->rank, s->size, s->count, p->f32, &tg__combine_max,
                               &l->scales);
}

static tg_status shared_init(tg__method *m)
{
    program *p;
    const tg__method_setup *s = &m->setup;
    TG_TRY(tg_alloc(1, sizeof *p, &p));
    m->impl = p;
    TG_TRY(tg__make_codec(m, m->def->codec, &p->codec));
    TG_TRY(tg_codec_create("f32", &p->f32));
    p->codec->pool = s->pool;
    p->clip = tg_spec_real(m->spec, "clip");
    p->shared = strcmp(tg_spec_word(m->spec, "scaler"), "shared") == 0;
    TG_TRY(tg__make_segments(s, &p->segments));
    TG_TRY(tg_alloc(s->lanes, sizeof *p->lanes, &p->lanes));
    for (size_t i = 0; i < s->lanes; i++)
        TG_TRY(make_lane(m, p, &p->lanes[i]));
    return TG_OK;
}

static void shared_fini(tg__method *m)
{
    program *p = m->impl;
    for (size_t i = 0; p->lanes != NULL && i < m->setup.lanes; i++) {
        lane *l = &p->lanes[i];
        tg__exchange_destroy(l->scales);
        tg__exchange_destroy(l->coded);
        tg__exchange_destroy(l->dense);
        free(l->clipped);
        free(l->scale);
        free(l->aggregate);
    }
    free(p->lanes);
    free(p->segments);
    tg_codec_destroy(p->codec);
    tg_codec_destroy(p->f32);
    free(p);
    m->impl = NULL;
}

/* ---- the rounds ------------------------------------------------------------------------------ */

typedef struct clipping {
    const program *p;
    const lane *l;
    const float *g;
} clipping;

static void clip_tensor(void *arg, size_t i)
{
    const clipping *c = arg;
    const tg_segment *s = &c->p->segments[i];
    float *to = c->l->clipped + s->begin;
    float limit = tg__terngrad_limit(c->g + s->begin, s->n, c->p->clip);
    tg__kernel()->clamp(to, c->g + s->begin, s->n, limit);
    c->l->scale[i] = tg__kernel()->abs_max(to, s->n);
}

static tg_status encode_codes(tg__method *m, const tg__task *task, const lane *l, const float *x)
{
    const program *p = m->impl;
    tg_encode_context ctx = {
        .struct_size = sizeof ctx,
        .rng = {.seed = m->setup.seed,
                .purpose = TG_PURPOSE_CODEC,
                .rank = (uint32_t)m->setup.rank,
                .step = task->step,
                .tensor = m->setup.bucket},
        .segments = p->segments,
        .nsegments = m->setup.count,
        .scale = p->shared ? l->scale : NULL,
    };
    return tg__codec_encode(p->codec, &ctx, x, m->n, l->coded->parts, l->coded->nparts, NULL);
}

/* Prepare x for launch, and count its parts. */
static tg_status put(tg__method *m, tg__task *task, lane *l, tg__exchange *x)
{
    const program *p = m->impl;
    if (task->nonfinite) {
        tg__put_zeros(x);
    } else if (x == l->dense) {
        TG_TRY(tg__codec_encode(p->f32, NULL, task->g, m->n, x->parts, x->nparts, NULL));
    } else if (x == l->scales) {
        clipping c = {.p = p, .l = l, .g = task->g};
        tg__pool_run(m->setup.pool, m->setup.count, clip_tensor, &c);
        TG_TRY(tg__codec_encode(p->f32, NULL, l->scale, m->setup.count, x->parts, x->nparts, NULL));
    } else {
        TG_TRY(encode_codes(m, task, l, p->shared ? l->clipped : task->g));
    }
    if (x != l->scales)
        tg__task_count(task, x, x == l->dense ? NULL : p->codec);
    for (size_t i = 0; x == l->scales && i < x->nparts; i++)
        task->coded_bytes += x->parts[i].len;
    l->running = x;
    return TG_OK;
}

static tg_status shared_begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    lane *l = &p->lanes[task->lane];
    task->density = 1;
    task->coded_bytes = task->kept = 0;
    task->fell_back = false;
    tg__exchange *x = !task->coded ? l->dense : p->shared ? l->scales : l->coded;
    TG_TRY(put(m, task, l, x));
    *x_p = x;
    return TG_OK;
}

static tg_status shared_next(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    lane *l = &((program *)m->impl)->lanes[task->lane];
    if (l->running == l->scales && l->scales != NULL) {
        l->scales->ops->result(l->scales, l->scale);
        TG_TRY(put(m, task, l, l->coded));
        *x_p = l->coded;
        return TG_OK;
    }
    l->running->ops->result(l->running, l->aggregate);
    *x_p = NULL;
    return TG_OK;
}

static const float *shared_aggregate(tg__method *m, const tg__task *task)
{
    return ((program *)m->impl)->lanes[task->lane].aggregate;
}

/* There is no memory to restore. */
static tg_status shared_undo(tg__method *m, const tg__task *task)
{
    (void)m;
    (void)task;
    return TG_OK;
}

const tg__program_ops tg__shared_scale_program = {
    .rounds = 2,
    .init = shared_init,
    .fini = shared_fini,
    .begin = shared_begin,
    .next = shared_next,
    .aggregate = shared_aggregate,
    .undo = shared_undo,
};
