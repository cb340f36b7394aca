/* Reports on a step's exchanges, by method: figures for the caller and warnings for the log. */
#include "session/session_impl.h"
#include "base/mem.h"
#include "telegrad/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

tg_status tg__session_report_make(tg_session *s)
{
    TG_TRY(tg__owned_alloc(&s->owned, s->nbuckets, sizeof *s->group, &s->group));
    TG_TRY(tg__owned_alloc(&s->owned, s->nbuckets, sizeof *s->method_info, &s->method_info));
    TG_TRY(tg__owned_alloc(&s->owned, s->nbuckets, sizeof *s->method_told, &s->method_told));
    TG_TRY(tg__owned_alloc(&s->owned, s->nbuckets, sizeof *s->method_list, &s->method_list));
    TG_TRY(tg__owned_alloc(&s->owned, s->nbuckets * (s->lanes + 1), sizeof *s->under_way,
                           &s->under_way));
    for (size_t i = 0; i < s->nbuckets; i++) {
        bucket *b = &s->bucket[i];
        const tg__feedback *f = b->method->feedback;
        const char *text = tg_spec_text(b->method->spec);
        while (b->group < s->nmethods && strcmp(s->method_info[b->group].method, text) != 0)
            b->group++;
        if (b->group < s->nmethods)
            continue;
        method_group *g = &s->group[s->nmethods];
        s->method_list[s->nmethods] = &s->method_told[s->nmethods];
        s->method_info[s->nmethods++] =
            (tg_method_info){.struct_size = sizeof(tg_method_info), .method = text};
        bool velocity = f != NULL && f->ops->owns_momentum;
        tg__watch_init(&g->watch, velocity ? 1 / (1 - f->params.momentum) : 1);
        g->remembers = tg__method_remembers(b->method);
        g->has_threshold = tg_spec_has(b->method->spec, "threshold");
    }
    return TG_OK;
}

/* Start a new count. */
static void count_anew(tg_session *s)
{
    for (size_t i = 0; i < s->nmethods; i++) {
        method_group *g = &s->group[i];
        g->norm_sq = g->residual_sq = 0;
        g->fallen = 0;
        g->coded = false;
        s->method_info[i] = (tg_method_info){.struct_size = sizeof(tg_method_info),
                                             .method = s->method_info[i].method};
    }
    s->delivered = s->nspans = 0;
    s->since = (tg_step_info){0};
}

/* Merge the span with those it overlaps. The spans are disjoint and in no order. If there is no
 * room, count it separately; that happens only if more was delivered than one step delivers. */
static void add_span(tg_session *s, time_span add)
{
    for (size_t i = 0; i < s->nspans;) {
        const time_span other = s->under_way[i];
        if (other.begin_ns > add.end_ns || other.end_ns < add.begin_ns) {
            i++;
            continue;
        }
        add.begin_ns = TG__MIN(add.begin_ns, other.begin_ns);
        add.end_ns = TG__MAX(add.end_ns, other.end_ns);
        s->under_way[i] = s->under_way[--s->nspans];
        i = 0;
    }
    if (s->nspans < s->nbuckets * (s->lanes + 1))
        s->under_way[s->nspans++] = add;
    else
        s->since.exchange_ns += add.end_ns - add.begin_ns;
}

/* True if the frames were dense. Frames of tiny parts may be dense without harm. */
static bool fell_back(const tg__task *task, size_t n)
{
    return task->fell_back && task->coded_bytes >= n * sizeof(float) / 2;
}

void tg__session_report_op(tg_session *s, const lane_op *o)
{
    tg_step_info *info = &s->since;
    const tg__op *op = &o->op;
    const bucket *b = &s->bucket[o->bucket];
    const size_t n = b->n;
    method_group *g = &s->group[b->group];
    tg_method_info *m = &s->method_info[b->group];
    m->bytes += op->task.coded_bytes + TG__ENVELOPE_BYTES;
    info->coded_bytes += op->task.coded_bytes + TG__ENVELOPE_BYTES;
    info->density += op->task.density * (double)n; /* divided at the end */
    s->delivered += n;
    info->coded = op->task.coded || tg__session_was_pushed(s, o);
    if (o->loaded) /* the checkpoint holds no more than this */
        return;
    m->n += n;
    m->kept += op->task.kept;
    m->bytes_sent += op->bytes_sent;
    m->encode_ns += op->encode_ns;
    m->decode_ns += op->decode_ns;
    info->bytes_exchanged += op->bytes_sent - op->bytes_near;
    info->elements += n;
    info->kept += op->task.kept;
    info->encode_ns += op->encode_ns;
    info->decode_ns += op->decode_ns;
    add_span(s, (time_span){op->begin_ns, op->end_ns});
    g->norm_sq += o->norm_sq;
    g->coded = op->task.coded;
    if (fell_back(&op->task, n)) {
        m->fell_back++;
        info->fell_back++;
        g->fallen += n;
    }
}

