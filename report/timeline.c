#include "report/timeline.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 2, STEPS = 5 }; /* the default: skip WARM_UP steps, then draw STEPS */

static bool computes(const trace_span *s)
{
    return s->row == SPAN_COMPUTE;
}

/* The first and the last step that a rank computes in. First > last: none. */
static void step_range(const trace_file *t, uint64_t *first_p, uint64_t *last_p)
{
    *first_p = UINT64_MAX;
    *last_p = 0;
    for (size_t i = 0; i < t->count; i++) {
        const trace_span *s = &t->spans[i];
        if (!computes(s))
            continue;
        *first_p = s->step < *first_p ? s->step : *first_p;
        *last_p = s->step > *last_p ? s->step : *last_p;
    }
}

static tg_status choose_steps(const report_timeline_job *job, size_t i, timeline_panel *p)
{
    uint64_t first, last;
    step_range(&p->trace, &first, &last);
    if (first > last)
        return tg_fail(TG_E_CORRUPT, "%s: no rank computes in it", job->path[i]);
    if (!job->steps_given) {
        p->first = last - first >= WARM_UP + STEPS - 1 ? first + WARM_UP : first;
        p->last = last - p->first >= STEPS ? p->first + STEPS - 1 : last;
        return TG_OK;
    }
    if (job->first < first || job->last > last)
        return tg_fail(TG_E_ARG,
                       "--steps %" PRIu64 "-%" PRIu64 ": %s has steps %" PRIu64 " to %" PRIu64,
                       job->first, job->last, job->path[i], first, last);
    p->first = job->first;
    p->last = job->last;
    return TG_OK;
}

/* Count the ranks, and find where the steps begin and end. */
static void measure(timeline_panel *p)
{
    double next = -HUGE_VAL, end = -HUGE_VAL;
    p->begin = HUGE_VAL;
    for (size_t i = 0; i < p->trace.count; i++) {
        const trace_span *s = &p->trace.spans[i];
        p->ranks_all = s->rank >= p->ranks_all ? s->rank + 1 : p->ranks_all;
        if (computes(s) && s->step == p->first)
            p->begin = fmin(p->begin, s->begin);
        if (computes(s) && s->step == p->last + 1 && strcmp(s->name, "forward") == 0)
            next = fmax(next, s->begin);
        if (s->step == p->last && s->row != SPAN_EXCHANGE)
            end = fmax(end, s->end);
    }
    p->ranks = p->ranks_all < TIMELINE_RANKS ? p->ranks_all : TIMELINE_RANKS;
    p->length = fmax(isfinite(next) ? next - p->begin : end - p->begin, 1);
}

/* For one rank: where it begins step `first` and step last + 1, and where it finishes `last`. */
typedef struct rank_steps {
    double begin, next, end;
} rank_steps;

static void measure_rank_steps(const timeline_panel *p, rank_steps *ranks)
{
    for (int r = 0; r < p->ranks_all; r++)
        ranks[r] = (rank_steps){HUGE_VAL, HUGE_VAL, -HUGE_VAL};
    for (size_t i = 0; i < p->trace.count; i++) {
        const trace_span *s = &p->trace.spans[i];
        rank_steps *r = &ranks[s->rank];
        if (computes(s) && s->step == p->first)
            r->begin = fmin(r->begin, s->begin);
        if (computes(s) && s->step == p->last + 1)
            r->next = fmin(r->next, s->begin);
        if (s->step == p->last && s->row != SPAN_EXCHANGE)
            r->end = fmax(r->end, s->end);
    }
}

/* Each rank is measured from its own beginning: that ranks begin at different times is not part of
 * a step's time. */
static tg_status measure_steps(const char *path, timeline_panel *p)
{
    rank_steps *ranks = malloc((size_t)p->ranks_all * sizeof *ranks);
    double sum = 0, wait = 0, count = 0;
    if (!ranks)
        return tg_fail(TG_E_NOMEM, "out of memory: %s", path);
    measure_rank_steps(p, ranks);
    for (int r = 0; r < p->ranks_all; r++) {
        const double end = isfinite(ranks[r].next) ? ranks[r].next : ranks[r].end;
        if (!(end > ranks[r].begin))
            continue;
        sum += end - ranks[r].begin;
        count++;
    }
    free(ranks);
    for (size_t i = 0; i < p->trace.count; i++) {
        const trace_span *s = &p->trace.spans[i];
        if (s->row == SPAN_WAIT && s->step >= p->first && s->step <= p->last)
            wait += s->end - s->begin;
    }
    const double steps = fmax(count, 1) * (double)(p->last - p->first + 1);
    p->step = sum / steps;
    p->wait = wait / steps;
    return TG_OK;
}

/* The lowest lane that is free from time s on. */
static unsigned lane_of(const timeline_bar *bar, double busy[TIMELINE_LANES])
{
    unsigned lane = 0;
    while (lane < TIMELINE_LANES - 1 && busy[lane] > bar->begin)
        lane++;
    busy[lane] = fmax(busy[lane], bar->end);
    return lane;
}

static tg_status place_bars(const char *path, timeline_panel *p)
{
    double busy[TIMELINE_RANKS][TIMELINE_LANES] = {{0}};
    p->bars = malloc(TIMELINE_SPANS * sizeof *p->bars);
    if (!p->bars)
        return tg_fail(TG_E_NOMEM, "out of memory: %s", path);
    for (int r = 0; r < p->ranks; r++)
        p->lanes[r] = 1;
    for (size_t i = 0; i < p->trace.count; i++) {
        const trace_span *s = &p->trace.spans[i];
        timeline_bar bar = {s, fmax(s->begin - p->begin, 0), fmin(s->end - p->begin, p->length), 0};
        if (bar.end <= bar.begin)
            continue;
        if (s->rank >= p->ranks)
            continue;
        if (p->count == TIMELINE_SPANS)
            return tg_fail(TG_E_ARG,
                           "%s: steps %" PRIu64 " to %" PRIu64
                           " have more than %d spans: use fewer --steps",
                           path, p->first, p->last, TIMELINE_SPANS);
        if (s->row == SPAN_EXCHANGE)
            bar.lane = lane_of(&bar, busy[s->rank]);
        if (bar.lane >= p->lanes[s->rank])
            p->lanes[s->rank] = bar.lane + 1;
        p->bars[p->count++] = bar;
    }
    return TG_OK;
}

tg_status timeline_panel_make(const report_timeline_job *job, size_t i, timeline_panel *p_p)
{
    timeline_panel p = {.title = job->title[i] ? job->title[i] : job->path[i]};
    tg_status status = trace_file_read(job->path[i], &p.trace);
    if (status == TG_OK)
        status = choose_steps(job, i, &p);
    if (status == TG_OK) {
        measure(&p);
        status = measure_steps(job->path[i], &p);
    }
    if (status == TG_OK)
        status = place_bars(job->path[i], &p);
    if (status != TG_OK) {
        timeline_panel_free(&p);
        return status;
    }
    *p_p = p;
    return TG_OK;
}

void timeline_panel_free(timeline_panel *p)
{
    trace_file_free(&p->trace);
    free(p->bars);
    *p = (timeline_panel){0};
}
