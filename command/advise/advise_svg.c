/* Draws the step time against rate and against delay: two panels with logarithmic axes, one line
 * per way, its name at its right end. The colours are of medium lightness, readable on white and on
 * black. */
#include "command/advise/advise.h"
#include "command/output/outfile.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 8, POINTS = 33 };
enum { HEIGHT = 420, TOP = 64, PLOT_H = 280, PLOT_W = 300, LEFT = 64, NAME = 18 };
enum { CHARACTER = 7, BOLD = 8 }; /* estimated width of a character at font size 12, in pixels */

static const char *const colours[LINES_MAX] = {"#7a7a7a", "#2f86c9", "#d9641e", "#1f9c77",
                                               "#c2609a", "#b8860b", "#7d6fd0", "#c0453b"};

struct panel {
    const char *title, *axis;
    double low, high; /* range of x */
    double at;        /* the value of the link, which is marked; 0: none */
    bool rate;        /* x is in bit/s; false: in seconds */
    double y[LINES_MAX][POINTS];
};

struct picture {
    const struct advise_answer *a;
    advice_way line[LINES_MAX];
    size_t lines;
    struct panel panel[2];
    double low, high; /* range of y, milliseconds */
    char title[200];
    int step, width; /* step: from one panel to the next; width: of the whole picture */
};

/* ---- what is drawn --------------------------------------------------------------------------- */

static void add_line(struct picture *p, const advice_way *w)
{
    for (size_t i = 0; i < p->lines; i++)
        if (p->line[i].family == w->family && p->line[i].method == w->method)
            return;
    if (p->lines < LINES_MAX)
        p->line[p->lines++] = *w;
}

/* Choose plain SGD, the recommended way, and the fastest way of each family. */
static void choose_lines(struct picture *p)
{
    const struct advise_answer *a = p->a;
    for (size_t i = 0; i < a->ways; i++)
        if (a->way[i].family == ADVICE_SSGD && a->way[i].method == 0)
            add_line(p, &a->way[i]);
    add_line(p, &a->way[0]);
    for (int f = 0; f < ADVICE_FAMILIES; f++) {
        const advice_way *best = NULL;
        for (size_t i = 0; i < a->ways; i++)
            if ((int)a->way[i].family == f && (!best || a->way[i].step_s < best->step_s))
                best = &a->way[i];
        if (best)
            add_line(p, best);
    }
}

static double x_at(const struct panel *q, size_t i)
{
    return q->low * pow(q->high / q->low, (double)i / (POINTS - 1));
}

static tg_status predict(struct picture *p, struct panel *q)
{
    for (size_t k = 0; k < p->lines; k++)
        for (size_t i = 0; i < POINTS; i++) {
            tg_link l = p->a->link;
            advice_way w = p->line[k];
            if (q->rate)
                l.up_bps = l.down_bps = x_at(q, i);
            else
                l.delay_ns = (int64_t)(1e9 * x_at(q, i));
            TG_TRY(advice_predict(p->a->advice, &l, &w));
            q->y[k][i] = 1e3 * w.step_s;
            p->low = fmin(p->low, q->y[k][i]);
            p->high = fmax(p->high, q->y[k][i]);
        }
    return TG_OK;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static double place(double v, double low, double high, double room)
{
    return room * log(v / low) / log(high / low);
}

static double place_y(const struct picture *p, double ms)
{
    return TOP + PLOT_H - place(ms, p->low, p->high, PLOT_H);
}

static void tick_text(char text[32], double v, const struct panel *q)
{
    static const char *const rates[] = {"k", "M", "G", "T"}, *const times[] = {" us", " ms", " s",
                                                                               " ks"};
    const char *const *units = q && q->rate ? rates : times;
    double scaled = !q ? 1e3 * v : q->rate ? v / 1e3 : 1e6 * v;
    size_t u = 0;
    while (u < 3 && scaled >= 999) {
        scaled /= 1e3;
        u++;
    }
    snprintf(text, 32, "%.3g%s", scaled, units[u]);
}

static void draw_axes(FILE *f, const struct picture *p, const struct panel *q, int left)
{
    char text[32];
    fprintf(f, "<text x=\"%d\" y=\"%d\" class=\"h\">%s</text>\n", left, TOP - 20, q->title);
    for (double v = pow(10, ceil(log10(q->low) - 1e-9)); v <= q->high * 1.001; v *= 10) {
        const double x = left + place(v, q->low, q->high, PLOT_W);
        tick_text(text, v, q);
        fprintf(f,
                "<path d=\"M%.1f %d V%d\" class=\"g\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%s</text>\n",
                x, TOP, TOP + PLOT_H, x, TOP + PLOT_H + 16, text);
    }
    for (double v = pow(10, ceil(log10(p->low) - 1e-9)); v <= p->high * 1.001; v *= 10) {
        tick_text(text, v, NULL);
        fprintf(f,
                "<path d=\"M%d %.1f H%d\" class=\"g\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%s</text>\n",
                left, place_y(p, v), left + PLOT_W, left - 6, place_y(p, v) + 4, text);
    }
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", left + PLOT_W / 2,
            TOP + PLOT_H + 36, q->axis);
    if (q->at >= q->low && q->at <= q->high)
        fprintf(f, "<path d=\"M%.1f %d V%d\" class=\"m\"/>\n",
                left + place(q->at, q->low, q->high, PLOT_W), TOP, TOP + PLOT_H);
}

