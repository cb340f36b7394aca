#include "report/run_x.h"
#include <math.h>
#include <stdlib.h>

static double field(const json_t *record, const char *name)
{
    const json_t *value = json_object_get(record, name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* Later words about a step add to those before. */
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
    /* After a resume time may go on from before, and bytes count from there. */
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

/* Bytes of the steps from the one after `a` up to b, as those say that have records. */
static double weight(const run_mark *a, const run_mark *b)
{
    return isfinite(b->sent) ? b->sent * (b->step - a->step) : 0;
}

/* Bytes between marks[from] and marks[to], which are known; to = count: from there on nothing is.
 */
static void share(run_mark *marks, size_t from, size_t to, size_t count)
{
    double sum = 0, sofar = 0;
    const bool open = to == count;
    for (size_t i = from + 1; i < count && i <= to; i++)
        sum += weight(&marks[i - 1], &marks[i]);
    for (size_t i = from + 1; i < to; i++) {
        sofar += weight(&marks[i - 1], &marks[i]);
        double part = sofar;
        if (!open) {
            const double steps =
                (marks[i].step - marks[from].step) / (marks[to].step - marks[from].step);
            part = (marks[to].bytes - marks[from].bytes) * (sum > 0 ? sofar / sum : steps);
        }
        marks[i].bytes = marks[from].bytes + part;
    }
}

tg_status run_marks(const run_file_run *run, run_mark **marks_p, size_t *count_p)
{
    run_mark *marks = malloc((run->steps.count + run->epochs.count + 2) * sizeof *marks);
    if (!marks)
        return tg_fail(TG_E_NOMEM, "out of memory: run \"%.64s\"", run->name);
    const size_t count = merge(run, marks);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && !isfinite(marks[to].bytes); to++)
            continue;
        share(marks, from, to, count);
    }
    *marks_p = marks;
    *count_p = count;
    return TG_OK;
}
