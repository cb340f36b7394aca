/* Draws the step time against rate and against delay: two panels with logarithmic axes, one line
 * per way. */
#include "command/advise/advise.h"
#include "command/output/outfile.h"
#include "report/chart.h"
#include "report/report.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { POINTS = 33, PLOT_W = 300 };

struct picture {
    const struct advise_answer *a;
    advice_way way[CHART_LINES_MAX];
    char name[CHART_LINES_MAX][160];
    size_t ways;
    double x[2][POINTS], y[2][CHART_LINES_MAX][POINTS];
    chart_panel panel[2]; /* against rate in bit/s, and against delay in seconds */
    double low, high;     /* range of y, in seconds */
};

/* ---- what is drawn --------------------------------------------------------------------------- */

static void add_way(struct picture *p, const advice_way *w)
{
    for (size_t i = 0; i < p->ways; i++)
        if (p->way[i].family == w->family && p->way[i].method == w->method)
            return;
    if (p->ways == CHART_LINES_MAX)
        return;
    snprintf(p->name[p->ways], sizeof p->name[0], "%s, %s", w->strategy, w->method_text);
    p->way[p->ways++] = *w;
}

/* Choose plain SGD, the recommended way, and the fastest way of each family. */
static void choose_ways(struct picture *p)
{
    const struct advise_answer *a = p->a;
    for (size_t i = 0; i < a->ways; i++)
        if (a->way[i].family == ADVICE_SSGD && a->way[i].method == 0)
            add_way(p, &a->way[i]);
    add_way(p, &a->way[0]);
    for (int f = 0; f < ADVICE_FAMILIES; f++) {
        const advice_way *best = NULL;
        for (size_t i = 0; i < a->ways; i++)
            if ((int)a->way[i].family == f && (!best || a->way[i].step_s < best->step_s))
                best = &a->way[i];
        if (best)
            add_way(p, best);
    }
}

/* Predict the lines of a panel: 0 against rate, 1 against delay. */
static tg_status predict(struct picture *p, int number)
{
    chart_panel *q = &p->panel[number];
    for (size_t i = 0; i < POINTS; i++)
        p->x[number][i] = q->x.low * pow(q->x.high / q->x.low, (double)i / (POINTS - 1));
    for (size_t k = 0; k < p->ways; k++) {
        double *y = p->y[number][k];
        for (size_t i = 0; i < POINTS; i++) {
            tg_link l = p->a->link;
            advice_way w = p->way[k];
            if (number == 0)
                l.up_bps = l.down_bps = p->x[0][i];
            else
                l.delay_ns = (int64_t)(1e9 * p->x[1][i]);
            TG_TRY(advice_predict(p->a->advice, &l, &w));
            y[i] = w.step_s;
            p->low = fmin(p->low, y[i]);
            p->high = fmax(p->high, y[i]);
        }
        q->line[q->lines++] = (chart_line){.name = p->name[k],
                                           .x = p->x[number],
                                           .y = y,
                                           .count = POINTS,
                                           .colour = (int)k,
                                           .dashed = k == 0};
    }
    return TG_OK;
}

/* A range around v > 0 with round ends, two decades below and three above it, clipped to low and
 * high. It always contains the decade of v. */
static void range(double v, double low, double high, chart_axis *axis)
{
    const double decade = floor(log10(v));
    axis->low = fmin(fmax(low, pow(10, decade - 2)), pow(10, decade));
    axis->high = fmax(fmin(high, pow(10, decade + 3)), pow(10, decade + 1));
}

static tg_status write_picture(const struct picture *p, const char *path)
{
    const struct advise_answer *a = p->a;
    tg_newfile *file;
    char title[200];
    snprintf(title, sizeof title,
             "Predicted time of a step: %zu parameters, %d workers, batch %" PRIu64
             ", computing %.4g ms (dotted: the link that was asked for)",
             advice_params(a->advice), a->workers, a->options->batch, 1e3 * advice_tau(a->advice));
    TG_TRY(outfile_check_old("--svg", path, 0, REPORT_PICTURE_BEGINS, "what telegrad drew"));
    TG_TRY(outfile_open("--svg", path, &file));
    chart_write(tg_newfile_stream(file), title, PLOT_W, p->panel, 2);
    return outfile_commit(file, "--svg");
}

tg_status advise_draw(const struct advise_answer *a, const char *path)
{
    const double rate = advice_rate(&a->link), delay = (double)a->link.delay_ns / 1e9;
    char titles[2][96];
    struct picture *p = calloc(1, sizeof *p);
    if (!p)
        return tg_fail(TG_E_NOMEM, "out of memory for a picture");
    p->a = a;
    p->low = INFINITY;
    snprintf(titles[0], sizeof titles[0], "against rate, delay %.4g ms", 1e3 * delay);
    snprintf(titles[1], sizeof titles[1], "against delay, %.4g Mbit/s", rate / 1e6);
    if (!(rate > 0))
        snprintf(titles[1], sizeof titles[1], "against delay, rate unlimited");
    p->panel[0] = (chart_panel){
        .title = titles[0],
        .x = {.title = "rate of the link, bit/s", .log = true, .text = chart_text_rate},
        .mark = rate};
    p->panel[1] =
        (chart_panel){.title = titles[1],
                      .x = {.title = "one-way delay", .log = true, .text = chart_text_seconds},
                      .mark = delay};
    range(rate > 0 ? rate : 1e8, 1e4, 1e12, &p->panel[0].x);
    range(delay > 0 ? delay : 1e-3, 1e-6, 10, &p->panel[1].x);
    choose_ways(p);
    tg_status status = predict(p, 0);
    if (status == TG_OK)
        status = predict(p, 1);
    for (int i = 0; i < 2; i++)
        p->panel[i].y = (chart_axis){
            .low = 0.9 * p->low, .high = 1.1 * p->high, .log = true, .text = chart_text_seconds};
    if (status == TG_OK)
        status = write_picture(p, path);
    free(p);
    return status;
}
