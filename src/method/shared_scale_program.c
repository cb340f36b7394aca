/* TernGrad's program: agree on a scaler for each tensor, then exchange codes.
 *
 *   round 0   s of each tensor, clipped      all-gather, combined by the maximum
 *   round 1   codes in units of s            the method's exchange
 *
 * With scaler=local there is only round 1. */
#include "base/mem.h"
#include "codec/quant/codec_terngrad.h"
#include "kernel/kernel.h"
#include "method/method.h"
#include "telegrad/spec.h"

#include <string.h>

typedef struct lane {
    tg__exchange *scales; /* NULL: each rank uses its own */
    float *clipped;       /* (n) the gradient between the rounds */
    float *scale;         /* (count) own, then agreed; NULL likewise */
} lane;

typedef struct program {
    tg_codec *codec;
    double clip;
    lane *lanes;
} program;

static tg_status shared_init(tg__method *m)
{
    program *p = m->impl;
    const tg__method_setup *s = &m->setup;
    const tg__exchange_ops *coded = tg__method_exchange(m);
    const bool shared = strcmp(tg_spec_word(m->spec, "scaler"), "shared") == 0;
    TG_TRY(tg__method_derive(m, m->def->codec, &p->codec));
    p->clip = tg_spec_real(m->spec, "clip");
    TG_TRY(tg__lanes_make(m, s->may_bypass ? tg__dense_exchange(m) : NULL));
    TG_TRY(tg__method_alloc(m, s->lanes, sizeof *p->lanes, &p->lanes));
    for (size_t i = 0; i < s->lanes; i++) {
        lane *l = &p->lanes[i];
        TG_TRY(tg__method_join(m, coded, m->n, p->codec, NULL, &m->lane[i].coded));
        if (!shared)
            continue;
        TG_TRY(tg__method_alloc(m, m->n, sizeof(float), &l->clipped));
        TG_TRY(tg__method_alloc(m, s->count, sizeof(float), &l->scale));
        TG_TRY(tg__method_join(m, coded->apart ? coded : tg__exchange_find("allgather"), s->count,
                               m->f32, &tg__combine_max, &l->scales));
    }
    return TG_OK;
}

/* ---- the rounds ------------------------------------------------------------------------------ */

typedef struct clipping {
    const tg__method *m;
    const lane *l;
    const float *g;
} clipping;

static void clip_tensor(void *arg, size_t i)
{
    const clipping *c = arg;
    const program *p = c->m->impl;
    const tg_segment *s = &c->m->segments[i];
    float *to = c->l->clipped + s->begin;
    float limit = tg__terngrad_limit(c->g + s->begin, s->n, p->clip);
    tg__kernel()->clamp(to, c->g + s->begin, s->n, limit);
    c->l->scale[i] = tg__kernel()->abs_max(to, s->n);
}

static tg_status put_codes(tg__method *m, tg__task *task, tg__lane *l)
{
    const program *p = m->impl;
    const lane *own = &p->lanes[task->lane];
    const tg_encode_context ctx = {
        .struct_size = sizeof ctx,
        .rng = tg__method_key(m, task->step, TG_PURPOSE_CODEC),
        .segments = m->segments,
        .nsegments = m->setup.count,
        .scale = own->scale,
    };
    tg__exchange *x = l->running = l->coded;
    if (task->nonfinite)
        tg__put_zeros(x);
    else
        TG_TRY(tg__codec_encode(p->codec, &ctx, own->scale != NULL ? own->clipped : task->g, m->n,
                                x->parts, x->nparts, NULL));
    tg__task_count(task, x, p->codec);
    return TG_OK;
}

static tg_status encode(tg__method *m, tg__task *task, tg__lane *l)
{
    const lane *own = &((program *)m->impl)->lanes[task->lane];
    if (own->scales == NULL)
        return put_codes(m, task, l);
    clipping c = {.m = m, .l = own, .g = task->g};
    if (!task->nonfinite)
        tg__pool_run(m->setup.pool, m->setup.count, clip_tensor, &c);
    l->running = own->scales;
    TG_TRY(tg__put_values(own->scales, task->nonfinite ? NULL : own->scale, task));
    task->kept = 0; /* scalers are not elements */
    return TG_OK;
}

static tg_status advance(tg__method *m, tg__task *task, tg__lane *l)
{
    const lane *own = &((program *)m->impl)->lanes[task->lane];
    tg__exchange *x = l->running;
    x->ops->result(x, x == l->coded ? l->aggregate : own->scale);
    l->running = NULL;
    return x == l->coded ? TG_OK : put_codes(m, task, l);
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
    .impl_bytes = sizeof(program),
    .init = shared_init,
    .encode = encode,
    .advance = advance,
    TG__IN_LANES,
    .undo = shared_undo,
};