/* Place the names at the right ends of the lines, moved apart. at (lines) */
static void place_names(const struct picture *p, const struct panel *q, double *at)
{
    size_t order[LINES_MAX];
    const double apart = 15;
    for (size_t k = 0; k < p->lines; k++) {
        at[k] = place_y(p, q->y[k][POINTS - 1]);
        size_t i = k;
        for (; i > 0 && at[order[i - 1]] > at[k]; i--)
            order[i] = order[i - 1];
        order[i] = k;
    }
    for (size_t i = 1; i < p->lines; i++)
        at[order[i]] = fmax(at[order[i]], at[order[i - 1]] + apart);
    double floor = TOP + PLOT_H + 4;
    for (size_t i = p->lines; i-- > 0; floor = at[order[i]] - apart)
        at[order[i]] = fmin(at[order[i]], floor);
}

static void draw_lines(FILE *f, const struct picture *p, const struct panel *q, int left)
{
    double at[LINES_MAX];
    place_names(p, q, at);
    for (size_t k = 0; k < p->lines; k++) {
        fprintf(f, "<path d=\"M");
        for (size_t i = 0; i < POINTS; i++)
            fprintf(f, "%.1f %.1f ", left + place(x_at(q, i), q->low, q->high, PLOT_W),
                    place_y(p, q->y[k][i]));
        fprintf(f,
                "\" class=\"l\" stroke=\"%s\"%s/><path d=\"M%d %.1f L%d %.1f\" class=\"c\" "
                "stroke=\"%s\"/><text x=\"%d\" y=\"%.1f\" style=\"fill:%s\">%s, %s</text>\n",
                colours[k], k > 0 ? "" : " stroke-dasharray=\"5 4\"", left + PLOT_W,
                place_y(p, q->y[k][POINTS - 1]), left + PLOT_W + NAME - 4, at[k], colours[k],
                left + PLOT_W + NAME, at[k] + 4, colours[k], p->line[k].strategy,
                p->line[k].method_text);
    }
}

/* Compute the room for names and titles, however long they are. */
static void measure(struct picture *p)
{
    const struct advise_answer *a = p->a;
    size_t longest = 0;
    for (size_t k = 0; k < p->lines; k++) {
        const size_t n = strlen(p->line[k].strategy) + strlen(p->line[k].method_text) + 2;
        longest = n > longest ? n : longest;
    }
    snprintf(p->title, sizeof p->title,
             "Predicted time of a step: %zu parameters, %d workers, batch %" PRIu64
             ", computing %.4g ms (dotted: the link that was asked for)",
             advice_params(a->advice), a->workers, a->options->batch, 1e3 * advice_tau(a->advice));
    p->step = LEFT + PLOT_W + NAME + CHARACTER * (int)longest;
    const int title = LEFT + BOLD * (int)strlen(p->title);
    p->width = title > 2 * p->step ? title : 2 * p->step;
}

static void draw(FILE *f, const struct picture *p)
{
    const struct advise_answer *a = p->a;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" style=\"max-width:100%%;height:auto\" "
            "role=\"img\">\n<style>text{font:12px sans-serif;fill:#757575}"
            ".h{font-weight:bold}.g{stroke:#888;stroke-opacity:.25;fill:none}"
            ".m{stroke:#888;stroke-dasharray:2 3;fill:none}.l{fill:none;stroke-width:2}"
            ".c{fill:none;stroke-opacity:.5}</style>\n",
            p->width, HEIGHT, p->width, HEIGHT);
    fprintf(f,
            "<title>Predicted time of a step, %d workers</title>\n"
            "<text x=\"%d\" y=\"20\" class=\"h\">%s</text>\n",
            a->workers, LEFT, p->title);
    for (int i = 0; i < 2; i++) {
        draw_axes(f, p, &p->panel[i], LEFT + i * p->step);
        draw_lines(f, p, &p->panel[i], LEFT + i * p->step);
    }
    fprintf(f, "</svg>\n");
}

static tg_status write_picture(const struct picture *p, const char *path)
{
    tg_newfile *file;
    TG_TRY(outfile_open("--svg", path, &file));
    draw(tg_newfile_stream(file), p);
    return outfile_commit(file, "--svg");
}

/* A range around v > 0 with round ends, two decades below and three above it, clipped to low and
 * high. It always contains the decade of v. */
static void range(double v, double low, double high, double *low_p, double *high_p)
{
    const double decade = floor(log10(v));
    *low_p = fmin(fmax(low, pow(10, decade - 2)), pow(10, decade));
    *high_p = fmax(fmin(high, pow(10, decade + 3)), pow(10, decade + 1));
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
    p->panel[0] = (struct panel){
        .title = titles[0], .axis = "rate of the link, bit/s", .at = rate, .rate = true};
    p->panel[1] = (struct panel){.title = titles[1], .axis = "one-way delay", .at = delay};
    range(rate > 0 ? rate : 1e8, 1e4, 1e12, &p->panel[0].low, &p->panel[0].high);
    range(delay > 0 ? delay : 1e-3, 1e-6, 10, &p->panel[1].low, &p->panel[1].high);
    choose_lines(p);
    tg_status status = predict(p, &p->panel[0]);
    if (status == TG_OK)
        status = predict(p, &p->panel[1]);
    p->low *= 0.9;
    p->high *= 1.1;
    measure(p);
    if (status == TG_OK)
        status = write_picture(p, path);
    free(p);
    return status;
}
