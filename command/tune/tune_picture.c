/* The picture of a sweep: the curves of the best runs, and a panel for each key whose values are
 * numbers, with the best result for each value. */
#include "command/tune/tune.h"
#include "command/output/outfile.h"
#include "report/chart.h"
#include "report/report.h"
#include "report/run_file.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLOT_W = 320, KEYS = 4, PANELS = 1 + KEYS };

#define LOG_FROM 8 /* a key whose largest value is so many times its smallest has a log axis */

struct picture {
    const struct tune *t;
    chart_panel panel[PANELS];
    size_t panels;
    run_files files;
    char *path[TUNE_RUNS];    /* (read) of the files; owned */
    double *curve[TUNE_RUNS]; /* (read) owned */
    size_t read;
    double x[KEYS][TUNE_RUNGS][TUNE_VALUES], y[KEYS][TUNE_RUNGS][TUNE_VALUES];
};

static const char *measure(const struct tune *t)
{
    return t->images ? "accuracy on what was held out, %" : "loss on what was held out";
}

static double shown(const struct tune *t, double accuracy, double loss)
{
    return t->images ? 100 * accuracy : loss;
}

/* ---- curves ---------------------------------------------------------------------------------- */

static tg_status add_curve(struct picture *p, size_t run)
{
    const struct tune *t = p->t;
    chart_panel *q = &p->panel[0];
    const size_t n = p->read++, before = p->files.count;
    char name[32], path[PATH_MAX];
    tune_run_file(run, name);
    TG_TRY(tune_path_records(t->o->dir, name, path));
    p->path[n] = strdup(path);
    if (!p->path[n])
        return tg_fail(TG_E_NOMEM, "out of memory: the picture");
    TG_TRY(run_files_add(&p->files, p->path[n]));
    if (p->files.count != before + 1)
        return tg_fail(TG_E_CORRUPT, "%s: allowed: one run", path);
    const run_rows *rows = &p->files.runs[before].epochs;
    double *v = p->curve[n] = malloc(2 * (rows->count + 1) * sizeof *v);
    if (!v)
        return tg_fail(TG_E_NOMEM, "out of memory: the picture");
    chart_line line = {
        .name = t->run[run].name, .x = v, .y = v + rows->count + 1, .colour = (int)q->lines};
    for (size_t i = 0; i < rows->count; i++) {
        const double *row = rows->v + i * EPOCH_COLUMNS;
        const double y = shown(t, row[EPOCH_TEST_ACCURACY], row[EPOCH_TEST_LOSS]);
        if (!isfinite(y))
            continue;
        line.x[line.count] = row[EPOCH_STEP];
        line.y[line.count++] = y;
    }
    if (line.count > 0)
        q->line[q->lines++] = line;
    return TG_OK;
}

