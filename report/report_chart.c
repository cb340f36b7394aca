/* Draws one chart: what the runs have reached, over time. */
#include "report/chart.h"
#include "report/report.h"
#include "report/run_file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLOT_W 480

/* What may be drawn, in the order of preference. */
static const struct measure {
    size_t column;
    const char *name, *unit;
    double scale;
} measures[] = {{EPOCH_TEST_ACCURACY, "test accuracy", ", %", 100},
                {EPOCH_PERPLEXITY, "test perplexity", "", 1},
                {EPOCH_TEST_LOSS, "test loss", "", 1},
                {EPOCH_TRAIN_LOSS, "training loss", "", 1}};

static bool has(const run_file_run *run, const struct measure *m)
{
    for (size_t i = 0; i < run->epochs.count; i++) {
        const double *row = run->epochs.v + i * EPOCH_COLUMNS;
        if (isfinite(row[m->column]) && row[EPOCH_SECONDS] > 0)
            return true;
    }
    return false;
}

/* The first measure that some run has, and all that did not fail; NULL: there is none. */
static const struct measure *choose(const run_files *files)
{
    for (size_t k = 0; k < sizeof measures / sizeof *measures; k++) {
        size_t have = 0, lack = 0;
        for (size_t i = 0; i < files->count; i++) {
            const bool there = has(&files->runs[i], &measures[k]);
            have += there;
            lack += !there && !files->runs[i].failed;
        }
        if (have > 0 && lack == 0)
            return &measures[k];
    }
    return NULL;
}

/* Why there is no picture. */
static tg_status nothing(const run_files *files)
{
    if (files->count > 1)
        return tg_fail(
            TG_E_STATE,
            "the runs have no measure in common: allowed: runs with at least one complete epoch");
    const run_file_run *run = &files->runs[0];
    return tg_fail(TG_E_STATE,
                   run->failed ? "run \"%.64s\" failed: it has no accuracy or loss that is finite, "
                                 "so there is nothing to draw"
                               : "run \"%.64s\" has no complete epoch yet, so there is nothing to "
                                 "draw: a page (-o report.html) shows its steps",
                   run->name);
}

static tg_status take(const run_file_run *run, const struct measure *m, chart_panel *p)
{
    chart_line *l = &p->line[p->lines];
    *l = (chart_line){.name = run->name,
                      .x = malloc(run->epochs.count * sizeof *l->x),
                      .y = malloc(run->epochs.count * sizeof *l->y),
                      .colour = (int)p->lines};
    p->lines++;
    if (!l->x || !l->y)
        return tg_fail(TG_E_NOMEM, "out of memory: a chart of run \"%.64s\"", run->name);
    for (size_t i = 0; i < run->epochs.count; i++) {
        const double *row = run->epochs.v + i * EPOCH_COLUMNS;
        if (!isfinite(row[m->column]) || !(row[EPOCH_SECONDS] > 0))
            continue;
        l->x[l->count] = row[EPOCH_SECONDS];
        l->y[l->count++] = m->scale * row[m->column];
    }
    for (size_t i = p->lines - 1; i-- > 0;)
        if (strcmp(p->line[i].name, l->name) == 0)
            l->colour = p->line[i].colour;
    return TG_OK;
}

/* Fit the axes to the lines. Time is logarithmic if the longest run took ten times as long as the
 * shortest. */
static void fit(chart_panel *p)
{
    double first = INFINITY, shortest = INFINITY, longest = 0, low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < p->lines; k++) {
        const chart_line *l = &p->line[k];
        first = fmin(first, l->x[0]);
        shortest = fmin(shortest, l->x[l->count - 1]);
        longest = fmax(longest, l->x[l->count - 1]);
        for (size_t i = 0; i < l->count; i++) {
            low = fmin(low, l->y[i]);
            high = fmax(high, l->y[i]);
        }
    }
    double room = fmax(0.05 * (high - low), 1e-3 * fabs(high));
    if (high == low) /* the values do not say how large a difference matters */
        room = high != 0 ? 0.1 * fabs(high) : 1;
    p->y.low = low - room;
    p->y.high = high + room;
    p->x.log = longest > 10 * shortest;
    p->x.low = p->x.log ? 0.9 * first : 0;
    p->x.high = p->x.log ? 1.1 * longest : longest;
}

static tg_status draw(const run_files *files, const char *title, FILE *out)
{
    const struct measure *m = choose(files);
    chart_panel panel = {.x = {.title = "seconds of training", .text = chart_text_number},
                         .y = {.text = chart_text_number},
                         .mark = -1};
    char title_of_y[32];
    tg_status status = TG_OK;
    if (files->servers.count > 0)
        return tg_fail(TG_E_SPEC,
                       "%s is of a server, which has no accuracy or loss to draw: "
                       "allowed: -o PAGE.html",
                       files->servers.file[0].path);
    if (files->count > CHART_LINES_MAX)
        return tg_fail(TG_E_SPEC, "%zu runs for one chart: allowed: at most %d", files->count,
                       CHART_LINES_MAX);
    if (!m)
        return nothing(files);
    snprintf(title_of_y, sizeof title_of_y, "%s%s", m->name, m->unit);
    panel.title = title_of_y;
    for (size_t i = 0; i < files->count && status == TG_OK; i++)
        if (has(&files->runs[i], m))
            status = take(&files->runs[i], m, &panel);
        else
            tg_log(TG_LOG_WARN, "run \"%s\" failed, and has no %s: it is not drawn",
                   files->runs[i].name, m->name);
    if (status == TG_OK) {
        fit(&panel);
        chart_write(out, title ? title : "Training over time", PLOT_W, &panel, 1);
    }
    for (size_t i = 0; i < panel.lines; i++) {
        free(panel.line[i].x);
        free(panel.line[i].y);
    }
    return status;
}

tg_status report_chart(char *const *paths, size_t count, const char *title, FILE *out)
{
    return run_files_draw(paths, count, draw, title, out);
}
