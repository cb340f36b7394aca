#include "report/run_x.h"
#include <math.h>
#include <stdlib.h>

static double field(const json_t *record, const char *name)
{
    const json_t *value = json_object_get(record, name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* Values of a later record of the same step replace earlier ones. */
static void put(run_mark *marks, size_t *count, run_mark mark)
{
    run_mark *last = &marks[*count - 1];
    if (mark.step > last->step) {
        marks[(*count)++] = mark;
        return;
    }
    last->seconds = isfinite(mark.seconds) ? mark.seconds : last->seconds;
    last->bytes = isfinite(mark.bytes) ? mark.bytes : last->bytes;
    last->sent = isfinite(mark.sent) ? mark.sent : last->sent;
}

static size_t merge(const run_file_run *run, run_mark *marks)
{
    const double *s = run->steps.v, *e = run->epochs.v;
    const double *s_end = s + run->steps.count * STEP_COLUMNS;
    const double *e_end = e + run->epochs.count * EPOCH_COLUMNS;
    const double first = field(run->start, "first_step");
    const bool fresh = !(first > 0);
    size_t count = 1;
    /* After a resume, time may continue from the stopped run; bytes count from there. */
    marks[0] = (run_mark){fresh ? 0 : first, fresh ? 0 : (double)NAN, 0, (double)NAN};
    while (s < s_end || e < e_end) {
        if (e == e_end || (s < s_end && s[STEP_STEP] <= e[EPOCH_STEP])) {
            put(marks, &count,
                (run_mark){s[STEP_STEP], s[STEP_SECONDS], (double)NAN, s[STEP_SENT]});
            s += STEP_COLUMNS;
        } else {
            put(marks, &count,
                (run_mark){e[EPOCH_STEP], e[EPOCH_SECONDS], e[EPOCH_SENT], (double)NAN});
            e += EPOCH_COLUMNS;
        }
    }
    if (run->end)
        put(marks, &count,
            (run_mark){field(run->end, "steps"), field(run->end, "seconds") + run->seconds_before,
                       field(run->end, "bytes_sent") + run->sent_before, (double)NAN});
    return count;
}

/* The bytes of a stretch of marks according to the step records. Each record stands for all steps
 * since the mark before it. These bytes only give proportions: a strategy may send only in the very
 * steps that have records. */
typedef struct stretch {
    size_t from, to;
    double per_step; /* mean over the steps of marks with records; 1: no bytes recorded */
    bool told;       /* the records say that bytes were sent */
    bool exact;      /* every step has a record */
} stretch;

static double steps_to(const run_mark *m)
{
    return m->step - m[-1].step;
}

/* The weight of the steps after the previous mark, up to m. */
static double weight(const stretch *s, const run_mark *m)
{
    return (s->told && isfinite(m->sent) ? m->sent : s->per_step) * steps_to(m);
}

static stretch stretch_of(const run_mark *marks, size_t from, size_t to)
{
    stretch s = {from, to, 1, false, true};
    double steps = 0, sum = 0;
    for (size_t i = from + 1; i <= to; i++) {
        const bool said = isfinite(marks[i].sent);
        s.exact = s.exact && said && steps_to(&marks[i]) == 1;
        steps += said ? steps_to(&marks[i]) : 0;
        sum += said ? marks[i].sent * steps_to(&marks[i]) : 0;
    }
    s.told = sum > 0;
    if (s.told)
        s.per_step = sum / steps;
    return s;
}

/* Fill in the bytes between marks that have them, in proportion to the step records. After the last
 * such mark, the ratio of the stretch before it is used. */
static void fill_bytes(run_mark *marks, size_t count)
{
    double of_told = NAN, of_step = NAN; /* real bytes per recorded byte, per step */
    for (size_t from = 0, to; from + 1 < count; from = to) {
        for (to = from + 1; to < count - 1 && !isfinite(marks[to].bytes); to++)
            continue;
        const stretch s = stretch_of(marks, from, to);
        const bool open = !isfinite(marks[to].bytes);
        double scale = s.told ? of_told : of_step, sum = 0;
        for (size_t i = from + 1; i <= to; i++)
            sum += weight(&s, &marks[i]);
        if (open && s.told && s.exact)
            scale = 1;
        if (!open) {
            scale = (marks[to].bytes - marks[from].bytes) / sum;
            of_told = s.told ? scale : of_told;
            of_step = (marks[to].bytes - marks[from].bytes) / (marks[to].step - marks[from].step);
        }
        for (size_t i = from + 1; i < to + open; i++)
            marks[i].bytes = marks[i - 1].bytes + scale * weight(&s, &marks[i]);
    }
}

tg_status run_marks(const run_file_run *run, run_mark **marks_p, size_t *count_p)
{
    run_mark *marks = malloc((run->steps.count + run->epochs.count + 2) * sizeof *marks);
    if (!marks)
        return tg_fail(TG_E_NOMEM, "out of memory: run \"%.64s\"", run->name);
    const size_t count = merge(run, marks);
    fill_bytes(marks, count);
    *marks_p = marks;
    *count_p = count;
    return TG_OK;
}
