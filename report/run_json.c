#include "report/run_json.h"
#include "report/epoch_waits.h"
#include "report/run_x.h"
#include "report/thin.h"
#include <math.h>
#include <stdlib.h>

enum { POINTS_ALL = 48000, POINTS_LEAST = 40, POINTS_MOST = 2000, CURVES = 11, WAITS_MOST = 60 };

json_t *run_json_real(double v)
{
    if (!isfinite(v))
        return json_null();
    return v == floor(v) && fabs(v) < 9e15 ? json_integer((json_int_t)v) : json_real(v);
}

/* ---- curves ---------------------------------------------------------------------------------- */

json_t *run_json_curve(const run_rows *rows, size_t column, size_t most, size_t *kept)
{
    const size_t count = thin(rows->v + column, rows->columns, rows->count, most, kept);
    if (count == 0)
        return NULL;
    json_t *steps = json_array(), *values = json_array();
    for (size_t i = 0; i < count; i++) {
        const double *row = rows->v + kept[i] * rows->columns;
        json_array_append_new(steps, run_json_real(row[0]));
        json_array_append_new(values, run_json_real(row[column]));
    }
    return json_pack("[o, o]", steps, values);
}

/* The mean of a column around each point, over a tenth of the column and at least two neighbours on
 * either side, computed from all rows. NULL: the column has fewer than 8 values. */
static json_t *mean_curve(const run_rows *rows, size_t column, size_t most, size_t *kept)
{
    const double *v = rows->v + column;
    const size_t finite = finite_count(v, rows->columns, rows->count);
    const size_t half = finite < 40 ? 2 : finite / 20;
    if (finite < 8)
        return NULL;
    const size_t count = thin_evenly(v, rows->columns, rows->count, most, kept);
    json_t *steps = json_array(), *values = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(steps, run_json_real(rows->v[kept[i] * rows->columns]));
        json_array_append_new(
            values, run_json_real(mean_around(v, rows->columns, rows->count, kept[i], half)));
    }
    return json_pack("[o, o]", steps, values);
}

static json_t *step_curves(const run_rows *steps, size_t most, size_t *kept)
{
    static const size_t drawn[] = {STEP_LOSS,           STEP_LR,        STEP_DENSITY,
                                   STEP_DENSITY_KEPT,   STEP_GRAD_NORM, STEP_RESIDUAL_NORM,
                                   STEP_RESIDUAL_RATIO, STEP_TIME,      STEP_RATIO};
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
        json_t *one = run_json_curve(steps, drawn[i], most, kept);
        if (one)
            json_object_set_new(object, run_step_names[drawn[i]], one);
    }
    json_t *mean = mean_curve(steps, STEP_LOSS, most, kept);
    if (mean)
        json_object_set_new(object, "loss_mean", mean);
    return object;
}

static json_t *epoch_curves(const run_rows *epochs, size_t most, size_t *kept)
{
    json_t *object = json_object();
    for (size_t c = EPOCH_TRAIN_LOSS; c < EPOCH_COLUMNS; c++) {
        json_t *one = run_json_curve(epochs, c, most, kept);
        if (one)
            json_object_set_new(object, run_epoch_names[c], one);
    }
    return object;
}

/* Whether the epoch of this row ended with a test, whose results may be not finite. A run that is
 * interrupted ends without one. */
static bool was_tested(const run_file_run *run, const double *row, bool is_last)
{
    if (!isnan(row[EPOCH_TEST_ACCURACY]) || !isnan(row[EPOCH_TEST_LOSS]))
        return true;
    return json_is_true(json_object_get(run->start, "evaluate")) &&
           !json_is_true(json_object_get(run->start, "sim_only")) &&
           !(is_last && json_is_true(json_object_get(run->end, "interrupted")));
}

/* The values of the last epoch records; one that is not finite is null. Test results are those of
 * the last test. */
static json_t *last_epoch(const run_file_run *run)
{
    const run_rows *epochs = &run->epochs;
    json_t *object = json_object();
    const double *row = epochs->v + epochs->count * epochs->columns;
    bool trained = false, tested = false;
    while (row > epochs->v && !tested) {
        row -= epochs->columns;
        tested = was_tested(run, row, !trained);
        for (size_t c = EPOCH_TRAIN_LOSS; c < EPOCH_COLUMNS; c++)
            if (c == EPOCH_TRAIN_LOSS ? !trained : tested)
                json_object_set_new(object, run_epoch_names[c], run_json_real(row[c]));
        trained = true;
    }
    return object;
}