static tg_status add_curves(struct picture *p)
{
    const struct tune *t = p->t;
    p->panel[p->panels++] = (chart_panel){.title = measure(t),
                                          .x = {.title = "steps", .text = chart_text_number},
                                          .y = {.text = chart_text_number},
                                          .mark = -1};
    for (size_t i = 0; i < t->runs && p->panel[0].lines < CHART_LINES_MAX; i++)
        if (!tune_diverged(&t->run[t->order[i]]))
            TG_TRY(add_curve(p, t->order[i]));
    return TG_OK;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The best result at a rung of the runs that have value v of key k; NAN: there is none. */
static double best(const struct tune *t, size_t k, size_t v, int rung)
{
    const struct tune_grid *g = &t->o->grid;
    double top = NAN;
    for (size_t i = 0; i < t->runs; i++) {
        const struct tune_result *r = &t->run[i].result[rung];
        if (tune_grid_value(g, i, k) != g->key[k].value[v] || !r->known || r->diverged)
            continue;
        const double y = shown(t, r->accuracy, r->loss);
        if (!isfinite(top) || (t->images ? y > top : y < top))
            top = y;
    }
    return top;
}

/* The numbers of a key's values in ascending order. Returns false if they are not all numbers. */
static bool sort_values(const struct tune_key *key, double number[TUNE_VALUES],
                        size_t order[TUNE_VALUES])
{
    for (size_t i = 0; i < key->count; i++) {
        if (!tg_real_parse(key->value[i], &number[i]) &&
            !tg_percent_parse(key->value[i], &number[i]))
            return false;
        size_t at = i;
        for (; at > 0 && number[order[at - 1]] > number[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return true;
}

static void add_key(struct picture *p, size_t k)
{
    static const char *const names[TUNE_RUNGS] = {"at 1/9", "at 1/3"};
    const struct tune_key *key = &p->t->o->grid.key[k];
    const size_t n = p->panels - 1;
    double number[TUNE_VALUES];
    size_t order[TUNE_VALUES];
    if (n >= KEYS || key->count < 2 || !sort_values(key, number, order))
        return;
    const double low = number[order[0]], high = number[order[key->count - 1]];
    if (!(low < high)) /* 0.1 and 1e-1 */
        return;
    chart_panel *q = &p->panel[p->panels++];
    *q = (chart_panel){.title = "the best run for each value",
                       .x = {.title = key->name,
                             .log = low > 0 && high >= LOG_FROM * low,
                             .low = low,
                             .high = high,
                             .text = chart_text_number},
                       .y = {.text = chart_text_number},
                       .mark = low - 1};
    for (int rung = 0; rung < TUNE_RUNGS; rung++) {
        chart_line line = {.name = names[rung],
                           .x = p->x[n][rung],
                           .y = p->y[n][rung],
                           .colour = rung,
                           .dashed = rung == 0};
        for (size_t i = 0; i < key->count; i++) {
            const double y = best(p->t, k, order[i], rung);
            if (!isfinite(y))
                continue;
            line.x[line.count] = number[order[i]];
            line.y[line.count++] = y;
        }
        if (line.count > 0)
            q->line[q->lines++] = line;
    }
}

/* ---- the picture ----------------------------------------------------------------------------- */

static void fit(chart_panel *q, bool steps)
{
    double low = INFINITY, high = -INFINITY, last = 1;
    for (size_t k = 0; k < q->lines; k++)
        for (size_t i = 0; i < q->line[k].count; i++) {
            low = fmin(low, q->line[k].y[i]);
            high = fmax(high, q->line[k].y[i]);
            last = fmax(last, q->line[k].x[i]);
        }
    const double room = fmax(0.05 * (high - low), 1e-3 * fmax(fabs(high), 1e-3));
    q->y.low = low - room;
    q->y.high = high + room;
    if (steps)
        q->x.high = last;
}

static tg_status write_picture(struct picture *p)
{
    char path[PATH_MAX], title[256];
    tg_newfile *file;
    TG_TRY(tune_path_picture(p->t->o->dir, path));
    for (size_t i = 0; i < p->panels; i++)
        fit(&p->panel[i], i == 0);
    const int used = snprintf(title, sizeof title, "%.100s on %.60s: %zu runs",
                              p->t->o->common.model, train_data_name(p->t->held), p->t->runs);
    if (p->panel[0].lines < p->t->runs)
        snprintf(title + used, sizeof title - (size_t)used, ", of which the best %zu are drawn",
                 p->panel[0].lines);
    TG_TRY(outfile_check_old("--out", path, 0, REPORT_PICTURE_BEGINS, "what telegrad drew"));
    TG_TRY(outfile_open("--out", path, &file));
    chart_write(tg_newfile_stream(file), title, PLOT_W, p->panel, p->panels);
    return outfile_commit(file, "--out");
}

tg_status tune_draw(const struct tune *t)
{
    struct picture *p = calloc(1, sizeof *p);
    if (!p)
        return tg_fail(TG_E_NOMEM, "out of memory: the picture");
    p->t = t;
    tg_status status = add_curves(p);
    for (size_t k = 0; k < t->o->grid.keys && status == TG_OK; k++)
        add_key(p, k);
    if (status == TG_OK)
        status = write_picture(p);
    run_files_free(&p->files);
    for (size_t i = 0; i < p->read; i++) {
        free(p->path[i]);
        free(p->curve[i]);
    }
    free(p);
    return status;
}