/* A program of one lane may change its memory in each of its rounds. */
static tg_status wait_residual(tg_session *s, bucket *b, size_t lane)
{
    tg__op *op = &b->lane[lane].op;
    return b->method->def->program->max_lanes == 1
               ? tg__engine_wait(s->engine, op)
               : tg__engine_wait_for(s->engine, op, TG__OP_ENCODED);
}

/* Compute the norms of what is not yet sent. No begin() may run beside this. */
static tg_status look_at_residuals(tg_session *s)
{
    for (size_t b = 0; b < s->nbuckets; b++) {
        for (size_t l = 0; l < s->lanes; l++)
            if (!s->bucket[b].lane[l].loaded)
                TG_TRY(wait_residual(s, &s->bucket[b], l));
        double norm = tg__method_residual_norm(s->bucket[b].method);
        s->group[s->bucket[b].group].residual_sq += norm * norm;
    }
    return TG_OK;
}

static void warn_dense(const tg_session *s, size_t i)
{
    const tg__watch *w = &s->group[i].watch;
    tg_log(TG_LOG_WARN,
           "%s: in %llu of %llu steps the coded form was no smaller than the dense one, which was "
           "sent in its place: a lower density or fewer bits would make it smaller",
           s->method_info[i].method, (unsigned long long)w->dense, (unsigned long long)w->coded);
}

static void warn_growth(const tg_session *s, size_t i)
{
    const method_group *g = &s->group[i];
    tg_log(TG_LOG_WARN,
           "%s: the residual grows without bound: after step %llu its norm is %.3g times the "
           "gradient's, because a step cannot send as much as comes in: %s",
           s->method_info[i].method, (unsigned long long)s->t + 1,
           sqrt(g->residual_sq / g->norm_sq),
           g->has_threshold ? "take a larger threshold, or threshold=auto where the method has it"
                            : "let it send more, or lower the learning rate");
}

/* Watch the methods, and compute the residuals' norms if wanted. */
static tg_status look(tg_session *s, bool wanted)
{
    bool any_due = false;
    for (size_t i = 0; s->transport->rank == 0 && i < s->nmethods; i++) { /* rank 0 warns for all */
        method_group *g = &s->group[i];
        const tg_method_info *m = &s->method_info[i];
        g->due =
            g->coded && tg__watch_step(&g->watch, m->n, m->kept, m->norm, 2 * g->fallen > m->n);
        g->due = g->due && g->remembers;
        any_due = any_due || g->due;
        if (tg__watch_dense(&g->watch))
            warn_dense(s, i);
    }
    if (!any_due && !wanted)
        return TG_OK;
    TG_TRY(look_at_residuals(s));
    for (size_t i = 0; i < s->nmethods; i++) {
        method_group *g = &s->group[i];
        if (g->due && tg__watch_residual(&g->watch, sqrt(g->residual_sq)))
            warn_growth(s, i);
        if (!wanted)
            continue;
        s->method_info[i].residual_norm = sqrt(g->residual_sq);
        s->since.residual_norm += g->residual_sq; /* the root is taken at the end */
    }
    s->since.residual_norm = sqrt(s->since.residual_norm);
    return TG_OK;
}

tg_status tg__session_report_end(tg_session *s, tg_step_info *info)
{
    for (size_t i = 0; i < s->nmethods; i++)
        s->method_info[i].norm = sqrt(s->group[i].norm_sq);
    for (size_t i = 0; i < s->nspans; i++)
        s->since.exchange_ns += s->under_way[i].end_ns - s->under_way[i].begin_ns;
    s->since.density = s->delivered > 0 ? s->since.density / (double)s->delivered : 1;
    TG_TRY(look(s, info->want_residual_norm));
    const bool wanted = info->want_residual_norm;
    memcpy(s->method_told, s->method_info, s->nmethods * sizeof *s->method_told);
    *info = s->since;
    info->struct_size = sizeof *info;
    info->want_residual_norm = wanted;
    info->methods = s->method_list;
    info->nmethods = s->nmethods;
    count_anew(s);
    return TG_OK;
}