/* The mean of each time column, and of the bytes of a coded gradient, over the second half of the
 * records: by then warm-ups are over. */
static json_t *means(const run_rows *steps)
{
    json_t *object = json_object();
    for (size_t c = STEP_COMPUTE; c < STEP_RATIO; c++) {
        double sum = 0;
        size_t n = 0;
        for (size_t i = steps->count / 2; i < steps->count; i++) {
            const double v = steps->v[i * steps->columns + c];
            sum += isfinite(v) ? v : 0;
            n += isfinite(v) ? 1 : 0;
        }
        if (n > 0)
            json_object_set_new(object, run_step_names[c], run_json_real(sum / (double)n));
    }
    return object;
}

/* Time and bytes only rise, so every n-th mark is enough. */
static json_t *marks_json(const run_mark *marks, size_t count, size_t most)
{
    json_t *steps = json_array(), *seconds = json_array(), *bytes = json_array();
    const size_t n = count < most ? count : most;
    for (size_t k = 0; k < n; k++) {
        const run_mark *m = &marks[n < 2 ? 0 : k * (count - 1) / (n - 1)];
        json_array_append_new(steps, run_json_real(m->step));
        json_array_append_new(seconds, run_json_real(m->seconds));
        json_array_append_new(bytes, run_json_real(floor(m->bytes)));
    }
    return json_pack("[o, o, o]", steps, seconds, bytes);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* The settings that a person chose, or by which runs can be told apart. */
static json_t *settings(const json_t *start)
{
    static const char *const left_out[] = {"type", "run", "times", "shards"};
    json_t *object = json_copy((json_t *)start);
    for (size_t i = 0; object && i < sizeof left_out / sizeof *left_out; i++)
        json_object_del(object, left_out[i]);
    return object;
}

/* Two values per rank and group of epochs, at most one and a half times as many as a curve has. */
static json_t *waits_of(const run_file_run *run, size_t most)
{
    const json_t *last = json_array_get(run->waits, json_array_size(run->waits) - 1);
    const size_t ranks = json_array_size(json_object_get(last, "for"));
    const size_t room = ranks > 0 ? 3 * most / (2 * ranks) : 0;
    return epoch_waits_json(run->waits, room < WAITS_MOST ? room : WAITS_MOST);
}

static json_t *one_run(const run_file_run *run, const run_mark *marks, size_t nmarks, size_t most,
                       size_t *kept)
{
    return json_pack("{s:s, s:s, s:o, s:O?, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "name", run->name,
                     "file", run->path, "settings", settings(run->start), "end", run->end, "marks",
                     marks_json(marks, nmarks, most), "steps", step_curves(&run->steps, most, kept),
                     "epochs", epoch_curves(&run->epochs, most, kept), "last", last_epoch(run),
                     "means", means(&run->steps), "waits", waits_of(run, most), "records",
                     (json_int_t)run->steps.count);
}

static tg_status add_run(json_t *list, const run_file_run *run, size_t most, size_t *kept)
{
    run_mark *marks;
    size_t count;
    TG_TRY(run_marks(run, &marks, &count));
    json_t *one = one_run(run, marks, count, most, kept);
    free(marks);
    return json_array_append_new(list, one) == 0
               ? TG_OK
               : tg_fail(TG_E_NOMEM, "out of memory, or no UTF-8: run \"%.64s\"", run->name);
}

tg_status run_json(const run_files *f, json_t **list_p)
{
    size_t kept[POINTS_MOST], most = POINTS_ALL / CURVES / (f->count ? f->count : 1);
    most = most < POINTS_LEAST ? POINTS_LEAST : most > POINTS_MOST ? POINTS_MOST : most;
    json_t *list = json_array();
    for (size_t i = 0; i < f->count; i++) {
        tg_status status = add_run(list, &f->runs[i], most, kept);
        if (status != TG_OK) {
            json_decref(list);
            return status;
        }
    }
    *list_p = list;
    return TG_OK;
}
