/* What programs have in common: lanes, dense steps, and the parts of an exchange. */
#include "method/method.h"

tg_status tg__lanes_make(tg__method *m, const tg__exchange_ops *dense)
{
    TG_TRY(tg__method_codec(m, "f32", &m->f32));
    TG_TRY(tg__method_alloc(m, m->setup.lanes, sizeof *m->lane, &m->lane));
    for (size_t i = 0; i < m->setup.lanes; i++) {
        TG_TRY(tg__method_alloc(m, m->n, sizeof(float), &m->lane[i].aggregate));
        if (dense != NULL)
            TG_TRY(tg__method_join(m, dense, m->n, m->f32, NULL, &m->lane[i].dense));
    }
    return TG_OK;
}

const float *tg__method_clip(tg__method *m, const float *g)
{
    if (m->begin == NULL)
        return g;
    tg__clip_tensors(m->scratch, g, m->begin, m->setup.len, m->setup.count,
                     m->feedback->params.clip, m->feedback->params.world);
    return m->scratch;
}

void tg__forget(tg__method *m, tg__task *task)
{
    (void)tg__method_heal(m, true);
    task->overflow = "this rank's gradient with what it remembers (which starts anew at 0)";
    m->lane[task->lane].was_nonfinite = true;
}

/* Encode for a dense step. A momentum that overflows f32 is reset. */
static tg_status put_dense(tg__method *m, tg__task *task, tg__lane *l)
{
    tg__feedback *f = m->feedback;
    const float *sent = task->g;
    if (f != NULL && !task->nonfinite &&
        !f->ops->bypass(f, tg__method_clip(m, task->g), m->n, m->scratch, &sent))
        tg__forget(m, task);
    l->running = l->dense;
    l->dense->hop = task->hop;
    l->dense->into = l->aggregate; /* no longer read by anyone */
    return tg__put_values(l->dense, l->was_nonfinite ? NULL : sent, task);
}

tg_status tg__lane_begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    tg__lane *l = &m->lane[task->lane];
    tg__task_begin(task);
    l->was_coded = task->coded && task->step >= m->dense_steps;
    l->was_nonfinite = task->nonfinite;
    TG_TRY(l->was_coded ? m->def->program->encode(m, task, l) : put_dense(m, task, l));
    l->running->rate = task->eta;
    *x_p = l->running;
    return TG_OK;
}

tg_status tg__lane_next(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    tg__lane *l = &m->lane[task->lane];
    if (l->was_coded && m->def->program->advance != NULL) {
        TG_TRY(m->def->program->advance(m, task, l));
    } else {
        l->running->ops->result(l->running, l->aggregate);
        l->running = NULL;
        l->full = true;
    }
    *x_p = l->running;
    return TG_OK;
}

const float *tg__lane_aggregate(tg__method *m, const tg__task *task)
{
    return m->lane[task->lane].aggregate;
}

void tg__task_begin(tg__task *task)
{
    task->density = 1;
    task->coded_bytes = task->kept = 0;
    task->fell_back = false;
}

void tg__task_count(tg__task *task, const tg__exchange *x, const tg_codec *codec)
{
    for (size_t i = 0; i < x->nparts; i++) {
        const tg__part *part = &x->parts[i];
        task->coded_bytes += part->len;
        task->kept += part->kept;
        if (task->coded && codec != NULL && part->dst[1] == TG__FORM_DENSE)
            task->fell_back = true;
    }
}

void tg__put_zeros(tg__exchange *x)
{
    for (size_t i = 0; i < x->nparts; i++)
        tg__part_zero(&x->parts[i], x->codec->ops->wire_id);
}

tg_status tg__put_values(tg__exchange *x, const float *values, tg__task *task)
{
    if (values == NULL)
        tg__put_zeros(x);
    else
        TG_TRY(tg__codec_encode(x->codec, NULL, values, x->n, x->parts, x->nparts, NULL));
    tg__task_count(task, x, NULL);
    return TG_OK;
}
